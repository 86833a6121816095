//! Permute: each rank sends one block to one rank, as JAX's `lax.ppermute` does.
//!
//! ```text
//!     perm = 1 2 3 0      0 --> 1 --> 2 --> 3 --> 0          the table says where each rank's block goes
//!     perm = 2 -1 0 -1    0 <--> 2,  1 and 3 get zeros       -1: nowhere; whom nobody sends to gets zeros
//! ```
//!
//! A rank knows from the table whom it sends to and whom it receives from, so the blocks travel as transfers do. But
//! tables that differ would leave one rank waiting for another that does not send, or take a block for the wrong one;
//! hence the ranks tell each other a digest of their arguments before anything moves.

use super::collective::MOST_BYTES;
use super::point_to_point::{self, Transfer};
use crate::comm::agree::{Answers, PolledAgreement, Proposal, Subject};
use crate::comm::communicator::CommCore;
use crate::error::{Error, Result};
use crate::hash::Fnv64;
use crate::kernels;
use crate::memory::view::{Address, Payload};
use crate::types::{DataType, Rank};

/// A permutation with the caller's arguments.
#[derive(Clone, Debug)]
pub struct Permute<'a> {
    /// The block to send; not used if this rank sends to none.
    pub send: Address<'a>,
    /// The place for the received block.
    pub recv: Address<'a>,
    /// Elements of a block.
    pub count: usize,
    /// Element type.
    pub dtype: DataType,
    /// The destination of each rank, -1 for none. The same on all ranks.
    pub perm: Vec<i32>,
}

/// A permutation whose arguments are right by themselves.
struct Checked<'a> {
    /// The ranks to which this rank sends and from which it receives.
    to: Option<i32>,
    from: Option<i32>,
    output: Payload<'a>,
}

impl<'a> Permute<'a> {
    /// Checks the arguments for a rank of a communicator. `None`: right, and nothing to do.
    fn checked(&self, rank: Rank, nranks: u32) -> Result<Option<Checked<'a>>> {
        if self.perm.len() != nranks as usize {
            return Err(Error::argument(format!(
                "perm has {} entries, and comm {nranks} ranks; pass one for each",
                self.perm.len()
            )));
        }
        let mut sender = vec![None; nranks as usize];
        for (from, &to) in (0..).zip(&self.perm).filter(|&(_, &to)| to != -1) {
            let place = usize::try_from(to).ok().and_then(|to| sender.get_mut(to)).ok_or_else(|| {
                Error::argument(format!(
                    "perm[{from}] is {to}; it is a rank in 0..{nranks}, or -1 for nobody"
                ))
            })?;
            if let Some(other) = place.replace(from) {
                return Err(Error::argument(format!(
                    "perm[{other}] and perm[{from}] are both {to}; a rank can receive from one only"
                )));
            }
        }
        let to = Some(self.perm[rank as usize]).filter(|&to| to != -1);
        let from = sender[rank as usize];
        let bytes = self.count.checked_mul(self.dtype.size()).filter(|&bytes| bytes <= MOST_BYTES);
        let Some(bytes) = bytes else {
            return Err(Error::argument(format!(
                "count {} of {} is more than memory can hold; is it a negative number?",
                self.count, self.dtype
            )));
        };
        if bytes == 0 {
            return Ok(None);
        }
        for (name, buffer, used) in [("sendbuff", self.send, to.is_some()), ("recvbuff", self.recv, true)] {
            if used && buffer.get().checked_add(bytes).is_none_or(|_| buffer.is_null()) {
                return Err(Error::argument(format!(
                    "{name} is {} on rank {rank}, which needs {bytes} bytes there",
                    if buffer.is_null() { "NULL" } else { "at the end of memory" }
                )));
            }
        }
        let output = self.recv.view(bytes);
        let same = to == Some(rank as i32) && self.send == self.recv;
        if to.is_some() && !same && self.send.view(bytes).overlaps(output) {
            return Err(Error::argument(format!(
                "sendbuff and recvbuff overlap on rank {rank}; a permutation is not done in place, pass buffers that are apart"
            )));
        }
        Ok(Some(Checked { to, from, output }))
    }

    /// Checks the arguments for a rank of a communicator.
    pub(in crate::comm) fn check(&self, rank: Rank, nranks: u32) -> Result<()> {
        self.checked(rank, nranks).map(drop)
    }

    /// Iterates over the pairs of sender and receiver, without ranks that send to themselves.
    pub(in crate::comm) fn sends(&self) -> impl Iterator<Item = (Rank, Rank)> + '_ {
        let sends = (0..).zip(&self.perm).filter(|&(from, &to)| to >= 0 && to as Rank != from);
        sends.map(|(from, &to)| (from, to as Rank))
    }

    /// Returns a hash of the table; different tables have the same one by accident once in 2^64.
    fn digest(&self) -> u64 {
        let mut digest = Fnv64::new();
        self.perm.iter().for_each(|to| digest.bytes(&to.to_le_bytes()));
        digest.value()
    }

    /// The two ends as transfers.
    fn transfers(&self, checked: &Checked<'_>) -> Vec<Transfer<'a>> {
        let half = |send, buffer, peer| Transfer {
            send,
            buffer,
            count: self.count,
            dtype: self.dtype,
            peer,
            of_collective: true,
        };
        let out = checked.to.map(|peer| half(true, self.send, peer));
        out.into_iter().chain(checked.from.map(|peer| half(false, self.recv, peer))).collect()
    }
}

