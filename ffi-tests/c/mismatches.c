/* One rank after the other passes something else than the others, in one way after the other: each time every rank is told who. */
#include "check.h"

enum { MISMATCHES = 100, COUNT = 24, LARGE = 40000 };

static int in[LARGE * 8], out[LARGE * 8];

/* The call of trial `trial`; `odd`: as the rank makes it that differs. */
static pennyResult_t call(pennyComm_t comm, int trial, int odd) {
    const size_t count = (size_t)(trial % 20 < 10 ? COUNT : LARGE), other = count + (size_t)(odd * 3);
    const pennyDataType_t type = odd ? pennyFloat : pennyInt;
    const int root = odd ? ranks - 1 : 0;
    switch (trial % 10) {
    case 0: return pennyAllReduce(in, out, other, pennyInt, pennySum, comm, NULL);
    case 1: return pennyAllReduce(in, out, count, type, pennySum, comm, NULL);
    case 2: return pennyAllReduce(in, out, count, pennyInt, odd ? pennyMax : pennySum, comm, NULL);
    case 3: return pennyBroadcast(in, out, count, pennyInt, root, comm, NULL);
    case 4: return pennyReduce(in, out, count, pennyInt, pennySum, root, comm, NULL);
    case 5: return pennyAllGather(in, out, other, pennyInt, comm, NULL);
    case 6: return pennyReduceScatter(in, out, count, type, pennySum, comm, NULL);
    case 7: return pennyGather(in, out, count, pennyInt, root, comm, NULL);
    case 8: return pennyAlltoAll(in, out, other, pennyInt, comm, NULL);
    default:
        return odd ? pennyBarrier(comm, NULL) : pennyAllReduce(in, out, count, pennyInt, pennySum, comm, NULL);
    }
}

/* Of a root ranks may hear in one of the next calls. */
static void every_rank_is_told_who_differs(void) {
    const int soon = (ranks >= 3 && ranks <= 16 ? 64 : 32) + 1;
    pennyComm_t comm = join();
    for (int trial = 0; trial < MISMATCHES; trial++) {
        const int differs = (trial / 10 + trial) % ranks;
        char passed[32];
        int told = 0, one = 1, sum = 0;
        snprintf(passed, sizeof passed, "rank %d passed", differs);
        for (int later = 0; later <= soon; later++) {
            pennyResult_t result = later == 0 ? call(comm, trial, rank == differs) : pennyBarrier(comm, NULL);
            const char *sentence = pennyGetLastError(NULL);
            if (result == pennySuccess) continue;
            if (result != pennyInvalidUsage || strstr(sentence, "ranks disagree in call") == NULL ||
                strstr(sentence, passed) == NULL) {
                FAIL("mismatch %d, %d calls later: %d, \"%s\" does not say \"%s\"", trial, later, (int)result, sentence, passed);
            }
            told++;
        }
        if (told != 1) FAIL("mismatch %d of rank %d is told %d times", trial, differs, told);
        OK(pennyAllReduce(&one, &sum, 1, pennyInt, pennySum, comm, NULL));
        CHECK_INT(sum, ranks);
    }
    OK(pennyCommDestroy(comm));
}

int main(void) {
    begin();
    RUN(every_rank_is_told_who_differs);
    return 0;
}
