//! Teams: communicators of some ranks of another. Every collective serves them.

use std::ffi::c_int;

use crate::comm;
use crate::ffi::handle::{pennyComm_t, to_c};

c_api! {
    /// Makes a team of size ranks of parent: start, start + stride, and so on. All ranks of the parent call it with the
    /// same arguments. A team is a communicator: pennyAllReduce and all other collectives are its collectives,
    /// pennyCommDestroy ends it. Puts and gets name ranks by their number in the communicator that has the symmetric heap;
    /// see pennyShmemTeamTranslatePe.
    ///
    /// team: written on success; NULL for the ranks that are not in it. The call waits for the team, also where the parent's
    /// blocking is 0.
    fn pennyShmemTeamSplitStrided(
        parent: pennyComm_t,
        start: c_int,
        stride: c_int,
        size: c_int,
        #[out] team: *mut pennyComm_t,
    ) {
        let made = comm::team_split_strided(parent, start, stride, size)?;
        team.set(made.map_or(std::ptr::null_mut(), to_c))
    }

    /// Makes two teams for each rank of parent, whose ranks are laid out in rows of xrange: its row and its column. The
    /// last row may be shorter. All ranks of the parent call it, and it waits for the teams as pennyShmemTeamSplitStrided does.
    ///
    /// xaxis, yaxis: the row's and the column's team, written on success.
    fn pennyShmemTeamSplit2d(
        parent: pennyComm_t,
        xrange: c_int,
        #[out] xaxis: *mut pennyComm_t,
        #[out] yaxis: *mut pennyComm_t,
    ) {
        let (x, y) = comm::team_split_2d(parent, xrange)?;
        xaxis.set(to_c(x))?;
        yaxis.set(to_c(y))
    }

    /// Translates a rank's number src_pe in src_team to its number in dest_team. Both teams must come from one
    /// communicator, through any number of splits; that communicator counts as a team too.
    ///
    /// dest_pe: written on success; -1 if the rank is not in dest_team.
    fn pennyShmemTeamTranslatePe(
        src_team: pennyComm_t,
        src_pe: c_int,
        dest_team: pennyComm_t,
        #[out] dest_pe: *mut c_int,
    ) {
        dest_pe.set(comm::team_translate(src_team, src_pe, dest_team)?.map_or(-1, |pe| pe as c_int))
    }

    /// Waits until all ranks of the team have called it. Does not complete puts.
    fn pennyShmemTeamSync(team: pennyComm_t) {
        comm::shmem_barrier(team, false)
    }
}
