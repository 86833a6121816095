//! What only the inside can show: peers that are not written in Rust, groups of the C interface, and the names in sentences.

use crate::comm::{self, Transfer};
use crate::memory::view::Address;
use crate::types::DataType;
use crate::{Code, Communicator, Comparison, Destination, Group, Grouping, Op, UniqueId};
use std::time::Duration;

#[test]
fn bytes_of_a_peer_that_are_no_bools_arrive_as_bools() {
    crate::on_threads(2, |comm| {
        if comm.rank() == 0 {
            let odd = [2u8, 0, 255];
            // SAFETY: a send only reads it.
            let buffer = unsafe { Address::of(&odd) };
            let (dtype, count) = (DataType::Bool, odd.len());
            for _ in 0..3 {
                let transfer = Transfer { send: true, buffer, count, dtype, peer: 1, of_collective: false };
                comm::transfer_now(comm.handle(), &transfer)?;
            }
            return Ok(());
        }
        let mut flags = [[false; 3]; 3];
        let [alone, grouped, streamed] = &mut flags;
        comm.recv(alone, 0)?;
        let mut group = Group::new();
        group.recv(&comm, grouped, 0)?;
        group.end()?;
        crate::streams(|scope| scope.stream()?.recv(&comm, streamed, 0))?;
        assert_eq!(flags.map(|three| three.map(u8::from)), [[1, 0, 1]; 3]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_group_of_the_c_interface_does_not_keep_a_borrowed_call() {
    crate::on_threads(2, |comm| {
        comm::group_start()?;
        let mut sum = [0];
        comm.all_reduce(&[1], &mut sum, Op::Sum)?;
        assert_eq!(sum, [2]);
        let part = comm.split(Some(0), 0)?.expect("a color was passed");
        part.barrier()?;
        comm::group_end()
    })
    .unwrap();
}

/// The sentence of a call that has to fail, which names nothing as C does.
#[track_caller]
fn sentence<T>(refused: crate::Result<T>) -> String {
    let sentence = refused.err().expect("the call is refused").to_string();
    let of_c = super::names::NAMES.iter().find(|(c, _)| sentence.contains(c));
    assert!(!sentence.contains("penny") && of_c.is_none(), "{sentence}");
    sentence
}

#[test]
fn a_refusal_names_the_argument_as_rust_does_and_the_number_that_was_passed() {
    const FAR: u32 = u32::MAX;
    assert_eq!(sentence(Communicator::init_all(FAR)), "ranks is 4294967295; it must be from 1 to 1024");
    let id = UniqueId::new().unwrap();
    let join = |rank, size| sentence(Communicator::builder().join(&id, rank, size));
    assert_eq!(join(0, FAR), "size is 4294967295; it must be from 1 to 1024");
    assert_eq!(join(FAR, 2), "rank 4294967295 is out of range: ranks are 0 to 1");
    crate::on_threads(2, |comm| {
        let (out, mut of, beyond) = ([1], [0], " 4294967295 is out of range: ranks are 0 to 1");
        for (name, refused) in [
            ("root", comm.broadcast(&mut of, FAR)),
            ("root", comm.reduce(&out, &mut of, Op::Sum, FAR)),
            ("to", comm.send(&out, FAR)),
            ("from", comm.recv(&mut of, FAR)),
            ("from", comm.send_recv(&out, 0, &mut of, FAR)),
            ("perm[1]", comm.permute(&out, &mut of, &[None, Some(FAR)])),
            ("excluded: rank", comm.shrink(&[FAR]).map(drop)),
        ] {
            assert_eq!(sentence(refused), format!("{name}{beyond}"));
        }
        assert!(sentence(comm.group(Grouping::Consecutive, FAR)).starts_with("size is 4294967295, which"));
        assert!(sentence(comm.shrink(&[comm.rank()])).contains("remain call Communicator::shrink"));
        let mailbox = comm.mailbox(1, 4, 16)?;
        assert_eq!(
            sentence(mailbox.thread(0).send(&[1], Destination::thread(FAR, 0))),
            format!("rank{beyond}")
        );
        assert_eq!(
            sentence(mailbox.thread(FAR).try_recv(&mut [])),
            "thread 4294967295 is not of this mailbox"
        );
        mailbox.destroy()?;
        let heap = comm.symmetric_heap()?;
        assert!(sentence(comm.symmetric_heap()).contains("one Communicator::symmetric_heap is enough"));
        assert_eq!(sentence(heap.vec::<u64>(1)?.put(0, &[1], FAR)), format!("rank{beyond}"));
        heap.finalize()
    })
    .unwrap();
}

#[test]
fn an_aborted_communicator_says_that_this_rank_has_aborted_it() {
    let comm = Communicator::init_all(1).unwrap().remove(0);
    comm.abort().unwrap();
    for refused in [comm.state().map(drop), comm.barrier(), comm.revoke(), comm.abort(), comm.destroy()] {
        let said = sentence(refused);
        assert!(said.contains("this rank has aborted it (Communicator::abort)"), "{said}");
    }
    // Its place, used again, is that of another communicator.
    let again = Communicator::init_all(1).unwrap().remove(0);
    assert_eq!(again.state().unwrap(), Code::Success);
    let handle = again.handle();
    again.destroy().unwrap();
    assert!(!comm::state(handle).unwrap_err().message.contains("aborted"));
}

#[test]
fn a_wait_of_the_only_rank_speaks_of_no_others() {
    let id = UniqueId::new().unwrap();
    let alone = Communicator::builder().timeout(Duration::from_millis(300)).join(&id, 0, 1).unwrap();
    let heap = alone.symmetric_heap().unwrap();
    let flag = heap.vec::<u64>(1).unwrap();
    let said = flag.wait_until(0, Comparison::Ge, 1).unwrap_err();
    assert!(said.code == Code::Timeout && !said.message.contains("others"), "{said}");
    assert!(
        said.message.ends_with("which only another thread of this rank could store: it is the only rank")
    );
}
