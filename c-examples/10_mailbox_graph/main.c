/* Shortest paths by messages: the vertices of a graph live on threads, and tell their neighbours when they got nearer. */
#include <penny.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

enum { VERTICES = 20000, DEGREE = 5, EDGES = VERTICES * DEGREE, MAX_WEIGHT = 20, SOURCE = 0 };

/* Messages that a mailbox holds. Few, so that mailboxes do get full; any number will do. */
enum { SLOTS = 64 };

#define UNREACHED UINT32_MAX

static pennyMailbox_t mailbox;
static uint64_t seed = 1;
static uint32_t ranks, threads = 16; /* threads of a rank */

/* The graph: DEGREE edges leave each vertex, one vertex after the other. The seed makes any edge by its number. */
typedef struct {
    uint32_t from, to, weight;
} edge_t;

static uint64_t scramble(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static edge_t edge(uint32_t i) {
    uint64_t dice = scramble(scramble(seed + 1) + (i + 1) * 0x9e3779b97f4a7c15u);
    return (edge_t){i / DEGREE, (uint32_t)(dice >> 32) % VERTICES, 1 + (uint32_t)dice % MAX_WEIGHT};
}

/* The vertices are dealt out to the threads of all ranks, as cards are. */
static uint32_t workers(void) { return ranks * threads; }
static uint32_t owner(uint32_t vertex) { return vertex % workers(); }
static uint32_t place(uint32_t vertex) { return vertex / workers(); } /* among its owner's */
static uint32_t places(void) { return place(VERTICES - 1) + 1; }

/* What a vertex tells: how near it is now. One flit holds it. */
typedef struct {
    uint32_t vertex, distance;
} news_t;

/* A thread and what it knows. Threads share nothing: whatever they learn from each other comes in messages. */
typedef struct {
    pthread_t pthread;
    uint32_t number;    /* among all workers */
    uint32_t *distance; /* of its vertices, by place */
    uint64_t *mask;     /* by place and rank: the threads of that rank where neighbours live, a bit each */

    /* The edges that end at its vertices, by where they begin: first[v] to first[v + 1] are those from v. */
    edge_t *in;
    uint32_t *first;

    /* Vertices with news to tell: a ring, in which each is once at most. */
    uint32_t *todo, head, count;
    char *listed;  /* by place: is it in the ring? */
    uint32_t next; /* the rank to tell next, by the vertex at the head */

    uint64_t refused; /* sends for which there was no room */
} worker_t;

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return memory;
}

/* A thread keeps its part of the graph: to whom its own vertices have edges, and the edges that come to them. */
static void load(worker_t *w) {
    uint32_t n = 0;
    w->distance = allocate(places(), sizeof *w->distance);
    w->mask = allocate((size_t)places() * ranks, sizeof *w->mask);
    w->in = allocate(EDGES, sizeof *w->in);
    w->first = allocate(VERTICES + 1, sizeof *w->first);
    w->todo = allocate(places(), sizeof *w->todo);
    w->listed = allocate(places(), sizeof *w->listed);
    for (uint32_t p = 0; p < places(); p++) w->distance[p] = UNREACHED;
    for (uint32_t i = 0; i < EDGES; i++) {
        edge_t e = edge(i);
        uint32_t to = owner(e.to);
        if (owner(e.from) == w->number) w->mask[place(e.from) * ranks + to / threads] |= UINT64_C(1) << to % threads;
        if (to == w->number) w->in[n++] = e;
        w->first[e.from + 1] = n;
    }
}

static void unload(worker_t *w) {
    void *parts[] = {w->distance, w->mask, w->in, w->first, w->todo, w->listed};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
}

/* There is a way of this length to a vertex of this thread. If it is the shortest so far, the neighbours have to know. */
static void reach(worker_t *w, uint32_t vertex, uint32_t distance) {
    uint32_t p = place(vertex);
    if (distance >= w->distance[p]) return;
    w->distance[p] = distance;
    if (!w->listed[p]) {
        w->listed[p] = 1;
        w->todo[(w->head + w->count++) % places()] = vertex;
    } else if (vertex == w->todo[w->head]) {
        w->next = 0; /* some have been told already, but not this: begin again */
    }
}

/* A vertex got nearer, to which some of this thread's have edges. The message went to all of them, so it names none. */
static void hear(worker_t *w, const news_t *news) {
    for (uint32_t i = w->first[news->vertex]; i < w->first[news->vertex + 1]; i++)
        reach(w, w->in[i].to, news->distance + w->in[i].weight);
}

/* The first vertex with news tells its neighbours of one rank, all by one message. False if there was no room for it. */
static int tell(worker_t *w, news_t *slot) {
    uint32_t vertex = w->todo[w->head], p = place(vertex);
    uint64_t mask = w->mask[p * ranks + w->next];
    if (mask != 0) {
        int sent;
        *slot = (news_t){vertex, w->distance[p]};
        TRY(pennyMailboxTryMulticast(mailbox, (int)w->next, (unsigned)(mask >> 32), (unsigned)mask, slot, &sent));
        if (!sent) return 0;
    }
    if (++w->next == ranks) {
        w->next = 0;
        w->listed[p] = 0;
        w->head = (w->head + 1) % places();
        w->count--;
    }
    return 1;
}

/*
 * Receive first. A thread that waits for room in this mailbox waits for this thread, too. So this one takes every message at any
 * time: a message changes a distance, may put a vertex on the list, where there is always a place, and is freed. So no
 * thread waits for ever, however few slots there are.
 */
