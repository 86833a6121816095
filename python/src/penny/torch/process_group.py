"""The process group in front of the backend: Python's collectives reach it directly, without torch's dispatcher.

Torch's own ProcessGroup hands each call to its dispatcher, which finds the backend and wraps the work that it returns
in one that cannot tell whether it is completed. A group whose only backend is Penny does without: its methods call the
backend, and what they return is the backend's own work. What has to see collectives on their way (dispatch modes,
tensor subclasses, hooks) still does: then the call goes through the dispatcher, to the same backend.
"""

# The signatures take every form that torch's overloads have, and leave those that they do not know to them.
# mypy: disable-error-code="override"

from __future__ import annotations

import inspect
import sys
from datetime import timedelta
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch._C import _len_torch_dispatch_stack
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    Backend,
    BarrierOptions,
    BroadcastOptions,
    DebugLevel,
    GatherOptions,
    PrefixStore,
    ProcessGroup,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Work,
    get_debug_level,
)

import torch
from torch import Tensor

from . import recording
from .backend import PennyBackend

_CPU = torch.device("cpu")
_CUSTOM = ProcessGroup.BackendType.CUSTOM
# The frontend's send and isend make the same call, as recv and irecv do, and only one of the two waits. What a caller who
# waits wants is done in his own thread, which saves waking another; who he is tells his code.
_WAITING = (inspect.unwrap(dist.send).__code__, inspect.unwrap(dist.recv).__code__)
_NOT_WAITING = inspect.unwrap(dist.irecv).__code__
_PLAIN = (Tensor, torch.nn.Parameter)


