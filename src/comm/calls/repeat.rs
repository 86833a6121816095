//! A collective like the one before it.
//!
//! Programs make the same call over and over; only the buffers' addresses change, if anything. What was checked and chosen for
//! the last call holds for the next one like it, so it is kept, and so is what holds for different ones before it: many programs make some calls by
//! turns. A call that differs from all of them, or whose buffers overlap in a recipe that needs a closer look, goes the long way,
//! which is the only one that words an error.

use super::collective::{Call, Checked};
use super::exchange::{Directly, Entered, Exchange};
use crate::comm::communicator::CommCore;
use crate::error::Result;
use crate::exec::small::SmallCall;
use crate::exec::{PreparedCall, direct};
use crate::kernels::Fold;
use crate::memory::view::{self, Address, Payload};
use crate::transport::Transport;
use crate::transport::arrival::Offer;
use crate::types::{Collective, Rank};
use std::cell::Cell;

/// The arguments of a call besides its buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pattern {
    /// All but the count. In one word: fields that were just written one by one, and are compared together, would have to leave the core's
    /// store buffer first.
    packed: u64,
    count: usize,
}

impl Pattern {
    #[inline(always)]
    fn of(call: &Call<'_>) -> Pattern {
        let &Call { collective, dtype, op, padded, root, count, .. } = call;
        let small = collective as u64 | (dtype as u64) << 8 | (op as u64) << 16 | (padded as u64) << 24;
        Pattern { packed: small | u64::from(root as u32) << 32, count }
    }
}

/// Two buffers that were looked at.
#[derive(Clone, Copy)]
struct Seen {
    at: [usize; 2],
    in_place: bool,
}

impl Seen {
    fn of(call: &Call<'_>, in_place: bool) -> Seen {
        let at = [call.send.get(), call.recv.get()];
        // Where memory is mapped twice, what is in place does not depend on the addresses alone.
        Seen { at: if view::some_are_mapped_twice() { [usize::MAX; 2] } else { at }, in_place }
    }
}

/// The settings of a call that do not depend on its buffers.
#[derive(Clone, Copy)]
pub(in crate::comm) struct Recipe {
    /// The words of the arrival (see [`Scope`](crate::transport::Scope)).
    pub mine: [u64; 2],
    /// The algorithm that was chosen.
    pub algorithm: usize,
    /// The algorithm for ranks that offer their buffers where this one is for copies.
    pub shared_algorithm: usize,
    /// Its data may come with the arrivals.
    pub small: bool,
    /// In such a call ranks offer their inputs, where peers can reach these, instead of a copy.
    pub lends: bool,
    /// A pass over all ranks' buffers may take its place: that has the same bits, and nobody has asked for this algorithm to copy.
    pub one_pass: bool,
    /// The reduction, for those that reduce.
    pub fold: Option<Fold>,
}

/// The prepared form of the last call, for a repetition of it.
pub(in crate::comm) struct Repeat {
    pattern: Pattern,
    /// The buffers of the call before.
    seen: Cell<Seen>,
    pub recipe: Recipe,
    /// Its data come with the arrivals, and ranks that offer their buffers instead do not divide the work.
    pub is_direct: bool,
    /// Its payload lies with the arrival line.
    pub small: Option<SmallCall>,
    /// Bytes of an element.
    pub size: usize,
    /// Bytes of the buffers.
    input: usize,
    output: usize,
    /// As in [`Checked`].
    in_place_at: isize,
    pub count: usize,
    pub limit: usize,
    pub root: Rank,
    pub bytes: u64,
}

impl Repeat {
    /// Remembers a call.
    pub fn of(
        t: &Transport,
        call: &Call<'_>,
        checked: &Checked<'_>,
        recipe: Recipe,
        is_direct: bool,
    ) -> Repeat {
        let mut repeat = Repeat {
            small: None,
            pattern: Pattern::of(call),
            seen: Cell::new(Seen::of(call, checked.in_place)),
            recipe,
            is_direct,
            size: call.dtype.size(),
            input: checked.input.bytes(),
            output: checked.output.bytes(),
            in_place_at: checked.in_place_at,
            count: checked.count,
            limit: checked.limit,
            root: checked.root,
            bytes: checked.bytes,
        };
        if is_direct && !recipe.lends {
            let job = repeat.job(call.collective, checked.input, checked.output, checked.in_place);
            repeat.small = SmallCall::of(t, &job);
        }
        repeat
    }

