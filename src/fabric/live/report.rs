//! All wait and nothing is under way: who waits for whom, in a sentence.

use super::spec::{Post, What};
use crate::memory::board::{Board, POSTED};
use crate::sync::prim::Ordering;
use crate::types::Rank;

/// Ranks that the sentence names.
const NAMED: usize = 4;

/// What every waiting rank waits for. Ranks are those of the job's first communicator.
pub(super) fn deadlock(board: &Board) -> String {
    let mut waits: Vec<(Rank, Post)> = Vec::new();
    for place in 0..board.places() {
        for (number, ticket) in board.tickets(place).iter().enumerate() {
            if ticket.state.load(Ordering::Acquire) != POSTED {
                continue;
            }
            let count = ticket.posts.load(Ordering::Relaxed) as usize;
            let open =
                board.posts(place, number, count).iter().filter(|l| l.stage.load(Ordering::Relaxed) == 0);
            waits.extend(open.filter_map(|line| Some((place, Post::read(line)?))).take(1));
        }
    }
    let has_posted = |comm: u64, key: u64, member: u32| {
        (0..board.places()).any(|place| {
            board.tickets(place).iter().enumerate().any(|(number, ticket)| {
                ticket.state.load(Ordering::Acquire) == POSTED
                    && board
                        .posts(place, number, ticket.posts.load(Ordering::Relaxed) as usize)
                        .iter()
                        .filter_map(Post::read)
                        .any(|post| (post.comm, post.key, post.member) == (comm, key, member))
            })
        })
    };
    let awaiting: Vec<Rank> = (0..board.places()).filter(|&place| board.awaits(place)).collect();
    let stores = awaiting
        .iter()
        .map(|place| format!("rank {place} waits for a signal or another store that nobody makes"));
    let texts = waits.iter().take(NAMED).map(|(place, post)| {
        let awaited = match post.spec.what {
            What::Put { .. } | What::Pause => return format!("rank {place} in a {}", post.spec),
            What::Transfer { from, to } => vec![if post.member == 0 { to } else { from }],
            What::Collective { .. } | What::Meeting => (0..post.members)
                .filter(|&member| !has_posted(post.comm, post.key, member))
                .take(NAMED)
                .collect(),
        };
        let its = if post.comm == 0 { "" } else { "its " };
        let awaited: Vec<String> = awaited.iter().map(|rank| format!("{its}rank {rank}")).collect();
        let own = match post.spec.what {
            What::Transfer { from, .. } if post.member == 1 => format!("a receive from rank {from}"),
            What::Transfer { to, .. } => format!("a send to rank {to}"),
            What::Collective { collective, .. } => format!("{collective} (call #{})", post.key),
            What::Put { .. } | What::Pause | What::Meeting => post.spec.to_string(),
        };
        let of = if post.comm == 0 { "" } else { " of a sub-communicator" };
        format!("rank {place} in {own}{of} waits for {}", awaited.join(", "))
    });
    let texts: Vec<String> = texts.chain(stores.take(NAMED)).collect();
    let mut text = format!("deadlock on the declared machine: {}", texts.join("; "));
    if waits.len() > NAMED {
        text += &format!("; and {} more wait", waits.len() - NAMED);
    }
    let left: Vec<String> = (0..board.places())
        .filter(|&place| board.place(place).left.load(Ordering::Acquire) != 0)
        .take(NAMED)
        .map(|place| format!("rank {place}"))
        .collect();
    if !left.is_empty() {
        text += &format!("; {} left already", left.join(", "));
    }
    text + "; every send needs its receive, and ranks that send to each other need a group"
}
