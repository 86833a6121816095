//! Teams of the symmetric heap, and waits for words that other ranks write.

use crate::actor::{Actor, Failure, NULL, Outcome, Place, call};
use crate::api::{Comm, DataType, In, Out};
use crate::element::SUM;
use crate::random::Random;

const INT64: DataType = DataType(4);
/// PENNY_CMP_GE
const AT_LEAST: i32 = 5;

/// Strided teams, rows and columns: each sums the numbers of its ranks.
pub fn teams(actor: &mut Actor<'_>, place: &Place, random: &mut Random) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    if random.chance(50) {
        let (start, stride) = (random.below(n), 1 + random.below(3));
        let size = 1 + random.below((n - 1 - start) / stride + 1);
        let members: Vec<usize> = (0..size).map(|i| start + i * stride).collect();
        let mut team = Comm(NULL);
        let to: *mut Comm = &mut team;
        let (first, step, count) = (start as i32, stride as i32, size as i32);
        call!(actor, pennyShmemTeamSplitStrided(comm, first, step, count, to))?;
        if members.contains(&me) {
            return team_sum(actor, place, team, &members);
        }
        let none = team.0.is_null();
        return if none { Ok(()) } else { Err(Failure::wrong("a rank got a team that it is not in".into())) };
    }
    let width = 1 + random.below(n);
    let (mut row, mut column) = (Comm(NULL), Comm(NULL));
    let (to_row, to_column, range): (*mut Comm, *mut Comm, _) = (&mut row, &mut column, width as i32);
    call!(actor, pennyShmemTeamSplit2d(comm, range, to_row, to_column))?;
    let in_row: Vec<usize> = (0..n).filter(|r| r / width == me / width).collect();
    let in_column: Vec<usize> = (0..n).filter(|r| r % width == me % width).collect();
    team_sum(actor, place, row, &in_row)?;
    team_sum(actor, place, column, &in_column)
}

fn team_sum(actor: &mut Actor<'_>, place: &Place, team: Comm, members: &[usize]) -> Outcome {
    let (mine, mut sum) = (place.me as i64 + 1, -1i64);
    let (send, recv): (In, Out) = ((&raw const mine).cast(), (&raw mut sum).cast());
    call!(actor, pennyShmemTeamSync(team))?;
    call!(actor, pennyAllReduce(send, recv, 1, INT64, SUM, team, NULL))?;
    let expected: i64 = members.iter().map(|&r| r as i64 + 1).sum();
    if sum != expected {
        return Err(Failure::wrong(format!("the team of {members:?} sums to {sum} instead of {expected}")));
    }
    for (i, &member) in members.iter().enumerate() {
        let mut pe = -5;
        let (to, number, comm): (*mut i32, _, _) = (&mut pe, i as i32, place.comm);
        call!(actor, pennyShmemTeamTranslatePe(team, number, comm, to))?;
        if pe != member as i32 {
            return Err(Failure::wrong(format!("number {i} of the team is rank {pe} instead of {member}")));
        }
    }
    call!(actor, pennyCommDestroy(team))
}

/// Every rank writes a word at every other; all wait for all words in ways of their own. `words` holds as many zeros as
/// there are ranks.
pub fn waits(actor: &mut Actor<'_>, place: &Place, words: Out, random: &mut Random) -> Outcome {
    let (n, me, comm) = (place.n(), place.me, place.comm);
    let one = 1i64;
    let (mine, own) = (me as i64 + 1, words.cast::<u8>().wrapping_add(8 * me).cast::<()>().cast());
    let (value, least): (In, In) = ((&raw const mine).cast(), (&raw const one).cast());
    for to in random.order(n) {
        let pe = to as i32;
        let (mut before, zero) = (-1i64, 0i64);
        let (fetched, cond): (Out, In) = ((&raw mut before).cast(), (&raw const zero).cast());
        match random.below(4) {
            0 => call!(actor, pennyShmemAtomicSet(own, value, INT64, pe, comm))?,
            1 => call!(actor, pennyShmemP(own, value, INT64, pe, comm))?,
            2 => call!(actor, pennyShmemAtomicSwap(fetched, own, value, INT64, pe, comm))?,
            _ => call!(actor, pennyShmemAtomicCompareSwap(fetched, own, cond, value, INT64, pe, comm))?,
        }
        if before > 0 {
            return Err(Failure::wrong(format!("the word was {before} before it was written")));
        }
    }
    let mut status = vec![0i32; n];
    let how = random.below(3);
    while status.contains(&0) {
        let state = status.as_ptr();
        let mut found = vec![usize::MAX; n];
        let mut count = 1;
        let (to, count_at): (*mut usize, *mut usize) = (found.as_mut_ptr(), &mut count);
        match how {
            0 => call!(actor, pennyShmemWaitUntilAny(to, words, n, state, AT_LEAST, least, INT64, comm))?,
            1 => {
                call!(
                    actor,
                    pennyShmemWaitUntilSome(to, count_at, words, n, state, AT_LEAST, least, INT64, comm)
                )?;
            }
            _ => {
                call!(actor, pennyShmemWaitUntilAll(words, n, state, AT_LEAST, least, INT64, comm))?;
                found = (0..n).collect();
                count = n;
            }
        }
        for &index in &found[..count] {
            // SAFETY: words of this rank that others write in one piece.
            let is = unsafe { words.cast::<i64>().wrapping_add(index.min(n - 1)).read_volatile() };
            if index >= n || status[index] != 0 || is != index as i64 + 1 {
                return Err(Failure::wrong(format!("word {index} of {n} is {is}, found among {status:?}")));
            }
            status[index] = 1;
        }
    }
    let mut holds = -1;
    let (to, none): (*mut i32, *const i32) = (&mut holds, std::ptr::null());
    call!(actor, pennyShmemTestAll(to, words, n, none, AT_LEAST, least, INT64, comm))?;
    if holds == 1 {
        Ok(())
    } else {
        Err(Failure::wrong("pennyShmemTestAll misses what was waited for".to_owned()))
    }
}
