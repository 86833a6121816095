//! Registering buffers with a communicator, and ending that.

use super::registrations::Registration;
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::log;
use crate::memory::registered::{self, RegisterOutcome};
use crate::memory::view::Address;

impl CommCore {
    /// Lets peers reach a buffer where it lies. Its name for [`deregister`](CommCore::deregister); never 0.
    pub(in crate::comm) fn register(&mut self, buffer: Address<'static>, bytes: usize) -> Result<u64> {
        self.usable()?;
        let rank = self.rank();
        if bytes == 0 {
            return Ok(self.registered.add(None));
        }
        if buffer.is_null() {
            return Err(Error::argument(format!(
                "buff is NULL on rank {rank}; pass the start of {bytes} bytes of memory"
            )));
        }
        match registered::register(buffer, bytes)? {
            RegisterOutcome::Registered(share) => Ok(self.registered.add(Some(share))),
            RegisterOutcome::Reachable => Ok(self.registered.add(None)),
            RegisterOutcome::Declined(why) => {
                let at = buffer.get();
                log::info(
                    rank,
                    format_args!(
                        "the buffer at {at:#x} ({bytes} bytes) is not registered, calls copy: {why}"
                    ),
                );
                Ok(self.registered.add(None))
            }
        }
    }

    /// Ends a registration. 0: nothing.
    pub(in crate::comm) fn deregister(&mut self, handle: u64) -> Result<()> {
        self.shared.refuse_forked()?;
        if handle == 0 {
            return Ok(());
        }
        let (_, share) = self.registered.remove(handle).ok_or_else(|| {
            Registration::from_bits(handle).refusal(
                "handle",
                format_args!(
                    "handle {handle:#x} is not one that pennyCommRegister gave for comm on rank {}, or it was deregistered \
                     already",
                    self.rank()
                ),
            )
        })?;
        if let Some(share) = share {
            self.registered.release(share);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::comm::calls::collective::Call;
    use crate::comm::onesided::registrations::Registrations;
    use crate::comm::onesided::zero_copy::ZeroCopy;
    use crate::comm::{self, CommHandle};
    use crate::memory::registered::{self, RegisterOutcome};
    use crate::memory::view::Address;
    use crate::sys::process_memory::{self, Speed};
    use crate::transport::arrival::Offer;
    use crate::types::{Collective, DataType, RedOp};

    #[allow(unsafe_code)]
    fn address(of: &[f32]) -> Address<'static> {
        // SAFETY: the memory outlives what the tests do with its address.
        unsafe { Address::from_raw(of.as_ptr().cast()) }
    }

    fn all_reduce(input: &[f32], output: &[f32]) -> Call<'static> {
        Call {
            collective: Collective::AllReduce,
            send: address(input),
            recv: address(output),
            count: input.len(),
            dtype: DataType::Float32,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        }
    }

    fn offer(comm: CommHandle, call: &Call) -> Offer {
        crate::comm::registry::enter(comm, |c| {
            let checked = call.check(0, 2)?.expect("something to do");
            let offers = c.offers(call.collective, &checked);
            Ok(c.offer(call.collective, &checked, false, false, offers).0)
        })
        .unwrap()
    }

    #[test]
    fn registered_buffers_are_offered_where_they_lie_and_others_are_not() {
        let comms = comm::init_all(2).unwrap();
        let (input, output) = (vec![1f32; 50_000], vec![0f32; 50_000]);
        let call = all_reduce(&input, &output);
        assert_eq!(offer(comms[0], &call), Offer { payload: false, ..Offer::default() });
        let registered = comm::register(comms[0], address(&input), size_of_val(&input[..])).unwrap();
        let offered = offer(comms[0], &call);
        assert!(offered.input.is_some() && offered.output.is_none());
        // A registration serves the calls of its communicator only.
        assert_eq!(offer(comms[1], &call).input, None);
        comm::deregister(comms[0], registered).unwrap();
        assert_eq!(offer(comms[0], &call).input, None);
        comms.into_iter().for_each(|c| comm::destroy(c).unwrap());
    }

    #[test]
    fn buffers_below_the_limit_are_copied_though_peers_could_reach_them() {
        let from = 64 << 10;
        let registrations = Registrations::of(0, ZeroCopy::new(Some(from), true));
        let memory = comm::mem_alloc(256 << 10).unwrap();
        #[allow(unsafe_code)]
        // SAFETY: it is freed when all its views are out of use.
        let part = |bytes| unsafe { Address::from_raw(memory as *const u8) }.view(bytes);
        let (input, output) = (part(16 << 10), part(64 << 10).part(32 << 10, 32 << 10));
        for (vector, reached) in [(from - 1, false), (from, true)] {
            let offers = registrations.offers(Collective::AllReduce, [input, output], false, vector as u64);
            assert_eq!(offers, reached, "{vector} bytes");
            let [(input_at, _), (output_at, _)] = registrations.reach_both(input, output, false);
            assert!(input_at.is_some() && output_at.is_some());
        }
        assert_eq!(registrations.reach_message(part(from - 1), None), None);
        assert!(registrations.reach_message(part(from), None).is_some());
        comm::mem_free(memory).unwrap();
    }