    /// Returns the buffers of a call that is made in the same way, and whether it is in place; `None`: it has to go the long way.
    #[inline(always)]
    pub fn buffers<'a>(&self, call: &Call<'a>) -> Option<([Payload<'a>; 2], bool)> {
        if self.pattern != Pattern::of(call) {
            return None;
        }
        let Seen { at, in_place } = self.seen.get();
        if at == [call.send.get(), call.recv.get()] && !view::some_are_mapped_twice() {
            return Some(([call.send.view(self.input), call.recv.view(self.output)], in_place));
        }
        self.other_buffers(call)
    }

    /// Returns the same for buffers that are not those of the call before.
    #[inline(never)]
    fn other_buffers<'a>(&self, call: &Call<'a>) -> Option<([Payload<'a>; 2], bool)> {
        let (input, output) = (payload(call.send, self.input)?, payload(call.recv, self.output)?);
        let in_place = input.overlaps(output);
        if in_place && (output.addr() as isize).wrapping_sub(input.addr() as isize) != self.in_place_at {
            return None;
        }
        self.seen.set(Seen::of(call, in_place));
        Some(([input, output], in_place))
    }

    /// Returns the call with these buffers, whose data come with the arrivals.
    #[inline(always)]
    pub fn job<'a>(
        &'a self,
        collective: Collective,
        input: Payload<'a>,
        output: Payload<'a>,
        in_place: bool,
    ) -> PreparedCall<'a> {
        PreparedCall {
            collective,
            root: self.root,
            input,
            output,
            count: self.count,
            limit: self.limit,
            size: self.size,
            fold: self.recipe.fold.as_ref(),
            offer: Offer { in_place, ..direct::PACKED },
        }
    }

    /// Returns a call with these buffers as [`Call::check`] would.
    #[inline]
    pub fn checked<'a>(&self, input: Payload<'a>, output: Payload<'a>, in_place: bool) -> Checked<'a> {
        let &Repeat { in_place_at, count, limit, root, bytes, .. } = self;
        Checked { input, output, count, limit, root, in_place, in_place_at, bytes }
    }
}

/// The most calls that are kept beside the last one.
const MOST_EARLIER: usize = 32;

/// The prepared forms of the calls before the last one, each of other arguments.
#[derive(Default)]
pub(in crate::comm) struct EarlierCalls {
    calls: Vec<(Pattern, Box<Repeat>)>,
    /// The place that the next one takes when all are taken.
    next: usize,
}

impl EarlierCalls {
    fn find(&mut self, pattern: Pattern) -> Option<&mut (Pattern, Box<Repeat>)> {
        self.calls.iter_mut().find(|(known, _)| *known == pattern)
    }

    fn keep(&mut self, call: Box<Repeat>) {
        let call = (call.pattern, call);
        if self.calls.len() < MOST_EARLIER {
            return self.calls.push(call);
        }
        self.calls[self.next] = call;
        self.next = (self.next + 1) % MOST_EARLIER;
    }
}

