//! Agreement of all ranks of a communicator on what they are about to do together.
//!
//! ```text
//!     rank 0   "a window, flags 0 | at 4096, 100 bytes"            \
//!     rank 1   "a window, flags 0 | at 8192, 500 bytes"             >  all hear all: every rank's words, or an error on each
//!     rank 2   "a window, flags 0 | nothing: I could not"          /
//!               must be equal      may differ
//! ```
//!
//! A [`Proposal`] says what a rank is about to do, and how that reads in a sentence. One exchange tells it to all ranks, with
//! whether the rank could do its part. Then every rank has either all ranks' words, or an error: its own, if its part failed;
//! else the sentence that names the first rank that proposes something else or could not do its part. The judgement looks at
//! nothing but the words, so it is the same on all ranks: no rank goes on without the others.

use super::calls::collective::{Call, Checked};
use super::calls::exchange::Exchange;
use super::communicator::CommCore;
use crate::error::{Code, Error, Result};
use crate::memory::view::{Address, HoldsViews, Payload, WithWords};
use crate::onesided::Races;
use crate::types::{Collective, DataType, Rank, RedOp};

/// The subject of a proposal. Proposals with different subjects are never equal.
#[derive(Clone, Copy)]
pub(in crate::comm) enum Subject {
    /// The communicators to make.
    Communicators = 0x5065_6e01,
    /// The symmetric heap.
    SymmetricHeap,
    /// Windows.
    Windows,
    /// Semaphores and the mesh.
    Semaphores,
    /// Mailboxes.
    Mailboxes,
    /// A permutation.
    Permutation,
    /// The counts of a collective whose blocks have sizes of their own.
    Counts,
    /// A communicator with new ranks.
    Growth,
    /// The memory of the communicator.
    Memory,
    /// Channels of a data mover.
    Channels,
}

/// A call that one rank is about to make together with all others.
pub(in crate::comm) trait Proposal {
    /// The subject.
    const SUBJECT: Subject;
    /// Words that must be equal on all ranks, from the first on. The first says which call it is.
    const EQUAL: usize;
    /// The words, as an array: as many on all ranks.
    type Words: AsRef<[u64]>;

    /// Returns what the rank tells the others.
    fn words(&self) -> Self::Words;

    /// Words a proposal: it stands after "rank 0 calls".
    fn reads(words: &[u64]) -> String;

    /// Words that two ranks, the first of them rank 0, do not propose the same.
    fn disagreement(&self, all: &Answers, [first, other]: [Rank; 2]) -> String {
        let subject = match Self::SUBJECT {
            Subject::Communicators => "the communicators to make",
            Subject::SymmetricHeap => "the symmetric heap",
            Subject::Windows => "windows",
            Subject::Semaphores => "semaphores",
            Subject::Mailboxes => "mailboxes",
            Subject::Permutation => "a permutation",
            Subject::Counts => "counts",
            Subject::Growth => "a growth",
            Subject::Memory => "the memory of the communicator",
            Subject::Channels => "channels",
        };
        format!(
            "ranks disagree on {subject}: rank {first} calls {}, rank {other} {}; all ranks must make the same calls",
            all.reads::<Self>(first),
            all.reads::<Self>(other)
        )
    }

    /// Words that a rank could not do its part.
    fn inability(&self, rank: Rank) -> String {
        format!("rank {rank} could not do its part, so no rank did; its own error says why")
    }
}

/// The proposals of all ranks.
pub(in crate::comm) struct Answers {
    /// The rank that asks.
    pub me: Rank,
    /// For each rank a header, then the words of its proposal.
    words: Vec<u64>,
    /// Words of each rank, with the header.
    each: usize,
}

impl Answers {
    fn headed(&self) -> impl Iterator<Item = (Rank, &[u64])> {
        (0..).zip(self.words.chunks_exact(self.each))
    }

    /// Returns every rank and its words.
    pub fn ranks(&self) -> impl Iterator<Item = (Rank, &[u64])> {
        self.headed().map(|(rank, words)| (rank, &words[1..]))
    }

    /// Returns one rank's words.
    pub fn of(&self, rank: Rank) -> &[u64] {
        &self.words[rank as usize * self.each..][1..self.each]
    }

    /// Returns the same word of every rank, by rank.
    pub fn each(&self, word: usize) -> Vec<u64> {
        self.ranks().map(|(_, words)| words[word]).collect()
    }

    /// Words what a rank proposes.
    pub fn reads<P: Proposal + ?Sized>(&self, rank: Rank) -> String {
        match self.words[rank as usize * self.each] as u32 == P::SUBJECT as u32 {
            true => P::reads(self.of(rank)),
            false => "something else".into(),
        }
    }

