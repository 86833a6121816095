"""Groups of some ranks, splits, two groups at once, the coalescing manager, and collectives of Python objects."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

import torch
from cases import BACKEND, PATIENCE, Cases, Job, Skip
from samples import assert_same

if BACKEND == "penny":
    from penny.torch.process_group import create

CASES = Cases()


def test_group(run_case: Callable[[], None]) -> None:
    run_case()


def total(group: dist.ProcessGroup, value: int) -> int:
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return int(tensor)


def skip_where_torch_does_not_split() -> None:
    if torch.__version__ < (2, 15):
        raise Skip("before 2.15 torch splits groups of accelerators only")


@CASES
def a_group_of_two_ranks(job: Job) -> None:
    """The others get no group, and are not waited for."""
    group = dist.new_group([0, 1], backend=BACKEND, timeout=PATIENCE)
    if job.rank < 2:
        assert dist.get_backend(group) == BACKEND
        assert total(group, job.rank + 1) == 3
    else:
        assert group == dist.GroupMember.NON_GROUP_MEMBER
    assert total(job.tested, 1) == job.size


@CASES
def the_order_of_ranks_in_a_group_is_its_own(job: Job) -> None:
    """Roots are named by global rank, gathered blocks stand in the group's order."""
    ranks = list(reversed(range(job.size)))
    group = dist.new_group(ranks, backend=BACKEND, timeout=PATIENCE)
    gathered = [torch.tensor([-1]) for _ in ranks]
    dist.all_gather(gathered, torch.tensor([job.rank]), group=group)
    mine = dist.get_rank(group)
    assert [int(tensor) for tensor in gathered] == [dist.get_global_rank(group, i) for i in range(job.size)]
    value = torch.tensor([job.rank])
    dist.broadcast(value, src=1, group=group)
    assert int(value) == 1
    assert dist.get_global_rank(group, mine) == job.rank


@CASES
def groups_of_each_half_work_side_by_side(job: Job) -> None:
    half = job.size // 2
    mine, groups = dist.new_subgroups(group_size=half, backend=BACKEND, timeout=PATIENCE)
    assert len(groups) == 2
    first = job.rank // half * half
    assert total(mine, job.rank) == sum(range(first, first + half))


