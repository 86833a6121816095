/* Data-parallel training: every rank holds the whole network and works on its share of each batch; one all-reduce a batch adds
 * the gradients, so all ranks take the same step.
 *
 *     batch of 32 samples --> rank 0: samples 0, 2, 4, ...  --> gradient \
 *                             rank 1: samples 1, 3, 5, ...  --> gradient  +-- all-reduce --> the same step on every rank
 *
 * Floating-point addition depends on the order, so one sum over 2 ranks and one over 4 would differ in their last bits, and so
 * would the networks. With PENNY_REPRODUCIBLE=1 the batch is split into four parts whatever the number of ranks, each with a
 * row of its own in the buffer. Each row is filled by one rank and is zero on the others, hence the all-reduce is exact; then
 * every rank adds the four rows in the same order. The network is then the same, bit for bit, on 1, 2, 3 or 4 ranks.
 */
#include <penny.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                              \
    do {                                                       \
        if ((call) != pennySuccess) {                          \
            fprintf(stderr, "%s\n", pennyGetLastError(NULL)); \
            exit(1);                                           \
        }                                                      \
    } while (0)

enum { PIXELS = 64, HIDDEN = 32, DIGITS = 10, SAMPLES = 1797, BATCH = 32, EPOCHS = 20, PARTS = 4 };

/* The network: pixels -> hidden units that pass on what is positive -> one score a digit. */
typedef struct {
    float in[HIDDEN][PIXELS], in_bias[HIDDEN];
    float out[DIGITS][HIDDEN], out_bias[DIGITS];
} Network;

/* A gradient has the network's shape, and carries the loss along. */
typedef struct {
    Network of;
    float loss;
} Gradient;

enum { GRADIENT = sizeof(Gradient) / sizeof(float) };

static float pixel[SAMPLES][PIXELS];
static int digit[SAMPLES];

static void read_digits(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    for (int s = 0; s < SAMPLES; s++) {
        for (int p = 0; p < PIXELS; p++) {
            int value;
            if (fscanf(file, "%d,", &value) != 1) exit(1);
            pixel[s][p] = (float)value / 16.0f;
        }
        if (fscanf(file, "%d", &digit[s]) != 1) exit(1);
    }
    fclose(file);
}

/* The same numbers on every machine (a 64-bit linear congruential generator; the upper half is used). */
static uint64_t seed = 1;

