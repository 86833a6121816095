"""What only the backend's own parts can show: names, memory, queues, and the ways around torch's dispatcher."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest
import torch.distributed as dist
from torch.distributed.tensor.debug import CommDebugMode

import penny.torch
import torch
from penny.torch import allocation, liveness
from penny.torch.backend import PennyBackend
from penny.torch.lanes import Lane
from penny.torch.process_group import PennyProcessGroup
from penny.torch.work import DONE, PennyWork

PAGEFUL = 4096


@pytest.fixture
def alone() -> Iterator[PennyProcessGroup]:
    """The process group of a program that is the only rank."""
    dist.init_process_group("penny", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.group.WORLD
    assert isinstance(group, PennyProcessGroup)
    yield group
    dist.destroy_process_group()


def is_shareable(tensor: torch.Tensor) -> bool:
    return isinstance(tensor.untyped_storage(), allocation.SharedStorage)


# --- names ---


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("_allgather_base", "all_gather_single"),
        ("allgather_into_tensor_coalesced", "all_gather_single_coalesced"),
        ("_reduce_scatter_base", "reduce_scatter_single"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
        ("alltoall_base", "all_to_all_single"),
    ],
)
def test_both_generations_of_a_name_are_one_operation(older: str, newer: str) -> None:
    assert getattr(PennyBackend, older) is getattr(PennyBackend, newer)


def test_every_property_that_torch_asks_for_is_answered_without_asking_torch_again() -> None:
    torchs = dist.distributed_c10d.C10DBackend
    properties = [
        name for name, value in vars(torchs).items() if isinstance(value, property) and "supports" in name
    ]
    assert "supports_coalescing" in properties
    inherited = [name for name in properties if getattr(PennyBackend, name) is getattr(torchs, name)]
    assert [name for name in inherited if not name.endswith("_hooks")] == []


# --- the ways around the dispatcher ---


def test_a_blocking_call_gives_the_one_completed_work_and_needs_no_stream(alone: PennyProcessGroup) -> None:
    options = dist.AllreduceOptions()
    options.asyncOp = False
    assert alone.allreduce([torch.ones(3)], options) is DONE
    assert alone.backend._stream._newest is None
    assert isinstance(dist.all_reduce(torch.ones(3), async_op=True), PennyWork)


def test_a_dispatch_mode_sees_the_collectives_of_a_group(alone: PennyProcessGroup) -> None:
    with CommDebugMode() as seen:
        tensor = torch.full((3,), 2.0)
        dist.all_reduce(tensor)
    assert seen.get_total_counts() == 1
    assert tensor.tolist() == [2.0, 2.0, 2.0]


def test_a_hook_sees_the_collectives_of_a_group(alone: PennyProcessGroup) -> None:
    seen = []
    alone.register_pre_hook(7, seen.append)
    dist.all_reduce(torch.ones(3))
    dist.broadcast(torch.ones(3), 0)
    assert len(seen) == 2


def test_the_other_forms_of_a_call_work_too(alone: PennyProcessGroup) -> None:
    tensor = torch.full((3,), 5)
    alone.allreduce(tensor, op=dist.ReduceOp.MAX).wait()
    alone.broadcast(tensor, root=0).wait()
    alone.barrier().wait()
    gathered = [torch.zeros(3, dtype=torch.int64)]
    alone.allgather(gathered, tensor).wait()
    assert gathered[0].tolist() == [5, 5, 5]


def test_beside_another_backend_penny_is_a_backend_of_the_group() -> None:
    dist.init_process_group("cpu:penny,cuda:gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        group = dist.group.WORLD
        assert type(group) is dist.ProcessGroup
        assert isinstance(group._get_backend(torch.device("cpu")), PennyBackend)
        assert group._get_backend(torch.device("cuda")).name() == "gloo"
        tensor = torch.full((3,), 4.0)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [4.0, 4.0, 4.0]
    finally:
        dist.destroy_process_group()


# --- works and futures ---


def test_a_callback_of_a_future_may_wait_for_another_collective(alone: PennyProcessGroup) -> None:
    tensor = torch.ones(1 << 16)

    def again(future: torch.futures.Future[list[torch.Tensor]]) -> float:
        dist.all_reduce(future.value()[0], async_op=True).wait()
        dist.all_reduce(future.value()[0])
        return future.value()[0][0].item()

    futures = [dist.all_reduce(tensor, async_op=True).get_future().then(again) for _ in range(20)]
    assert [future.wait() for future in futures] == [1.0] * 20


def test_a_future_that_is_asked_for_late_does_not_wait_for_what_came_after(alone: PennyProcessGroup) -> None:
    first = dist.all_reduce(torch.ones(5), async_op=True)
    go_on, came = threading.Event(), list[bool]()
    # Stands for a call behind the first that does not end before the program goes on.
    alone.backend._stream.submit([], alone.backend._comm, [lambda: came.append(go_on.wait(30))], None)
    assert len(first.get_future().wait()[0]) == 5
    go_on.set()
    alone.backend._stream.synchronize()
    assert came == [True]


def test_a_call_that_nobody_waits_for_keeps_its_tensors(alone: PennyProcessGroup) -> None:
    gc.freeze()  # what torch's modules are made of takes long to look through, and none of it goes
    for _ in range(50):
        dist.all_reduce(torch.ones(1 << 14), async_op=True)
        gc.collect()
    gc.unfreeze()
    last = torch.ones(3)
    dist.all_reduce(last, async_op=True).wait()
    alone.backend._stream.synchronize()
    dist.all_reduce(last, async_op=True).wait()
    assert len(alone.backend._stream._under_way) == 1


def test_coalesced_calls_are_made_together_and_their_works_are_one(alone: PennyProcessGroup) -> None:
    one, two = torch.full((3,), 1.0), torch.full((4,), 2.0)
    alone._start_coalescing(torch.device("cpu"))
    assert dist.all_reduce(one) is None
    gathered = torch.zeros(4)
    dist.all_gather_into_tensor(gathered, two)
    assert gathered.tolist() == [0.0] * 4
    alone._end_coalescing(torch.device("cpu")).wait()
    assert gathered.tolist() == [2.0] * 4


# --- lanes ---


def test_factors_that_change_with_each_call_are_given_back(alone: PennyProcessGroup) -> None:
    for number in range(300):  # more than the library has room for
        tensor = torch.ones(3)
        work = dist.all_reduce(tensor, dist._make_nccl_premul_sum(float(number)), async_op=True)
        work.wait()
        assert tensor.tolist() == [number] * 3
    assert len(alone.backend._scaled_sums._numbers) < 64


def test_a_job_for_which_somebody_waits_wakes_no_thread() -> None:
    lane = Lane("test")
    threads = threading.active_count()
    done: list[int] = []
    lane.submit(lambda: done.append(threading.get_ident()), will_wait=True).wait()
    assert done == [threading.get_ident()]
    assert threading.active_count() == threads
    lane.close()


def test_a_lane_does_its_jobs_in_order_whoever_does_them() -> None:
    lane, done = Lane("test"), list[int]()
    tickets = [lane.submit(lambda number=number: done.append(number)) for number in range(200)]
    for ticket in tickets[::7]:
        ticket.wait()
    lane.close()
    assert done == list(range(200))


def test_what_fails_in_a_lane_is_told_by_its_ticket_and_the_next_job_is_done() -> None:
    lane = Lane("test")
    failing = lane.submit(lambda: {}[0])
    following = lane.submit(lambda: None)
    following.wait()
    assert isinstance(failing.error, KeyError)
    assert following.error is None
    lane.close()


def test_a_lane_goes_on_while_nobody_waits() -> None:
    lane, done = Lane("test"), threading.Event()
    lane.submit(done.set)
    assert done.wait(60)
    lane.close()


def test_what_comes_while_somebody_helps_is_done_though_nobody_waits_for_it() -> None:
    for _ in range(200):
        lane, begun, go_on, done = Lane("test"), threading.Event(), threading.Event(), threading.Event()

        def first(begun: threading.Event = begun, go_on: threading.Event = go_on) -> None:
            begun.set()
            go_on.wait()

        ticket = lane.submit(first)
        helper = threading.Thread(target=ticket.wait)
        helper.start()
        begun.wait()
        lane.submit(done.set)
        go_on.set()
        assert done.wait(60)
        helper.join()
        lane.close()


def test_a_process_is_dead_when_it_has_ended_and_not_before() -> None:
    assert not liveness.is_dead(liveness.identity())
    program = "from penny.torch import liveness; print(liveness.identity(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as it:
        assert it.stdin and it.stdout
        identity = it.stdout.readline().strip()
        assert not liveness.is_dead(identity)
        it.stdin.close()
        # It has ended, and its parent has not asked for its exit code yet.
        os.waitid(os.P_PID, it.pid, os.WEXITED | os.WNOWAIT)
        assert liveness.is_dead(identity)
    assert liveness.is_dead(identity)


# --- memory ---


def test_shareable_tensors_have_the_shapes_values_and_types_of_torch() -> None:
    assert penny.torch.empty(3, 4).shape == (3, 4)
    assert penny.torch.zeros((2, 3), dtype=torch.bfloat16).sum() == 0
    assert penny.torch.ones(5).tolist() == [1.0] * 5
    assert penny.torch.full((2,), 7).dtype is torch.int64
    assert penny.torch.empty(0).numel() == 0
    like = penny.torch.clone(torch.arange(6).view(2, 3).t())
    copied = copy.deepcopy(like)
    assert torch.equal(copied, like) and not is_shareable(copied)
    assert like.tolist() == [[0, 3], [1, 4], [2, 5]] and like.is_contiguous() and is_shareable(like)


def test_the_memory_of_a_tensor_goes_back_when_its_last_view_dies() -> None:
    view = penny.torch.full((PAGEFUL,), 3.0)[7:9]
    address = view.data_ptr() - 7 * 4
    gc.collect()
    assert view.tolist() == [3.0, 3.0]
    del view
    assert address in [penny.torch.empty(PAGEFUL).data_ptr() for _ in range(8)]


def test_a_heap_holds_what_torch_makes_and_uses_it_again() -> None:
    torch.manual_seed(5)
    outside = torch.randn(100, 100)
    torch.manual_seed(5)
    with penny.torch.heap():
        inside = torch.randn(100, 100)
        model = torch.nn.Linear(100, 100, device="meta").to_empty(device="cpu")
        product = inside @ inside
        made = {
            "randn": inside,
            "zeros": torch.zeros(PAGEFUL),
            "empty_like": torch.empty_like(inside.t()),
            "clone": inside.clone(),
            "cast": inside.bfloat16(),
            "arange": torch.arange(PAGEFUL),
            "new_full": inside.new_full((PAGEFUL,), 3),
            "new_empty_strided": inside.new_empty_strided((64, 64), (1, 64)),
            "full": torch.full((PAGEFUL,), 7),
            "to_empty": model.weight,
            "product": product,
            "linear": torch.nn.functional.linear(inside, inside),
        }
        assert [name for name, tensor in made.items() if not is_shareable(tensor)] == []
        assert not is_shareable(torch.zeros(10))
        assert made["empty_like"].stride() == (1, 100)
        assert made["new_empty_strided"].stride() == (1, 64)
        assert made["new_full"][-1] == 3 and made["full"][-1] == 7 and made["full"].dtype is torch.int64
        addresses = {torch.empty(3 * PAGEFUL).data_ptr() for _ in range(50)}
        assert len(addresses) == 1
    assert torch.equal(inside, outside)
    assert torch.equal(product, outside @ outside)
    assert not is_shareable(torch.zeros(PAGEFUL))


def test_a_tensor_or_a_storage_that_is_held_is_never_used_again() -> None:
    with penny.torch.heap():
        held = [torch.full((PAGEFUL,), float(number)) for number in range(20)]
        storage = torch.full((PAGEFUL,), 99.0).untyped_storage()
        for _ in range(20):
            torch.zeros(PAGEFUL)
        assert [tensor[0].item() for tensor in held] == [float(number) for number in range(20)]
        assert torch.empty(0).set_(storage)[0] == 99.0


def test_a_storage_in_shareable_memory_is_freed_and_allocated_in_place() -> None:
    tensor = penny.torch.full((PAGEFUL,), 2.0)
    storage = tensor.untyped_storage()
    storage.resize_(0)
    storage.resize_(4 * PAGEFUL)
    assert storage.data_ptr() == tensor.data_ptr()
    with pytest.raises(RuntimeError, match="cannot grow to"):
        storage.resize_(4 * PAGEFUL + 1)


def test_where_there_is_no_shareable_memory_tensors_are_ordinary_and_one_warning_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = """
import torch, penny.torch, warnings
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as seen:
    large = [penny.torch.zeros(1 << 18) for _ in range(8)]
    with penny.torch.heap():
        large += [torch.ones(1 << 18) for _ in range(8)]
