//! Point-to-point calls: checks, transfers to oneself, and the run of a batch.

use super::collective::MOST_BYTES;
use crate::comm::communicator::CommCore;
use crate::comm::onesided::registrations::Registrations;
use crate::error::{Error, Result};
use crate::kernels::divided;
use crate::memory::view::{Address, Payload};
use crate::transport::pair::{self, Arrived};
use crate::transport::transfers::{self, TransferProgress};
use crate::types::{DataType, Rank};

/// A send or a receive: one half of a point-to-point transfer.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// `true`: send.
    pub send: bool,
    /// The buffer.
    pub buffer: Address<'a>,
    /// Elements.
    pub count: usize,
    /// Element type.
    pub dtype: DataType,
    /// The other rank.
    pub peer: i32,
    /// A collective's block, such as a permutation's: its other half is one as well, and never a call of the user's own.
    pub of_collective: bool,
}

impl<'a> Transfer<'a> {
    /// Checks the arguments for a rank of a communicator. Returns the buffer.
    #[inline]
    pub(in crate::comm) fn check(&self, rank: Rank, nranks: u32) -> Result<Payload<'a>> {
        if !(0..nranks as i32).contains(&self.peer) {
            return Err(Error::no_rank("peer", self.peer, nranks));
        }
        let Some(bytes) = self.bytes() else {
            return Err(self.refusal(rank, None));
        };
        if self.buffer.is_null() && bytes > 0 {
            return Err(self.refusal(rank, Some(bytes)));
        }
        Ok(self.buffer.view(bytes))
    }

    /// Checks a transfer that is about to begin, and finds the place at which the receiver can read the sender's data. `lends`: what its
    /// group has decided ([`lends`]).
    #[inline(always)]
    fn checked(
        &self,
        rank: Rank,
        nranks: u32,
        registered: &Registrations,
        lends: Option<bool>,
    ) -> Result<pair::PairTransfer<'a>> {
        let data = self.check(rank, nranks)?;
        // Only the receiver reads what is sent from where it lies.
        let is_read = self.send && data.bytes() >= pair::HEAP_FROM;
        let shared = if is_read { registered.reach_message(data, lends) } else { None };
        Ok(self.half(data, shared))
    }

    /// Returns the transfer that has not begun. `shared`: where the receiver can read the data.
    #[inline(always)]
    fn half(&self, data: Payload<'a>, shared: Option<u64>) -> pair::PairTransfer<'a> {
        let transfer =
            pair::PairTransfer::new(self.send, self.peer as Rank, data, self.dtype, self.count, shared);
        if self.of_collective { transfer.of_collective() } else { transfer }
    }

    /// Returns its bytes, if memory can hold as many.
    #[inline]
    fn bytes(&self) -> Option<usize> {
        self.count.checked_mul(self.dtype.size()).filter(|&bytes| bytes <= MOST_BYTES)
    }

    /// Words the refusal of a count or, where the transfer has `bytes` bytes, of a buffer that is NULL.
    #[cold]
    fn refusal(&self, rank: Rank, bytes: Option<usize>) -> Error {
        let name = if self.send { "sendbuff" } else { "recvbuff" };
        Error::argument(match bytes {
            Some(bytes) => format!("{name} is NULL on rank {rank}, which needs {bytes} bytes there"),
            None => format!(
                "count {} of {} is more than memory can hold; is it a negative number?",
                self.count, self.dtype
            ),
        })
    }
}

/// Runs transfers side by side. `grouped`: they belong to one group, so both halves of one to oneself may be there.
pub(in crate::comm) fn run(c: &mut CommCore, transfers: &[Transfer], grouped: bool) -> Result<()> {
    if transfers.is_empty() {
        return Ok(());
    }
    if let [single] = transfers
        && single.peer != c.rank() as i32
    {
        c.usable()?;
        c.broken()?;
        let mut single = single.checked(c.rank(), c.nranks(), &c.registered, None)?;
        return exchange(c, std::slice::from_mut(&mut single), &[]);
    }
    run_listed(c, transfers.iter(), grouped)
}

/// Runs the transfers of an iterator side by side, as [`run`] does with a slice.
pub(in crate::comm) fn run_listed<'t, 'a: 't>(
    c: &mut CommCore,
    transfers: impl Iterator<Item = &'t Transfer<'a>> + Clone,
    grouped: bool,
) -> Result<()> {
    c.usable()?;
    c.broken()?;
    let Checked { mut batch, own } = check_all(c, transfers, grouped)?;
    exchange(c, &mut batch, &own)
}

/// Looks for a message of a peer that no receive has taken. Waits for nothing.
pub(in crate::comm) fn probe(c: &mut CommCore, peer: i32) -> Result<Option<Arrived>> {
    c.usable()?;
    c.broken()?;
    let (rank, nranks) = (c.rank(), c.nranks());
    if !(0..nranks as i32).contains(&peer) {
        return Err(Error::no_rank("peer", peer, nranks));
    }
    if peer as Rank == rank {
        return Err(Error::argument(format!(
            "peer {peer} is this rank; a message to oneself is in one group with its receive, and never waits"
        )));
    }
    if c.timing().is_declared() {
        return Err(Error::usage(
            "no message can be asked for on a simulated cluster, whose clock stands while a program polls; receive from a \
             peer that you name",
        ));
    }
    pair::arrived(&c.transport, &mut c.pairs, peer as Rank)
}

