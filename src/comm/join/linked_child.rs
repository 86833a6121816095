//! How ranks of several hosts make a communicator from another: each host's first member takes memory for those of its host, and the members
//! connect to those of other hosts.

use super::child::ChildMemory;
use crate::bootstrap;
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::memory::control::ChildPlace;
use crate::transport::Transport;
use crate::transport::link::{bytes_of, words_of};
use crate::transport::net_link::{LARGEST_ADDRESS, NetLink, Prepared};
use crate::types::Rank;

/// Words by which a rank tells its endpoint's address: its length, and its bytes.
const WORDS: usize = 1 + LARGEST_ADDRESS.div_ceil(8);

impl ChildMemory {
    /// Opens an endpoint for rank `rank` of a child, if it has members on other hosts.
    pub(super) fn prepare_link(
        &self,
        parent: &Transport,
        members: &[Rank],
        rank: Rank,
    ) -> Result<Option<Prepared>> {
        if !members.iter().any(|&member| parent.is_far(member)) {
            return Ok(None);
        }
        let (rails, carrier) = (parent.rails(), bootstrap::carrier()?);
        let (nranks, cut) = (members.len() as u32, Some(parent.cut_rails()));
        NetLink::prepare_without(&self.control, rank, nranks, &rails, &carrier, cut).map(Some)
    }
}

impl CommCore {
    /// Returns the memory of a child at `place`, with links to the members on other hosts. `None`: this rank joins none, or there is no
    /// place. All ranks of the parent call, if some are on other hosts.
    pub(super) fn links_of_child(
        &mut self,
        members: &[Rank],
        rank: Option<Rank>,
        place: Option<ChildPlace>,
    ) -> Result<Option<ChildMemory>> {
        let parent = self.transport.clone();
        let memory = place.filter(|_| rank.is_some()).map(|place| ChildMemory::map(&parent, members, place));
        if !parent.has_far() {
            return memory.transpose();
        }
        let is_far = |member: &Rank| parent.is_far(*member);
        let prepared = match (memory, rank) {
            (Some(Ok(memory)), Some(rank)) => {
                memory.prepare_link(&parent, members, rank).map(|link| Some((memory, link)))
            }
            (Some(Ok(memory)), None) => Ok(Some((memory, None))),
            (Some(Err(e)), _) => Err(e),
            (None, _) => Ok(None),
        };
        let mut told = vec![0; WORDS];
        if let Ok(Some((_, Some(link)))) = &prepared {
            let blob = link.blob();
            told[0] = blob.len() as u64;
            told[1..].iter_mut().zip(words_of(&blob)).for_each(|(word, told)| *word = told);
        }
        // A rank that has failed tells it by an address of no length.
        let all = self.tell_all(&told)?;
        let Some((memory, link)) = prepared? else { return Ok(None) };
        let Some(link) = link else { return Ok(Some(memory)) };
        let mut blobs = Vec::with_capacity(members.len());
        for &member in members {
            let words = &all[member as usize * WORDS..][..WORDS];
            let length = usize::try_from(words[0]).ok().filter(|&length| length <= LARGEST_ADDRESS);
            blobs.push(match (is_far(&member), length) {
                (false, _) => None,
                (true, Some(length @ 1..)) => Some(bytes_of(&words[1..], length)),
                (true, _) => {
                    return Err(Error::system(format!(
                        "rank {member} has no network endpoint for the new communicator; its own error says why"
                    )));
                }
            });
        }
        Ok(Some(ChildMemory { far: Some(link.connect_without(&blobs, parent.cut_rails())?), ..memory }))
    }
}
