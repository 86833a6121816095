//! What only the inside can show: peers that are not written in Rust, and groups of the C interface.

use crate::comm::{self, Transfer};
use crate::memory::view::Address;
use crate::types::DataType;
use crate::{Group, Op};

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
