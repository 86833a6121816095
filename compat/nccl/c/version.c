/* Prints the version. */
#include "check.h"

int main(void) {
    int version = -1;
    ncclResult_t result = ncclGetVersion(&version);
    if (result == ncclSuccess) {
        printf("0 %d\n", version);
        return 0;
    }
    CHECK_INT(version, -1);
    printf("%d %s\n", (int)result, ncclGetLastError(NULL));
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    OK(ncclGetUniqueId(&id));
    FAILS(ncclInvalidUsage, "PENNY_NCCL_VERSION", ncclCommInitRank(&comm, 1, id, 0));
    return 0;
}