/// Runs sends that are checked, and receives, side by side.
pub(in crate::comm) fn run_with(
    c: &mut CommCore,
    sends: Vec<pair::PairTransfer<'_>>,
    receives: &[Transfer],
) -> Result<()> {
    c.usable()?;
    c.broken()?;
    let Checked { mut batch, own } = check_all(c, receives.iter(), true)?;
    batch.extend(sends);
    exchange(c, &mut batch, &own)
}

/// Runs transfers side by side whose time on a declared machine is known otherwise.
pub(in crate::comm) fn run_untimed(c: &mut CommCore, transfers: &[Transfer]) -> Result<()> {
    if transfers.is_empty() {
        return Ok(());
    }
    let Checked { mut batch, own } = check_all(c, transfers.iter(), true)?;
    count(c, &batch);
    exchange_bytes(c, &mut batch, &own)
}

/// Transfers that are right by themselves.
struct Checked<'a> {
    batch: Vec<pair::PairTransfer<'a>>,
    own: Vec<OwnCopy<'a>>,
}

/// A transfer of the rank to itself.
struct OwnCopy<'a> {
    from: Payload<'a>,
    to: Payload<'a>,
}

/// Checks transfers that belong together.
fn check_all<'t, 'a: 't>(
    c: &CommCore,
    transfers: impl Iterator<Item = &'t Transfer<'a>> + Clone,
    grouped: bool,
) -> Result<Checked<'a>> {
    let (rank, nranks) = (c.rank(), c.nranks());
    let mut batch = Vec::with_capacity(transfers.size_hint().1.unwrap_or(0));
    let mut has_own = false;
    let lends = if grouped { lends(transfers.clone(), rank, &c.registered) } else { None };
    for transfer in transfers.clone() {
        let checked = transfer.checked(rank, nranks, &c.registered, lends)?;
        match checked.peer == rank {
            false => batch.push(checked),
            true => has_own = true,
        }
    }
    let own = if has_own { own_copies(rank, transfers, grouped)? } else { Vec::new() };
    Ok(Checked { batch, own })
}

/// Decides for the messages of a group whether receivers read them where they lie. `None`: each goes by its size. Where nothing is received
/// the group's sends are like any others: a program may send before it receives, and is to find out at its first exchange if it may not.
fn lends<'t, 'a: 't>(
    transfers: impl Iterator<Item = &'t Transfer<'a>> + Clone,
    rank: Rank,
    registered: &Registrations,
) -> Option<bool> {
    let reached = |transfer: &Transfer<'_>| {
        let bytes = transfer.bytes().filter(|&bytes| bytes >= pair::HEAP_FROM)?;
        registered.may_reach(transfer.buffer.view(bytes)).then_some(bytes)
    };
    let sends = || transfers.clone().filter(|transfer| transfer.send && transfer.peer != rank as i32);
    let largest = sends().filter_map(reached).max()?;
    if transfers.clone().all(|transfer| transfer.send) {
        return None;
    }
    registered.lends(largest, sends().count())
}

/// Moves the bytes; on a declared machine, in its time.
#[inline(always)]
fn exchange(c: &mut CommCore, batch: &mut [pair::PairTransfer<'_>], own: &[OwnCopy<'_>]) -> Result<()> {
    count(c, batch);
    if !c.timing().is_declared() {
        return exchange_bytes(c, batch, own);
    }
    let posts = c.transfer_posts(batch);
    c.in_time(&posts, |c| exchange_bytes(c, batch, own))
}

/// Moves the bytes, whatever time it is on a machine.
#[inline(always)]
fn exchange_bytes(c: &mut CommCore, batch: &mut [pair::PairTransfer<'_>], own: &[OwnCopy<'_>]) -> Result<()> {
    let mut progress = transfers::begin(&c.transport, &mut c.pairs, None);
    begin_bytes(c, batch, own, &mut progress);
    move_bytes(c, batch, &mut progress)
}