static void *work(void *argument) {
    enum { EITHER = PENNY_MAILBOX_CAN_SEND | PENNY_MAILBOX_CAN_RECV };
    worker_t *w = argument;
    int thread = (int)(w->number % threads), state = PENNY_MAILBOX_MESSAGE, received, ready;
    pennyMailboxMessage_t message;
    news_t *slot;

    load(w);
    TRY(pennyMailboxSendSlot(mailbox, thread, (void **)&slot));
    if (owner(SOURCE) == w->number) reach(w, SOURCE, 0);
    while (state != PENNY_MAILBOX_ALL_VOTED) {
        TRY(pennyMailboxTryRecv(mailbox, thread, &message, &received));
        if (received) {
            hear(w, message.data);
            TRY(pennyMailboxFree(mailbox, thread, message.data));
        } else if (w->count == 0) {
            TRY(pennyMailboxIdle(mailbox, thread, 1, &state));
        } else if (!tell(w, slot)) {
            w->refused++;
            TRY(pennyMailboxWaitUntil(mailbox, thread, EITHER, (int)w->next, &ready));
        }
    }
    return NULL;
}

/* Dijkstra's algorithm, on one thread. Lengths are small integers, so a list for each length takes the place of a heap. */
static void dijkstra(uint32_t *distance) {
    enum { LENGTHS = VERTICES * MAX_WEIGHT, ENTRIES = EDGES + 1 };
    static uint32_t last[LENGTHS], before[ENTRIES + 1], vertex[ENTRIES + 1]; /* entries begin at 1; 0 is none */
    uint32_t n = 1;
    for (uint32_t v = 0; v < VERTICES; v++) distance[v] = UNREACHED;
    distance[SOURCE] = 0;
    vertex[n] = SOURCE;
    last[0] = n;
    for (uint32_t length = 0; length < LENGTHS; length++) {
        for (uint32_t entry = last[length]; entry != 0; entry = before[entry]) {
            if (distance[vertex[entry]] < length) continue; /* a shorter way was found later */
            for (uint32_t i = vertex[entry] * DEGREE; i < (vertex[entry] + 1) * DEGREE; i++) {
                edge_t e = edge(i);
                uint32_t now = length + e.weight;
                if (now >= distance[e.to]) continue;
                distance[e.to] = now;
                vertex[++n] = e.to;
                before[n] = last[now];
                last[now] = n;
            }
        }
    }
}

static int compare(const uint32_t *found) {
    static uint32_t right[VERTICES];
    uint64_t sum = 0;
    uint32_t reached = 0, largest = 0, wrong = 0;
    dijkstra(right);
    for (uint32_t v = 0; v < VERTICES; v++) {
        if (found[v] != right[v] && wrong++ == 0) fprintf(stderr, "vertex %u: %u, not %u\n", v, found[v], right[v]);
        if (found[v] == UNREACHED) continue;
        reached++;
        sum += found[v];
        if (found[v] > largest) largest = found[v];
    }
    printf("vertices                %d\n", (int)VERTICES);
    printf("edges                   %d\n", (int)EDGES);
    printf("reached                 %u\n", reached);
    printf("sum of distances        %llu\n", (unsigned long long)sum);
    printf("largest distance        %u\n", largest);
    if (wrong == 0) printf("the answer is right\n");
    else printf("the answer is wrong for %u vertices\n", wrong);
    return wrong == 0;
}

int main(int argc, char **argv) {
    static worker_t worker[64];
    static uint32_t distance[VERTICES];
    pennyMailboxConfig_t config = PENNY_MAILBOX_CONFIG_INITIALIZER;
    pennyMailboxStats_t stats = PENNY_MAILBOX_STATS_INITIALIZER;
    pennyComm_t comm;
    int rank, count, right = 1;

    if (argc > 1) threads = (uint32_t)strtoul(argv[1], NULL, 10);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &count));
    ranks = (uint32_t)count;

    config.threads = (int)threads;
    config.slots = SLOTS;
    config.slotBytes = PENNY_MAILBOX_FLIT_BYTES;
    TRY(pennyMailboxCreate(comm, &config, &mailbox));
    for (uint32_t t = 0; t < threads; t++) {
        worker[t].number = (uint32_t)rank * threads + t;
        if (pthread_create(&worker[t].pthread, NULL, work, &worker[t]) != 0) {
            fprintf(stderr, "thread %u could not be started\n", t);
            exit(1);
        }
    }
    for (uint32_t t = 0; t < threads; t++) pthread_join(worker[t].pthread, NULL);

    /* Of each vertex one rank knows the distance, and to the others it is unreached: the smallest is the distance. */
    for (uint32_t v = 0; v < VERTICES; v++)
        distance[v] = owner(v) / threads == (uint32_t)rank ? worker[owner(v) % threads].distance[place(v)] : UNREACHED;
    TRY(pennyReduce(distance, distance, VERTICES, pennyUint32, pennyMin, 0, comm, NULL));

    TRY(pennyMailboxStats(mailbox, &stats));
    uint64_t traffic[] = {stats.sent, stats.delivered, 0};
    for (uint32_t t = 0; t < threads; t++) {
        traffic[2] += worker[t].refused;
        unload(&worker[t]);
    }
    TRY(pennyReduce(traffic, traffic, 3, pennyUint64, pennySum, 0, comm, NULL));
    if (rank == 0) {
        right = compare(distance);
        fprintf(stderr, "%u ranks of %u threads: %llu messages to %llu threads, %llu times there was no room\n", ranks,
                threads, (unsigned long long)traffic[0], (unsigned long long)traffic[1], (unsigned long long)traffic[2]);
    }
    TRY(pennyMailboxDestroy(mailbox));
    TRY(pennyCommDestroy(comm));
    return right ? 0 : 1;
}
