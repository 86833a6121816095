"""Sends and receives: a queue of its own for each sender, receiver and tag, so that none waits for another.

Torch's programs call isend and irecv in any order, so what one pair of ranks does must not hold up another. Each queue is
a communicator of two ranks that both ends make when they first need it; they meet over the store, in the queue's own
thread, so that isend never waits. A receive from any source looks at the queues of all senders (any_source.py).
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch._C._distributed_c10d import Work
from torch.distributed import DistBackendError

from torch import Tensor

from .._enums import DataType
from .._library import lib
from . import liveness, rendezvous
from .any_source import AnySource
from .calls import run
from .completion import Completion, Flag
from .errors import RemoteError, RendezvousError, error_of
from .lanes import Lane
from .tensors import Finish, source, target
from .work import DONE, PennyWork

_BYTE = int(DataType.UINT8)
_SHORTEST_NAP, _LONGEST_NAP = 0.0001, 0.01
# What the library says of a rank that has ended its part of a communicator, which is no failure of a receive from any source.
_HAS_LEFT = "has destroyed the communicator"


class Closed(DistBackendError):
    """The group was shut down while a send or a receive was waiting for its peer."""


class Channel:
    """The messages from one rank to another under one tag, from the view of one of the two."""

    def __init__(self, channels: Channels, sender: int, receiver: int, tag: int) -> None:
        self._channels = channels
        self._sender, self._receiver, self._tag = sender, receiver, tag
        self._sends = channels.rank == sender
        self._lane = Lane(f"{sender}>{receiver}/{tag}")
        self._lock = threading.Lock()
        self._comm = 0
        self._closed = False
        self.is_over = False

    def transfer(self, tensor: Tensor, finish: Finish | None) -> Completion:
        """Queues a transfer: a send at the sender, a receive at the receiver."""
        return self._lane.submit(self._job(tensor, finish))

    def transfer_now(self, tensor: Tensor, finish: Finish | None) -> bool:
        """Makes a transfer in the calling thread; False if others come before it."""
        return self._lane.now(self._job(tensor, finish))

    def _job(self, tensor: Tensor, finish: Finish | None) -> Callable[[], None]:
        # The sender is rank 0 of the channel's communicator, the receiver rank 1.
        function, peer = (lib.pennySend, 1) if self._sends else (lib.pennyRecv, 0)

        def job() -> None:
            if not self._comm:
                self._open(self._meet())
            run([(function, (tensor.data_ptr(), tensor.nbytes, _BYTE, peer))], self._comm)
            if finish is not None:
                finish()

        return job

    def take(self, tensor: Tensor, finish: Finish | None) -> bool:
        """Receives a message that has come already; False if there is none, or if other receives come before."""
        taken = False

        def job() -> None:
            nonlocal taken
            if self._has_message():
                run([(lib.pennyRecv, (tensor.data_ptr(), tensor.nbytes, _BYTE, 0))], self._comm)
                if finish is not None:
                    finish()
                taken = True

        # The message of a rank that has left may still be there, but no other comes.
        return bool(self._comm) and not self.is_over and self._lane.now(job) and taken

    def meet_if_offered(self) -> None:
        """Opens the receiver's end if the sender has come to the store."""

        def job() -> None:
            if not self._comm and self._channels.store.check([self._offer()]):
                self._open(self._meet())

        if not self._comm:
            self._lane.now(job)

    def is_open(self) -> bool:
        """Have its ends met?"""
        return bool(self._comm)

    def _has_message(self) -> bool:
        flag, count, datatype = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_int()
        result = lib.pennyProbe(0, self._comm, flag, count, datatype)
        if result:
            error = error_of(result, self._comm)
            if _HAS_LEFT not in str(error):
                # The library's numbers are those of the two ends: the sender is its rank 0.
                told = type(error)(
                    f"recv from any source, {self._name()}: rank {self._sender} cannot send: {error}"
                )
                told.result = error.result
                raise told
            self.is_over = True
            return False
        return bool(flag.value)

    def close(self) -> None:
        """Ends the channel. A transfer that is under way, because its other half has not come, fails."""
        with self._lock:
            self._closed = True
            busy = self._comm if not self._lane.is_idle() else 0
        if busy:
            lib.pennyCommAbort(busy)
        self._lane.close()
        if self._comm and not busy:
            lib.pennyCommDestroy(self._comm)

    def _open(self, comm: int) -> None:
        with self._lock:
            self._comm = comm
            if self._closed:
                raise Closed(f"{self._name()}: the process group is over")

    def _offer(self) -> str:
        return f"channel/{self._sender}>{self._receiver}/{self._tag}"

    def _name(self) -> str:
        return f"{self._channels.name}, from rank {self._sender} to {self._receiver} under tag {self._tag}"

    def _meet(self) -> int:
        """Both ends come to the store, then to the communicator: there none can be called back while it waits."""
        store, name = self._channels.store, self._name()
        offer = self._offer()
        answer = f"{offer}/answer"
        if self._sends:
            unique_id = rendezvous.new_id()
            store.set(offer, unique_id)
            store.add(f"offers/{self._receiver}", 1)
            self._await(
                answer, f"send on rank {self._sender}, {name}: rank {self._receiver} has not called recv"
            )
        else:
            self._await(
                offer, f"recv on rank {self._receiver}, {name}: rank {self._sender} has not called send"
            )
            unique_id = store.get(offer)
            store.set(answer, b"here")
        return rendezvous.connect(unique_id, 0 if self._sends else 1, 2, self._channels.timeout, name)

    def _await(self, key: str, complaint: str) -> None:
        """Waits for a key of the other end, without holding the store's connection meanwhile."""
        peer = self._receiver if self._sends else self._sender
        store, seconds = self._channels.store, self._channels.timeout.total_seconds()
        deadline = time.monotonic() + seconds
        nap = _SHORTEST_NAP
        while not store.check([key]):
            if self._closed:
                raise Closed(f"{complaint}, and the process group is over")
            if time.monotonic() > deadline:
                raise RendezvousError(f"{complaint} in {seconds:g} s")
            if self._channels.is_dead(peer):
                raise RemoteError(f"{complaint}, and will not: its process has died")
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)


