/* src/comm/calls/vector.rs: collectives whose blocks have sizes of their own. */
#include "check.h"

enum { MOST = 16, LONG = 300000 };

/* Elements that rank `from` has for rank `to`: some are none, one is long. */
static size_t amount(int from, int to) {
    if ((from + 2 * to) % 4 == 1) return 0;
    return from == 0 && to == ranks - 1 ? LONG : (size_t)(1 + 3 * from + 5 * to);
}
static int value(int from, int to, size_t i) { return 1000000 * from + 10000 * to + (int)(i % 9973); }
static size_t block(int from) { return from % 3 == 1 ? 0 : (size_t)(4 + 7 * from); }

static size_t packed(const size_t *counts, size_t *displs) {
    size_t end = 0;
    for (int r = 0; r < ranks; r++) displs[r] = end, end += counts[r];
    return end;
}

/* With gaps between the blocks, packed, in place where amounts are symmetric; alone, on a stream and in a group with other calls. */
static void all_to_all(pennyComm_t comm, size_t gap, pennyStream_t stream, int grouped) {
    size_t sc[MOST], sd[MOST], rc[MOST], rd[MOST];
    for (int r = 0; r < ranks; r++) sc[r] = amount(rank, r), rc[r] = amount(r, rank);
    size_t sends = packed(sc, sd), receives = packed(rc, rd);
    for (int r = 0; r < ranks; r++) sd[r] += gap * (size_t)r, rd[r] += gap * (size_t)(r + 1);
    int *in = malloc((sends + gap * MOST + 1) * sizeof *in), *out = malloc((receives + gap * (MOST + 1) + 1) * sizeof *out);
    for (size_t i = 0; i < receives + gap * (MOST + 1); i++) out[i] = -1;
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < sc[r]; i++) in[sd[r] + i] = value(rank, r, i);
    int one = 1, sum = 0;
    if (grouped) OK(pennyGroupStart());
    if (grouped) OK(pennyAllReduce(&one, &sum, 1, pennyInt, pennySum, comm, stream));
    OK(pennyAlltoAllv(in, sc, gap ? sd : NULL, out, rc, gap ? rd : NULL, pennyInt, comm, stream));
    if (grouped) OK(pennyGroupEnd());
    OK(pennyStreamSynchronize(stream));
    if (grouped) CHECK_INT(sum, ranks);
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < rc[r]; i++) CHECK_INT(out[rd[r] + i], value(r, rank, i));
    if (gap) CHECK_INT(out[0], -1);
    free(in);
    free(out);
}

static void every_block_arrives_alone_on_a_stream_and_in_a_group(void) {
    pennyComm_t comm = join();
    pennyStream_t stream;
    OK(pennyStreamCreate(&stream));
    for (int pass = 0; pass < 2; pass++) {
        all_to_all(comm, 0, NULL, 0);
        all_to_all(comm, 3, NULL, 1);
        all_to_all(comm, 3, stream, 0);
        all_to_all(comm, 0, stream, 1);
    }
    OK(pennyStreamDestroy(stream));
    OK(pennyCommDestroy(comm));
}

static void all_to_all_in_place_exchanges_blocks(void) {
    pennyComm_t comm = join();
    pennyStream_t stream;
    size_t counts[MOST], displs[MOST];
    OK(pennyStreamCreate(&stream));
    for (int r = 0; r < ranks; r++) counts[r] = (size_t)((r + rank) % 3 * 20000);
    size_t all = packed(counts, displs);
    int *data = malloc((all + 1) * sizeof *data);
    for (int pass = 0; pass < 2; pass++) {
        for (int r = 0; r < ranks; r++)
            for (size_t i = 0; i < counts[r]; i++) data[displs[r] + i] = value(rank, r, i);
        OK(pennyAlltoAllv(data, counts, NULL, data, counts, displs, pennyInt, comm, pass ? stream : NULL));
        OK(pennyStreamSynchronize(stream));
        for (int r = 0; r < ranks; r++)
            for (size_t i = 0; i < counts[r]; i++) CHECK_INT(data[displs[r] + i], value(r, rank, i));
    }
    if (all > 1) FAILS(pennyInvalidArgument, "in place", pennyAlltoAllv(data, counts, NULL, data + 1, counts, NULL, pennyInt, comm, NULL));
    free(data);
    OK(pennyStreamDestroy(stream));
    OK(pennyCommDestroy(comm));
}

