/* What NCCL_DEBUG tells of: two ranks, a call, a refusal. */
#include "check.h"

int main(void) {
    int devices[2] = {5, 6};
    float in = 1, out[2];
    local = 2;
    OK(ncclCommInitAll(comms, 2, devices));
    float ins[3] = {in, in, in}, outs[2][3];
    ALL(ncclAllReduce(ins, outs[i], 3, ncclFloat, ncclMax, comms[i], NULL));
    CHECK(ncclAllReduce(&in, out, 1, ncclNumTypes, ncclSum, comms[0], NULL) == ncclInvalidArgument);
    leave();
    return 0;
}
