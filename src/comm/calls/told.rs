//! What `PENNY_DEBUG=info` tells of a call.

use crate::log;
use crate::planner::NewChoice;
use crate::transport::arrival::Offer;
use crate::types::Rank;

/// Tells how a call is made about which the planner has newly decided.
#[cold]
pub(super) fn decided(rank: Rank, news: &NewChoice, offer: &Offer) {
    let way = match offer {
        Offer { payload: true, .. } => "the data travel with the announcement of the call",
        Offer { private: true, .. } => "peers read the private input through the kernel",
        Offer { input: Some(_), output: Some(_), .. } => "peers reach both buffers, nothing is staged",
        Offer { input: Some(_), .. } => "peers reach the input; the output is private",
        Offer { output: Some(_), .. } => "peers reach the output; the private input is staged",
        _ => "private buffers, staged through shared memory",
    };
    let NewChoice { collective, bytes, algorithm, by } = news;
    log::info(rank, format_args!("{collective} of {bytes} bytes by {algorithm}, says {by}; {way}"));
}