/* All gather, gather and scatter v, apart and in place, for each root. */
static void gathers_and_scatters_move_every_block(void) {
    pennyComm_t comm = join();
    pennyStream_t stream;
    size_t counts[MOST], displs[MOST];
    OK(pennyStreamCreate(&stream));
    for (int r = 0; r < ranks; r++) counts[r] = block(r);
    size_t all = packed(counts, displs), mine = counts[rank];
    int own[256], total[2048];
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int queued = 0; queued < 2; queued++) {
            pennyStream_t on = queued ? stream : NULL;
            for (size_t i = 0; i < all; i++) total[i] = -1;
            int *from = in_place ? total + displs[rank] : own;
            for (size_t i = 0; i < mine; i++) from[i] = value(rank, 0, i);
            OK(pennyAllGatherv(from, mine, total, counts, NULL, pennyInt, comm, on));
            OK(pennyStreamSynchronize(on));
            for (int r = 0; r < ranks; r++)
                for (size_t i = 0; i < counts[r]; i++) CHECK_INT(total[displs[r] + i], value(r, 0, i));
            for (int root = 0; root < ranks; root++) {
                int at_root = root == rank;
                for (size_t i = 0; i < all; i++) total[i] = -1;
                from = in_place && at_root ? total + displs[rank] : own;
                for (size_t i = 0; i < mine; i++) from[i] = value(rank, root, i);
                OK(pennyGatherv(from, mine, at_root ? total : NULL, at_root ? counts : NULL, NULL, pennyInt, root, comm, on));
                OK(pennyStreamSynchronize(on));
                for (int r = 0; r < ranks && at_root; r++)
                    for (size_t i = 0; i < counts[r]; i++) CHECK_INT(total[displs[r] + i], value(r, root, i));
                for (int r = 0; r < ranks && at_root; r++)
                    for (size_t i = 0; i < counts[r]; i++) total[displs[r] + i] = value(root, r, i);
                int *to = in_place && at_root ? total + displs[rank] : own;
                if (!in_place) memset(own, 0xff, sizeof own);
                OK(pennyScatterv(at_root ? total : NULL, at_root ? counts : NULL, at_root ? displs : NULL, to, mine, pennyInt, root, comm, on));
                OK(pennyStreamSynchronize(on));
                for (size_t i = 0; i < mine; i++) CHECK_INT(to[i], value(root, rank, i));
            }
        }
    }
    OK(pennyStreamDestroy(stream));
    OK(pennyCommDestroy(comm));
}

static void every_type_is_gathered_and_those_that_can_are_reduced(void) {
    static const struct { pennyDataType_t type; size_t size; } types[] = {
        {pennyInt8, 1}, {pennyUint8, 1}, {pennyInt32, 4}, {pennyUint32, 4}, {pennyInt64, 8}, {pennyUint64, 8}, {pennyFloat16, 2},
        {pennyFloat32, 4}, {pennyFloat64, 8}, {pennyBfloat16, 2}, {pennyFloat8e4m3, 1}, {pennyFloat8e5m2, 1}, {pennyBool, 1},
        {pennyInt16, 2}, {pennyUint16, 2}};
    pennyComm_t comm = join();
    size_t counts[MOST], displs[MOST];
    for (int r = 0; r < ranks; r++) counts[r] = block(r);
    size_t all = packed(counts, displs), mine = counts[rank];
    unsigned char own[2048], total[16384], copy[2048], kept[2048];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        size_t size = types[t].size;
        for (size_t i = 0; i < mine * size; i++) own[i] = (unsigned char)(1 + (i * 7 + (size_t)rank * 31) % 50);
        OK(pennyAllGatherv(own, mine, total, counts, NULL, types[t].type, comm, NULL));
        for (int r = 0; r < ranks; r++)
            for (size_t i = 0; i < counts[r] * size; i++) CHECK_INT(total[displs[r] * size + i], 1 + (i * 7 + (size_t)r * 31) % 50);
        pennyRedOp_t op = types[t].type == pennyBool ? pennyLogicalAnd : pennyMax;
        /* The same total on all ranks: the largest of equals is what it was. */
        if (types[t].type == pennyBool) memset(total, 1, all);
        memcpy(kept, total + displs[rank] * size, mine * size);
        OK(pennyReduceScatterv(total, copy, counts, types[t].type, op, comm, NULL));
        CHECK(memcmp(copy, kept, mine * size) == 0);
    }
    OK(pennyCommDestroy(comm));
}

static void reduce_scatter_gives_each_rank_its_block_of_the_sum(void) {
    pennyComm_t comm = join();
    size_t counts[MOST], displs[MOST];
    for (int r = 0; r < ranks; r++) counts[r] = r == ranks - 1 ? LONG : block(r);
    size_t all = packed(counts, displs), mine = counts[rank];
    int *in = malloc((all + 1) * sizeof *in), *out = malloc((mine + 1) * sizeof *out);
    for (int in_place = 0; in_place < 2; in_place++) {
        int *to = in_place ? in + displs[rank] : out;
        for (size_t i = 0; i < all; i++) in[i] = rank + (int)(i % 1000);
        OK(pennyReduceScatterv(in, to, counts, pennyInt, pennySum, comm, NULL));
        for (size_t i = 0; i < mine; i++)
            CHECK_INT(to[i], ranks * (ranks - 1) / 2 + ranks * (int)((displs[rank] + i) % 1000));
    }
    if (all > 0 && ranks > 1 && mine > 0 && rank == 0)
        FAILS(pennyInvalidArgument, "in place", pennyReduceScatterv(in, in + 1, counts, pennyInt, pennySum, comm, NULL));
    OK(pennyCommDestroy(comm));
    free(in);
    free(out);
}

