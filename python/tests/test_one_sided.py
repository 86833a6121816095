"""The symmetric heap, windows, semaphores and mailboxes between real processes."""

import numpy as np
import pytest

import penny
from on_ranks import on_ranks


@on_ranks(3)
def test_puts_gets_and_signals_reach_the_other_ranks(comm):
    me, n = comm.rank, comm.size
    right, left = (me + 1) % n, (me - 1) % n
    with penny.SymmetricHeap(comm) as heap:
        inbox, flag = heap.zeros((2, 4), "int32"), heap.zeros(1, "uint64")
        inbox.put_signal(np.full(4, me, "i4"), right, flag, 1, index=4)
        flag.wait_until("eq", 1)
        assert inbox.local.tolist() == [[0] * 4, [left] * 4]
        heap.barrier()
        assert inbox.get(np.empty(2, "i4"), right, index=6).tolist() == [me] * 2
        flag.signal(right, 5, penny.SignalOp.ADD)
        flag.wait_until("ge", 6)
        assert flag.test("eq", 6) and not flag.test("lt", 6)
        inbox.put(np.full(1, 9, "i4"), left)
        heap.fence()
        heap.quiet()
        heap.barrier()
        assert inbox.local[0, 0] == 9
        account = heap.account()
        assert account.blocks == 2 and account.bytes >= account.used + account.free
        inbox.free()
        flag.free()


@on_ranks(3)
def test_atomic_operations_count_what_every_rank_does(comm):
    with penny.SymmetricHeap(comm) as heap:
        counter = heap.zeros(3, "int64")
        tickets = [counter.fetch_add(0, 1) for _ in range(10)]
        assert tickets == sorted(tickets)
        counter.add(1, comm.rank, index=1)
        counter.fetch_or(2, 1 << comm.rank, index=2)
        heap.barrier()
        assert counter.fetch(0) == 30
        assert counter.fetch(1, index=1) == 3
        assert counter.fetch(2, index=2) == 7
        heap.barrier()
        if comm.rank == 0:
            assert counter.swap(2, -4, index=1) == 0
            assert counter.compare_swap(2, -4, 5, index=1) == -4
            assert counter.compare_swap(2, -4, 6, index=1) == 5
            assert counter.fetch_and(2, 3, index=2) == 7
            assert counter.fetch_xor(2, 1, index=2) == 3
            counter.set(2, 8)
        heap.barrier()
        if comm.rank == 2:
            assert counter.local.tolist() == [8, 5, 2]


@on_ranks(2)
def test_what_does_not_fit_into_a_symmetric_array_is_refused(comm):
    with penny.SymmetricHeap(comm) as heap:
        array, halves = heap.zeros(4, "float32"), heap.zeros(2, "bfloat16")
        with pytest.raises(
            penny.InvalidArgumentError, match=r"put: 3 elements of float32 do not fit.*at index 2"
        ):
            array.put(np.zeros(3, "f4"), 0, index=2)
        with pytest.raises(
            penny.InvalidArgumentError, match="elements of int32 do not fit into an array of 4 of float32"
        ):
            array.put(np.zeros(3, "i4"), 0)
        with pytest.raises(penny.InvalidArgumentError, match="index 4 is outside of an array of 4"):
            array.fetch(0, index=4)
        with pytest.raises(penny.InvalidArgumentError, match="recv is read-only"):
            array.get(b"four" * 4, 0)
        with pytest.raises(penny.InvalidArgumentError, match="bfloat16, of which single elements"):
            halves.fetch(0)
        with pytest.raises(penny.InvalidArgumentError, match="'about' is no comparison; those are eq"):
            array.wait_until("about", 1)
        with pytest.raises(penny.InvalidArgumentError, match="pe"):
            array.put(np.zeros(1, "f4"), 5)


