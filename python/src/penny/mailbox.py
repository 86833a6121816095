"""Mailboxes: one message to any set of threads of any rank, in one copy, and the end of all work."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._errors import InvalidArgumentError
from ._library import check, lib
from ._structs import MAILBOX_FLIT_BYTES, MailboxConfig, MailboxKeyEntry, MailboxMessage, MailboxStats
from .buffers import resolve
from .closing import ClosedByAll
from .integers import mask, number

if TYPE_CHECKING:
    from .communicator import Communicator


class Idle(IntEnum):
    """The results of `Mailbox.idle`: a message is here; all threads are idle; all are idle and have voted to end."""

    MESSAGE = 0
    ALL_IDLE = 1
    ALL_VOTED = 2


@dataclass(frozen=True)
class MailboxAccount:
    """What has gone through this rank's mailbox."""

    slots: int
    slots_free: int
    sent: int
    received: int
    written: int
    delivered: int
    bytes_written: int


@dataclass(frozen=True)
class Receivers:
    """The threads of one rank that a key stands for, and the number that the message tells them."""

    rank: int
    threads: Iterable[int]
    local_key: int = 0


class Message:
    """A message that was received. It lies in the mailbox until `free`, or the end of the `with` block.

    `data` is as long as the message, a multiple of 16 bytes, and read by all its receivers: do not write to
    it.
    """

    def __init__(self, mailbox: Mailbox, thread: int, found: MailboxMessage) -> None:
        self._mailbox = mailbox
        self._thread = thread
        self._address = found.data
        self.source_rank: int = found.sourceRank
        self.source_thread: int = found.sourceThread
        self.local_key: int = found.localKey
        length = found.flits * MAILBOX_FLIT_BYTES
        self.data = memoryview((ctypes.c_char * length).from_address(found.data)).toreadonly().cast("B")

    def free(self) -> None:
        """The thread is done with the message. Its bytes are gone for this thread."""
        self.data.release()
        self._mailbox._check(lib.pennyMailboxFree(self._mailbox._handle, self._thread, self._address))

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    def __enter__(self) -> Message:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()


