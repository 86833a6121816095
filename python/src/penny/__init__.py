"""Collective communication between processes, over shared memory within a host and TCP or libfabric between hosts.

    import numpy, penny

    with penny.init() as comm:                       # under penny run, torchrun, mpirun, srun
        values = numpy.full(3, comm.rank, "float32")
        comm.all_reduce(values)                      # in place; the sum over all ranks
        print(comm.rank, values)

A newcomer's way through the files: communicator.py (who belongs together), collectives.py (what they do),
buffers.py (with what), streams.py and groups.py (when), memory.py (where), and one file for each further
model of communication.
"""

from ._enums import (
    ChannelRole,
    Cmp,
    DataType,
    GroupKind,
    RedOp,
    Result,
    SemaphoreKind,
    SignalMode,
    SignalOp,
    Termination,
)
from ._errors import (
    InProgressError,
    InternalError,
    InvalidArgumentError,
    InvalidUsageError,
    PennyError,
    RemoteError,
    SystemError,
    TimeoutError,
)
from ._library import lib, version
from ._progress import set_progress
from .buffers import Buffer
from .communicator import Communicator, init, init_all, unique_id
from .fabric import Account, ChannelEnd, Fabric, Port
from .groups import group, simulate
from .mailbox import Idle, Key, Mailbox, MailboxAccount, Message, Receivers
from .memory import Registration, allocate, empty, zeros
from .semaphores import Copy, Semaphore, declare_mesh
from .streams import Event, Stream
from .symmetric_heap import HeapAccount, SymmetricArray, SymmetricHeap
from .windows import Signals, Window

__version__ = "0.1.0"
__all__ = [
    "Account",
    "Buffer",
    "ChannelEnd",
    "ChannelRole",
    "Cmp",
    "Communicator",
    "Copy",
    "DataType",
    "Event",
    "Fabric",
    "GroupKind",
    "HeapAccount",
    "Idle",
    "InProgressError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidUsageError",
    "Key",
    "Mailbox",
    "MailboxAccount",
    "Message",
    "PennyError",
    "Port",
    "Receivers",
    "RedOp",
    "Registration",
    "RemoteError",
    "Result",
    "Semaphore",
    "SemaphoreKind",
    "SignalMode",
    "SignalOp",
    "Signals",
    "Stream",
    "SymmetricArray",
    "SymmetricHeap",
    "SystemError",
    "Termination",
    "TimeoutError",
    "Window",
    "allocate",
    "declare_mesh",
    "empty",
    "group",
    "init",
    "init_all",
    "lib",
    "set_progress",
    "simulate",
    "unique_id",
    "version",
    "zeros",
]
