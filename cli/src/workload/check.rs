//! Checks a workload before anything of it is priced: whose calls and messages belong together, and that all of it can end.
//!
//! ```text
//!     rank 0   all_reduce  send ->1  barrier          call 0     call 1        a call is one thing for all of its ranks; a
//!     rank 1   all_reduce  recv <-0  barrier          message 0                cycle among the things is a workload that hangs
//! ```

use std::collections::HashMap;

use super::program::{GroupCall, Message, Work, Workload};

/// A collective, and the node of each of its members.
pub struct MatchedCall {
    pub call: GroupCall,
    pub nodes: Vec<u32>,
}

/// A message, and the nodes of its two ends.
pub struct MatchedMessage {
    pub from: u32,
    pub to: u32,
    pub send: u32,
    pub recv: u32,
    pub bytes: u64,
}

/// What a node takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing but its own rank's.
    Alone,
    /// Index in [`Matches::calls`], and its place in the group.
    Call(u32, u32),
    /// Index in [`Matches::messages`].
    Send(u32),
    /// Index in [`Matches::messages`].
    Recv(u32),
}

/// The calls and messages of a workload, each with the nodes of the ranks that take part.
pub struct Matches {
    pub calls: Vec<MatchedCall>,
    pub messages: Vec<MatchedMessage>,
    /// By rank and node.
    pub parts: Vec<Vec<Part>>,
}

/// Returns the matches of a workload. `Err` names the file, the rank, the node, and the remedy.
pub fn matches(workload: &Workload) -> Result<Matches, String> {
    if workload.ranks.iter().all(|rank| rank.nodes.is_empty()) {
        return Err(format!(
            "{}: no rank has anything to do; give a file with nodes ([[node]] in TOML, COMP_NODE and others in a Chakra trace)",
            workload.name
        ));
    }
    let mut found = Matches {
        calls: Vec::new(),
        messages: Vec::new(),
        parts: workload.ranks.iter().map(|rank| vec![Part::Alone; rank.nodes.len()]).collect(),
    };
    match_calls(workload, &mut found)?;
    match_messages(workload, &mut found)?;
    check_signals(workload)?;
    ends(workload, &found)?;
    Ok(found)
}

fn match_calls(workload: &Workload, found: &mut Matches) -> Result<(), String> {
    // Of each group, the calls of each member in its order.
    let mut made: Vec<Vec<Vec<u32>>> =
        workload.groups.iter().map(|group| vec![Vec::new(); group.ranks.len()]).collect();
    let places: Vec<HashMap<u32, usize>> =
        workload.groups.iter().map(|group| group.ranks.iter().copied().zip(0..).collect()).collect();
    for (rank, program) in workload.ranks.iter().enumerate() {
        for (node, work) in (0..).zip(program.nodes.iter().map(|node| &node.work)) {
            let Work::Call(call) = work else { continue };
            let group = call.group as usize;
            let Some(&place) = places[group].get(&(rank as u32)) else {
                return Err(format!(
                    "{}: the rank is not in group {} of ranks {:?}; take the node out, or add the rank to the group",
                    workload.named(rank, node),
                    workload.groups[group].name,
                    workload.groups[group].ranks
                ));
            };
            made[group][place].push(node);
        }
    }
    for (group, members) in workload.groups.iter().zip(&made) {
        let Some(longest) = (0..members.len()).rev().max_by_key(|&place| members[place].len()) else {
            continue;
        };
        for k in 0..members[longest].len() {
            let of = |place: usize| members[place].get(k).map(|&node| (group.ranks[place] as usize, node));
            let call = |(rank, node): (usize, u32)| match workload.ranks[rank].nodes[node as usize].work {
                Work::Call(call) => call,
                _ => unreachable!("only calls are collected"),
            };
            let first = of(longest).expect("k is below its length");
            let expected = call(first);
            let mut nodes = Vec::with_capacity(members.len());
            for (place, &rank) in group.ranks.iter().enumerate() {
                let Some(node) = of(place) else {
                    return Err(format!(
                        "{}: call {k} of group {} is {} that rank {rank} never makes ({} has {} of its calls); every rank of \
                         a group makes the same calls",
                        workload.named(first.0, first.1),
                        group.name,
                        expected.words(),
                        workload.ranks[rank as usize].file,
                        members[place].len()
                    ));
                };
                if call(node) != expected {
                    return Err(format!(
                        "{}: call {k} of group {} is {}, but on {} {}; every rank of a group makes the same calls in the \
                         same order",
                        workload.named(node.0, node.1),
                        group.name,
                        call(node).words(),
                        workload.named(first.0, first.1),
                        expected.words()
                    ));
                }
                let index = found.calls.len() as u32;
                found.parts[node.0][node.1 as usize] = Part::Call(index, place as u32);
                nodes.push(node.1);
            }
            found.calls.push(MatchedCall { call: expected, nodes });
        }
    }
    Ok(())
}