class Mailbox(ClosedByAll):
    """This rank's mailbox, which serves up to 64 of its threads, and the way to the others'.

    Every rank makes one.

    Each thread passes its own number; all may call at once. A thread that others wait for to receive should
    send with `try_send`, and receive while that is False. In a `with` statement the mailboxes end with the
    block.

    threads: of this rank. slots: messages that it holds. slot_bytes: of a message at most, a multiple of 16,
    the same on all ranks.
    """

    def __init__(
        self,
        comm: Communicator,
        threads: int | None = None,
        *,
        slots: int | None = None,
        slot_bytes: int | None = None,
    ) -> None:
        self._comm = comm.handle
        given = {"threads": threads, "slots": slots, "slotBytes": slot_bytes}
        config = MailboxConfig(
            **{name: number(name, value) for name, value in given.items() if value is not None}
        )
        out = ctypes.c_void_p()
        check(lib.pennyMailboxCreate(self._comm, config, out), self._comm)
        self._handle = out.value
        self.slot_bytes = 64 if slot_bytes is None else slot_bytes

    def send(self, data: Any, rank: int, to: int | Iterable[int] = 0, *, thread: int = 0) -> None:
        """Sends bytes to a thread, or to several, of a rank's mailbox. Waits while that is full.

        They come as a multiple of 16 bytes, with zeros behind them.
        """
        slot = self._write("send", data, thread)
        self._check(lib.pennyMailboxMulticast(self._handle, number("rank", rank), *_masks(to), slot))

    def try_send(self, data: Any, rank: int, to: int | Iterable[int] = 0, *, thread: int = 0) -> bool:
        """The same without waiting: where it would wait, it does nothing and returns False."""
        slot = self._write("try_send", data, thread)
        sent = ctypes.c_int()
        self._check(lib.pennyMailboxTryMulticast(self._handle, number("rank", rank), *_masks(to), slot, sent))
        return bool(sent.value)

    def receive(self, *, thread: int = 0) -> Message:
        """The oldest message for a thread. Waits until there is one."""
        found = MailboxMessage()
        self._check(lib.pennyMailboxRecv(self._handle, number("thread", thread), found))
        return Message(self, thread, found)

    def try_receive(self, *, thread: int = 0) -> Message | None:
        """The oldest message for a thread, if there is one."""
        found, received = MailboxMessage(), ctypes.c_int()
        self._check(lib.pennyMailboxTryRecv(self._handle, number("thread", thread), found, received))
        return Message(self, thread, found) if received.value else None

    def can_send(self, rank: int, *, thread: int = 0) -> bool:
        """Could a message to a rank be sent without waiting? Others may take the place first."""
        can = ctypes.c_int()
        self._check(
            lib.pennyMailboxCanSend(self._handle, number("thread", thread), number("rank", rank), can)
        )
        return bool(can.value)

    def can_receive(self, *, thread: int = 0) -> bool:
        """Is there a message for the thread?"""
        can = ctypes.c_int()
        self._check(lib.pennyMailboxCanRecv(self._handle, number("thread", thread), can))
        return bool(can.value)

    def idle(self, vote: bool = False, *, thread: int = 0) -> Idle:
        """Waits for a message, or until all threads of all ranks are in this call and no message is left."""
        state = ctypes.c_int()
        self._check(lib.pennyMailboxIdle(self._handle, number("thread", thread), int(vote), state))
        return Idle(state.value)

    def key(self, receivers: Iterable[Receivers]) -> Key:
        """Programs a list of threads of any ranks, to send to all of them by one call."""
        wanted = list(receivers)
        entries = (MailboxKeyEntry * len(wanted))(
            *(
                MailboxKeyEntry(number("rank", to.rank), *_masks(to.threads), mask("local_key", to.local_key))
                for to in wanted
            )
        )
        made = ctypes.c_uint64()
        self._check(lib.pennyMailboxKeyCreate(self._handle, entries, len(wanted), made))
        return Key(self, made.value)

    def account(self) -> MailboxAccount:
        """What has gone through this rank's mailbox."""
        stats = MailboxStats()
        self._check(lib.pennyMailboxStats(self._handle, stats))
        return MailboxAccount(*(getattr(stats, name) for name, *_ in MailboxStats._fields_[3:]))

    def close(self) -> None:
        """Ends the mailboxes of all ranks, with what is in them. Every rank calls."""
        self._check(lib.pennyMailboxDestroy(self._handle))

    def _check(self, result: int) -> None:
        if result:
            check(result, self._comm)

    def _write(self, call: str, data: Any, thread: int) -> ctypes.c_void_p:
        """Writes a message into the thread's send slot and sets its length."""
        address, nbytes, _, _, _anchor = resolve(data)
        if nbytes > self.slot_bytes:
            raise InvalidArgumentError(
                f"{call}: a message of {nbytes} bytes does not fit into a slot of {self.slot_bytes}: "
                "make the mailbox with a larger slot_bytes, or send parts"
            )
        slot = ctypes.c_void_p()
        self._check(lib.pennyMailboxSendSlot(self._handle, number("thread", thread), slot))
        assert slot.value is not None
        flits = max(1, -(-nbytes // MAILBOX_FLIT_BYTES))
        self._check(lib.pennyMailboxSetLen(self._handle, number("thread", thread), flits))
        ctypes.memmove(slot.value, address, nbytes)
        ctypes.memset(slot.value + nbytes, 0, flits * MAILBOX_FLIT_BYTES - nbytes)
        return slot


class Key:
    """A list of receivers, made by `Mailbox.key`.

    It belongs to this rank's mailbox; all its threads may use it.
    """

    def __init__(self, mailbox: Mailbox, number: int) -> None:
        self._mailbox = mailbox
        self._number = number

    def send(self, data: Any, *, thread: int = 0) -> None:
        """Sends bytes to everybody that the key stands for. Waits while one of the mailboxes is full."""
        slot = self._mailbox._write("Key.send", data, thread)
        self._mailbox._check(lib.pennyMailboxKeySend(self._mailbox._handle, self._number, slot))

    def close(self) -> None:
        """Forgets the key. Messages that were sent by it arrive."""
        self._mailbox._check(lib.pennyMailboxKeyDestroy(self._mailbox._handle, self._number))


def _masks(threads: int | Iterable[int]) -> tuple[int, int]:
    """Threads as the two halves of a mask: 32 to 63, and 0 to 31."""
    bits = 0
    for thread in (threads,) if isinstance(threads, int) else threads:
        if not 0 <= thread < 64:
            raise InvalidArgumentError(f"to: {thread} is no thread of a mailbox; those are 0 to 63")
        bits |= 1 << thread
    return bits >> 32, bits & 0xFFFFFFFF
