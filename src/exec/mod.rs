//! Runs a rank's linked program on real memory.
//!
//! Wave by wave (see `plan::link`), each step: wait for its operands, fold or copy them into their destinations,
//! publish the program counter. There is nothing else to synchronise: a value is ready when its maker's counter has
//! passed the making step, and a slot is free when its readers' counters have passed the reading steps.
//!
//! Where a value lies is decided per call by [`link::route`]: in a slot of the sender, in its input or output (when
//! those are shared memory), or already in the receiver's output because the sender stored it there.

pub mod borrowed;
mod combine;
mod cut;
pub mod direct;
mod edges;
mod peer_progress;
mod progress;
mod slots;
pub mod small;
mod small_vec;

pub use peer_progress::PeerProgress;
pub use progress::{ProgramProgress, begin};

use crate::error::{Error, Result};
use crate::kernels::{Dest, Fold, FoldSource};
use crate::memory::view::Payload;
use crate::plan::link::{self, Buffers, Linked, LinkedStep, OperandSource, Route, Swap};
use crate::transport::arrival::Offer;
use crate::transport::rotation::Places;
use crate::transport::{STEP_BITS, Scope, Transport, counter_end};
use crate::types::{Collective, Rank};
use combine::PrivateOperand;
use cut::{Cut, zero_tail};
use progress::Done;
use small_vec::SmallVec;

/// One rank's call, ready to run.
pub struct PreparedCall<'a> {
    /// The collective of the call.
    pub collective: Collective,
    /// Root.
    pub root: Rank,
    /// The rank's input, empty if it has none.
    pub input: Payload<'a>,
    /// The rank's output, empty if it has none.
    pub output: Payload<'a>,
    /// Elements a block.
    pub count: usize,
    /// Elements of the whole input where it may end within a block (padded calls), else `usize::MAX`.
    pub limit: usize,
    /// Bytes of an element.
    pub size: usize,
    /// The reduction, for those that reduce.
    pub fold: Option<&'a Fold>,
    /// The offer of this rank.
    pub offer: Offer,
}

impl PreparedCall<'_> {
    /// Returns how many elements of a block there are: a padded input may end within one.
    #[inline]
    fn elements_in(&self, block: u32) -> usize {
        match self.limit {
            usize::MAX => self.count,
            limit => limit.saturating_sub(block as usize * self.count).min(self.count),
        }
    }
}

impl Collective {
    /// Tells whether every rank needs every other rank, so that all arrivals are checked before any output is written.
    pub const fn everybody(self) -> bool {
        use Collective::*;
        matches!(self, AllReduce | AllGather | ReduceScatter | AlltoAll | Barrier)
    }

    /// Tells whether both ends of each message know each other's buffers: the reader waits for the sender's arrival in any case, and here
    /// the sender waits for the reader's.
    const fn knows_readers(self) -> bool {
        self.everybody() || matches!(self, Collective::Gather)
    }
}

struct Run<'a, 'b> {
    t: &'a Transport,
    scope: &'b mut Scope,
    peers: &'b mut PeerProgress,
    job: &'b PreparedCall<'a>,
    linked: &'b Linked,
    cut: &'b Cut,
    mine: Buffers,
    base: u64,
    places: Places,
    swap: Swap,
    stream: bool,
    /// Far ranks are sent what lies in the call's buffers from there.
    lends: bool,
    done: &'b mut Done,
    /// The operands of the present step that peers' private memory holds.
    private: SmallVec<PrivateOperand>,
    /// The last operand of the present step lies in its maker's slot.
    in_slot: bool,
}

/// Runs the program to its end, or as far as it comes without waiting if the call is polled.
pub fn run<'a>(
    t: &'a Transport,
    scope: &mut Scope,
    peers: &mut PeerProgress,
    job: &PreparedCall<'a>,
    progress: &mut ProgramProgress,
) -> Result<()> {
    let seq = scope.seq;
    let ProgramProgress { linked, cut, mine, base, places, swap, stream, done } = progress;
    let (mine, base, places, swap, stream) = (*mine, *base, *places, *swap, *stream);
    let lends = t.lends(scope);
    let mut run = Run {
        t,
        scope,
        peers,
        job,
        linked,
        cut,
        mine,
        base,
        places,
        swap,
        stream,
        lends,
        done,
        private: PrivateOperand::none(),
        in_slot: false,
    };
    run.waves()?;
    die_point!(24 "progress_drain");
    run.drain()?;
    if run.done.borrowed {
        t.check_borrowed_in(seq)?;
    }
    let all_met = run.done.all_checked;
    t.publish_quietly(counter_end(seq));
    t.flush_far();
    if lends {
        t.settle_lent(run.scope)?;
    }
    die_point!(25 "progress_done");
    if job.collective.everybody() && all_met {
        peers.have_met(seq);
    }
    if job.limit != usize::MAX {
        zero_tail(t.rank(), job);
    }
    Ok(())
}

