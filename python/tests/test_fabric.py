"""Ranks on a declared machine: its clock, its counters, and what a group would take there."""

import numpy as np
import pytest

import penny
from on_ranks import on_ranks


@on_ranks(2, PENNY_FABRIC="dgx-h100")
def test_the_clock_tells_what_calls_take_on_the_machine(comm):
    fabric = comm.fabric
    comm.barrier()
    before = fabric.now()
    with penny.simulate() as priced:
        comm.all_reduce(np.zeros(1 << 16, "f4"))
    assert priced.picoseconds > 0 and priced.seconds == priced.picoseconds * 1e-12
    fabric.advance_to(fabric.now() + 10_000_000)
    comm.all_reduce(np.zeros(1 << 16, "f4"))
    assert fabric.now() > before + 10_000_000
    fabric.advance(nanoseconds=1_000_000)
    assert fabric.now() >= before + 1_000_000_000
    account = fabric.account()
    assert "dgx-h100" in account.name and account.places >= 2 and account.dilation == 0
    comm.barrier()
    ports = fabric.counters()
    assert len(ports) == account.ports
    assert sum(port.bytes for port in ports) > 1 << 16


def test_a_machine_is_named_when_a_communicator_is_made():
    with pytest.raises(penny.PennyError, match="no-such-machine"), penny.group():
        penny.init(1, 0, penny.unique_id(), fabric="no-such-machine")
    with penny.init(1, 0, penny.unique_id(), fabric="dgx-h100") as comm:
        assert comm.fabric.account().places == 8


def test_without_a_machine_there_is_no_clock():
    with penny.init_all(1)[0] as comm, pytest.raises(penny.InvalidUsageError, match="PENNY_FABRIC"):
        comm.fabric.now()


@on_ranks(2, PENNY_FABRIC="n300:mover=ethernet")
def test_channels_move_messages_at_the_time_of_their_packets(comm):
    other = 1 - comm.rank
    mine, theirs = np.full(3 * 1024, comm.rank + 1, "f4"), np.zeros(3 * 1024, "f4")
    ends = [
        penny.ChannelEnd(penny.ChannelRole.RECEIVER, other, theirs, messages=3),
        penny.ChannelEnd(penny.ChannelRole.SENDER, other, mine, messages=3),
    ]
    times = comm.fabric.run_channels(ends, signal=penny.SignalMode.SEPARATE)
    assert (theirs == other + 1).all()
    assert all(0 < first < last <= comm.fabric.now() for first, last in times)
    with pytest.raises(penny.InvalidUsageError, match="never receives"):
        comm.fabric.run_channels(ends[1:])