kinds = [isinstance(each.untyped_storage(), penny.torch.allocation.SharedStorage) for each in large]
assert kinds[0] and not kinds[-1], kinds
assert [each[-1].item() for each in large] == [0.0] * 8 + [1.0] * 8
print("warnings", sum("no shareable memory" in str(each.message) for each in seen))
"""
    monkeypatch.setenv("PENNY_HEAP_SIZE", "4M")
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120
    )
    assert result.stdout.strip() == "warnings 1", result.stdout + result.stderr


def test_shareable_tensors_may_die_after_the_interpreter() -> None:
    program = "import sys, penny.torch; sys.kept = penny.torch.ones(10000); sys.modules['kept'] = sys.kept"
    assert (
        subprocess.run([sys.executable, "-W", "error", "-c", program], check=False, timeout=120).returncode
        == 0
    )


def test_a_program_may_end_with_calls_that_nobody_waited_for() -> None:
    program = """
import torch, torch.distributed as dist, penny.torch
dist.init_process_group("penny", store=dist.HashStore(), rank=0, world_size=1)
for _ in range(100):
    dist.all_reduce(torch.ones(100000), async_op=True).get_future()
    dist.all_reduce(torch.ones(1000, 100).t(), async_op=True)
dist.isend(torch.ones(3), 0)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr


def test_nothing_warns_when_tensors_of_a_heap_are_made() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with penny.torch.heap():
            torch.zeros(PAGEFUL)