/// A permutation as its ranks agree on it.
struct Table<'a> {
    permute: &'a Permute<'a>,
    rank: Rank,
}

impl Proposal for Table<'_> {
    const SUBJECT: Subject = Subject::Permutation;
    const EQUAL: usize = 3;
    type Words = [u64; 4];

    /// Count, type, digest of the table; and this rank's own entry.
    fn words(&self) -> [u64; 4] {
        let Permute { count, dtype, perm, .. } = self.permute;
        [*count as u64, *dtype as u64, self.permute.digest(), perm[self.rank as usize] as u32 as u64]
    }

    fn reads(words: &[u64]) -> String {
        let name = DataType::from_c(words[1] as i32).map_or("unknown", DataType::name);
        format!("(count {}, type {name})", words[0])
    }

    /// Names this rank and the first that differs from it.
    fn disagreement(&self, all: &Answers, [_, other]: [Rank; 2]) -> String {
        let me = self.rank;
        let mine = &all.of(me)[..3];
        let rank = all.ranks().find(|(_, theirs)| theirs[..3] != *mine).map_or(other, |(rank, _)| rank);
        let what = match mine[..2] == all.of(rank)[..2] {
            false => {
                let [own, theirs] = [me, rank].map(|rank| all.reads::<Self>(rank));
                format!("rank {me} passed {own}, rank {rank} {theirs}")
            }
            true => {
                // An entry that the owner has otherwise than we do; if there is none, they differ about third ranks.
                let perm = &self.permute.perm;
                let odd = all.ranks().find(|(r, theirs)| theirs[3] != perm[*r as usize] as u32 as u64);
                let odd = odd.map_or(String::new(), |(r, theirs)| {
                    let (ours, own) = (perm[r as usize], theirs[3] as u32 as i32);
                    format!(": perm[{r}] is {ours} here and {own} on rank {r}")
                });
                format!("perm of rank {me} and of rank {rank} are not the same{odd}")
            }
        };
        format!("ranks disagree in a permutation: {what}; all must pass the same count, type and perm")
    }
}

impl CommCore {
    /// Run a permutation from check to return.
    pub(in crate::comm) fn permute(&mut self, permute: &Permute<'_>) -> Result<()> {
        let ended = self.exchange_blocks(permute);
        self.report_late_mismatch(ended)
    }

    fn exchange_blocks(&mut self, permute: &Permute<'_>) -> Result<()> {
        self.usable()?;
        let Some(checked) = permute.checked(self.rank(), self.nranks())? else { return Ok(()) };
        self.agree(&Table { permute, rank: self.rank() }, Ok(()))?;
        if checked.from.is_none() {
            kernels::zero(checked.output);
        }
        point_to_point::run(self, &permute.transfers(&checked), true)
    }
}

/// A permutation that is polled.
pub(in crate::comm) struct PolledPermute {
    permute: Permute<'static>,
    stage: Stage,
}

enum Stage {
    /// The ranks tell each other their tables.
    Agreeing(Box<PolledAgreement>),
    /// The blocks travel.
    Moving(point_to_point::PolledTransfers<'static>),
}

impl PolledPermute {
    /// Begins a permutation. `None`: there is nothing to do.
    pub fn begin(c: &mut CommCore, permute: Permute<'static>) -> Result<Option<PolledPermute>> {
        c.usable()?;
        if permute.checked(c.rank(), c.nranks())?.is_none() {
            return Ok(None);
        }
        let rank = c.rank();
        let agreement = c.begin_agreeing(&Table { permute: &permute, rank });
        let stage = match agreement {
            Ok(agreement) => Stage::Agreeing(Box::new(agreement)),
            Err(error) => return c.report_late_mismatch(Err(error)).map(|()| None),
        };
        Ok(Some(PolledPermute { permute, stage }))
    }

    /// Goes on as far as it can without waiting.
    pub fn poll(&mut self, c: &mut CommCore) -> Result<()> {
        let ended = self.advance(c);
        match &ended {
            Err(error) if error.is_pending() => ended,
            _ => c.report_late_mismatch(ended),
        }
    }

    fn advance(&mut self, c: &mut CommCore) -> Result<()> {
        if let Stage::Agreeing(agreement) = &mut self.stage {
            let rank = c.rank();
            c.poll_agreement(agreement, &Table { permute: &self.permute, rank })?;
            let Some(checked) = self.permute.checked(rank, c.nranks())? else { return Ok(()) };
            if checked.from.is_none() {
                kernels::zero(checked.output);
            }
            let transfers = self.permute.transfers(&checked);
            self.stage = Stage::Moving(point_to_point::PolledTransfers::begin(c, transfers.iter(), true)?);
        }
        match &mut self.stage {
            Stage::Moving(transfers) => transfers.poll(c),
            Stage::Agreeing(_) => Err(Error::internal("a permutation did not go on")),
        }
    }
}