/// A collective that is polled, after its first step.
pub(in crate::comm) enum Begun<'a> {
    /// Its data are out; [`CommCore::end_entered`] takes the peers'.
    Entered(Entered<'a>),
    /// It needs more than the arrivals, or a closer look, and nothing of it is done yet.
    Program(Box<Exchange<'a>>),
}

impl CommCore {
    /// Runs a collective from check to return.
    ///
    /// What is inlined here becomes a part of each function of the interface: a call like the last one goes no further.
    #[inline(always)]
    pub(in crate::comm) fn collective(&mut self, call: &Call) -> Result<()> {
        match self.small_again(call) {
            Some(ended) => ended,
            None => self.larger_collective(call),
        }
    }

    /// Runs a collective that is not small, or not like the last one.
    #[inline(never)]
    fn larger_collective(&mut self, call: &Call) -> Result<()> {
        match self.repeated(call) {
            Some(ended) => ended,
            None if self.recall(call) => self.recalled_collective(call),
            None => self.another_collective(call),
        }
    }

    /// Runs a collective like an earlier one, which is the last one now.
    #[inline(never)]
    fn recalled_collective(&mut self, call: &Call) -> Result<()> {
        let made = self.small_again(call).or_else(|| self.repeated(call));
        made.unwrap_or_else(|| self.another_collective(call))
    }

    /// Runs a collective like the last one; `None`: it has to go the long way.
    #[inline(always)]
    fn repeated(&mut self, call: &Call) -> Option<Result<()>> {
        let ([input, output], in_place) = self.like_the_last(call)?;
        let known = self.repeat.as_ref()?;
        let ended = match self.offers_of(known, call.collective, [input, output], in_place) {
            None => match self.exchange_directly(call.collective, [input, output], in_place)? {
                Directly::Over(ended) => ended,
                Directly::Left(mut exchange) => exchange.go_on(self),
            },
            Some(offers) => {
                let (checked, recipe) = (known.checked(input, output, in_place), known.recipe);
                Exchange::begin(self, call, checked, recipe, offers, None).go_on(self)
            }
        };
        Some(self.tell_late_mismatch(ended))
    }

    /// Returns the buffers of a collective like the last one, and whether it is in place.
    #[inline(always)]
    pub(in crate::comm) fn like_the_last<'a>(&self, call: &Call<'a>) -> Option<([Payload<'a>; 2], bool)> {
        let buffers = self.repeat.as_ref()?.buffers(call)?;
        if self.shared.is_forked() || self.transport.is_aborted() { None } else { Some(buffers) }
    }

    /// Returns the same for a collective like the last one or an earlier one, which becomes the last one.
    #[inline]
    pub(in crate::comm) fn like_an_earlier<'a>(
        &mut self,
        call: &Call<'a>,
    ) -> Option<([Payload<'a>; 2], bool)> {
        self.recall(call);
        self.like_the_last(call)
    }

    /// Makes the earlier call that was like this one the last one. Returns false if it is that already, or there was none.
    #[inline]
    pub(super) fn recall(&mut self, call: &Call<'_>) -> bool {
        let pattern = Pattern::of(call);
        let Some(last) = self.repeat.as_mut().filter(|last| last.pattern != pattern) else { return false };
        let Some(place) = self.earlier.find(pattern) else { return false };
        place.0 = last.pattern;
        std::mem::swap(last, &mut place.1);
        let bytes = last.bytes;
        self.count_from_now(call.collective, bytes);
        true
    }

    /// Keeps what holds for calls like this one, which is the last one now.
    pub(in crate::comm) fn remember(&mut self, collective: Collective, call: Repeat) {
        let pattern = call.pattern;
        self.count_from_now(collective, call.bytes);
        let before = self.repeat.replace(Box::new(call)).filter(|before| before.pattern != pattern);
        let Some(before) = before else { return };
        match self.earlier.find(pattern) {
            Some(place) => *place = (before.pattern, before),
            None => self.earlier.keep(before),
        }
    }

    /// The calls from now on are counted as calls of this kind, for processes that look on: those like the last one count nothing.
    pub(in crate::comm) fn count_from_now(&self, collective: Collective, bytes: u64) {
        self.transport.control().counters(self.rank()).call(self.seq, collective as usize, bytes);
    }

    /// Tells whether a call is to offer those of its buffers that peers can reach. Each call asks once.
    pub(in crate::comm) fn offers(&self, collective: Collective, checked: &Checked<'_>) -> bool {
        let buffers = [checked.input, checked.output];
        self.registered.offers(collective, buffers, checked.in_place, checked.bytes)
    }

    /// Tells whether such a call offers its buffers, as [`CommCore::offers`] does; `None`: its input goes with this rank's arrival, wherever its
    /// peers' are.
    #[inline(always)]
    fn offers_of(
        &self,
        known: &Repeat,
        collective: Collective,
        buffers: [Payload<'_>; 2],
        in_place: bool,
    ) -> Option<bool> {
        if known.is_direct && !(known.recipe.lends && self.registered.may_reach(buffers[0])) {
            return None;
        }
        let offers = self.registered.offers(collective, buffers, in_place, known.bytes);
        if known.is_direct && !offers { None } else { Some(offers) }
    }

    /// Enters a collective of no more than `most` bytes as a call that is polled. `None`: it cannot be prepared (`prepare`), or needs a
    /// program where `programs` is not set.
    pub(in crate::comm) fn enter_polled<'a>(
        &mut self,
        call: &Call<'a>,
        most: u64,
        programs: bool,
    ) -> Option<Begun<'a>> {
        let ([input, output], in_place) = match self.like_an_earlier(call) {
            Some(known) => known,
            None if self.prepare(call) => self.like_the_last(call)?,
            None => return None,
        };
        let known = self.repeat.as_ref()?;
        if known.bytes > most || !(known.recipe.small || programs) {
            return None;
        }
        Some(match self.offers_of(known, call.collective, [input, output], in_place) {
            None => {
                Begun::Entered(self.enter_directly(call.collective, [input, output], in_place, Some(0))?)
            }
            Some(offers) => {
                let (checked, recipe) = (known.checked(input, output, in_place), known.recipe);
                Begun::Program(Box::new(Exchange::begin(self, call, checked, recipe, offers, Some(0))))
            }
        })
    }

    /// Takes the peers' data of a collective that was entered.
    pub(in crate::comm) fn end_entered<'a>(&mut self, entered: Entered<'a>) -> Option<Directly<'a>> {
        Some(match self.end_directly(entered)? {
            Directly::Over(ended) if self.late_mismatch.is_some() => {
                Directly::Over(self.report_late_mismatch(ended))
            }
            made => made,
        })
    }
}

/// Returns the buffer; `None` if there is something to be said about it.
#[inline(always)]
fn payload(address: Address<'_>, bytes: usize) -> Option<Payload<'_>> {
    match bytes {
        0 => Some(Payload::EMPTY),
        _ if address.is_null() || address.get().checked_add(bytes).is_none() => None,
        _ => Some(address.view(bytes)),
    }
}

#[cfg(all(test, not(loom)))]
#[path = "repeat_tests.rs"]
mod tests;