    #[test]
    fn large_private_inputs_are_offered_where_the_kernel_lets_peers_read_them() {
        if !crate::sys::process_memory::may_read(std::process::id()) {
            return println!("SKIPPED: process_vm_readv is forbidden here");
        }
        let comms = comm::init_all(2).unwrap();
        let quick =
            crate::comm::registry::enter(comms[0], |c| Ok(c.transport.single_copy().reads())).unwrap();
        assert_eq!(quick, process_memory::speed() != Speed::Slow);
        let (input, output) = (vec![1f32; 50_000], vec![0f32; 50_000]);
        let to_all = |count| Call { collective: Collective::AlltoAll, count, ..all_reduce(&input, &output) };
        assert_eq!(offer(comms[0], &to_all(25_000)).private, quick);
        assert!(
            !offer(comms[0], &to_all(1_000)).private
                && !offer(comms[0], &all_reduce(&input, &output)).private
        );
        comms.into_iter().for_each(|c| comm::destroy(c).unwrap());
    }

    #[test]
    fn ranks_read_each_others_private_buffers() {
        use Collective::*;
        const RANKS: usize = 3;
        for (collective, in_place) in
            [AlltoAll, AllGather, Gather, Scatter].into_iter().flat_map(|c| [(c, false), (c, true)])
        {
            let comms = comm::init_all(RANKS as i32).unwrap();
            std::thread::scope(|scope| {
                for (rank, &comm) in comms.iter().enumerate() {
                    scope.spawn(move || {
                        let count = 12_345; // 49,380 bytes
                        let parts = |from: usize| match collective {
                            AlltoAll => (0..RANKS).map(|to| (10 * from + to) as f32).collect::<Vec<_>>(),
                            Scatter if from == 1 => (0..RANKS).map(|to| (10 + to) as f32).collect(),
                            Scatter => vec![],
                            _ => vec![from as f32],
                        };
                        let fill = |parts: Vec<f32>| -> Vec<f32> {
                            parts
                                .iter()
                                .flat_map(|&x| (0..count).map(move |i| x * 1000. + i as f32))
                                .collect()
                        };
                        for turn in 0..5 {
                            let (input, output) = (fill(parts(rank)), vec![0f32; RANKS * count]);
                            // In place, the input lies where the output's own block is, or is all of it.
                            let at = match collective {
                                AllGather | Gather => rank * count * size_of::<f32>(),
                                _ => 0,
                            };
                            let mut both = vec![0f32; RANKS * count];
                            both[at / 4..][..input.len()].copy_from_slice(&input);
                            let own = || if collective == Scatter { rank * count * 4 } else { 0 };
                            let is_root = rank == 1 || collective == AlltoAll || collective == AllGather;
                            let [send, recv] = match in_place && is_root {
                                true => [address(&both).at(at), address(&both).at(own())],
                                false => [address(&input), address(&output)],
                            };
                            let call = Call {
                                collective,
                                send,
                                recv,
                                count,
                                root: 1,
                                ..all_reduce(&input, &output)
                            };
                            comm::collective(comm, &call, None).unwrap();
                            let want = match collective {
                                AlltoAll => fill((0..RANKS).map(|from| (10 * from + rank) as f32).collect()),
                                Scatter => fill(vec![(10 + rank) as f32]),
                                Gather if rank != 1 => vec![],
                                _ => fill((0..RANKS).map(|from| from as f32).collect()),
                            };
                            let got = if in_place && is_root { &both[own() / 4..] } else { &output };
                            assert!(
                                got[..want.len()] == want,
                                "{collective} {in_place} rank {rank} turn {turn}"
                            );
                        }
                        comm::destroy(comm).unwrap();
                    });
                }
            });
        }
    }

    #[test]
    fn threads_that_are_ranks_reduce_into_each_others_registered_buffers() {
        for bytes in [20_000, 300_000, 2_000_000] {
            let comms = comm::init_all(3).unwrap();
            std::thread::scope(|scope| {
                for (rank, &comm) in comms.iter().enumerate() {
                    scope.spawn(move || {
                        let input: Vec<f32> = (0..bytes / 4).map(|i| (rank + i % 10) as f32).collect();
                        let output = vec![0f32; bytes / 4];
                        comm::register(comm, address(&input), bytes).unwrap();
                        comm::register(comm, address(&output), bytes).unwrap();
                        comm::collective(comm, &all_reduce(&input, &output), None).unwrap();
                        comm::destroy(comm).unwrap();
                        let right = |(i, &x): (usize, &f32)| x == (3 + 3 * (i % 10)) as f32;
                        assert!(output.iter().enumerate().all(right));
                    });
                }
            });
        }
    }

    #[test]
    fn a_communicator_that_is_aborted_leaves_private_memory_behind() {
        let comms = comm::init_all(2).unwrap();
        let memory = vec![5f32; 30_000];
        comm::register(comms[0], address(&memory), size_of_val(&memory[..])).unwrap();
        comm::abort(comms[0]).unwrap();
        comm::abort(comms[1]).unwrap();
        assert!(memory.iter().all(|&x| x == 5.0));
        let other = comm::init_all(1).unwrap();
        let again = registered::register(address(&memory), size_of_val(&memory[..])).unwrap();
        let RegisterOutcome::Registered(share) = again else { panic!("it is not private memory") };
        assert_eq!(share.release().unwrap().warning, None);
        comm::destroy(other[0]).unwrap();
    }
}