/// A part of a buffer. One that holds nothing may begin past the end, as blocks of a padded input do.
fn part(view: Payload<'_>, at: usize, bytes: usize) -> Payload<'_> {
    if bytes == 0 { Payload::EMPTY } else { view.part(at, bytes) }
}

fn buffers(offer: &Offer) -> Buffers {
    Buffers {
        input_shared: offer.input.is_some(),
        output_shared: offer.output.is_some(),
        in_place: offer.in_place,
    }
}

/// A slice of a chunk: where it begins in its block, in elements, and how long it is.
#[derive(Clone, Copy)]
struct Extent {
    start: usize,
    count: usize,
}

impl<'a> Run<'a, '_> {
    fn waves(&mut self) -> Result<()> {
        let linked = self.linked;
        let steps = linked.steps.len() as u64;
        let waves = self.cut.slices + linked.levels as u64 - 1;
        let longest = linked.longest;
        if waves * longest + 1 >= 1 << STEP_BITS {
            // One rank alone with such a count: that is why.
            for r in (0..self.t.nranks()).filter(|&r| r != self.t.rank()) {
                self.peers.offer(r, self.t, self.scope)?;
            }
            return Err(Error::argument(format!(
                "count {} is too large for this communicator: it takes {waves} rounds of {longest} steps; raise \
                 PENNY_STAGING, or divide the call",
                self.job.count
            )));
        }
        let mut sources = SmallVec::new(FoldSource { view: Payload::EMPTY, raw: false });
        let mut dests = SmallVec::new(Dest::cached(Payload::EMPTY));
        for wave in self.done.wave..waves {
            self.done.wave = wave;
            for (position, step) in linked.steps.iter().enumerate().skip(self.done.position) {
                self.done.position = position;
                let Some(slice) = wave.checked_sub(step.level as u64).filter(|&s| s < self.cut.slices) else {
                    continue;
                };
                sources.clear();
                dests.clear();
                let moved = self.step(step, slice, &mut sources, &mut dests)?;
                if moved {
                    let counter = self.base + wave * steps + position as u64 + 1;
                    self.t.publish(counter);
                    if self.t.has_far() {
                        self.send_far(step, slice, counter);
                    }
                }
            }
            self.done.position = 0;
        }
        self.done.wave = waves;
        Ok(())
    }

    /// Returns the part of the vector that a step handles for a slice.
    fn extent(&self, step: &LinkedStep, slice: u64) -> Extent {
        let job = self.job;
        let in_block = job.elements_in(step.chunk.block);
        let part_end = ((step.chunk.part as usize + 1) * self.cut.part).min(in_block);
        let start =
            (step.chunk.part as usize * self.cut.part + slice as usize * self.cut.slice).min(part_end);
        Extent { start, count: self.cut.slice.min(part_end - start) }
    }

    fn bytes_at(&self, block: u32, extent: Extent) -> (usize, usize) {
        let size = self.job.size;
        ((block as usize * self.job.count + extent.start) * size, extent.count * size)
    }

    /// Runs one step for one slice. Returns whether a peer may be waiting for it.
    #[inline]
    fn step(
        &mut self,
        step: &LinkedStep,
        slice: u64,
        sources: &mut SmallVec<FoldSource<'a>>,
        dests: &mut SmallVec<Dest<'a>>,
    ) -> Result<bool> {
        let extent = self.extent(step, slice);
        let mut arrived_already = false;
        let mut waited = false;
        self.private.clear();
        self.in_slot = false;
        for operand in &step.operands {
            match operand {
                OperandSource::Own => {
                    let block = step.input.ok_or_else(|| Error::internal("a step without its input"))?;
                    let (at, bytes) = self.bytes_at(block, extent);
                    sources.push(FoldSource { view: part(self.job.input, at, bytes), raw: true });
                }
                OperandSource::From { .. } => {
                    waited = true;
                    match self.incoming(operand, slice, extent, sources.as_slice().len())? {
                        Some(source) => sources.push(source),
                        None => arrived_already = true,
                    }
                }
            }
        }
        if waited && self.job.collective.everybody() || step.keep.is_some() {
            self.check_everybody()?;
        }
        let outgoing = self.destinations(step, slice, extent, dests)?;
        die_point!(20 "step_operands");
        if extent.count > 0 && !arrived_already && !dests.as_slice().is_empty() {
            if self.lends && self.job.offer.in_place && step.keep.is_some() {
                // What is overwritten may be what was lent.
                self.t.settle_lent(self.scope)?;
            }
            self.combine(step, extent, sources.as_slice(), dests.as_slice())?;
            self.peers.pace.written();
        }
        die_point!(21 "step_combined");
        Ok(waited || outgoing)
    }

    /// Checks all arrivals before any output is written, in collectives in which every rank needs every other.
    #[inline]
    fn check_everybody(&mut self) -> Result<()> {
        let reduces_here = self.job.collective.reduces() && !self.job.output.is_empty();
        if self.job.collective.everybody() || reduces_here { self.check_all() } else { Ok(()) }
    }

    /// Checks all arrivals.
    #[inline]
    fn check_all(&mut self) -> Result<()> {
        if self.done.all_checked {
            return Ok(());
        }
        for r in (0..self.t.nranks()).filter(|&r| r != self.t.rank()) {
            self.peers.offer(r, self.t, self.scope)?;
        }
        self.done.all_checked = true;
        Ok(())
    }

    /// Waits for an operand and finds it. `None`: the sender has stored it in our output.
    fn incoming(
        &mut self,
        operand: &OperandSource,
        slice: u64,
        extent: Extent,
        index: usize,
    ) -> Result<Option<FoldSource<'a>>> {
        let OperandSource::From { place, egress, slot, raw, input, output, push } = operand else {
            return Err(Error::internal("an own operand has no sender"));
        };
        let t = self.t;
        let offer = self.peers.offer(place.rank, t, self.scope)?;
        let reader = self.job.collective.knows_readers().then_some(self.towards(place.rank));
        let route = link::route(*egress, *push, buffers(&offer), reader);
        if route != Route::Input {
            // An input is ready on arrival; everything else when its maker's counter says so.
            t.await_counter(place.rank, self.base + place.done(slice), self.scope)?;
        }
        let bytes = extent.count * self.job.size;
        self.done.borrowed |= matches!(route, Route::Input | Route::Output);
        self.in_slot = route == Route::Slot;
        let shared = |start: Option<u64>, block: &Option<u32>| {
            let (at, bytes) = self.bytes_at(block.unwrap_or(0), extent);
            if bytes == 0 {
                return Ok(Payload::EMPTY);
            }
            t.heap(place.rank, start.unwrap_or(u64::MAX).saturating_add(at as u64), bytes)
        };
        let view = match route {
            Route::Slot => self.slot(place.rank, *slot, slice, bytes),
            Route::Input if offer.private => self.private(index, place.rank, offer.input, *input, extent),
            Route::Input => shared(offer.input, input)?,
            Route::Output => shared(offer.output, output)?,
            Route::Push => return Ok(None),
        };
        Ok(Some(FoldSource { view, raw: *raw }))
    }

    /// Returns the destinations of the result, and whether a peer reads it.
    fn destinations(
        &mut self,
        step: &LinkedStep,
        slice: u64,
        extent: Extent,
        dests: &mut SmallVec<Dest<'a>>,
    ) -> Result<bool> {
        let t = self.t;
        if let Some(block) = step.keep {
            let (at, bytes) = self.bytes_at(block, extent);
            dests.push(Dest { view: part(self.job.output, at, bytes), non_temporal: self.stream });
        }
        let mut staged = false;
        let mut read = false;
        for reader in &step.readers {
            match self.route_to(step, reader)? {
                Route::Slot => {
                    staged = true;
                    if slice >= self.linked.depth as u64 {
                        let before = reader.place.done(slice - self.linked.depth as u64);
                        t.await_counter(reader.place.rank, self.base + before, self.scope)?;
                    }
                }
                Route::Push => {
                    // The reader leaves when it hears that anybody disagrees, and its output is its own again.
                    self.check_all()?;
                    t.check_borrowed()?;
                    let offer = self.peers.offer(reader.place.rank, t, self.scope)?;
                    let (at, bytes) = self.bytes_at(reader.output.unwrap_or(0), extent);
                    let start = offer.output.unwrap_or(u64::MAX).saturating_add(at as u64);
                    let view = t.heap(reader.place.rank, start, bytes)?;
                    dests.push(Dest { view, non_temporal: self.stream && reader.push.preferred });
                }
                Route::Input => continue,
                Route::Output => {}
            }
            read = true;
        }
        if staged && !self.done.staging_free {
            self.peers.await_done(self.scope.seq.saturating_sub(2), t, self.scope)?;
            self.done.staging_free = true;
            self.peers.payload_use.forget();
        }
        if staged && self.lent(step, extent).is_none() {
            let bytes = extent.count * self.job.size;
            let view = self.slot(t.rank(), step.slot, slice, bytes);
            let lately = self.places.read_before(self.scope.seq, self.peers.done);
            let probed = self.slot_of(lately, t.rank(), step.slot, slice, bytes);
            let non_temporal = self.peers.pace.non_temporal(probed, self.swap != Swap::Nothing);
            dests.push(Dest { view, non_temporal });
        }
        Ok(read)
    }
}