@on_ranks(2)
def test_windows_take_what_peers_put_there(comm):
    peer = 1 - comm.rank
    inbox = penny.zeros(8)
    with comm.window(inbox) as window:
        window.put_signal(np.full(2, comm.rank + 1, "f4"), peer, offset=8)
        window.signal(peer, index=3)
        window.wait_signal(peer)
        window.wait_signal([penny.Signals(peer, index=3)])
        assert inbox.tolist() == [0, 0, 2 - comm.rank, 2 - comm.rank, 0, 0, 0, 0]
        comm.barrier()
        with pytest.raises(penny.InvalidArgumentError, match="pennyPutSignal"):
            window.put_signal(np.zeros(9, "f4"), peer)
        with penny.group():
            window.put_signal(np.full(1, 5, "f4"), peer)
            window.wait_signal(peer)
        assert inbox[0] == 5


@on_ranks(4)
def test_remote_copies_count_their_bytes_on_a_mesh(comm):
    row, column = divmod(comm.rank, 2)
    with penny.SymmetricHeap(comm) as heap:
        penny.declare_mesh(comm, (2, 2))
        target = heap.zeros(4)
        kind = penny.SemaphoreKind.DMA
        with penny.Semaphore(heap, kind, "sent") as sent, penny.Semaphore(heap, kind, "received") as received:
            neighbour = (row, 1 - column)
            copy = penny.Copy(np.full(4, comm.rank, "f4"), target, neighbour, received, sent).start()
            copy.wait()
            assert target.local.tolist() == [2 * row + 1 - column] * 4
            assert not copy.test()
            with pytest.raises(penny.InvalidArgumentError, match="copy of 20 bytes does not fit into the 16"):
                penny.Copy(np.zeros(5, "f4"), target, neighbour, received, sent)
        ready = penny.Semaphore.barrier(heap)
        ready.signal(comm.rank ^ 1, 2)
        ready.wait(1)
        assert ready.read() == 1
        ready.wait()
        heap.barrier()


@on_ranks(2)
def test_messages_reach_the_threads_they_are_for_and_work_ends_when_all_are_idle(comm):
    peer = 1 - comm.rank
    with penny.Mailbox(comm, threads=2, slots=8) as mailbox:
        assert mailbox.can_send(peer) and not mailbox.can_receive()
        comm.barrier()
        mailbox.send(b"to both", peer, to=(0, 1))
        for thread in (0, 1):
            with mailbox.receive(thread=thread) as message:
                assert bytes(message) == b"to both".ljust(16, b"\0")
                assert (message.source_rank, message.source_thread) == (peer, 0)
        assert mailbox.try_receive() is None
        assert mailbox.try_send(np.arange(4), comm.rank, to=1)
        message = mailbox.receive(thread=1)
        assert np.frombuffer(bytes(message), "i8").tolist() == [0, 1, 2, 3]
        message.free()
        with pytest.raises(penny.InvalidArgumentError, match="65 bytes does not fit into a slot of 64"):
            mailbox.send(bytes(65), peer)
        with pytest.raises(penny.InvalidArgumentError, match="64 is no thread of a mailbox"):
            mailbox.send(b"", peer, to=64)
        comm.barrier()
        key = mailbox.key([penny.Receivers(0, [0], local_key=10), penny.Receivers(1, [0, 1], local_key=11)])
        if comm.rank == 0:
            key.send(b"keyed")
        seen = 0
        for thread in (0, 1)[: 1 + comm.rank]:
            with mailbox.receive(thread=thread) as message:
                seen += message.local_key
        assert seen == (10, 22)[comm.rank]
        key.close()
        account = mailbox.account()
        assert account.slots == 8 and account.slots_free == 8
    with penny.Mailbox(comm) as mailbox:
        if comm.rank == 0:
            mailbox.send(b"work", 1)
        state = mailbox.idle(vote=True)
        if comm.rank == 1:
            assert state is penny.Idle.MESSAGE
            mailbox.receive().free()
            state = mailbox.idle(vote=True)
        assert state is penny.Idle.ALL_VOTED