fn match_messages(workload: &Workload, found: &mut Matches) -> Result<(), String> {
    type Ends = Vec<(u32, Message)>;
    // Sends and receives by sender, receiver and tag.
    let mut between: HashMap<(u32, u32, u64), (Ends, Ends)> = HashMap::new();
    let mut order = Vec::new();
    for (rank, program) in (0..).zip(&workload.ranks) {
        for (node, work) in (0..).zip(program.nodes.iter().map(|node| &node.work)) {
            let (Work::Send(message) | Work::Recv(message)) = work else { continue };
            if message.peer as usize >= workload.ranks.len() || message.peer == rank {
                return Err(format!(
                    "{}: there is no other rank {} among {}; name one of 0..{}",
                    workload.named(rank as usize, node),
                    message.peer,
                    workload.ranks.len(),
                    workload.ranks.len()
                ));
            }
            let is_send = matches!(work, Work::Send(_));
            let (from, to) = if is_send { (rank, message.peer) } else { (message.peer, rank) };
            let key = (from, to, message.tag);
            let ends = between.entry(key).or_insert_with(|| {
                order.push(key);
                Default::default()
            });
            if is_send { ends.0.push((node, *message)) } else { ends.1.push((node, *message)) }
        }
    }
    for (from, to, tag) in order {
        let (sends, receives) = &between[&(from, to, tag)];
        for k in 0..sends.len().max(receives.len()) {
            let (send, recv) = match (sends.get(k), receives.get(k)) {
                (Some(send), Some(recv)) => (send, recv),
                (Some((node, message)), None) => {
                    return Err(format!(
                        "{}: rank {to} never receives this message of {} bytes with tag {tag} ({} has {} such receives for {} \
                         sends); add a receive, or take the send out",
                        workload.named(from as usize, *node),
                        message.bytes,
                        workload.ranks[to as usize].file,
                        receives.len(),
                        sends.len()
                    ));
                }
                (None, Some((node, message))) => {
                    return Err(format!(
                        "{}: rank {from} never sends this message of {} bytes with tag {tag} ({} has {} such sends for {} \
                         receives); add a send, or take the receive out",
                        workload.named(to as usize, *node),
                        message.bytes,
                        workload.ranks[from as usize].file,
                        sends.len(),
                        receives.len()
                    ));
                }
                (None, None) => unreachable!("k is below one of the lengths"),
            };
            if send.1.bytes != recv.1.bytes {
                return Err(format!(
                    "{}: sends {} bytes where {} receives {}; both ends of a message have one size",
                    workload.named(from as usize, send.0),
                    send.1.bytes,
                    workload.named(to as usize, recv.0),
                    recv.1.bytes
                ));
            }
            let index = found.messages.len() as u32;
            found.parts[from as usize][send.0 as usize] = Part::Send(index);
            found.parts[to as usize][recv.0 as usize] = Part::Recv(index);
            let bytes = send.1.bytes;
            found.messages.push(MatchedMessage { from, to, send: send.0, recv: recv.0, bytes });
        }
    }
    Ok(())
}

