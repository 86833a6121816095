"""The operations of the backend that reduce tensors."""

from __future__ import annotations

from typing import Any

from torch._C._autograd import _profiler_enabled as _profiling
from torch._C._distributed_c10d import Work

import torch
from torch import Tensor

from .._library import lib
from .calls import Call
from .errors import error_of
from .group import Group
from .reductions import SUM, factor, reduction
from .sparse import behind_view
from .tensors import REDUCED, Finish, joined, moved_as, reduced_as, sizes, source, target
from .work import DONE, PennyWork

_all_reduce = lib.pennyAllReduce
_SUM_NUMBER = 0


class ReducingGroup(Group):
    """A group with torch's operations that reduce: allreduce, reduce and reduce_scatter, with their variants."""

    def allreduce(self, tensors: list[Tensor], opts: Any) -> Work:
        """Every rank's tensor becomes the reduction of all."""
        tensor = tensors[0]
        # Most calls of most programs: one tensor, in one piece, is summed.
        number = REDUCED.get(tensor.dtype)
        if number is None or opts.reduceOp != SUM or len(tensors) > 1 or self._batch or _profiling():
            return self._all_reduce("all_reduce", tensors, opts)
        try:
            count = tensor.numel()
            address = tensor.data_ptr() if tensor.is_contiguous() and tensor.is_cpu and count > 1 else None
        except RuntimeError:
            # Sparse tensors have neither of these; what is wrong with them is said in one place.
            address = None
        if address is None:
            return self._all_reduce("all_reduce", tensors, opts)
        if opts.asyncOp:
            call = (_all_reduce, (address, address, count, number, _SUM_NUMBER))
            return self.queue("all_reduce", [call], tensors, opts, (), None)
        with self._lock:
            result = _all_reduce(address, address, count, number, _SUM_NUMBER, self._comm, None)
        if result:
            raise error_of(result, self._comm)
        return DONE

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any) -> Work:
        """allreduce of several tensors."""
        return self._all_reduce("all_reduce_coalesced", tensors, opts)

    def allreduce_sparse(self, tensors: list[Tensor], opts: Any) -> Work:
        """allreduce of a sparse tensor, by the name that torch calls it where a dispatcher finds the backend."""
        return self._all_reduce("all_reduce", tensors, opts)

    def _all_reduce_sparse(self, operation: str, tensor: Tensor, opts: Any) -> Work:
        """Every rank's sparse tensor becomes the sum of all, coalesced."""
        tensor = behind_view(tensor)
        self._sparse.check(operation, tensor, opts.reduceOp)
        mine = tensor.detach().coalesce()
        header = self._sparse.header(mine)
        headers = torch.empty(self._size, header.numel(), dtype=header.dtype)
        datatype, count = moved_as(header)
        calls: list[Call] = [(lib.pennyAllGather, (header.data_ptr(), headers.data_ptr(), count, datatype))]
        told = self.submit(operation, calls, [headers], opts, (), header)
        job = self._sparse.add_up(tensor, mine, headers, told.wait)
        if not opts.asyncOp and self._sparse.now(job):
            return DONE
        work = PennyWork(operation, self._sparse.submit(job), [tensor])
        if not opts.asyncOp:
            work.wait()
        return work

    def _all_reduce(self, operation: str, tensors: list[Tensor], opts: Any) -> Work:
        if any(isinstance(tensor, Tensor) and tensor.layout is torch.sparse_coo for tensor in tensors):
            if len(tensors) == 1 and self._batch is None:
                return self._all_reduce_sparse(operation, tensors[0], opts)
        self._arguments.refuse_result(operation, "tensor", tensors)
        calls: list[Call] = []
        finishes: list[Finish] = []
        keep = []
        op = opts.reduceOp
        for tensor in tensors:
            datatype, count = reduced_as(operation, tensor)
            buffer, finish = target(tensor)
            number, scaled = self._reduction(operation, op, buffer)
            if scaled is not buffer:
                buffer.copy_(scaled)
            address = buffer.data_ptr()
            calls.append((_all_reduce, (address, address, count, datatype, number)))
            keep.append(buffer)
            if finish is not None:
                finishes.append(finish)
        return self.submit(operation, calls, tensors, opts, finishes, keep)

    def reduce(self, tensors: list[Tensor], opts: Any) -> Work:
        """The root's tensor becomes the reduction of all; the others' stay as they are."""
        root = self._arguments.root("reduce", opts)
        check = self._arguments.refuse_result if self._rank == root else self._arguments.refuse
        check("reduce", "tensor", tensors)
        calls: list[Call] = []
        finishes: list[Finish] = []
        keep = []
        op = opts.reduceOp
        for tensor in tensors:
            datatype, count = reduced_as("reduce", tensor)
            if self._rank == root:
                buffer, finish = target(tensor)
                number, scaled = self._reduction("reduce", op, buffer)
                if scaled is not buffer:
                    buffer.copy_(scaled)
                if finish is not None:
                    finishes.append(finish)
                receive = buffer.data_ptr()
            else:
                number, buffer = self._reduction("reduce", op, source(tensor))
                receive = None
            calls.append((lib.pennyReduce, (buffer.data_ptr(), receive, count, datatype, number, root)))
            keep.append(buffer)
        return self.submit("reduce", calls, tensors, opts, finishes, keep)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Work:
        """Each rank gets the reduction of the tensors that all ranks have at its place of their lists."""
        calls: list[Call] = []
        finishes: list[Finish] = []
        keep: list[Any] = []
        for output, pieces in zip(outputs, inputs, strict=True):
            self._arguments.refuse_result("reduce_scatter", "output", [output])
            self._arguments.refuse("reduce_scatter", "input_list", pieces)
            self._arguments.check_list("reduce_scatter", "input_list", pieces, output)
            if len({piece.numel() for piece in pieces}) == 1:
                whole, _ = joined(pieces, fill=True)
                self._reduce_scatter("reduce_scatter", output, whole, opts, calls, finishes, keep)
            else:
                self._reduce_scatter_uneven(output, pieces, opts, calls, finishes, keep)
        return self.submit("reduce_scatter", calls, outputs, opts, finishes, keep)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any) -> Work:
        """Each rank gets its piece of the reduction of all inputs."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Work:
        """reduce_scatter_single of several tensors."""
        calls: list[Call] = []
        finishes: list[Finish] = []
        keep: list[Any] = []
        self._arguments.refuse_result("reduce_scatter_tensor", "output", outputs)
        self._arguments.refuse("reduce_scatter_tensor", "input", inputs)
        for output, whole in zip(outputs, inputs, strict=True):
            self._arguments.check_sizes("reduce_scatter_tensor", "input", whole, "output", output)
            self._reduce_scatter("reduce_scatter_tensor", output, source(whole), opts, calls, finishes, keep)
        return self.submit("reduce_scatter_tensor", calls, outputs, opts, finishes, keep)

    def _reduce_scatter(
        self,
        operation: str,
        output: Tensor,
        whole: Tensor,
        opts: Any,
        calls: list[Call],
        finishes: list[Finish],
        keep: list[Any],
    ) -> None:
        datatype, count = reduced_as(operation, output)
        number, whole = self._reduction(operation, opts.reduceOp, whole)
        buffer, finish = target(output)
        calls.append((lib.pennyReduceScatter, (whole.data_ptr(), buffer.data_ptr(), count, datatype, number)))
        keep += (whole, buffer)
        if finish is not None:
            finishes.append(finish)

    def _reduce_scatter_uneven(
        self,
        output: Tensor,
        pieces: list[Tensor],
        opts: Any,
        calls: list[Call],
        finishes: list[Finish],
        keep: list[Any],
    ) -> None:
        whole, _ = joined(pieces, fill=True)
        number, whole = self._reduction("reduce_scatter", opts.reduceOp, whole)
        datatype, _ = reduced_as("reduce_scatter", whole)
        buffer, finish = target(output)
        counts = sizes([reduced_as("reduce_scatter", piece)[1] for piece in pieces])
        arguments = (whole.data_ptr(), buffer.data_ptr(), counts, datatype, number)
        calls.append((lib.pennyReduceScatterv, arguments))
        keep += (whole, buffer)
        if finish is not None:
            finishes.append(finish)

    def _reduction(self, operation: str, op: Any, tensor: Tensor) -> tuple[int, Tensor]:
        """The library's number for a reduction of a tensor, and the tensor; a multiple of it where torch has to multiply."""
        number = reduction(operation, op, tensor.dtype)
        if op == SUM or factor(op) is None:
            return number, tensor
        if self._batch is None:
            self._scaled_sums.forget_oldest()
        scaled = self._scaled_sums.number(operation, op, tensor)
        if scaled is not None:
            return scaled, tensor
        return number, (tensor * factor(op)).to(tensor.dtype)

    # Names that other versions of torch call the same operations by.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
