/* Ranks of a simulated cluster leave early, also the first rank of a host; the others go on, and their time does, too. */
#include "check.h"

static void sum_is(pennyComm_t of, int mine, int expected) {
    int all = -1;
    OK(pennyAllReduce(&mine, &all, 1, pennyInt, pennySum, of, NULL));
    CHECK_INT(all, expected);
}

static void others_go_on_when_every_second_rank_has_left(void) {
    int expected = 0;
    for (int r = 0; r < ranks; r += 2) expected += r + 1;
    for (int times = 0; times < 10; times++) {
        pennyComm_t comm = join(), rest = NULL;
        uint64_t before, first, second;
        sum_is(comm, rank + 1, ranks * (ranks + 1) / 2);
        OK(pennyCommSplit(comm, rank % 2 ? PENNY_SPLIT_NOCOLOR : 0, rank, &rest, NULL));
        if (rest == NULL) {
            OK(pennyCommDestroy(comm));
            continue;
        }
        for (int i = 0; i < 50; i++) sum_is(rest, rank + 1, expected);
        OK(pennyFabricNow(rest, &before));
        sum_is(rest, rank + 1, expected);
        OK(pennyFabricNow(rest, &first));
        for (int i = 0; i < 20; i++) sum_is(rest, rank + 1, expected);
        OK(pennyFabricNow(rest, &second));
        CHECK(first > before && second - first == 20 * (first - before));
        OK(pennyCommDestroy(rest));
        OK(pennyCommDestroy(comm));
    }
}

int main(void) {
    begin();
    RUN(others_go_on_when_every_second_rank_has_left);
    return 0;
}
