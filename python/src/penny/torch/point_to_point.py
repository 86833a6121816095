"""Sends and receives: a queue of its own for each sender, receiver and tag, so that none waits for another.

Torch's programs call isend and irecv in any order, so what one pair of ranks does must not hold up another. Each queue is
a communicator of two ranks that both ends make when they first need it; they meet over the store, in the queue's own
thread, so that isend never waits.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch import Tensor

from .._enums import DataType
from .._library import lib
from . import rendezvous
from .calls import run
from .completion import Completion, Flag
from .errors import RendezvousError
from .lanes import Lane
from .tensors import Finish, source, target
from .work import PennyWork

_BYTE = int(DataType.UINT8)
_SHORTEST_NAP, _LONGEST_NAP = 0.0001, 0.01


class Closed(RuntimeError):
    """The group was shut down while a send or a receive was waiting for its peer."""


class Channel:
    """What one rank sends another under one tag, as one of the two sees it."""

    def __init__(self, channels: Channels, sender: int, receiver: int, tag: int) -> None:
        self._channels = channels
        self._sender, self._receiver, self._tag = sender, receiver, tag
        self._comm = 0
        self._lane = Lane(f"{sender}>{receiver}/{tag}")

    def transfer(self, tensor: Tensor, finish: Finish | None = None) -> Completion:
        """Queues a transfer: a send at the sender, a receive at the receiver."""
        function, peer = (lib.pennySend, 1) if self._channels.rank == self._sender else (lib.pennyRecv, 0)

        def job() -> None:
            if not self._comm:
                self._comm = self._meet()
            run([(function, (tensor.data_ptr(), tensor.nbytes, _BYTE, peer))], self._comm)
            if finish is not None:
                finish()

        return self._lane.submit(job)

    def close(self) -> None:
        """Ends the channel after what is queued."""
        self._lane.close()
        if self._comm:
            lib.pennyCommDestroy(self._comm)

    def abort(self) -> None:
        """Ends what is under way with an error."""
        if self._comm:
            lib.pennyCommAbort(self._comm)

    def _meet(self) -> int:
        channels = self._channels
        key = f"channel/{self._sender}>{self._receiver}/{self._tag}"
        name = f"{channels.name}, from rank {self._sender} to {self._receiver} under tag {self._tag}"
        if channels.rank == self._sender:
            unique_id = rendezvous.new_id()
            channels.store.set(key, unique_id)
        else:
            channels.await_key(key, f"{name}: the sender has not sent")
            unique_id = channels.store.get(key)
        place = 0 if channels.rank == self._sender else 1
        return rendezvous.connect(unique_id, place, 2, channels.timeout, name)


class Channels:
    """All channels of a rank in one process group."""

    def __init__(self, store: Any, rank: int, timeout: timedelta, name: str) -> None:
        self.rank = rank
        self.timeout = timeout
        self.name = name
        self._group_store = store
        self._own_store: Any = None
        self._lock = threading.Lock()
        self._channels: dict[tuple[int, int, int], Channel] = {}
        self._to_self: dict[int, Loopback] = {}
        self._closed = False

    @property
    def store(self) -> Any:
        """A connection to the store that no other thread waits on."""
        with self._lock:
            if self._own_store is None:
                clone = getattr(self._group_store, "clone", None)
                self._own_store = self._group_store if clone is None else clone()
            return self._own_store

    def send(self, tensor: Tensor, peer: int, tag: int) -> PennyWork:
        """Queues a send."""
        tensor = source(tensor)
        if peer == self.rank:
            completion = self._loopback(tag).send(tensor)
        else:
            completion = self._channel(self.rank, peer, tag).transfer(tensor)
        return PennyWork("send", completion, [tensor])

    def receive(self, tensor: Tensor, peer: int, tag: int) -> PennyWork:
        """Queues a receive."""
        buffer, finish = target(tensor)
        if peer == self.rank:
            completion = self._loopback(tag).receive(tensor)
        else:
            completion = self._channel(peer, self.rank, tag).transfer(buffer, finish)
        return PennyWork("recv", completion, [tensor], source=peer)

    def await_key(self, key: str, complaint: str) -> None:
        """Waits for a key of the store, without holding the store's connection meanwhile."""
        deadline = time.monotonic() + self.timeout.total_seconds()
        nap = _SHORTEST_NAP
        while not self.store.check([key]):
            if self._closed:
                raise Closed(f"{complaint}, and the process group is over")
            if time.monotonic() > deadline:
                raise RendezvousError(f"{complaint} in {self.timeout.total_seconds():g} s")
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)

    def close(self) -> None:
        """Ends all channels after what is queued."""
        self._closed = True
        for channel in self._channels.values():
            channel.close()

    def abort(self) -> None:
        """Ends what is under way with an error."""
        self._closed = True
        for channel in self._channels.values():
            with contextlib.suppress(RuntimeError):
                channel.abort()

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
    """What a rank sends itself under one tag: the n-th send meets the n-th receive."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, Tensor, Flag]] = deque()

    def send(self, tensor: Tensor) -> Completion:
        """Meets the oldest receive, or waits for one."""
        return self._meet("send", tensor, lambda other: other.copy_(tensor))

    def receive(self, tensor: Tensor) -> Completion:
        """Meets the oldest send, or waits for one."""
        return self._meet("recv", tensor, lambda other: tensor.copy_(other))

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
