//! The last step of joining: each rank announces itself in the segment that it has mapped, and waits until all have.

use crate::bootstrap::StopCheck;
use crate::error::{Error, Result};
use crate::sync::prim::Ordering;
use crate::sys::process::Card;
use crate::transport::Transport;
use crate::types::Rank;

/// Announces this rank and waits until all are there. `watch`: a check besides that of the ranks. `why`: finds a better error where
/// a rank has only said that it gave up.
pub(super) fn attach(
    t: &Transport,
    card: Card,
    watch: StopCheck<'_>,
    why: &dyn Fn(Error) -> Error,
) -> Result<()> {
    let (rank, header) = (t.rank(), t.control().header());
    t.live(card.pid, card.start);
    if t.is_first_of_its_host() {
        t.control().announce();
    }
    header.attached.fetch_add(1, Ordering::AcqRel);
    die_point!(88 "attach_counted");
    t.after_post();
    let others = || (0..t.nranks()).filter(|&r| r != rank);
    let near = t.near_ranks();
    let far_there = || others().all(|r| !t.is_far(r) || t.joined(r));
    let all_there = || header.attached.load(Ordering::Acquire) >= near && far_there();
    t.wait_watching(
        t.deadline(),
        all_there,
        || {
            // A rank that has left saw all the others first; what they told may still be on its way from another host.
            let well = watch().and_then(|()| t.check_far()).and_then(|()| t.watch_not_lost(others()));
            // A rank that has seen all the others may leave at once.
            if all_there() {
                return Ok(());
            }
            well.map_err(|e| if t.has_given_up(others()) { why(e) } else { e })
        },
        || {
            let missing: Vec<Rank> = others().filter(|&r| !t.joined(r)).collect();
            Error::timeout(format!("ranks did not finish joining: {}", t.who(&missing)))
        },
    )
}
