//! Messages by key: a list of mailboxes, masks and local keys, programmed once, that a sender names with one number.
//!
//! The sender's library expands the key: one copy for each entry, so two entries may say different local keys to threads of one
//! mailbox. Slots for all copies are claimed before any copy is made, in the order of the ranks; who finds one mailbox full gives
//! back what it has claimed elsewhere before it waits, so no thread waits while it holds slots.

use super::send::{Letter, check_mask};
use super::set::Mailboxes;
use crate::error::{Error, Result};
use crate::handle::{Handle, KeyKind};
use crate::recorder;
use crate::sync::lock::RwLock;
use crate::types::Rank;
use std::sync::Arc;

/// One mailbox that a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The mailbox's rank.
    pub dest: i32,
    /// Its threads.
    pub mask: u64,
    /// The local key that the receivers get with the message.
    pub local_key: u32,
}

/// Names a key of one rank's mailbox.
pub type KeyId = Handle<KeyKind>;

/// Turns that a key's name can tell apart.
const TURNS: u32 = (1 << 24) - 1;

/// Entries with the ranks that they mean, in ascending order.
type Route = Arc<[(Rank, KeyEntry)]>;

/// A rank's keys: index in the low half of the number, times that the place was used in the 24 bits above.
#[derive(Default)]
pub(super) struct Keys(RwLock<Vec<(u32, Option<Route>)>>);

fn unknown(key: KeyId) -> Error {
    let bits = key.bits();
    key.refusal(
        "key",
        format_args!("key {bits:#x} is no key of this mailbox: it was destroyed already, or never created"),
    )
}

/// Index and turn.
fn place(key: KeyId) -> Option<(usize, u32)> {
    key.low().map(|low| (low as u32 as usize, (low >> 32) as u32))
}

impl Keys {
    fn get(&self, key: KeyId) -> Result<Route> {
        let keys = self.0.read();
        let of_turn = place(key).and_then(|(index, turn)| keys.get(index).filter(|(now, _)| *now == turn));
        of_turn.and_then(|(_, route)| route.clone()).ok_or_else(|| unknown(key))
    }

    fn add(&self, route: Route) -> KeyId {
        let mut keys = self.0.write();
        let index = keys.iter().position(|(_, route)| route.is_none()).unwrap_or(keys.len());
        if index == keys.len() {
            keys.push((0, None));
        }
        keys[index].0 = (keys[index].0 + 1) & TURNS;
        keys[index].1 = Some(route);
        KeyId::named((keys[index].0 as u64) << 32 | index as u64)
    }

    fn remove(&self, key: KeyId) -> Result<()> {
        let mut keys = self.0.write();
        let of_turn =
            place(key).and_then(|(index, turn)| keys.get_mut(index).filter(|(now, _)| *now == turn));
        of_turn.and_then(|(_, route)| route.take()).map(drop).ok_or_else(|| unknown(key))
    }
}

impl Mailboxes {
    /// Program a key.
    pub fn key_create(&self, entries: &[KeyEntry]) -> Result<KeyId> {
        if entries.is_empty() {
            return Err(Error::argument("n is 0; a key stands for at least one mailbox"));
        }
        let mut route = Vec::with_capacity(entries.len());
        for (i, entry) in entries.iter().enumerate() {
            let named = |e: Error| e.with_message(format!("entries[{i}]: {}", e.message));
            let (dest, shape) = self.dest(entry.dest).map_err(named)?;
            check_mask(dest, shape, entry.mask).map_err(named)?;
            route.push((dest, *entry));
        }
        route.sort_by_key(|(dest, _)| *dest);
        for copies in route.chunk_by(|a, b| a.0 == b.0) {
            let (dest, slots) = (copies[0].0, self.told[copies[0].0 as usize].1.slots);
            if copies.len() > slots as usize {
                return Err(Error::argument(format!(
                    "{} entries go to rank {dest}'s mailbox, which has only {slots} slots",
                    copies.len()
                )));
            }
        }
        Ok(self.keys.add(route.into()))
    }

    /// Forgets a key. Messages under way by it arrive.
    pub fn key_destroy(&self, key: KeyId) -> Result<()> {
        self.keys.remove(key)
    }

    /// Sends the contents of a thread's send slot to all receivers of a key. Waits while one of the mailboxes is full;
    /// until then no receiver gets the message.
    pub fn key_send(&self, key: KeyId, send_slot: usize) -> Result<()> {
        let route = self.keys.get(key)?;
        let copies = || route.iter().map(|(dest, entry)| (*dest, entry.mask)).collect::<Vec<_>>();
        let _recorded = recorder::record(|d| self.describe_message(d, send_slot, &copies()));
        let (thread, guard) = self.sit(self.sender(send_slot)?)?;
        let flits = guard.flits();
        let letter = |entry: &KeyEntry| Letter { thread, flits, local_key: entry.local_key };
        let slots = self.claim_all(thread, &route)?;
        for ((dest, entry), &slot) in route.iter().zip(&slots) {
            let filled = self.fill(letter(entry), *dest, slot);
            filled.inspect_err(|_| self.give_all_back(&route, &slots))?;
        }
        let copies = route.iter().map(|(dest, entry)| (*dest, entry.mask));
        self.carry(Letter { thread, flits, local_key: 0 }, copies)
            .inspect_err(|_| self.give_all_back(&route, &slots))?;
        for (i, ((dest, entry), &slot)) in route.iter().zip(&slots).enumerate() {
            let rest = |_: &Error| self.give_all_back(&route[i + 1..], &slots[i + 1..]);
            self.deliver(letter(entry), *dest, slot, entry.mask).inspect_err(rest)?;
        }
        guard.count_sent();
        Ok(())
    }

    /// Gives back slots that were claimed but not used.
    fn give_all_back(&self, route: &[(Rank, KeyEntry)], slots: &[u32]) {
        for ((dest, _), &slot) in route.iter().zip(slots) {
            self.give_back(*dest, slot);
        }
    }

    /// Returns a slot for each copy, or none.
    fn claim_all(&self, thread: u32, route: &[(Rank, KeyEntry)]) -> Result<Vec<u32>> {
        let mut slots = Vec::with_capacity(route.len());
        // Claimed after waiting, ahead of its turn.
        let mut early: Option<(Rank, u32)> = None;
        // BOUND: `wait_for_slot`, whenever a mailbox is full.
        loop {
            let mut full = None;
            for (dest, _) in route {
                let slot = match early.take_if(|(rank, _)| rank == dest) {
                    Some((_, slot)) => Some(slot),
                    None => self.try_claim(*dest).inspect_err(|_| {
                        self.give_all_back(route, &slots);
                        early.into_iter().for_each(|(rank, slot)| self.give_back(rank, slot));
                    })?,
                };
                match slot {
                    Some(slot) => slots.push(slot),
                    None => {
                        full = Some(*dest);
                        break;
                    }
                }
            }
            let Some(full) = full else { return Ok(slots) };
            self.give_all_back(route, &slots);
            slots.clear();
            if let Some((rank, slot)) = early.take() {
                self.give_back(rank, slot);
            }
            early = Some((full, self.wait_for_slot(thread, full)?));
        }
    }
}
