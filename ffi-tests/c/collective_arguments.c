/* src/ffi/collectives.rs: arguments that collectives refuse. */
#include "check.h"
#include <limits.h>

enum { BLOCKS = 8, COUNT = 128 };
static pennyComm_t comm;
static int in[COUNT], out[COUNT];

static void tables_of_a_permute_that_cannot_be_are_refused(void) {
    int perm[BLOCKS], twice[BLOCKS], beyond[BLOCKS];
    for (int r = 0; r < ranks; r++) perm[r] = (r + 1) % ranks, twice[r] = 0, beyond[r] = ranks;
    FAILS(pennyInvalidArgument, "perm[0] is", pennyPermute(in, out, 1, pennyInt, beyond, comm, NULL));
    if (ranks > 1) {
        FAILS(pennyInvalidArgument, "perm[0] and perm[1]", pennyPermute(in, out, 1, pennyInt, twice, comm, NULL));
        FAILS(pennyInvalidArgument, "overlap", pennyPermute(in, in, 1, pennyInt, perm, comm, NULL));
    }
    FAILS(pennyInvalidArgument, "perm is NULL", pennyPermute(in, out, 1, pennyInt, NULL, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyPermute(NULL, out, 1, pennyInt, perm, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyPermute(in, NULL, 1, pennyInt, perm, comm, NULL));
    FAILS(pennyInvalidArgument, "count", pennyPermute(in, out, SIZE_MAX, pennyInt, perm, comm, NULL));
    OK(pennyPermute(NULL, NULL, 0, pennyInt, perm, comm, NULL));
}

static void numbers_that_are_no_type_operation_or_root_are_refused_by_name(void) {
    const int no_type[] = {-1, 12, 63, 67, 127}, no_op[] = {-1, 5, 63, 71, 4096};
    const pennyStream_t stream = (pennyStream_t)(uintptr_t)64;
    for (int i = 0; i < 5; i++) {
        pennyDataType_t type = (pennyDataType_t)no_type[i];
        pennyRedOp_t op = (pennyRedOp_t)no_op[i];
        FAILS(pennyInvalidArgument, "datatype", pennyAllReduce(in, out, 1, type, pennySum, comm, NULL));
        FAILS(pennyInvalidArgument, "datatype", pennyAlltoAll(in, out, 1, type, comm, NULL));
        FAILS(pennyInvalidArgument, "op", pennyAllReduce(in, out, 1, pennyInt, op, comm, NULL));
        FAILS(pennyInvalidArgument, "op", pennyReduceScatterPadded(in, out, 1, pennyInt, op, comm, NULL));
    }
    const int no_root[] = {-1, ranks, INT_MAX, INT_MIN};
    for (int i = 0; i < 4; i++) {
        FAILS(pennyInvalidArgument, "root", pennyReduce(in, out, 1, pennyInt, pennySum, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyBroadcast(in, out, 1, pennyInt, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyBcast(in, 1, pennyInt, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyGather(in, out, 1, pennyInt, no_root[i], comm, NULL));
        FAILS(pennyInvalidArgument, "root", pennyScatter(in, out, 1, pennyInt, no_root[i], comm, NULL));
    }
    FAILS(pennyInvalidArgument, "not a live stream", pennyAllReduce(in, out, 1, pennyInt, pennySum, comm, stream));
    FAILS(pennyInvalidArgument, "not a live stream", pennyBarrier(comm, stream));
}

static void a_null_buffer_that_would_be_used_is_refused_by_name(void) {
    FAILS(pennyInvalidArgument, "sendbuff", pennyAllReduce(NULL, out, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyAllReduce(in, NULL, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyReduce(NULL, out, 1, pennyInt, pennySum, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyReduce(in, NULL, 1, pennyInt, pennySum, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyBroadcast(NULL, out, 1, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyBroadcast(in, NULL, 1, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "buff", pennyBcast(NULL, 1, pennyInt, 0, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyAllGather(NULL, out, 1, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyReduceScatter(in, NULL, 1, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyAlltoAll(in, NULL, 1, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "recvbuff", pennyGather(in, NULL, 1, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "sendbuff", pennyScatter(NULL, out, 1, pennyInt, rank, comm, NULL));
}

static void a_count_beyond_the_address_space_is_refused(void) {
    const size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)-1 / 4 + 1};
    for (int i = 0; i < 3; i++) {
        FAILS(pennyInvalidArgument, "count", pennyAllReduce(in, out, huge[i], pennyInt64, pennySum, comm, NULL));
        FAILS(pennyInvalidArgument, "count", pennyAllGather(in, out, huge[i], pennyInt64, comm, NULL));
        FAILS(pennyInvalidArgument, "count", pennyAlltoAll(in, out, huge[i], pennyInt64, comm, NULL));
        FAILS(pennyInvalidArgument, "count", pennyBcast(in, huge[i], pennyInt64, 0, comm, NULL));
    }
}

static void overlap_that_is_not_in_place_is_refused(void) {
    FAILS(pennyInvalidArgument, "overlap", pennyAllReduce(in, in + 1, 8, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyReduce(in + 7, in, 8, pennyInt, pennySum, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyBroadcast(in, in + 4, 8, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyAlltoAll(in, in + 1, 8, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyAllGather(in + rank * 8 + 1, in, 8, pennyInt, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyReduceScatter(in, in + rank * 8 + 1, 8, pennyInt, pennySum, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyGather(in + rank * 8 + 1, in, 8, pennyInt, rank, comm, NULL));
    FAILS(pennyInvalidArgument, "overlap", pennyScatter(in, in + rank * 8 + 1, 8, pennyInt, rank, comm, NULL));
}

int main(void) {
    begin();
    CHECK(ranks <= BLOCKS);
    comm = join();
    RUN(tables_of_a_permute_that_cannot_be_are_refused);
    RUN(numbers_that_are_no_type_operation_or_root_are_refused_by_name);
    RUN(a_null_buffer_that_would_be_used_is_refused_by_name);
    RUN(a_count_beyond_the_address_space_is_refused);
    RUN(overlap_that_is_not_in_place_is_refused);
    OK(pennyCommDestroy(comm));
    return 0;
}
