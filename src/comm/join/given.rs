//! A communicator over a transport that a test has made, without a meeting.

use crate::comm::communicator::CommCore;
use crate::comm::config::Config;
use crate::comm::registry::{self, CommHandle};
use crate::comm::shared::Origin;
use crate::error::Result;
use crate::planner::Planner;
use crate::planner::select::Selection;
use crate::timing::Timing;
use crate::transport::Transport;
use std::sync::Arc;

/// Makes it, with the algorithms that `algo` asks for in the words of `PENNY_ALGO`.
pub fn over(transport: Arc<Transport>, algo: &str) -> Result<CommHandle> {
    let (rank, nranks) = (transport.rank(), transport.nranks());
    let handle = registry::reserve()?;
    let membership = transport.control().keep(rank)?;
    let planner = Planner::new(rank, nranks, Selection::parse(Some(algo), None)?);
    let planner = planner.on_hosts(transport.host_numbers());
    let world = (0..nranks).collect();
    let origin = Origin { config: Config::default(), parent_ranks: None, root: handle, world };
    let timing = Timing::new(transport, None, &origin.world);
    registry::fill(CommCore::new(handle, timing, membership, planner, rank, origin, Some(0)));
    Ok(handle)
}
