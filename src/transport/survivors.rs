//! What ranks of several hosts tell each other to make a smaller communicator of some of them, when calls are over.
//!
//! On one host the words in the life lines are enough. Ranks of other hosts learn them by frames, and with them where the rank's
//! endpoint for the new communicator is.

use super::Transport;
use super::far::FarRanks;
use super::link::{Body, bytes_of, copied, words_of};
use crate::memory::view::Payload;
use crate::sync::lock::Mutex;
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// The second word of a rank's life line about a smaller communicator, if the rank has given up making it.
pub const GAVE_UP: u64 = u64::MAX;

/// What far ranks have told of smaller communicators, by rank.
pub(super) struct Told(Mutex<Box<[ShrinkProgress]>>);

/// What a far rank has told of the smaller communicators that it makes.
#[derive(Clone, Default)]
pub struct ShrinkProgress {
    /// The address of its endpoint in the one that it is making, once it has one.
    pub endpoint: Option<Vec<u8>>,
    /// How many it has made.
    pub made: u64,
    /// How often it has given up.
    pub given_up: u64,
}

impl ShrinkProgress {
    /// Returns how many attempts it has ended.
    pub fn ended(&self) -> u64 {
        self.made + self.given_up
    }
}

impl Told {
    pub fn new(nranks: usize) -> Told {
        Told(Mutex::new(vec![ShrinkProgress::default(); nranks].into()))
    }
}

impl FarRanks {
    /// A far rank has changed its words.
    pub(super) fn shrink_frame(&self, from: Rank, [wish, at]: [u64; 2], endpoint: Payload<'_>) {
        let bytes = bytes_of(&copied(endpoint), endpoint.bytes());
        let making = &mut self.told.0.lock()[from as usize];
        making.endpoint = (!endpoint.is_empty()).then_some(bytes);
        making.made += u64::from(wish == 0);
        making.given_up += u64::from(at == GAVE_UP);
        let life = self.mirror.life(from);
        life.shrink[1].store(at, Ordering::Relaxed);
        // ORDER: publishes the place; partner: the load of a rank that makes a smaller communicator.
        life.shrink[0].store(wish, Ordering::Release);
    }
}

impl Transport {
    /// Tells all ranks what this rank's life line says of a smaller communicator. `endpoint`: where far ranks reach it there, once it is
    /// known.
    pub fn tell_shrink(&self, endpoint: &[u8]) {
        self.after_post();
        let Some(far) = self.far_to_post() else { return };
        let life = self.control.life(self.rank);
        let of = |word: usize| life.shrink[word].load(Ordering::Relaxed);
        let mut words: Vec<u64> = words_of(endpoint).collect();
        let endpoint = Payload::from(&mut words[..]).part(0, endpoint.len());
        far.post_to_all(Body::Shrink { words: [of(0), of(1)], endpoint });
    }

    /// Returns what a far rank has told of smaller communicators.
    pub fn making(&self, rank: Rank) -> ShrinkProgress {
        self.far.as_ref().map_or(ShrinkProgress::default(), |far| far.told.0.lock()[rank as usize].clone())
    }
}