class PennyProcessGroup(ProcessGroup):
    """A process group whose only backend is Penny."""

    def __init__(self, store: Any, backend: PennyBackend) -> None:
        super().__init__(store, backend.rank(), backend.size())
        self.backend = backend
        self._watched = 0
        self._set_default_backend(_CUSTOM)
        self._register_backend(_CPU, _CUSTOM, backend)

    def _goes_directly(self, tensors: Any, opts: Any, kind: type) -> bool:
        """May a call skip the dispatcher? Not in another form than the frontend's, nor if anybody watches."""
        return (
            type(opts) is kind
            and not _len_torch_dispatch_stack()
            and not self._watched
            and all(type(tensor) in _PLAIN for tensor in tensors)
        )

    def allreduce(self, tensors: Any, opts: Any = None, *rest: Any, **named: Any) -> Work:
        # The same question as elsewhere, without a function call: this is the collective that programs call most.
        if (
            type(opts) is AllreduceOptions
            and type(tensors) is list
            and len(tensors) == 1
            and type(tensors[0]) in _PLAIN
            and not _len_torch_dispatch_stack()
            and not self._watched
        ):
            return self.backend.allreduce(tensors, opts)
        return super().allreduce(tensors, *_given(opts), *rest, **named)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        if self._goes_directly(tensors, opts, AllreduceCoalescedOptions):
            return self.backend.allreduce_coalesced(tensors, opts)
        return super().allreduce_coalesced(tensors, *_given(opts))

    def broadcast(self, tensors: Any, opts: Any = None, *rest: Any, **named: Any) -> Work:
        if type(tensors) is list and self._goes_directly(tensors, opts, BroadcastOptions):
            return self.backend.broadcast(tensors, opts)
        return super().broadcast(tensors, *_given(opts), *rest, **named)

    def reduce(self, tensors: Any, opts: Any = None, *rest: Any, **named: Any) -> Work:
        if type(tensors) is list and self._goes_directly(tensors, opts, ReduceOptions):
            return self.backend.reduce(tensors, opts)
        return super().reduce(tensors, *_given(opts), *rest, **named)

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, **named: Any) -> Work:
        if type(input_tensors) is list and self._goes_directly(input_tensors, opts, AllgatherOptions):
            return self.backend.allgather(output_tensors, input_tensors, opts)
        return super().allgather(output_tensors, input_tensors, *_given(opts), **named)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        if self._goes_directly((output, input), opts, AllgatherOptions):
            return self.backend.all_gather_single(output, input, opts)
        return super().all_gather_single(output, input, *_given(opts))

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        if self._goes_directly((output, input), opts, AllgatherOptions):
            return self.backend.all_gather_single(output, input, opts)
        return super()._allgather_base(output, input, *_given(opts))

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, *rest: Any, **named: Any
    ) -> Work:
        if type(output_tensors) is list and self._goes_directly(output_tensors, opts, ReduceScatterOptions):
            return self.backend.reduce_scatter(output_tensors, input_tensors, opts)
        return super().reduce_scatter(output_tensors, input_tensors, *_given(opts), *rest, **named)

    def reduce_scatter_single(self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None) -> Work:
        if self._goes_directly((outputTensor, inputTensor), opts, ReduceScatterOptions):
            return self.backend.reduce_scatter_single(outputTensor, inputTensor, opts)
        return super().reduce_scatter_single(outputTensor, inputTensor, *_given(opts))

    def _reduce_scatter_base(self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None) -> Work:
        if self._goes_directly((outputTensor, inputTensor), opts, ReduceScatterOptions):
            return self.backend.reduce_scatter_single(outputTensor, inputTensor, opts)
        return super()._reduce_scatter_base(outputTensor, inputTensor, *_given(opts))

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Any,
        input_split_sizes: Any,
        opts: Any = None,
        **named: Any,
    ) -> Work:
        if self._goes_directly((output, input), opts, AllToAllOptions):
            return self.backend.all_to_all_single(output, input, output_split_sizes, input_split_sizes, opts)
        return super().all_to_all_single(
            output, input, output_split_sizes, input_split_sizes, *_given(opts), **named
        )

    def alltoall(self, output: Any, input: Any, opts: Any = None, **named: Any) -> Work:
        if self._goes_directly((*output, *input), opts, AllToAllOptions):
            return self.backend.alltoall(output, input, opts)
        return super().alltoall(output, input, *_given(opts), **named)

    def gather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, *rest: Any, **named: Any
    ) -> Work:
        if type(input_tensors) is list and self._goes_directly(input_tensors, opts, GatherOptions):
            return self.backend.gather(output_tensors, input_tensors, opts)
        return super().gather(output_tensors, input_tensors, *_given(opts), *rest, **named)

    def scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, *rest: Any, **named: Any
    ) -> Work:
        if type(output_tensors) is list and self._goes_directly(output_tensors, opts, ScatterOptions):
            return self.backend.scatter(output_tensors, input_tensors, opts)
        return super().scatter(output_tensors, input_tensors, *_given(opts), *rest, **named)

    def send(self, tensors: list[Tensor], dstRank: int, tag: int = 0) -> Work:
        if self._goes_directly(tensors, None, type(None)):
            return self.backend.send(tensors, dstRank, tag, _blocks(sys._getframe(1)))
        return super().send(tensors, dstRank, tag)

    def recv(self, tensors: list[Tensor], srcRank: int, tag: int = 0) -> Work:
        if self._goes_directly(tensors, None, type(None)):
            return self.backend.recv(tensors, srcRank, tag, _blocks(sys._getframe(1)))
        return super().recv(tensors, srcRank, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> Work:
        # Always directly: the work that the dispatcher would give back cannot tell who has sent.
        return self.backend.recv_anysource(tensors, tag, _blocks(sys._getframe(1)))

    def barrier(self, opts: Any = None, **named: Any) -> Work:
        if self._goes_directly((), opts, BarrierOptions):
            return self.backend.barrier(opts)
        return super().barrier(*_given(opts), **named)

    def split_group(
        self,
        new_ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: Any = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> PennyProcessGroup | None:
        options = Backend.Options("penny", self.backend.options._timeout if timeout is None else timeout)
        name: Any = group_name or f"{self.group_name}:split:{self.backend.comm_split_count()}"
        store = PrefixStore(f"{name}/", self.get_group_store())
        backend = self.backend.split(store, new_ranks, options)
        if backend is None:
            return None
        group = PennyProcessGroup(store, backend)
        group._set_group_name(name)
        group._set_group_desc(group_desc or f"{self.group_desc}:split")
        return group

    def register_pre_hook(self, hook_id: int, hook: Any) -> None:
        self._watched += 1
        super().register_pre_hook(hook_id, hook)

    def register_post_hook(self, hook_id: int, hook: Any) -> None:
        self._watched += 1
        super().register_post_hook(hook_id, hook)


def _blocks(caller: FrameType) -> bool:
    """Is the caller torch's send or recv? The latter calls irecv."""
    if caller.f_code is _NOT_WAITING and caller.f_back is not None:
        caller = caller.f_back
    return caller.f_code in _WAITING


def _given(opts: Any) -> tuple[Any, ...]:
    """The options as arguments: none where the caller has passed none."""
    return () if opts is None else (opts,)


def create(opts: Any, backend_options: Any) -> PennyProcessGroup | PennyBackend:
    """Makes the process group, or its part for the CPU; torch calls this function."""
    recording.begin()
    timeout = opts.timeout if isinstance(opts.timeout, timedelta) else timedelta(seconds=opts.timeout)
    global_ranks = list(opts.global_ranks_in_group)
    if opts.split_from is not None:
        backend = opts.split_from.split(opts.store, global_ranks, Backend.Options("penny", timeout))
    else:
        who = f"of the ranks {', '.join(map(str, global_ranks))}" if global_ranks else "of all ranks"
        name = f"the process group {who}"
        backend = PennyBackend(
            opts.store, opts.group_rank, opts.group_size, timeout, name, None, global_ranks
        )
    return PennyProcessGroup(opts.store, backend) if _is_alone(opts) else backend


def _is_alone(opts: Any) -> bool:
    """Tells whether Penny is the group's only backend and nothing has to observe each call (dispatch modes, for example)."""
    if get_debug_level() == DebugLevel.DETAIL:
        return False
    # Torch has told the group which backend its barriers use: that of an accelerator, if the group has one.
    return opts.process_group is None or opts.process_group._get_backend_name() == "custom"
