//! Teams: OpenSHMEM's name for communicators of some ranks of another.
//!
//! ```text
//!     parent of 10, strided from 1 by 3, 3 ranks:    0 [1] 2 3 [4] 5 6 [7] 8 9
//!
//!     parent of 10, 2d with xrange 4:     0 1 2 3      x-teams are the rows, y-teams the columns;
//!                                         4 5 6 7      the last row may be short, and then so are some columns
//!                                         8 9
//! ```

use crate::comm;
use crate::comm::registry::{self, CommHandle};
use crate::error::{Error, Result};
use crate::types::Rank;

/// Makes the team of `size` ranks of `parent`, from `start` on, each `stride` after the one before; `None` for the others. All
/// ranks of the parent call with the same arguments.
pub fn team_split_strided(
    parent: CommHandle,
    start: i32,
    stride: i32,
    size: i32,
) -> Result<Option<CommHandle>> {
    let (rank, nranks) = (comm::user_rank(parent)? as i64, comm::count(parent)? as i64);
    let (start, stride, size) = (start as i64, stride as i64, size as i64);
    let last = start + stride * (size - 1);
    if size < 1 || (size > 1 && stride == 0) || !(0..nranks).contains(&start) || !(0..nranks).contains(&last)
    {
        return Err(Error::argument(format!(
            "start {start}, stride {stride}, size {size} are not ranks of the parent, which has {nranks}; the last would be \
             {last}"
        )));
    }
    let steps = if size == 1 { (rank == start).then_some(0) } else { along(rank - start, stride) };
    let key = steps.filter(|&k| k < size);
    comm::split_team(parent, key.map(|_| 0), key.unwrap_or(0) as i32)
}

fn along(distance: i64, stride: i64) -> Option<i64> {
    (distance % stride == 0 && distance / stride >= 0).then_some(distance / stride)
}

/// Makes the teams of the rank's row and of its column, where the ranks of `parent` are laid out in rows of `xrange`. All call.
pub fn team_split_2d(parent: CommHandle, xrange: i32) -> Result<(CommHandle, CommHandle)> {
    let (rank, nranks) = (comm::user_rank(parent)? as i32, comm::count(parent)? as i32);
    if xrange < 1 {
        return Err(Error::argument(format!("xrange is {xrange}; it is at least 1")));
    }
    let xrange = xrange.min(nranks);
    let none = || Error::internal("a rank is in no row or column");
    let x = comm::split_team(parent, Some(rank / xrange), rank % xrange)?.ok_or_else(none)?;
    match comm::split_team(parent, Some(rank % xrange), rank / xrange) {
        Ok(y) => Ok((x, y.ok_or_else(none)?)),
        Err(e) => {
            let _ = comm::destroy(x);
            Err(e)
        }
    }
}

/// Returns the rank in `dest` of who is `rank` in `source`; `None` if it is not in it. Both go back to one communicator.
pub fn team_translate(source: CommHandle, rank: i32, dest: CommHandle) -> Result<Option<Rank>> {
    let (source, dest) = (registry::shared(source)?, registry::shared(dest)?);
    let nranks = source.transport.nranks();
    if !(0..nranks as i32).contains(&rank) {
        return Err(Error::no_rank("src_pe", rank, nranks));
    }
    if source.origin.root != dest.origin.root {
        return Err(Error::usage(
            "the two teams do not come from one communicator, so their ranks have nothing to do with each other",
        ));
    }
    let there = source.origin.world[rank as usize];
    Ok(dest.origin.world.iter().position(|&r| r == there).map(|r| r as Rank))
}
