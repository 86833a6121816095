//! Mailboxes: every thread of every rank sends to random sets of threads while it receives, until all has come.

use crate::actor::{Actor, Failure, NULL, Outcome, Place, call};
use crate::api::{In, MailboxConfig, Message, Out};
use crate::program::{Family, Step};
use crate::random::Random;

/// A message that all ranks know of.
struct Letter {
    from: (usize, usize),
    to: usize,
    mask: u64,
    flits: usize,
    number: usize,
}

impl Letter {
    fn content(&self, step: &Step) -> Vec<u8> {
        let mut random = Random::of(&[step.salt, self.number as u64, 77]);
        (0..self.flits * 16).map(|_| random.next() as u8).collect()
    }
}

/// A mailbox and its message size, for the threads of a rank.
struct Open<'a> {
    handle: usize,
    letters: &'a [Letter],
    step: &'a Step,
    place: &'a Place,
    thread: usize,
    vote: bool,
    all_vote: bool,
}

pub fn mailbox(actor: &mut Actor<'_>, place: &Place, step: &Step) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    let mut random = place.common(step);
    let machine = actor.shared.program.fabric.is_some();
    let single = machine && !actor.shared.program.has(Family::ThreadsOnMachines);
    let threads: Vec<usize> = (0..n).map(|_| if single { 1 } else { 1 + random.below(3) }).collect();
    let slot_flits = 1 + random.below(8);
    let mut letters = Vec::new();
    for number in 0..random.below(60) {
        let (rank, to) = (random.below(n), random.below(n));
        let from = (rank, random.below(threads[rank]));
        let mask = 1 + random.below((1 << threads[to]) - 1) as u64;
        letters.push(Letter { from, to, mask, flits: 1 + random.below(slot_flits), number });
    }
    let votes: Vec<bool> = {
        let likely = random.one(&[50, 100]);
        (0..n).map(|_| random.chance(likely)).collect()
    };
    let config = MailboxConfig {
        size: size_of::<MailboxConfig>(),
        magic: 1_346_719_042,
        version: 100,
        threads: threads[me] as i32,
        slots: random.one(&[1, 2, 3, 16, 512]),
        slot_bytes: (slot_flits * 16) as i32,
    };
    let mut handle = NULL;
    let (config_at, to): (*const MailboxConfig, *mut Out) = (&config, &mut handle);
    call!(actor, pennyMailboxCreate(comm, config_at, to))?;
    let open = |thread: usize| Open {
        handle: handle as usize,
        letters: &letters,
        step,
        place,
        thread,
        vote: votes[me],
        all_vote: votes.iter().all(|&vote| vote),
    };
    std::thread::scope(|scope| {
        let mut others = Vec::new();
        for thread in 1..threads[me] {
            let (penny, shared, rank, open) = (actor.penny, actor.shared, actor.rank, open(thread));
            let (id, base) = (actor.step, actor.thread);
            others.push(scope.spawn(move || {
                let mut actor = Actor::new(penny, shared, rank, 100 * (base + 1) + thread);
                actor.step = id;
                let ended = exchange(&mut actor, &open);
                match &ended {
                    // Where a rank is killed all threads hear of it; else the first one ends the process.
                    Err(failure) if !shared.killed => actor.give_up(failure),
                    _ => actor.enter("the end of its mailbox"),
                }
                ended
            }));
        }
        let own = exchange(actor, &open(0));
        others.into_iter().map(|other| other.join().expect("threads do not panic")).fold(own, Outcome::and)
    })?;
    call!(actor, pennyMailboxDestroy(handle))
}

/// Sends and receives what is this thread's, then is idle.
fn exchange(actor: &mut Actor<'_>, open: &Open<'_>) -> Outcome {
    let (handle, me, thread) = (open.handle as Out, open.place.me, open.thread as i32);
    let mut slot = NULL;
    let to: *mut Out = &mut slot;
    call!(actor, pennyMailboxSendSlot(handle, thread, to))?;
    let mut outgoing = open.letters.iter().filter(|letter| letter.from == (me, open.thread)).peekable();
    let mut incoming: Vec<&Letter> =
        open.letters.iter().filter(|letter| letter.to == me && letter.mask >> open.thread & 1 == 1).collect();
    while outgoing.peek().is_some() || !incoming.is_empty() {
        let mut moved = false;
        if let Some(letter) = outgoing.peek() {
            let content = letter.content(open.step);
            // SAFETY: the slot is this thread's and has room for the longest message.
            unsafe { std::slice::from_raw_parts_mut(slot.cast::<u8>(), content.len()) }
                .copy_from_slice(&content);
            let (length, dest, mask, from): (_, _, _, In) =
                (letter.flits as i32, letter.to as i32, letter.mask as u32, slot.cast_const());
            let mut sent = 0;
            let sent_at: *mut i32 = &mut sent;
            call!(actor, pennyMailboxSetLen(handle, thread, length))?;
            call!(actor, pennyMailboxTryMulticast(handle, dest, 0, mask, from, sent_at))?;
            if sent == 1 {
                outgoing.next();
                moved = true;
            }
        }
        let mut message = Message { data: NULL, flits: 0, source_rank: 0, source_thread: 0, local_key: 0 };
        let mut received = 0;
        let (to, flag): (*mut Message, *mut i32) = (&raw mut message, &raw mut received);
        if outgoing.peek().is_none() && !incoming.is_empty() && letters_come(open) {
            // Nothing to send: it may wait.
            received = 1;
            call!(actor, pennyMailboxRecv(handle, thread, to))?;
        } else {
            call!(actor, pennyMailboxTryRecv(handle, thread, to, flag))?;
        }
        if received == 1 {
            accept(open, &message, &mut incoming)?;
            let data = message.data;
            call!(actor, pennyMailboxFree(handle, thread, data))?;
            moved = true;
        }
        if !moved {
            let dest = outgoing.peek().map(|letter| letter.to as i32);
            let flags = if dest.is_some() { 3 } else { 2 };
            let dest = dest.unwrap_or(0);
            let mut ready = 0;
            let to: *mut i32 = &mut ready;
            call!(actor, pennyMailboxWaitUntil(handle, thread, flags, dest, to))?;
        }
    }
    let (mut state, vote) = (0, i32::from(open.vote));
    let to: *mut i32 = &mut state;
    call!(actor, pennyMailboxIdle(handle, thread, vote, to))?;
    let expected = if open.all_vote { 2 } else { 1 };
    if state == expected {
        Ok(())
    } else {
        Err(Failure::wrong(format!("idle with {state} instead of {expected}")))
    }
}

/// Does this thread wait for messages, rather than ask for them?
fn letters_come(open: &Open<'_>) -> bool {
    (open.step.salt >> open.thread) & 1 == 1
}

/// The message must be the next one of its sender.
fn accept(open: &Open<'_>, message: &Message, incoming: &mut Vec<&Letter>) -> Outcome {
    let from = (message.source_rank as usize, message.source_thread as usize);
    let Some(at) = incoming.iter().position(|letter| letter.from == from) else {
        return Err(Failure::wrong(format!("a message of {from:?}, who sent no more")));
    };
    let letter = incoming.remove(at);
    let expected = letter.content(open.step);
    // SAFETY: the message is this thread's until it frees it, and flits says how long it is.
    let is = unsafe { std::slice::from_raw_parts(message.data.cast::<u8>(), message.flits as usize * 16) };
    if is.len() != expected.len() {
        return Err(Failure::wrong(format!(
            "{} bytes instead of {} from {from:?}",
            is.len(),
            expected.len()
        )));
    }
    crate::buffer::difference("a message", 1, is, &expected)
}