class Channels:
    """All channels of a rank in one process group."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, name: str) -> None:
        self.rank = rank
        self.size = size
        self.timeout = timeout
        self.name = name
        self._group_store = store
        self._processes: dict[int, str] = {}
        store.set(f"process/{rank}", liveness.identity())
        self._own_store: Any = None
        self._lock = threading.Lock()
        self._channels: dict[tuple[int, int, int], Channel] = {}
        self._to_self: dict[int, Loopback] = {}
        self._from_any: dict[int, AnySource] = {}
        self._closed = False

    @property
    def store(self) -> Any:
        """A connection to the store that no other thread waits on."""
        with self._lock:
            if self._own_store is None:
                clone = getattr(self._group_store, "clone", None)
                self._own_store = self._group_store if clone is None else clone()
            return self._own_store

    def is_dead(self, rank: int) -> bool:
        """Has a rank's process ended?"""
        process = self._processes.get(rank)
        if process is None:
            key = f"process/{rank}"
            if not self.store.check([key]):
                return False
            process = self._processes[rank] = self.store.get(key).decode()
        return liveness.is_dead(process)

    def send(self, tensor: Tensor, peer: int, tag: int, blocking: bool) -> Work:
        """Sends; the work of a caller who blocks is over."""
        tensor = source(tensor)
        if peer == self.rank:
            return PennyWork("send", self._loopback(tag).send(tensor), [tensor])
        channel = self._channel(self.rank, peer, tag)
        if blocking and channel.transfer_now(tensor, None):
            return DONE
        return PennyWork("send", channel.transfer(tensor, None), [tensor])

    def receive(self, tensor: Tensor, peer: int, tag: int, blocking: bool) -> Work:
        """Receives; the work of a caller who blocks is over."""
        any_source = self._from_any.get(tag)
        if any_source is not None:
            held = any_source.hold(peer, lambda: self._receive(tensor, peer, tag))
            if held is not None:
                return PennyWork("recv", held, [tensor])
        if blocking and peer != self.rank:
            buffer, finish = target(tensor)
            if self._channel(peer, self.rank, tag).transfer_now(buffer, finish):
                return DONE
        return PennyWork("recv", self._receive(tensor, peer, tag), [tensor])

    def _receive(self, tensor: Tensor, peer: int, tag: int) -> Completion:
        if peer == self.rank:
            completion = self._loopback(tag).receive(tensor)
        else:
            buffer, finish = target(tensor)
            completion = self._channel(peer, self.rank, tag).transfer(buffer, finish)
        completion.source = peer
        return completion

    def receive_from_any(self, tensor: Tensor, tag: int, blocking: bool) -> Work:
        """Receives from whichever rank sends first. blocking: the caller waits for the work at once."""
        with self._lock:
            any_source = self._from_any.get(tag)
            if any_source is None:
                any_source = self._from_any[tag] = AnySource(self, tag)
        buffer, finish = target(tensor)
        return PennyWork("recv", any_source.receive(buffer, finish, blocking), [tensor])

    # --- what a receive from any source asks ---

    def take(self, peer: int, tag: int, buffer: Tensor, finish: Finish | None) -> bool:
        """Receives a message of a rank that has come already; False if there is none."""
        if peer != self.rank:
            channel = self._channels.get((peer, self.rank, tag))
            return channel is not None and channel.take(buffer, finish)
        taken = self._loopback(tag).take(buffer)
        if taken and finish is not None:
            finish()
        return taken

    def offers(self) -> int:
        """The number of channels to this rank that their senders have opened."""
        return int(self.store.add(f"offers/{self.rank}", 0))

    def meet_senders(self, tag: int) -> None:
        """Opens this rank's ends of the channels of a tag to whose other ends the senders have come."""
        for peer in self._others():
            self._channel(peer, self.rank, tag).meet_if_offered()

    def check_senders(self, tag: int, complaint: str) -> None:
        """Raises if no rank is left that could send, or if the group is over."""
        if self._closed:
            raise Closed(f"{complaint}: the process group is over")
        if self.size > 1 and not any(self._can_send(peer, tag) for peer in self._others()):
            raise RemoteError(f"{complaint}: no other rank is left that could send")

    def _can_send(self, peer: int, tag: int) -> bool:
        channel = self._channels.get((peer, self.rank, tag))
        if channel is not None and channel.is_open():
            # The library tells of deaths.
            return not channel.is_over
        return not self.is_dead(peer)

    def _others(self) -> list[int]:
        return [peer for peer in range(self.size) if peer != self.rank]

    def close(self) -> None:
        """Ends all channels."""
        self._closed = True
        for any_source in self._from_any.values():
            any_source.close()
        for channel in self._channels.values():
            channel.close()

    def _channel(self, sender: int, receiver: int, tag: int) -> Channel:
        key = (sender, receiver, tag)
        with self._lock:
            channel = self._channels.get(key)
            if channel is None:
                channel = self._channels[key] = Channel(self, *key)
            return channel

    def _loopback(self, tag: int) -> Loopback:
        with self._lock:
            return self._to_self.setdefault(tag, Loopback())


class Loopback:
    """The messages of a rank to itself under one tag: the n-th send meets the n-th receive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, Tensor, Flag]] = deque()

    def send(self, tensor: Tensor) -> Completion:
        """Meets the oldest receive, or waits for one."""
        return self._meet("send", tensor, lambda other: other.copy_(tensor))

    def receive(self, tensor: Tensor) -> Completion:
        """Meets the oldest send, or waits for one."""
        return self._meet("recv", tensor, lambda other: tensor.copy_(other))

    def take(self, tensor: Tensor) -> bool:
        """Meets the oldest send; False if none waits."""
        with self._lock:
            if not self._waiting or self._waiting[0][0] != "send":
                return False
        return self.receive(tensor).done()

    def _meet(self, half: str, tensor: Tensor, copy: Callable[[Tensor], object]) -> Completion:
        mine = Flag()
        with self._lock:
            if not self._waiting or self._waiting[0][0] == half:
                self._waiting.append((half, tensor, mine))
                return mine
            _, other, theirs = self._waiting.popleft()
        error = None
        try:
            copy(other)
        except RuntimeError as failure:
            error = failure
        theirs.end(error)
        mine.end(error)
        return mine
