//! What a host program asks before it uses NCCL's device interface: the answer is that there is none, and that all ranks are on one host.

use crate::boundary::{argument, done, place};
use crate::records;
use crate::types::*;
use penny_sys as penny;
use std::ffi::c_int;

/// All ranks of a communicator.
fn world(comm: ncclComm_t) -> ncclTeam_t {
    ncclTeam_t { nRanks: records::ranks(comm), rank: records::rank(comm), stride: 1 }
}

/// The rank in the communicator of a rank of a team.
fn in_world(comm: ncclComm_t, team: ncclTeam_t, rank: c_int) -> c_int {
    let behind = rank.wrapping_sub(team.rank).wrapping_mul(team.stride);
    records::rank(comm).wrapping_add(behind)
}

/// What a team function returns where it cannot answer.
const NOBODY: ncclTeam_t = ncclTeam_t { nRanks: 0, rank: 0, stride: 0 };

nccl_api! {
    /// Reads what the communicator can do: collectives, transfers and puts of the host, nothing on a device.
    fn ncclCommQueryProperties, pncclCommQueryProperties(comm: ncclComm_t, props: *mut ncclCommProperties_t) {
        place(props, "props")?;
        // SAFETY: the caller's promise: a struct of any version begins with these.
        let head = unsafe { props.cast::<Head>().read_unaligned() };
        if head.magic != NCCL_API_MAGIC || head.size < size_of::<Head>() {
            return Err(argument("props has another magic or size; begin it with NCCL_COMM_PROPERTIES_INITIALIZER"));
        }
        let (mut nRanks, mut rank, mut cudaDev) = (0, 0, 0);
        // SAFETY: the places are local ones; Penny checks the handle.
        unsafe {
            done(penny::pennyCommCount(comm, &mut nRanks))?;
            done(penny::pennyCommUserRank(comm, &mut rank))?;
            done(penny::pennyCommDevice(comm, &mut cudaDev))?;
        }
        let told = ncclCommProperties_t {
            head,
            rank,
            nRanks,
            cudaDev: records::device(comm).unwrap_or(cudaDev),
            nvmlDev: records::device(comm).unwrap_or(cudaDev),
            deviceApiSupport: false,
            multimemSupport: false,
            ginType: 0,
            nLsaTeams: 1,
            hostRmaSupport: true,
            railedGinType: 0,
        };
        let size = head.size.min(size_of::<ncclCommProperties_t>());
        // SAFETY: the program's struct has that many bytes.
        unsafe { std::ptr::copy_nonoverlapping((&raw const told).cast::<u8>(), props.cast::<u8>(), size) };
        Ok(())
    }

    /// Returns the team of all ranks.
    or NOBODY,
    fn ncclTeamWorld, pncclTeamWorld(comm: ncclComm_t) -> ncclTeam_t {
        world(comm)
    }

    /// Returns the team of the ranks of this host: all.
    or NOBODY,
    fn ncclTeamLsa, pncclTeamLsa(comm: ncclComm_t) -> ncclTeam_t {
        world(comm)
    }

    /// Returns the team of the ranks of other hosts at the same place: this one alone.
    or NOBODY,
    fn ncclTeamRail, pncclTeamRail(comm: ncclComm_t) -> ncclTeam_t {
        ncclTeam_t { nRanks: 1, rank: 0, stride: records::ranks(comm) }
    }

    /// Translates a rank of a team to one of the communicator.
    or -1,
    fn ncclTeamRankToWorld, pncclTeamRankToWorld(comm: ncclComm_t, team: ncclTeam_t, rank: c_int) -> c_int {
        in_world(comm, team, rank)
    }

    /// Translates a rank of a team to one of this host.
    or -1,
    fn ncclTeamRankToLsa, pncclTeamRankToLsa(comm: ncclComm_t, team: ncclTeam_t, rank: c_int) -> c_int {
        in_world(comm, team, rank)
    }
}
