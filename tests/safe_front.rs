//! The Rust front from outside, in a crate that has no unsafe code: right results, errors for wrong calls, and no crash.

#![forbid(unsafe_code)]

use penny::{
    Bf16, Code, Collective, Communicator, Comparison, DataType, Destination, Element, Error, F16, Group,
    Grouping, Op, Reduction, Rest, SharedVec, UniqueId, on_threads,
};
use std::time::Duration;

/// The code of a call that has to fail.
#[track_caller]
fn refused<T>(result: Result<T, Error>) -> Code {
    result.err().expect("the call is refused").code
}

#[test]
fn every_collective_gives_what_its_documentation_says() {
    on_threads(3, |comm| {
        let (me, n) = (comm.rank(), comm.size());
        let mine = [me + 1, 10 * (me + 1)];
        let mut two = [0; 2];
        comm.all_reduce(&mine, &mut two, Op::Sum)?;
        assert_eq!(two, [6, 60]);
        let mut data = mine;
        comm.all_reduce_in_place(&mut data, Op::Max)?;
        assert_eq!(data, [3, 30]);
        let mut at_root = vec![0; if me == 2 { 2 } else { 0 }];
        comm.reduce(&mine, &mut at_root, Op::Prod, 2)?;
        assert!(me != 2 || at_root == [6, 6000]);
        let mut data = mine;
        comm.reduce_in_place(&mut data, Op::Sum, 1)?;
        assert_eq!(data, if me == 1 { [6, 60] } else { mine });
        let mut data = mine;
        comm.broadcast(&mut data, 1)?;
        assert_eq!(data, [2, 20]);
        let mut all = vec![0; if me == 0 { 6 } else { 0 }];
        comm.gather(&mine, &mut all, 0)?;
        assert!(me != 0 || all == [1, 10, 2, 20, 3, 30]);
        let mut one = [0];
        comm.scatter(&[7, 8, 9][..if me == 0 { 3 } else { 0 }], &mut one, 0)?;
        assert_eq!(one, [7 + me]);
        let mut all = [0; 6];
        comm.all_gather(&mine, &mut all)?;
        assert_eq!(all, [1, 10, 2, 20, 3, 30]);
        let mut all = [0; 3];
        all[me as usize] = me + 5;
        comm.all_gather_in_place(&mut all)?;
        assert_eq!(all, [5, 6, 7]);
        comm.reduce_scatter(&[me, me + 1, me + 2], &mut one, Op::Sum)?;
        assert_eq!(one, [3 + 3 * me]);
        let mut data = [me, me + 1, me + 2];
        comm.reduce_scatter_in_place(&mut data, Op::Sum)?;
        assert_eq!(data[me as usize], 3 + 3 * me);
        let mut padded = [9; 2];
        comm.reduce_scatter_padded(&[1u32, 2, 3, 4], &mut padded, Op::Sum)?;
        assert_eq!(padded, [[3, 6], [9, 12], [0, 0]][me as usize]);
        let mut all = [0; 3];
        comm.all_to_all(&[10 * me, 10 * me + 1, 10 * me + 2], &mut all)?;
        assert_eq!(all, [me, 10 + me, 20 + me]);
        comm.all_to_all_in_place(&mut all)?;
        assert_eq!(all, [10 * me, 10 * me + 1, 10 * me + 2]);
        comm.permute(&[me + 1], &mut one, &[Some(1), Some(0), None])?;
        assert_eq!(one, [[2], [1], [0]][me as usize]);
        comm.barrier()?;
        assert_eq!((n, comm.state()?), (3, Code::Success));
        comm.destroy()
    })
    .unwrap();
}

