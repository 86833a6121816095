"""CuPy's module of NCCL over Penny's libnccl.so.2: two processes."""

from cupy_backends.cuda.libs import nccl
from meeting import RANK, RANKS, shared, stream, synchronize, to_device, to_host

COUNT = 1000

assert nccl.available and nccl.get_version() == 22707
comm = nccl.NcclCommunicator(RANKS, shared(nccl.get_unique_id), RANK)
assert (comm.size(), comm.rank_id()) == (RANKS, RANK)
comm.check_async_error()

queue = stream()
mine, sum_of_all = to_device([RANK + i for i in range(COUNT)]), to_device([0] * COUNT)
comm.allReduce(mine, sum_of_all, COUNT, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, queue)
synchronize(queue)
assert to_host(sum_of_all, COUNT) == [1 + 2 * i for i in range(COUNT)]
nccl.groupStart()
comm.broadcast(mine, mine, COUNT, nccl.NCCL_FLOAT32, 1, queue)
nccl.groupEnd()
synchronize(queue)
assert to_host(mine, COUNT) == [1 + i for i in range(COUNT)]
print("calls on memory and streams of the runtime")

try:
    comm.broadcast(mine, mine, 1, nccl.NCCL_FLOAT32, 7, queue)
except nccl.NcclError as error:
    assert "NCCL_ERROR_INVALID_ARGUMENT" in str(error), error
else:
    raise AssertionError("root 7 is not refused")
print("refusals")
comm.destroy()
print("ends")