    /// Returns the error that all ranks get, if they do not agree.
    fn judge<P: Proposal>(&self, proposal: &P) -> Result<()> {
        let first = &self.words[..self.each];
        let disagree = |other: Rank| Error::usage(proposal.disagreement(self, [0, other]));
        let is_other_call = |words: &[u64]| words[0] as u32 != P::SUBJECT as u32 || words[1] != first[1];
        if let Some((rank, _)) = self.headed().find(|(_, words)| is_other_call(words)) {
            // Rank 0 may be the only one with another subject.
            return Err(disagree(if rank == 0 { self.first_of::<P>() } else { rank }));
        }
        if let Some((rank, words)) = self.headed().find(|(_, words)| words[0] >> 32 != 0) {
            let text = proposal.inability(rank);
            let by_caller = [Code::InvalidArgument, Code::InvalidUsage].map(|code| code as u64);
            return Err(match by_caller.contains(&(words[0] >> 32)) {
                true => Error::usage(text),
                false => Error::system(text),
            });
        }
        let equal = 1..1 + P::EQUAL;
        let other = self.headed().find(|(_, words)| words[equal.clone()] != first[equal.clone()]);
        other.map_or(Ok(()), |(rank, _)| Err(disagree(rank)))
    }

    /// Returns the first rank that proposes something about the subject.
    fn first_of<P: Proposal>(&self) -> Rank {
        let of_subject = |(_, words): &(Rank, &[u64])| words[0] as u32 == P::SUBJECT as u32;
        self.headed().find(of_subject).map_or(self.me, |(rank, _)| rank)
    }
}

impl CommCore {
    /// Exchanges proposals with all ranks. `part` is the result of this rank's own part. Returns its value and all ranks' words,
    /// if the proposals agree and every rank's part succeeded.
    pub(in crate::comm) fn agree<P: Proposal, T>(
        &mut self,
        proposal: &P,
        part: Result<T>,
    ) -> Result<(T, Answers)> {
        self.propose(proposal, part)?
    }

    /// Does the same, and tells apart why it failed. The outer error is the exchange's: other ranks may have heard of this
    /// rank's part and go on. The inner one all ranks have.
    pub(in crate::comm) fn propose<P: Proposal, T>(
        &mut self,
        proposal: &P,
        part: Result<T>,
    ) -> Result<Result<(T, Answers)>> {
        let state = part.as_ref().err().map_or(0, |e| e.code as u64);
        let words = proposal.words();
        let mut told = Vec::with_capacity(1 + words.as_ref().len());
        told.push(P::SUBJECT as u64 | state << 32);
        told.extend_from_slice(words.as_ref());
        let all = Answers { me: self.rank(), words: self.tell_all(&told)?, each: told.len() };
        Ok(part.and_then(|part| all.judge(proposal).map(|()| (part, all))))
    }

    /// Tells every rank the same number of words and hears every rank's, in rank order. An all-gather like any other: it
    /// counts as one of the communicator's calls, and disagreements in it are found. `PENNY_ALGO` has no say in it.
    pub(in crate::comm) fn tell_all(&mut self, mine: &[u64]) -> Result<Vec<u64>> {
        let mut own = mine.to_vec();
        let mut all = vec![0; mine.len() * self.nranks() as usize];
        let (call, checked) = self.telling(Payload::from(&mut own[..]), Payload::from(&mut all[..]))?;
        let algorithm = self.planner.plainest();
        let ended = self.untimed(|c| c.carry_out(&call, &checked, algorithm));
        // A program's call like this one has its own algorithm.
        self.forget_last_call();
        ended.map(|()| all)
    }