#[test]
fn all_types_reduce_and_bools_stay_bools() {
    fn sum_of_two<T: Element + PartialEq + std::fmt::Debug>(comm: &Communicator, one: T, two: T) {
        let mut sum = [one];
        comm.all_reduce(&[one], &mut sum, Op::Sum).unwrap();
        assert_eq!(sum, [two]);
    }
    on_threads(2, |comm| {
        sum_of_two(&comm, 1i8, 2);
        sum_of_two(&comm, 1u8, 2);
        sum_of_two(&comm, 1i16, 2);
        sum_of_two(&comm, 1u16, 2);
        sum_of_two(&comm, 1i64, 2);
        sum_of_two(&comm, 1f32, 2.0);
        sum_of_two(&comm, 1f64, 2.0);
        sum_of_two(&comm, F16::from_bits(0x3c00), F16::from_bits(0x4000));
        sum_of_two(&comm, Bf16::from_bits(0x3f80), Bf16::from_bits(0x4000));
        let mut any = [false; 2];
        comm.all_reduce(&[comm.rank() == 1, false], &mut any, Op::LogicalOr)?;
        assert_eq!(any, [true, false]);
        assert_eq!(refused(comm.all_reduce(&[true], &mut [false], Op::Sum)), Code::InvalidArgument);
        // What is no bool never becomes one: who sends another type is refused, here or at the other end.
        match comm.rank() {
            0 => drop(comm.send(&[2u8, 255], 1)),
            _ => assert_eq!(refused(comm.recv(&mut any, 0)), Code::InvalidUsage),
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn buffers_of_wrong_lengths_are_refused_before_anything_is_touched() {
    let comm = Communicator::init_all(1).unwrap().remove(0);
    let (long, mut short) = ([1u64; 1000], [5u64; 1]);
    let argument = Code::InvalidArgument;
    assert_eq!(refused(comm.all_reduce(&long, &mut short, Op::Sum)), argument);
    assert_eq!(refused(comm.reduce(&long, &mut short, Op::Sum, 0)), argument);
    assert_eq!(refused(comm.gather(&long, &mut short, 0)), argument);
    assert_eq!(refused(comm.scatter(&long, &mut short, 0)), argument);
    assert_eq!(refused(comm.all_gather(&long, &mut short)), argument);
    assert_eq!(refused(comm.reduce_scatter(&long, &mut short, Op::Sum)), argument);
    assert_eq!(refused(comm.reduce_scatter_padded(&long, &mut short, Op::Sum)), argument);
    assert_eq!(refused(comm.all_to_all(&long, &mut short)), argument);
    assert_eq!(refused(comm.permute(&long, &mut short, &[Some(0)])), argument);
    for root in [1, u32::MAX] {
        assert_eq!(refused(comm.broadcast(&mut short, root)), argument);
        assert_eq!(refused(comm.send(&short, root)), argument);
    }
    assert_eq!(refused(comm.send(&short, 0)), Code::InvalidUsage);
    assert_eq!(short, [5]);
    // Nothing was broken by it, and empty buffers are no calls.
    comm.all_reduce::<f32>(&[], &mut [], Op::Sum).unwrap();
    comm.all_reduce_in_place(&mut short, Op::Sum).unwrap();
    assert_eq!(short, [5]);
}

#[test]
fn a_group_that_is_forgotten_or_refused_makes_no_call() {
    on_threads(2, |comm| {
        let other = 1 - comm.rank();
        let (mine, mut theirs) = ([comm.rank(); 4], [9; 4]);
        let mut forgotten = Group::new();
        forgotten.recv(&comm, &mut theirs, other)?;
        std::mem::forget(forgotten);
        assert_eq!(theirs, [9; 4]);
        let mut dropped = Group::new();
        dropped.recv(&comm, &mut theirs, other)?;
        drop(dropped);
        let mut refusing = Group::new();
        refusing.send(&comm, &mine, other)?;
        assert_eq!(refused(refusing.send(&comm, &mine, 7)), Code::InvalidArgument);
        assert_eq!(refused(refusing.end()), Code::InvalidArgument);
        let mut sum = [0; 4];
        let mut group = Group::new();
        group.send(&comm, &mine, other)?;
        group.recv(&comm, &mut theirs, other)?;
        group.all_reduce(&comm, &mine, &mut sum, Op::Sum)?;
        group.barrier(&comm)?;
        group.end()?;
        assert_eq!((theirs, sum), ([other; 4], [1; 4]));
        Ok(())
    })
    .unwrap();
}

#[test]
fn streams_are_over_when_their_scope_is_even_if_it_fails() {
    on_threads(2, |comm| {
        let mine = vec![comm.rank() + 1; 50_000];
        let (mut sum, mut most, mut flags) = (vec![0; 50_000], vec![0; 50_000], [comm.rank() == 0; 3]);
        let order = std::sync::Mutex::new(Vec::new());
        let failed: Result<(), Error> = penny::streams(|scope| {
            let (one, two) = (scope.stream()?, scope.stream()?);
            one.all_reduce(&comm, &mine, &mut sum, Op::Sum)?;
            one.run(|| order.lock().unwrap().push(1))?;
            let event = one.record()?;
            two.wait(&event)?;
            two.run(|| order.lock().unwrap().push(2))?;
            two.all_reduce(&comm, &mine, &mut most, Op::Max)?;
            two.broadcast(&comm, &mut flags, 0)?;
            event.synchronize()?;
            assert!(event.is_over()?);
            comm.send(&mine, 9) // fails
        });
        assert_eq!(refused(failed), Code::InvalidArgument);
        assert!(sum.iter().all(|&x| x == 3) && most.iter().all(|&x| x == 2) && flags == [true; 3]);
        assert_eq!(*order.lock().unwrap(), [1, 2]);
        let (mut all, mut sums, mut from) = ([0; 2], [0; 2], [0]);
        let me = [comm.rank()];
        let other = 1 - comm.rank();
        penny::streams(|scope| {
            let stream = scope.stream()?;
            let mut group = Group::new();
            group.all_gather(&comm, &me, &mut all)?;
            group.all_reduce(&comm, &[1, 2], &mut sums, Op::Sum)?;
            group.send(&comm, &me, other)?;
            group.recv(&comm, &mut from, other)?;
            group.end_on(&stream)?;
            stream.synchronize()?;
            assert!(stream.is_idle()?);
            Ok(())
        })?;
        assert_eq!((all, sums, from), ([0, 1], [2, 4], [other]));
        Ok(())
    })
    .unwrap();
}

#[test]
fn shareable_vectors_are_slices() {
    on_threads(2, |comm| {
        let mut data = SharedVec::copied(&vec![comm.rank() as f32 + 0.5; 300_000])?;
        let (left, right) = data.split_at_mut(150_000);
        comm.all_reduce(left, right, Op::Sum)?;
        assert!(right.iter().all(|&x| x == 2.0));
        assert_eq!(SharedVec::<u8>::zeroed(0)?.len(), 0);
        assert_eq!(refused(SharedVec::<u64>::zeroed(usize::MAX)), Code::InvalidArgument);
        Ok(())
    })
    .unwrap();
}

#[test]
fn symmetric_vectors_are_reached_by_offset_and_never_outside() {
    on_threads(2, |comm| {
        let heap = comm.symmetric_heap()?;
        let (data, count) = (heap.vec::<u16>(100)?, heap.vec::<u32>(2)?);
        let other = 1 - comm.rank();
        data.put(90, &[comm.rank() as u16; 10], other)?;
        count.fetch(1, Reduction::Add, 1, other)?;
        assert_eq!(count.wait_until(1, Comparison::Eq, 1)?, 1);
        let mut end = [9; 10];
        data.get(90, &mut end, comm.rank())?;
        assert_eq!(end, [other as u16; 10]);
        for (at, len) in [(91, 10), (101, 0), (usize::MAX, 1), (0, 101)] {
            assert_eq!(refused(data.put(at, &vec![0; len], other)), Code::InvalidArgument);
            assert_eq!(refused(data.get(at, &mut vec![0; len], other)), Code::InvalidArgument);
        }
        assert_eq!(refused(data.put(0, &[1], 2)), Code::InvalidArgument);
        heap.barrier()?;
        assert_eq!(count.compare_swap(0, 0, 7 + other, comm.rank())?, 0);
        assert_eq!(count.load(0, comm.rank())?, 7 + other);
        data.free()?;
        heap.finalize()?;
        assert_eq!(refused(count.load(0, 0)), Code::InvalidUsage);
        // The next heap may lie where the first one lay.
        let heap = comm.symmetric_heap()?;
        let fresh = heap.vec::<u32>(2)?;
        assert_eq!(refused(count.fetch(0, Reduction::Add, 1, other)), Code::InvalidUsage);
        assert_eq!(refused(count.free()), Code::InvalidUsage);
        heap.barrier()?;
        assert_eq!(fresh.load(0, comm.rank())?, 0);
        fresh.free()?;
        heap.finalize()?;
        Ok(())
    })
    .unwrap();
}

#[test]
fn the_error_of_ranks_that_are_threads_is_the_cause() {
    let ended = on_threads(3, |comm| {
        if comm.rank() == 2 {
            comm.broadcast(&mut [1], 99)?;
        }
        comm.barrier()
    });
    let error = ended.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    assert!(format!("{error:?}").starts_with("InvalidArgument: root 99 is"), "{error:?}");
}

#[test]
fn mailboxes_copy_messages_and_refuse_what_does_not_fit() {
    on_threads(2, |comm| {
        let mailbox = comm.mailbox(2, 8, 32)?;
        let (me, other) = (mailbox.thread(0), 1 - comm.rank());
        assert_eq!(refused(me.send(&[0; 33], Destination::thread(other, 0))), Code::InvalidArgument);
        assert_eq!(refused(me.send(&[1], Destination::thread(other, 64))), Code::InvalidArgument);
        assert_eq!(refused(me.send(&[1], Destination::thread(5, 0))), Code::InvalidArgument);
        assert_eq!(refused(mailbox.thread(2).try_recv(&mut [])), Code::InvalidArgument);
        assert!(me.try_send(&[comm.rank() as u8; 20], Destination { rank: other, threads: 0b11 })?);
        let mut short = [9; 4];
        let received = me.recv(&mut short)?;
        assert_eq!((received.bytes, received.source_rank, short), (4, other, [other as u8; 4]));
        let mut long = [9; 64];
        let received = mailbox.thread(1).recv(&mut long)?;
        assert_eq!((received.bytes, &long[..20], long[63]), (32, &[other as u8; 20][..], 9));
        me.send(&[5], Destination::thread(other, 1))?;
        assert_eq!(mailbox.thread(1).recv(&mut long)?.bytes, 16);
        assert_eq!(
            long[..16],
            [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "nothing of the message before"
        );
        assert_eq!(me.try_recv(&mut long)?, None);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| mailbox.thread(1).idle(true));
            assert_eq!(me.idle(true).unwrap(), Rest::AllVoted);
            assert_eq!(second.join().unwrap().unwrap(), Rest::AllVoted);
        });
        mailbox.destroy()
    })
    .unwrap();
}

#[test]
fn communicators_of_some_ranks_outlive_their_parent() {
    on_threads(4, |comm| {
        let pair = comm.group(Grouping::Consecutive, 2)?;
        let none = comm.split(None, 0)?;
        assert!(none.is_none() && pair.parent_ranks()?.is_some_and(|ranks| ranks.contains(&comm.rank())));
        comm.destroy()?;
        let mut sum = [1u8];
        pair.all_reduce_in_place(&mut sum, Op::Sum)?;
        assert_eq!(sum, [2]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_rank_that_panics_ends_the_calls_of_the_others() {
    let caught = std::panic::catch_unwind(|| {
        on_threads(2, |comm| {
            assert!(comm.rank() == 0, "rank 1 gives up");
            assert_eq!(refused(comm.barrier()), Code::RemoteError);
            Ok(())
        })
    });
    let panic = caught.expect_err("rank 1's panic goes on");
    assert!(panic.downcast_ref::<&str>().is_some_and(|said| said.contains("rank 1 gives up")));
}

#[test]
fn an_abort_reaches_a_thread_that_is_inside() {
    let mut comms = Communicator::init_all(2).unwrap();
    let other = comms.pop().unwrap();
    let comm = comms.pop().unwrap();
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| comm.barrier());
        std::thread::sleep(Duration::from_millis(20));
        comm.abort().unwrap();
        // Inside, it is told of the abort; before it had come in, that the communicator is no more.
        assert!(matches!(refused(inside.join().unwrap()), Code::RemoteError | Code::InvalidArgument));
    });
    assert_eq!(refused(comm.barrier()), Code::InvalidArgument);
    assert_eq!(refused(other.barrier()), Code::RemoteError);
}

#[test]
fn errors_are_sentences_for_any_thread() {
    fn is_error<E: std::error::Error + Send + Sync + 'static>(_: &E) {}
    let error = Communicator::builder()
        .timeout(Duration::from_millis(50))
        .join(&UniqueId::new().unwrap(), 0, 2)
        .expect_err("rank 1 never comes");
    is_error(&error);
    assert_eq!(error.code, Code::Timeout);
    assert!(error.to_string().contains("rank"), "{error}");
    assert_eq!(refused(Communicator::builder().join(&UniqueId([0; 128]), 0, 1)), Code::InvalidArgument);
    assert_eq!(refused(Communicator::init_all(0)), Code::InvalidArgument);
    assert_eq!((Collective::AllReduce.name(), f64::DATATYPE), ("all_reduce", DataType::Float64));
}

#[test]
fn groups_and_streams_exchange_with_two_neighbours_at_once() {
    const MANY: usize = 1 << 20;
    on_threads(3, |comm| {
        let (right, left) = ((comm.rank() + 1) % 3, (comm.rank() + 2) % 3);
        let mine = vec![comm.rank(); MANY];
        let (mut grouped, mut streamed, mut own) = (vec![9; MANY], vec![9; MANY], [[9]; 2]);
        let [own_grouped, own_streamed] = &mut own;
        let mut group = Group::new();
        group.send_recv(&comm, &mine, right, &mut grouped, left)?;
        group.send_recv(&comm, &[7], comm.rank(), own_grouped, comm.rank())?;
        group.end()?;
        penny::streams(|scope| {
            let stream = scope.stream()?;
            stream.send_recv(&comm, &mine, left, &mut streamed, right)?;
            // Alone, each half of this one would be refused.
            stream.send_recv(&comm, &[7], comm.rank(), own_streamed, comm.rank())
        })?;
        assert_eq!((grouped, streamed, own), (vec![left; MANY], vec![right; MANY], [[7]; 2]));
        Ok(())
    })
    .unwrap();
}