/// Makes the copies of the rank to itself. What other ranks wait for is begun before.
fn begin_bytes(
    c: &mut CommCore,
    batch: &mut [pair::PairTransfer<'_>],
    own: &[OwnCopy<'_>],
    progress: &mut TransferProgress,
) {
    if own.is_empty() {
        return;
    }
    transfers::advance_all(&c.transport, &mut c.pairs, batch, progress);
    for OwnCopy { from, to } in own {
        let threads = c.transport.threads_for(to.bytes());
        if let Err(error) = divided::copy(threads, *to, *from, false) {
            progress.failed(error);
        }
    }
}

/// Counts transfers for processes that look on.
#[inline]
fn count(c: &CommCore, batch: &[pair::PairTransfer<'_>]) {
    let counters = c.transport.control().counters(c.rank());
    batch.iter().for_each(|x| counters.messages(x.send, 1, x.data().bytes() as u64));
}

fn move_bytes(
    c: &mut CommCore,
    batch: &mut [pair::PairTransfer<'_>],
    progress: &mut TransferProgress,
) -> Result<()> {
    let ended = transfers::run(&c.transport, &mut c.pairs, batch, progress);
    ended.map_err(|e| c.fail_wait(e))?;
    let mut received = batch.iter().filter(|x| !x.send);
    c.ordering(|races, _| received.try_for_each(|x| races.hear(x.peer)))
}

/// Transfers that are polled.
pub(in crate::comm) struct PolledTransfers<'a> {
    batch: Vec<pair::PairTransfer<'a>>,
    /// Copies that are still to be made.
    own: Vec<OwnCopy<'a>>,
    progress: TransferProgress,
}

impl<'a> PolledTransfers<'a> {
    /// Begins transfers that run side by side, as [`run`] does.
    pub fn begin<'t>(
        c: &mut CommCore,
        transfers: impl Iterator<Item = &'t Transfer<'a>> + Clone,
        grouped: bool,
    ) -> Result<PolledTransfers<'a>>
    where
        'a: 't,
    {
        PolledTransfers::of(c, Vec::new(), transfers, grouped)
    }

    /// Begins sends that are checked, and receives, as [`run_with`] does.
    pub fn begin_with(
        c: &mut CommCore,
        sends: Vec<pair::PairTransfer<'a>>,
        receives: &[Transfer<'a>],
    ) -> Result<PolledTransfers<'a>> {
        PolledTransfers::of(c, sends, receives.iter(), true)
    }

    fn of<'t>(
        c: &mut CommCore,
        checked: Vec<pair::PairTransfer<'a>>,
        transfers: impl Iterator<Item = &'t Transfer<'a>> + Clone,
        grouped: bool,
    ) -> Result<PolledTransfers<'a>>
    where
        'a: 't,
    {
        c.usable()?;
        c.broken()?;
        let Checked { mut batch, own } = check_all(c, transfers, grouped)?;
        batch.extend(checked);
        count(c, &batch);
        Ok(PolledTransfers { batch, own, progress: transfers::begin(&c.transport, &mut c.pairs, Some(0)) })
    }

    /// Goes on as far as it can without waiting.
    pub fn poll(&mut self, c: &mut CommCore) -> Result<()> {
        begin_bytes(c, &mut self.batch, &std::mem::take(&mut self.own), &mut self.progress);
        move_bytes(c, &mut self.batch, &mut self.progress)
    }
}

/// Refuses sends of a rank to itself without as many receives.
fn check_halves(rank: Rank, sends: usize, receives: usize, grouped: bool) -> Result<()> {
    if sends == receives {
        return Ok(());
    }
    Err(Error::usage(format!(
        "rank {rank} has {sends} sends to itself and {receives} receives from itself in this {}; both halves must be in one group",
        if grouped { "group" } else { "call" }
    )))
}

/// Does the same for those transfers of a rank that are to itself, before they are queued.
pub(in crate::comm) fn check_own<'t>(
    rank: Rank,
    transfers: impl Iterator<Item = &'t Transfer<'static>>,
    grouped: bool,
) -> Result<()> {
    let own: Vec<_> = transfers.filter(|transfer| transfer.peer == rank as i32).collect();
    let sends = own.iter().filter(|transfer| transfer.send).count();
    check_halves(rank, sends, own.len() - sends, grouped)
}

/// Finds the copies that transfers of a rank to itself are: the k-th send meets the k-th receive.
fn own_copies<'t, 'a: 't>(
    rank: Rank,
    transfers: impl Iterator<Item = &'t Transfer<'a>> + Clone,
    grouped: bool,
) -> Result<Vec<OwnCopy<'a>>> {
    let of = |send| {
        transfers.clone().filter(move |transfer| transfer.peer == rank as i32 && transfer.send == send)
    };
    check_halves(rank, of(true).count(), of(false).count(), grouped)?;
    let copy = |(send, receive): (&Transfer<'a>, &Transfer<'a>)| {
        let [from, to] = [send, receive].map(|half| half.buffer.view(half.bytes().unwrap_or(0)));
        if (send.dtype, send.count) != (receive.dtype, receive.count) {
            return Err(Error::usage(format!(
                "rank {rank} sends itself ({}) and receives ({}); both ends must pass the same count and type",
                send.half(from, None).text(),
                receive.half(to, None).text()
            )));
        }
        if from.overlaps(to) && from.addr() != to.addr() {
            return Err(Error::argument(format!("rank {rank} sends itself overlapping buffers")));
        }
        Ok(OwnCopy { from, to })
    };
    of(true).zip(of(false)).map(copy).collect()
}

#[cfg(test)]
#[path = "point_to_point_tests.rs"]
mod tests;
