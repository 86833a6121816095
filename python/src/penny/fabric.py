"""The declared machine that ranks stand on: its clock, what passed its ports, and how its time stands."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._enums import ChannelRole, SignalMode, Termination
from ._library import check, lib
from ._structs import FabricInfo, FabricPort, LinkChannel
from .buffers import Buffer
from .integers import word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .communicator import Communicator


@dataclass(frozen=True)
class Port:
    """The traffic of one port of the machine, for all ranks."""

    name: str
    bytes: int
    messages: int
    busy_picoseconds: int
    queue_high: int
    errors: int
    resends: int
    down_picoseconds: int


@dataclass(frozen=True)
class Account:
    """The machine, and how this rank's time on it stands. `trace` is equal for equal runs."""

    name: str
    hash: int
    places: int
    ports: int
    now_picoseconds: int
    calls: int
    trace: int
    late: int
    dilation: float
    slip: float
    needed_dilation: float
    valid: bool


@dataclass(frozen=True)
class ChannelEnd:
    """One end of a channel of the data mover, for `Fabric.run_channels`.

    data: a buffer with all messages one after the other; None for a sender that relays.
    relays: index in the list of the receiver whose messages this sender sends on, as they come.
    """

    role: ChannelRole
    peer: int
    data: Any = None
    messages: int = 1
    link: int = 0
    buffers: int = 0
    relays: int | None = None
    every_nanoseconds: int = 0


class Fabric:
    """The machine under a communicator: `comm.fabric`.

    Without a declared one every question is InvalidUsageError.
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm.handle

    def now(self) -> int:
        """This rank's clock in picoseconds: when its last call was done there, and what it declared since."""
        time = ctypes.c_uint64()
        check(lib.pennyFabricNow(self._comm, time), self._comm)
        return time.value

    def advance(self, nanoseconds: int) -> None:
        """Declares that this rank computes for `nanoseconds`: advances its clock."""
        check(lib.pennyFabricAdvance(self._comm, word("nanoseconds", nanoseconds)), self._comm)

    def advance_to(self, picoseconds: int) -> None:
        """Moves this rank's clock on to a time; does nothing if it is past it."""
        check(lib.pennyFabricAdvanceTo(self._comm, word("picoseconds", picoseconds)), self._comm)

    def account(self) -> Account:
        """The declared machine, and this rank's time on it."""
        info = FabricInfo()
        check(lib.pennyFabricInfo(self._comm, info), self._comm)
        return Account(
            info.name.decode(),
            info.hash,
            info.places,
            info.ports,
            info.nowPs,
            info.calls,
            info.trace,
            info.late,
            info.dilation,
            info.slip,
            info.neededDilation,
            bool(info.valid),
        )

    def counters(self) -> list[Port]:
        """The traffic of each port, as of the last moment at which no call was in progress."""
        count = ctypes.c_size_t()
        check(lib.pennyFabricCounters(self._comm, None, count), self._comm)
        ports = (FabricPort * count.value)()
        check(lib.pennyFabricCounters(self._comm, ports, count), self._comm)
        return [
            Port(
                port.name.decode(),
                port.bytes,
                port.messages,
                port.busyPs,
                port.queueHigh,
                port.errors,
                port.resends,
                port.downPs,
            )
            for port in ports
        ]

    def run_channels(
        self,
        ends: Sequence[ChannelEnd],
        *,
        signal: SignalMode = SignalMode.DEFAULT,
        termination: Termination = Termination.DEFAULT,
    ) -> list[tuple[int, int]]:
        """Runs channels of the data mover on the machine's links; every rank calls it with its ends, or with none.

        The k-th sender of a rank to a peer over a link and the peer's k-th receiver from it are one channel. Returns for each end
        when the first and the last message were where they are needed, in picoseconds of the machine's clock.
        """
        held = [None if end.data is None else Buffer(end.data) for end in ends]
        spans = [(0, 0) if buffer is None else buffer.resolved[:2] for buffer in held]
        channels = (LinkChannel * len(ends))()
        for end, channel, (address, nbytes) in zip(ends, channels, spans, strict=True):
            messages = word("messages", end.messages)
            if end.data is None and end.relays is not None and 0 <= end.relays < len(ends):
                nbytes = spans[end.relays][1]
            channel.role = end.role
            channel.peer, channel.link, channel.buffers = end.peer, end.link, end.buffers
            channel.messages, channel.bytes = messages, nbytes // max(messages, 1)
            channel.data = address or None
            channel.relays = -1 if end.relays is None else end.relays
            channel.everyNs = word("every_nanoseconds", end.every_nanoseconds)
        result = lib.pennyLinkChannelsRun(self._comm, signal, termination, channels, len(ends))
        check(result, self._comm)
        return [(channel.firstPs, channel.lastPs) for channel in channels]