/// Checks the ranks that puts name, and that as many signals are given as are waited for.
fn check_signals(workload: &Workload) -> Result<(), String> {
    let ranks = workload.ranks.len() as u32;
    let mut given: HashMap<(u32, u32), u64> = HashMap::new();
    // Of each counter: the signals that are waited for, and the last wait.
    let mut awaited: HashMap<(u32, u32), (u64, u32)> = HashMap::new();
    for (rank, program) in (0..).zip(&workload.ranks) {
        for (node, work) in (0..).zip(program.nodes.iter().map(|node| &node.work)) {
            match work {
                Work::Put(put) => {
                    let named = put.to.iter().map(|&(to, _)| to).chain([put.from]);
                    if let Some(peer) =
                        named.chain(put.signals.iter().map(|s| s.rank)).find(|&peer| peer >= ranks)
                    {
                        return Err(format!(
                            "{}: there is no rank {peer} among {ranks}; name one of 0..{ranks}",
                            workload.named(rank as usize, node)
                        ));
                    }
                    for signal in &put.signals {
                        let sum = given.entry((signal.rank, signal.counter)).or_default();
                        *sum = sum.saturating_add(signal.count);
                    }
                }
                Work::Wait { counter, count } => {
                    let (sum, last) = awaited.entry((rank, *counter)).or_default();
                    (*sum, *last) = (sum.saturating_add(*count), node);
                }
                _ => {}
            }
        }
    }
    let mut awaited: Vec<_> = awaited.into_iter().collect();
    awaited.sort_unstable();
    for ((rank, counter), (wanted, last)) in awaited {
        let come = given.get(&(rank, counter)).copied().unwrap_or(0);
        if come < wanted {
            return Err(format!(
                "{}: {wanted} signals of `{}` are waited for on rank {rank}, and {come} are given to it; give more, or take a wait \
                 out",
                workload.named(rank as usize, last),
                workload.counters[counter as usize]
            ));
        }
    }
    Ok(())
}

/// A node of a rank.
type Place = (u32, u32);

/// Proves that every node can begin at some time, if waits for signals end: whether they do is seen when the workload is played.
fn ends(workload: &Workload, found: &Matches) -> Result<(), String> {
    // The nodes of a call wait for what any of them waits for; a receive waits for its send as well.
    let waits = |(rank, node): Place| -> Vec<Place> {
        let own = |rank: u32, node: u32| {
            let after = &workload.ranks[rank as usize].nodes[node as usize].after;
            after.iter().map(move |&before| (rank, before))
        };
        match found.parts[rank as usize][node as usize] {
            Part::Alone | Part::Send(_) => own(rank, node).collect(),
            Part::Recv(message) => {
                let message = &found.messages[message as usize];
                own(rank, node).chain([(message.from, message.send)]).collect()
            }
            Part::Call(index, _) => {
                let call = &found.calls[index as usize];
                let ranks = &workload.groups[call.call.group as usize].ranks;
                ranks.iter().zip(&call.nodes).flat_map(|(&rank, &node)| own(rank, node)).collect()
            }
        }
    };
    // One node stands for all of its call.
    let stands_for = |(rank, node): Place| match found.parts[rank as usize][node as usize] {
        Part::Call(index, _) => {
            let call = &found.calls[index as usize];
            (workload.groups[call.call.group as usize].ranks[0], call.nodes[0])
        }
        _ => (rank, node),
    };
    #[derive(Clone, Copy, PartialEq)]
    enum State {
        New,
        Open,
        Ends,
    }
    let mut state: Vec<Vec<State>> =
        workload.ranks.iter().map(|rank| vec![State::New; rank.nodes.len()]).collect();
    for rank in 0..workload.ranks.len() as u32 {
        for node in 0..workload.ranks[rank as usize].nodes.len() as u32 {
            // Depth first, by a list of its own: chains are as long as workloads.
            let mut open: Vec<(Place, Vec<Place>)> = Vec::new();
            let mut next = Some(stands_for((rank, node)));
            loop {
                if let Some(place) = next.take() {
                    let known = &mut state[place.0 as usize][place.1 as usize];
                    match *known {
                        State::Ends => {}
                        State::Open => {
                            let begin = open.iter().position(|(other, _)| *other == place).unwrap_or(0);
                            let cycle = open[begin..].iter().map(|(place, _)| *place);
                            return Err(hangs(workload, &cycle.collect::<Vec<_>>()));
                        }
                        State::New => {
                            *known = State::Open;
                            open.push((place, waits(place)));
                        }
                    }
                }
                let Some((place, left)) = open.last_mut() else { break };
                match left.pop() {
                    Some(before) => next = Some(stands_for(before)),
                    None => {
                        state[place.0 as usize][place.1 as usize] = State::Ends;
                        open.pop();
                    }
                }
            }
        }
    }
    Ok(())
}

fn hangs(workload: &Workload, cycle: &[Place]) -> String {
    let shown = cycle.iter().take(4).map(|&(rank, node)| workload.named(rank as usize, node));
    let shown = shown.collect::<Vec<_>>().join(", which waits for ");
    let more = if cycle.len() > 4 { ", and so on" } else { "" };
    format!(
        "the workload would never end: {shown}{more}, which waits for the first again; make the ranks' calls in one order, \
         or take a dependency out"
    )
}