@CASES
def split_group_divides_the_ranks(job: Job) -> None:
    skip_where_torch_does_not_split()
    half = job.size // 2
    parts = [list(range(half)), list(range(half, job.size))]
    group = dist.split_group(job.tested, parts, timeout=PATIENCE)
    assert group is not None
    assert dist.get_world_size(group) == half
    assert total(group, job.rank) == sum(parts[job.rank // half])
    assert total(job.tested, 1) == job.size, "the parent lives on"


@CASES.on(4)
def split_group_leaves_ranks_out(job: Job) -> None:
    skip_where_torch_does_not_split()
    group = dist.split_group(job.tested, [[0, 2]], timeout=PATIENCE)
    if job.rank in (0, 2):
        assert isinstance(group, dist.ProcessGroup)
        assert total(group, job.rank) == 2
    else:
        assert group == dist.GroupMember.NON_GROUP_MEMBER
    assert total(job.tested, 1) == job.size


@CASES
def two_groups_are_used_at_once(job: Job) -> None:
    """Half of the ranks begin with the one and half with the other, all with calls that return at once."""
    other = dist.new_group(backend=BACKEND, timeout=PATIENCE)
    tensors = {job.tested: torch.full((1000,), 1.0), other: torch.full((1000,), 2.0)}
    order = list(tensors) if job.rank % 2 else list(reversed(tensors))
    for _ in range(10):
        works = {group: dist.all_reduce(tensors[group], group=group, async_op=True) for group in order}
        for group in tensors:
            works[group].wait()
    for group, begin in ((job.tested, 1.0), (other, 2.0)):
        assert_same(tensors[group], torch.full((1000,), begin * job.size**10), "the repeated sum")


@CASES
def many_groups_are_made_and_destroyed(job: Job) -> None:
    for number in range(8):
        group = dist.new_group(backend=BACKEND, timeout=PATIENCE)
        assert total(group, number) == number * job.size
        dist.destroy_process_group(group)
    assert total(job.tested, 1) == job.size


@CASES
def a_group_without_local_calls_is_destroyed(job: Job) -> None:
    """A communicator is not needed for a group that nobody has used."""
    dist.destroy_process_group(dist.new_group(backend=BACKEND, timeout=PATIENCE))


@CASES
def ranks_that_alone_know_of_their_group(job: Job) -> None:
    """use_local_synchronization: only the members call new_group."""
    pair = [job.rank // 2 * 2, job.rank // 2 * 2 + 1]
    group = dist.new_group(pair, backend=BACKEND, timeout=PATIENCE, use_local_synchronization=True)
    assert total(group, job.rank) == sum(pair)


@CASES.on(4)
def a_group_of_one_rank_meets_nobody(job: Job) -> None:
    """Torch may give its number to another group at the same time, whose ranks are in the same store."""
    if BACKEND != "penny":
        return
    members = [1] if job.rank == 1 else [0, 2, 3]
    if job.rank != 1:
        # Rank 0 comes last: until then its group has no id.
        job.store.wait([f"{turn} is there" for turn in (["lone", "second"] if job.rank == 0 else ["lone"])])
    if job.rank == 2:
        job.store.set("second is there", "")
    group = made(dist.PrefixStore("lone", job.store), members.index(job.rank), members)
    if job.rank == 1:
        job.store.set("lone is there", "")
    tensor = torch.tensor([job.rank])
    group.allreduce([tensor]).wait()
    assert int(tensor) == sum(members)


@CASES.on(4)
def ranks_that_have_made_different_groups_before_are_told_of_the_mixture(job: Job) -> None:
    """Torch numbers groups on each rank for itself: the first of one pair and the second of another meet under one number."""
    if BACKEND != "penny" or job.rank in (1, 2):
        return
    mine = [0, 2] if job.rank == 0 else [1, 3]
    store = dist.PrefixStore("mixture", job.store)
    if job.rank == 3:
        with pytest.raises(
            dist.DistBackendError, match="of the ranks 1, 3 has met rank 0 of .* of the ranks 0, 2: all ranks"
        ):
            made(store, 1, mine)
    else:
        group = made(store, 0, mine)
        with pytest.raises(dist.DistBackendError, match="rank 1 .*aborted"):
            group.allreduce([torch.ones(1)]).wait()


def made(store: dist.Store, place: int, ranks: list[int]) -> Any:
    """Makes a group as new_group does."""
    options = SimpleNamespace(
        timeout=PATIENCE,
        global_ranks_in_group=ranks,
        split_from=None,
        store=store,
        group_rank=place,
        group_size=len(ranks),
        process_group=None,
    )
    return create(options, None)


@CASES
def a_group_of_one_rank(job: Job) -> None:
    groups = [dist.new_group([rank], backend=BACKEND, timeout=PATIENCE) for rank in range(job.size)]
    alone = groups[job.rank]
    assert total(alone, 5) == 5
    gathered = torch.zeros(3)
    dist.all_gather_into_tensor(gathered, torch.arange(3.0), group=alone)
    assert_same(gathered, torch.arange(3.0), "all_gather_into_tensor")
    dist.barrier(group=alone)
    exchanged = torch.zeros(3)
    dist.all_to_all_single(exchanged, torch.arange(3.0), group=alone)
    assert_same(exchanged, torch.arange(3.0), "all_to_all_single")


@CASES
def a_device_mesh_has_a_group_for_each_dimension(job: Job) -> None:
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, job.size // 2), mesh_dim_names=("outer", "inner"))
    row, column = divmod(job.rank, job.size // 2)
    assert dist.get_backend(mesh.get_group("inner")) == BACKEND
    assert total(mesh.get_group("inner"), column) == sum(range(job.size // 2))
    assert total(mesh.get_group("outer"), row) == 1
    assert total(mesh["outer", "inner"]._flatten().get_group(), 1) == job.size


@CASES
def the_coalescing_manager_makes_one_call_of_many(job: Job) -> None:
    manager = dist.distributed_c10d._coalescing_manager
    sums = [torch.full((count,), float(job.rank)) for count in (3, 1, 5)]
    with manager(group=job.tested):
        for tensor in sums:
            dist.all_reduce(tensor, group=job.tested)
    for tensor in sums:
        assert_same(tensor, torch.full_like(tensor, float(sum(range(job.size)))), "all_reduce")

    gathered = [torch.zeros(job.size * count) for count in (2, 3)]
    with manager(group=job.tested, async_ops=True) as coalesced:
        for tensor, count in zip(gathered, (2, 3), strict=True):
            mine = torch.full((count,), float(job.rank))
            dist.all_gather_into_tensor(tensor, mine, group=job.tested)
    coalesced.wait()
    for tensor, count in zip(gathered, (2, 3), strict=True):
        assert_same(tensor, torch.arange(float(job.size)).repeat_interleave(count), "all_gather_into_tensor")

    scattered = [torch.zeros(count) for count in (2, 3)]
    with manager(group=job.tested):
        for tensor, count in zip(scattered, (2, 3), strict=True):
            whole = torch.arange(float(job.size)).repeat_interleave(count)
            dist.reduce_scatter_tensor(tensor, whole, group=job.tested)
    for tensor in scattered:
        assert_same(tensor, torch.full_like(tensor, float(job.rank * job.size)), "reduce_scatter_tensor")


def something(rank: int) -> dict[str, object]:
    """An object whose pickle has another size on each rank."""
    return {
        "rank": rank,
        "text": "x" * (100 * rank),
        "nested": [rank] * rank,
        "tensor": torch.arange(rank).tolist(),
    }


@CASES
def all_gather_object(job: Job) -> None:
    objects: list[object] = [None] * job.size
    dist.all_gather_object(objects, something(job.rank), group=job.tested)
    assert objects == [something(rank) for rank in range(job.size)]


@CASES
def broadcast_object_list(job: Job) -> None:
    for root in range(2):
        objects = [something(rank) if job.rank == root else None for rank in range(3)]
        dist.broadcast_object_list(objects, src=root, group=job.tested)
        assert objects == [something(rank) for rank in range(3)]


@CASES
def gather_object(job: Job) -> None:
    objects: list[object] | None = [None] * job.size if job.rank == 1 else None
    dist.gather_object(something(job.rank), objects, dst=1, group=job.tested)
    assert objects == ([something(rank) for rank in range(job.size)] if job.rank == 1 else None)


@CASES
def scatter_object_list(job: Job) -> None:
    received: list[object] = [None]
    objects = [something(rank) for rank in range(job.size)] if job.rank == 0 else None
    dist.scatter_object_list(received, objects, src=0, group=job.tested)
    assert received == [something(job.rank)]