static void nothing_from_anybody_is_fine(void) {
    pennyComm_t comm = join();
    size_t none[MOST] = {0};
    OK(pennyAlltoAllv(NULL, none, NULL, NULL, none, NULL, pennyInt, comm, NULL));
    OK(pennyAllGatherv(NULL, 0, NULL, none, NULL, pennyInt, comm, NULL));
    OK(pennyReduceScatterv(NULL, NULL, none, pennyInt, pennySum, comm, NULL));
    OK(pennyGatherv(NULL, 0, NULL, none, NULL, pennyInt, 0, comm, NULL));
    OK(pennyScatterv(NULL, none, NULL, NULL, 0, pennyInt, 0, comm, NULL));
    OK(pennyCommDestroy(comm));
}

static void counts_that_differ_are_told_before_anything_moves(void) {
    if (ranks == 1) return;
    pennyComm_t comm = join();
    size_t counts[MOST], wrong[MOST];
    int in[64] = {0}, out[1024];
    for (int r = 0; r < ranks; r++) counts[r] = wrong[r] = 2;
    wrong[ranks - 1] = 0;
    size_t *passed = rank == 0 ? wrong : counts;
    memset(out, 0x5a, sizeof out);
    FAILS(pennyInvalidUsage, "recvcounts", pennyAllGatherv(in, 2, out, passed, NULL, pennyInt, comm, NULL));
    FAILS(pennyInvalidUsage, "recvcounts", pennyReduceScatterv(in, out, passed, pennyInt, pennySum, comm, NULL));
    CHECK_INT(out[0], 0x5a5a5a5a);
    pennyDataType_t type = rank == 0 ? pennyInt : pennyFloat;
    FAILS(pennyInvalidUsage, "type float", pennyAllGatherv(in, 2, out, counts, NULL, type, comm, NULL));
    /* Rank 1 expects from rank 0 what that does not send: the receiver is told, and the sender if its message has not left. */
    size_t to[MOST], from[MOST];
    for (int r = 0; r < ranks; r++) to[r] = from[r] = 1;
    if (rank == 0) to[1] = 0;
    pennyResult_t ended = pennyAlltoAllv(in, to, NULL, out, from, NULL, pennyInt, comm, NULL);
    if (rank == 1) CHECK_INT(ended, pennyInvalidUsage);
    if (rank == 1) CHECK(strstr(pennyGetLastError(NULL), "count") != NULL);
    if (rank == 0) CHECK(ended == pennySuccess || ended == pennyInvalidUsage);
    if (rank > 1) CHECK_INT(ended, pennySuccess);
    OK(pennyBarrier(comm, NULL));
    OK(pennyCommDestroy(comm));
}

static void wrong_arguments_are_refused_by_name(void) {
    pennyComm_t comm = join();
    size_t one[MOST], huge[MOST], same[MOST] = {0};
    int in[MOST] = {0}, out[MOST] = {0};
    for (int r = 0; r < ranks; r++) one[r] = 1, huge[r] = SIZE_MAX;
    FAILS(pennyInvalidArgument, "sendcounts is NULL", pennyAlltoAllv(in, NULL, NULL, out, one, NULL, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "recvcounts is NULL", pennyAllGatherv(in, 1, out, NULL, NULL, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "sendcounts[0]", pennyAlltoAllv(in, huge, NULL, out, one, NULL, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff is NULL", pennyAlltoAllv(in, one, NULL, NULL, one, NULL, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff is NULL", pennyReduceScatterv(NULL, out, one, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "sends itself 2 elements and receives 1", pennyAllGatherv(in, 2, out, one, NULL, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "root 99", pennyGatherv(in, 1, out, one, NULL, pennyInt, 99, comm, NULL));
    FAILS(pennyInvalidArgument, "root -1", pennyScatterv(in, one, NULL, out, 1, pennyInt, -1, comm, NULL));
    FAILS(pennyInvalidArgument, "does not exist for datatype", pennyReduceScatterv(in, out, one, pennyFloat, pennyBitOr, comm, NULL));
    if (ranks > 1) FAILS(pennyInvalidArgument, "overlap on rank", pennyAllGatherv(in, 1, out, one, same, pennyInt, comm, NULL));
    OK(pennyAllGatherv(in, 1, out, one, NULL, pennyInt, comm, NULL));
    OK(pennyCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(every_block_arrives_alone_on_a_stream_and_in_a_group);
    RUN(all_to_all_in_place_exchanges_blocks);
    RUN(gathers_and_scatters_move_every_block);
    RUN(every_type_is_gathered_and_those_that_can_are_reduced);
    RUN(reduce_scatter_gives_each_rank_its_block_of_the_sum);
    RUN(nothing_from_anybody_is_fine);
    RUN(counts_that_differ_are_told_before_anything_moves);
    RUN(wrong_arguments_are_refused_by_name);
    return 0;
}
