"""The backend `penny` of torch.distributed: each of torch's collectives as calls of the C interface."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch._C._distributed_c10d import Work

from torch import Tensor

from .._library import lib
from .calls import Call
from .reducing import ReducingGroup
from .tensors import Finish, joined, moved_as, sizes, source, split_back, target
from .work import DONE


class PennyBackend(ReducingGroup):
    """Collectives over Penny for the tensors of the CPU."""

    # --- from one to all, from all to one ---

    def broadcast(self, tensors: list[Tensor], opts: Any) -> Work:
        """Every rank's tensor becomes the root's."""
        root = self._arguments.root("broadcast", opts)
        check = self._arguments.refuse if self._rank == root else self._arguments.refuse_result
        check("broadcast", "tensor", tensors)
        calls: list[Call] = []
        finishes: list[Finish] = []
        keep = []
        for tensor in tensors:
            datatype, count = moved_as(tensor)
            buffer, finish = target(tensor)
            calls.append((lib.pennyBcast, (buffer.data_ptr(), count, datatype, root)))
            keep.append(buffer)
            if finish is not None and self._rank != root:
                finishes.append(finish)
        return self.submit("broadcast", calls, tensors, opts, finishes, keep)

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Work:
        """The root's list gets the input of each rank."""
        root = self._arguments.root("gather", opts)
        self._arguments.refuse("gather", "tensor", inputs)
        mine = source(inputs[0])
        datatype, count = moved_as(mine)
        finishes: list[Finish] = []
        whole, receive, pieces = None, None, []
        if self._rank == root:
            pieces = self._arguments.list_of("gather", "gather_list", outputs)
            self._arguments.refuse_result("gather", "gather_list", pieces)
            self._arguments.check_list("gather", "gather_list", pieces, mine, equal=True)
            whole, direct = joined(pieces, fill=False)
            receive = whole.data_ptr()
            if not direct:
                finishes.append(partial(split_back, pieces, whole))
        calls = [(lib.pennyGather, (mine.data_ptr(), receive, count, datatype, root))]
        return self.submit("gather", calls, pieces, opts, finishes, (mine, whole))

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> Work:
        """Each rank gets the tensor at its place of the root's list."""
        root = self._arguments.root("scatter", opts)
        self._arguments.refuse_result("scatter", "tensor", outputs)
        buffer, finish = target(outputs[0])
        datatype, count = moved_as(buffer)
        whole, send = None, None
        if self._rank == root:
            pieces = self._arguments.list_of("scatter", "scatter_list", inputs)
            self._arguments.check_list("scatter", "scatter_list", pieces, buffer, equal=True)
            whole, _ = joined(pieces, fill=True)
            send = whole.data_ptr()
        calls = [(lib.pennyScatter, (send, buffer.data_ptr(), count, datatype, root))]
        finishes = [] if finish is None else [finish]
        return self.submit("scatter", calls, outputs, opts, finishes, (whole, buffer))

    # --- from all to all ---

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Work:
        """Every rank's list gets the input of each rank."""
        return self._all_gather_lists("all_gather", outputs, inputs, opts)

    def allgather_coalesced(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> Work:
        """allgather of several tensors: the lists are by rank here, then by tensor."""
        by_tensor = [list(pieces) for pieces in zip(*outputs, strict=True)]
        return self._all_gather_lists("all_gather_coalesced", by_tensor, inputs, opts)

    def _all_gather_lists(
        self, operation: str, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any
    ) -> Work:
        calls: list[Call] = []
        finishes: list[Finish] = []
        keep: list[Any] = []
        self._arguments.refuse(operation, "tensor", inputs)
        for pieces, mine in zip(outputs, inputs, strict=True):
            self._arguments.refuse_result(operation, "tensor_list", pieces)
            self._arguments.check_list(operation, "tensor_list", pieces, mine)
            mine = source(mine)
            if len({piece.numel() for piece in pieces}) == 1:
                whole, direct = joined(pieces, fill=False)
                datatype, count = moved_as(mine)
                calls.append((lib.pennyAllGather, (mine.data_ptr(), whole.data_ptr(), count, datatype)))
                keep += (mine, whole)
                if not direct:
                    finishes.append(partial(split_back, pieces, whole))
                continue
            whole, direct = joined(pieces, fill=False)
            datatype, count = moved_as(mine)
            counts = sizes([moved_as(piece)[1] for piece in pieces])
            arguments = (mine.data_ptr(), count, whole.data_ptr(), counts, None, datatype)
            calls.append((lib.pennyAllGatherv, arguments))
            keep += (mine, whole)
            if not direct:
                finishes.append(partial(split_back, pieces, whole))
        return self.submit(
            operation, calls, [each for pieces in outputs for each in pieces], opts, finishes, keep
        )

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any) -> Work:
        """The output gets the inputs of all ranks, one behind the other."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Work:
        """all_gather_single of several tensors."""
        operation = "all_gather_into_tensor"
        calls: list[Call] = []
        finishes: list[Finish] = []
        keep: list[Any] = []
        self._arguments.refuse_result(operation, "output", outputs)
        self._arguments.refuse(operation, "input", inputs)
        for whole, mine in zip(outputs, inputs, strict=True):
            self._arguments.check_sizes(operation, "output", whole, "input", mine)
            mine = source(mine)
            datatype, count = moved_as(mine)
            buffer, finish = target(whole)
            calls.append((lib.pennyAllGather, (mine.data_ptr(), buffer.data_ptr(), count, datatype)))
            keep += (mine, buffer)
            if finish is not None:
                finishes.append(finish)
        return self.submit(operation, calls, outputs, opts, finishes, keep)

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any) -> Work:
        """Each rank sends the tensor at place r of its list to rank r."""
        self._arguments.refuse_result("all_to_all", "output_tensor_list", outputs)
        self._arguments.refuse("all_to_all", "input_tensor_list", inputs)
        self._arguments.check_length("all_to_all", "output_tensor_list", outputs)
        self._arguments.check_length("all_to_all", "input_tensor_list", inputs)
        finishes: list[Finish] = []
        keep: list[Any] = []
        calls: list[Call] = []
        for peer, (output, mine) in enumerate(zip(outputs, inputs, strict=True)):
            mine = source(mine)
            buffer, finish = target(output)
            calls += _exchange(peer, mine.data_ptr(), moved_as(mine), buffer.data_ptr(), moved_as(buffer))
            keep += (mine, buffer)
            if finish is not None:
                finishes.append(finish)
        return self.submit("all_to_all", calls, outputs, opts, finishes, keep)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_splits: Sequence[int],
        input_splits: Sequence[int],
        opts: Any,
    ) -> Work:
        """Each rank sends the r-th part of its input to rank r; the splits say how many rows each part has."""
        operation = "all_to_all_single"
        self._arguments.refuse_result(operation, "output", [output])
        self._arguments.refuse(operation, "input", [input])
        mine = source(input)
        buffer, finish = target(output)
        if not output_splits and not input_splits:
            self._arguments.check_divisible(operation, "input", mine)
            self._arguments.check_equal(operation, "input", mine, "output", buffer)
            datatype, count = moved_as(mine)
            arguments = (mine.data_ptr(), buffer.data_ptr(), count // self._size, datatype)
            calls: list[Call] = [(lib.pennyAlltoAll, arguments)]
        else:
            self._arguments.check_types(operation, "input", mine, "output", buffer)
            sent = sizes(self._arguments.parts(operation, "input", mine, input_splits))
            received = sizes(self._arguments.parts(operation, "output", buffer, output_splits))
            arguments_v = (mine.data_ptr(), sent, None, buffer.data_ptr(), received, None, moved_as(mine)[0])
            calls = [(lib.pennyAlltoAllv, arguments_v)]
        finishes = [] if finish is None else [finish]
        return self.submit(operation, calls, [output], opts, finishes, (mine, buffer))

    def barrier(self, opts: Any) -> Work:
        """Every rank has come here."""
        if opts.timeout.total_seconds() > 0 and not opts.asyncOp:
            opts.asyncOp = True
            self.submit("barrier", [(lib.pennyBarrier, ())], [], opts).wait()
            return DONE
        return self.submit("barrier", [(lib.pennyBarrier, ())], [], opts)

    # --- between two ranks ---

    def send(self, tensors: list[Tensor], peer: int, tag: int = 0, blocking: bool = False) -> Work:
        """Sends a tensor; the work is over when it may be written again."""
        self._arguments.refuse("send", "tensor", tensors)
        return self._channels.send(tensors[0], self._arguments.peer("send", "dst", peer), tag, blocking)

    def recv(self, tensors: list[Tensor], peer: int, tag: int = 0, blocking: bool = False) -> Work:
        """Receives a tensor."""
        self._arguments.refuse_result("recv", "tensor", tensors)
        return self._channels.receive(tensors[0], self._arguments.peer("recv", "src", peer), tag, blocking)

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0, blocking: bool = False) -> Work:
        """Receives a tensor from whichever rank sends first; the work tells which it was."""
        self._arguments.refuse_result("recv", "tensor", tensors)
        return self._channels.receive_from_any(tensors[0], tag, blocking)

    # Names that other versions of torch call the same operations by.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single


def _exchange(
    peer: int, send: int, sent: tuple[int, int], receive: int, received: tuple[int, int]
) -> list[Call]:
    """A send to a rank and a receive from it."""
    return [
        (lib.pennySend, (send, sent[1], sent[0], peer)),
        (lib.pennyRecv, (receive, received[1], received[0], peer)),
    ]