    /// Returns the call by which ranks tell each other words.
    fn telling<'a>(&self, input: Payload<'a>, output: Payload<'a>) -> Result<(Call<'a>, Checked<'a>)> {
        self.usable()?;
        self.broken()?;
        let count = input.bytes() / size_of::<u64>();
        let call = Call {
            collective: Collective::AllGather,
            send: Address::NULL,
            recv: Address::NULL,
            count,
            dtype: DataType::Uint64,
            op: RedOp::Sum,
            root: 0,
            padded: false,
        };
        let bytes = output.bytes() as u64;
        let limit = usize::MAX;
        Ok((call, Checked { input, output, count, limit, root: 0, in_place: false, in_place_at: 0, bytes }))
    }

    /// Begins to propose something, as [`agree`](Self::agree) does, in a call that is polled.
    pub(in crate::comm) fn begin_agreeing<P: Proposal>(&mut self, proposal: &P) -> Result<PolledAgreement> {
        let mut told = vec![P::SUBJECT as u64];
        told.extend_from_slice(proposal.words().as_ref());
        let all = vec![0; told.len() * self.nranks() as usize];
        let exchange = WithWords::new([told, all], |input, output| {
            let (call, checked) = self.telling(input, output)?;
            self.enter(&call, checked, self.planner.plainest(), Some(0))
        });
        self.forget_last_call();
        Ok(PolledAgreement { exchange: Some(exchange?) })
    }

    /// Goes on with that.
    pub(in crate::comm) fn poll_agreement<P: Proposal>(
        &mut self,
        agreement: &mut PolledAgreement,
        proposal: &P,
    ) -> Result<Answers> {
        let over = || Error::internal("an agreement was asked for again");
        agreement.exchange.as_mut().ok_or_else(over)?.with(|exchange| exchange.go_on(self))?;
        self.ordering(Races::leave)?;
        let [told, words] = agreement.exchange.take().ok_or_else(over)?.into_words();
        let all = Answers { me: self.rank(), words, each: told.len() };
        all.judge(proposal).map(|()| all)
    }
}

/// A proposal that is polled, with the words that the ranks tell; `None`: all have told.
pub(in crate::comm) struct PolledAgreement {
    exchange: Option<WithWords<Exchange<'static>>>,
}

impl HoldsViews for Exchange<'static> {
    type During<'x> = Exchange<'x>;
}

#[cfg(test)]
mod tests {
    use crate::comm::agree::*;

    /// A proposal of a call, a number that must be equal, and one that need not be.
    struct Numbers;

    impl Proposal for Numbers {
        const SUBJECT: Subject = Subject::Windows;
        const EQUAL: usize = 2;
        type Words = [u64; 3];
        fn words(&self) -> [u64; 3] {
            [1, 2, 3]
        }
        fn reads(words: &[u64]) -> String {
            format!("call {} with {}", words[0], words[1])
        }
    }

    /// The sentence for ranks that have told these words. A state that is not 0 says why a rank could not.
    fn told(ranks: &[(Subject, u64, [u64; 3])]) -> Result<()> {
        let headed = |&(subject, state, words): &(Subject, u64, [u64; 3])| {
            [subject as u64 | state << 32, words[0], words[1], words[2]]
        };
        let words = ranks.iter().flat_map(headed).collect();
        Answers { me: 0, words, each: 4 }.judge(&Numbers)
    }

    #[test]
    fn words_that_must_be_equal_are_compared_and_the_others_are_not() {
        let all = [(Subject::Windows, 0, [1, 2, 3]), (Subject::Windows, 0, [1, 2, 9])];
        assert!(told(&all).is_ok());
        let e = told(&[all[0], all[1], (Subject::Windows, 0, [1, 4, 3])]).unwrap_err();
        assert_eq!(
            e.message,
            "ranks disagree on windows: rank 0 calls call 1 with 2, rank 2 call 1 with 4; all ranks must make the same calls"
        );
    }

    #[test]
    fn another_call_comes_before_an_inability_and_that_before_other_arguments() {
        let (right, other) = ((Subject::Windows, 0, [1, 2, 3]), (Subject::Windows, 0, [1, 9, 3]));
        let unable = (Subject::Windows, Code::SystemError as u64, [1, 2, 3]);
        let e = told(&[right, other, unable]).unwrap_err();
        assert!(e.code == Code::SystemError && e.message.starts_with("rank 2 could not do its part"), "{e}");
        let misused = (Subject::Windows, Code::InvalidArgument as u64, [1, 2, 3]);
        assert_eq!(told(&[misused, right]).unwrap_err().code, Code::InvalidUsage);
        let e = told(&[right, unable, (Subject::Windows, 0, [7, 2, 3])]).unwrap_err();
        assert!(e.message.contains("rank 0 calls call 1 with 2, rank 2 call 7 with 2"), "{e}");
    }

    #[test]
    fn a_rank_with_another_subject_is_named_even_if_it_is_rank_0() {
        let (right, strange) = ((Subject::Windows, 0, [1, 2, 3]), (Subject::Mailboxes, 0, [1, 2, 3]));
        let e = told(&[right, strange]).unwrap_err();
        assert!(e.message.contains("rank 0 calls call 1 with 2, rank 1 something else"), "{e}");
        let e = told(&[strange, strange, right]).unwrap_err();
        assert!(e.message.contains("rank 0 calls something else, rank 2 call 1 with 2"), "{e}");
    }
}
