//! Two ranks over loopback, each of which polls when the test says so.

use super::testing::{Writes, is_there, transports};
use crate::kernels;
use crate::memory::control::LEFT;
use crate::memory::view::Payload;
use crate::sync::prim::Ordering;
use crate::transport::Transport;
use std::sync::Arc;

fn until(ranks: &[Arc<Transport>], done: impl Fn() -> bool) {
    for _ in 0..5_000_000 {
        if done() {
            return;
        }
        ranks.iter().for_each(|t| t.poll_far());
    }
    panic!("nothing has come");
}

#[test]
fn a_rank_hears_of_another_and_of_its_end() {
    if !is_there() {
        return;
    }
    for writes in [Writes::WithTrailers, Writes::Alone] {
        let ranks = transports(&[0, 1], writes, 60_000);
        until(&ranks, || ranks[0].joined(1) && ranks[1].joined(0));
        let mut words: Vec<u64> = (0..3000).collect();
        kernels::copy(ranks[0].staging(0, 64, 24_000), Payload::from(&mut words[..]), false);
        // A slot that is written, one that is sent, and the rank's end.
        ranks[0].send_slot(1, 64, 24_000, 7);
        ranks[0].send_slot(1, 64, 80, 8);
        ranks[0].leave();
        let life = ranks[1].lines(0).life(0);
        until(&ranks, || life.state.load(Ordering::Acquire) == LEFT);
        assert_eq!(ranks[1].lines(0).progress(0).counter.load(Ordering::Acquire), 8);
        let mut come = vec![0; 3000];
        kernels::copy(Payload::from(&mut come[..]), ranks[1].staging(0, 64, 24_000), false);
        assert!(come == words);
        ranks[0].note_far_death(1);
        let told = ranks[0].check_ranks([1].into_iter()).unwrap_err();
        assert!(told.message.contains("rank 1") && told.message.contains("died"), "{told}");
    }
}
