"""NVIDIA's bindings of NCCL for Python (nccl4py) over Penny's libnccl.so.2: two processes."""

import nccl.bindings.nccl as nccl
from meeting import RANK, RANKS, shared, stream, synchronize, to_device, to_host

FLOAT, SUM, AVG = int(nccl.DataType.Float32), int(nccl.RedOp.Sum), int(nccl.RedOp.Avg)
COUNT = 1000


def refused(result: str, sentence: str, call, *arguments) -> None:
    """The call raises NCCL's error with this result, and the last error has the sentence."""
    try:
        call(*arguments)
    except nccl.NCCLError as error:
        assert result in str(error), error
        said = nccl.get_last_error(comm)
        assert sentence in said, said
        return
    raise AssertionError(f"{call} is not refused")


assert nccl.get_version() == 22707, nccl.get_version()
unique_id = nccl.UniqueId.from_buffer(bytearray(shared(lambda: bytes(nccl.get_unique_id()))))
comm = nccl.comm_init_rank(RANKS, unique_id, RANK)
assert (nccl.comm_count(comm), nccl.comm_user_rank(comm)) == (RANKS, RANK)
assert nccl.comm_get_async_error(comm) == 0

queue = stream()
mine, sum_of_all = to_device([RANK + i for i in range(COUNT)]), to_device([0] * COUNT)
nccl.all_reduce(mine, sum_of_all, COUNT, FLOAT, SUM, comm, queue)
synchronize(queue)
assert to_host(sum_of_all, COUNT) == [1 + 2 * i for i in range(COUNT)]
nccl.group_start()
nccl.all_reduce(mine, sum_of_all, COUNT, FLOAT, AVG, comm, queue)
nccl.broadcast(mine, mine, COUNT, FLOAT, 1, comm, queue)
nccl.group_end()
synchronize(queue)
assert to_host(sum_of_all, COUNT) == [0.5 + i for i in range(COUNT)]
assert to_host(mine, COUNT) == [1 + i for i in range(COUNT)]
print("calls on memory and streams of the runtime")

refused("InvalidArgument", "sendbuff is NULL", nccl.all_reduce, 0, sum_of_all, 1, FLOAT, SUM, comm, queue)
refused("InvalidArgument", "root 7", nccl.broadcast, mine, mine, 1, FLOAT, 7, comm, queue)
refused("InvalidArgument", "datatype is 99", nccl.all_reduce, mine, sum_of_all, 1, 99, SUM, comm, queue)
assert nccl.comm_get_async_error(comm) == 0
nccl.all_reduce(mine, sum_of_all, COUNT, FLOAT, SUM, comm, queue)
synchronize(queue)
assert to_host(sum_of_all, 1) == [2]
print("refusals")

half = nccl.comm_split(comm, RANK, 0, 0)
assert nccl.comm_count(half) == 1
nccl.comm_destroy(half)
nccl.comm_destroy(comm)
print("ends")