static uint32_t draw(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static void initialise(float *weights, int count, float scale) {
    for (int i = 0; i < count; i++) weights[i] = scale * ((float)(draw() >> 8) / 8388608.0f - 1.0f);
}

static void forward(const Network *net, const float *x, float *hidden, float *score) {
    for (int h = 0; h < HIDDEN; h++) {
        float sum = net->in_bias[h];
        for (int p = 0; p < PIXELS; p++) sum += net->in[h][p] * x[p];
        hidden[h] = sum > 0 ? sum : 0;
    }
    for (int d = 0; d < DIGITS; d++) {
        score[d] = net->out_bias[d];
        for (int h = 0; h < HIDDEN; h++) score[d] += net->out[d][h] * hidden[h];
    }
}

/* Adds one sample's gradient. The loss is the squared hinge: the right digit's score should be above 1, the others' below -1. */
static void backward(const Network *net, int sample, Gradient *g) {
    float hidden[HIDDEN], score[DIGITS], back[HIDDEN] = {0};
    forward(net, pixel[sample], hidden, score);
    for (int d = 0; d < DIGITS; d++) {
        float sign = d == digit[sample] ? 1.0f : -1.0f;
        float miss = 1.0f - sign * score[d];
        if (miss <= 0) continue;
        float slope = -2.0f * sign * miss;
        g->loss += miss * miss;
        g->of.out_bias[d] += slope;
        for (int h = 0; h < HIDDEN; h++) {
            g->of.out[d][h] += slope * hidden[h];
            back[h] += slope * net->out[d][h];
        }
    }
    for (int h = 0; h < HIDDEN; h++) {
        if (hidden[h] <= 0) continue;
        g->of.in_bias[h] += back[h];
        for (int p = 0; p < PIXELS; p++) g->of.in[h][p] += back[h] * pixel[sample][p];
    }
}

static int right_answer(const Network *net, int sample) {
    float hidden[HIDDEN], score[DIGITS];
    int best = 0;
    forward(net, pixel[sample], hidden, score);
    for (int d = 1; d < DIGITS; d++) best = score[d] > score[best] ? d : best;
    return best == digit[sample];
}

/* A number that tells two networks apart (FNV-1a over the bits). */
static uint64_t fingerprint(const Network *net) {
    const unsigned char *bytes = (const unsigned char *)net;
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *net; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

int main(int argc, char **argv) {
    static Network net;
    static int training[SAMPLES], held_out[SAMPLES];
    int trained = 0, tested = 0, rank, ranks;
    pennyComm_t comm;

    const char *wish = getenv("PENNY_REPRODUCIBLE");
    const int reproducible = wish != NULL && strcmp(wish, "1") == 0;
    read_digits(argc > 1 ? argv[1] : "digits.csv");
    for (int s = 0; s < SAMPLES; s++) {
        if (s % 5 == 4) held_out[tested++] = s;
        else training[trained++] = s;
    }
    /* Every rank draws the same numbers, so every rank begins with the same network. */
    initialise(&net.in[0][0], HIDDEN * PIXELS, 0.2f);
    initialise(&net.out[0][0], DIGITS * HIDDEN, 0.2f);

    TRY(pennyCommInitFromEnv(&comm, NULL));
    TRY(pennyCommUserRank(comm, &rank));
    TRY(pennyCommCount(comm, &ranks));

    const int parts = reproducible ? PARTS : ranks, rows = reproducible ? PARTS : 1;
    Gradient *gradient; /* [rows], where the other ranks can reach it */
    TRY(pennyMemAlloc((void **)&gradient, (size_t)rows * sizeof *gradient));

    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        float loss = 0, rate = 0.15f / (float)(1 + epoch / 5) / BATCH;
        for (int i = trained - 1; i > 0; i--) { /* the same shuffle on every rank */
            int j = (int)(draw() % (uint32_t)(i + 1)), swap = training[i];
            training[i] = training[j];
            training[j] = swap;
        }
        for (int first = 0; first < trained; first += BATCH) {
            int end = first + BATCH < trained ? first + BATCH : trained;
            memset(gradient, 0, (size_t)rows * sizeof *gradient);
            for (int part = rank; part < parts; part += ranks) {
                Gradient *row = &gradient[reproducible ? part : 0];
                for (int i = first + part; i < end; i += parts) backward(&net, training[i], row);
            }
            size_t count = (size_t)rows * GRADIENT;
            TRY(pennyAllReduce(gradient, gradient, count, pennyFloat, pennySum, comm, NULL));

            float *weight = (float *)&net;
            for (size_t w = 0; w < sizeof net / sizeof(float); w++) {
                float slope = 0;
                for (int row = 0; row < rows; row++) slope += ((const float *)&gradient[row])[w];
                weight[w] -= rate * slope;
            }
            for (int row = 0; row < rows; row++) loss += gradient[row].loss;
        }
        if (rank == 0) printf("epoch %2d: loss %.3f\n", epoch, loss / (float)trained);
    }

    int right = 0;
    for (int i = 0; i < tested; i++) right += right_answer(&net, held_out[i]);
    if (rank == 0) printf("held out: %d of %d right (%.1f %%)\n", right, tested, 100.0 * right / tested);

    /* Are all networks the same? Then the least and the largest fingerprint are equal. */
    uint64_t least = fingerprint(&net), most = least;
    TRY(pennyAllReduce(&least, &least, 1, pennyUint64, pennyMin, comm, NULL));
    TRY(pennyAllReduce(&most, &most, 1, pennyUint64, pennyMax, comm, NULL));
    if (rank == 0) printf("the networks of all ranks are %s\n", least == most ? "the same" : "different");
    if (rank == 0 && reproducible) printf("fingerprint: %016llx\n", (unsigned long long)most);

    TRY(pennyMemFree(gradient));
    TRY(pennyCommDestroy(comm));
    return least == most && right * 100 > tested * 95 ? 0 : 1;
}
