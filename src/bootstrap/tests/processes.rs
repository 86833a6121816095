//! Ranks as processes: the test binary starts itself again to play a part.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;

use super::*;
use crate::sys::socket;

/// The variable that tells a child which part to play.
const PART: &str = "PENNY_TEST_PART";

/// A process that plays a part; killed if the test drops it.
pub struct Player {
    child: Child,
}

impl Drop for Player {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A place as one word.
fn spelled(place: &MeetingPlace) -> String {
    match place {
        MeetingPlace::Id(id) => id.0.iter().map(|b| format!("{b:02x}")).collect(),
        MeetingPlace::Derived(p) => {
            format!("{}:{:032x}", String::from_utf8_lossy(&p.name), u128::from_be_bytes(p.secret))
        }
        MeetingPlace::Hosts(_) | MeetingPlace::Published(_) => panic!("no place of one host"),
    }
}

fn read_place(word: &str) -> MeetingPlace {
    match word.split_once(':') {
        Some((name, secret)) => {
            let secret = u128::from_str_radix(secret, 16).unwrap().to_be_bytes();
            MeetingPlace::Derived(DerivedPlace { name: name.as_bytes().to_vec(), secret })
        }
        None => {
            let byte = |i: usize| u8::from_str_radix(&word[2 * i..2 * i + 2], 16).unwrap();
            MeetingPlace::Id(UniqueId(std::array::from_fn(byte)))
        }
    }
}

/// Start a process that may hold `limit` descriptors.
fn play(part: String, limit: u32) -> Player {
    let child = Command::new("sh")
        .args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "--nocapture",
            "bootstrap::tests::processes::the_part_of_a_child_process",
        ])
        .env(PART, part)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    Player { child }
}

fn start_rank(place: &MeetingPlace, rank: u32, nranks: u32) -> Player {
    play(format!("rank {} {rank} {nranks}", spelled(place)), 256)
}

/// Let a process open this many connections and say nothing, until it is released.
pub fn hold_idle(place: &MeetingPlace, connections: u32) -> Player {
    let mut player = play(format!("idle {} {connections} 0", spelled(place)), connections + 20);
    let mut said = BufReader::new(player.child.stdout.as_mut().unwrap()).lines().map_while(|l| l.ok());
    assert!(said.any(|l| l == "HOLDING"), "the idlers did not come");
    player
}

impl Player {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Let it end.
    pub fn release(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }

    /// The line that a rank ends with.
    fn verdict(&mut self) -> String {
        let mut said = BufReader::new(self.child.stdout.as_mut().unwrap()).lines().map_while(|l| l.ok());
        said.find(|l| l.starts_with("MET") || l.starts_with("FAILED")).expect("the child said nothing")
    }

    /// Wait until it sleeps in poll(2) or ppoll(2), which a rank does only after it has said hello.
    fn wait_until_it_waits(&self) {
        let asleep = |call: String| call.starts_with("7 ") || call.starts_with("73 ");
        loop {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
            let mut calls =
                tasks.filter_map(|t| std::fs::read_to_string(t.ok()?.path().join("syscall")).ok());
            if calls.any(asleep) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
#[ignore = "played by the processes that other tests start"]
fn the_part_of_a_child_process() {
    let part = std::env::var(PART).expect("only other tests start this one");
    let words: Vec<&str> = part.split(' ').collect();
    let place = read_place(words[1]);
    let (first, second) = (words[2].parse().unwrap(), words[3].parse().unwrap());
    match words[0] {
        "rank" => match attend(&place, first, second, LONG) {
            Ok(heard) => println!("\nMET {}", heard == everybody(second)),
            Err(error) => {
                println!("\nFAILED {:?}: {error}", error.code);
                // A rank that serves stays, so that those who come late hear it too.
                std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            }
        },
        "all" => {
            for heard in gather(&place, &all_of(second)[first as usize..], LONG) {
                match heard {
                    Ok(heard) => println!("\nMET {}", heard == everybody(second)),
                    Err(error) => println!("\nFAILED {:?}: {error}", error.code),
                }
            }
        }
        "idle" => {
            let name = ticket_of(&place).name().to_vec();
            let held: Vec<OwnedFd> = (0..first).map(|_| hostile::connect(&name)).collect();
            println!("\nHOLDING");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            drop(held);
        }
        other => panic!("no such part: {other}"),
    }
}

#[test]
fn processes_meet_by_id_and_at_a_derived_place() {
    for place in [id_place(), derived_place(20)] {
        let mut ranks: Vec<Player> = (0..4).map(|rank| start_rank(&place, rank, 4)).collect();
        for rank in &mut ranks {
            assert_eq!(rank.verdict(), "MET true");
        }
    }
}

#[test]
fn four_ranks_meet_though_each_may_hold_32_descriptors() {
    let place = derived_place(21);
    let start = |rank: u32| play(format!("rank {} {rank} 4", spelled(&place)), 32);
    let mut ranks: Vec<Player> = (0..4).map(start).collect();
    for rank in &mut ranks {
        assert_eq!(rank.verdict(), "MET true");
    }
}

#[test]
fn ranks_of_a_process_without_descriptors_are_told_the_limit() {
    let mut poorest = 0;
    for limit in (8..24).rev() {
        // No other test meets there: they run beside this one.
        let place = derived_place(200 + u64::from(limit));
        let mut ranks = play(format!("all {} 0 4", spelled(&place)), limit);
        let mut text = String::new();
        ranks.child.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        let said: Vec<_> =
            text.lines().filter(|line| line.starts_with("MET") || line.starts_with("FAILED")).collect();
        if said.is_empty() {
            // The test's own files have not found room.
            break;
        }
        assert_eq!(said.len(), 4, "{limit}: {text}");
        poorest = said.iter().filter(|line| line.starts_with("FAILED")).count().max(poorest);
        for line in said {
            assert!(line == "MET true" || line.contains("`ulimit -n`"), "{limit}: {line}");
        }
    }
    assert_eq!(poorest, 4, "one of the limits is too low for the ranks");
}

#[test]
fn a_server_without_descriptors_says_so_to_every_rank() {
    let place = derived_place(22);
    let mut ranks: Vec<Player> = (0..8)
        .map(|rank| play(format!("rank {} {rank} 8", spelled(&place)), if rank == 0 { 18 } else { 256 }))
        .collect();
    for rank in &mut ranks {
        let said = rank.verdict();
        assert!(said.starts_with("FAILED SystemError: PID "), "{said}");
        assert!(said.contains("its limit is 18; raise it with `ulimit -n`"), "{said}");
    }
}

#[test]
fn a_rank_that_is_killed_while_it_waits_is_named_to_the_others() {
    let place = id_place();
    let victim = start_rank(&place, 2, 4);
    thread::scope(|s| {
        let waiting = s.spawn(|| gather(&place, &[(0, 4), (1, 4)], LONG));
        victim.wait_until_it_waits();
        let start = format!("rank 2 (PID {}) died or gave up before all 4 ranks had come", victim.pid());
        drop(victim);
        for result in waiting.join().unwrap() {
            let error = result.unwrap_err();
            assert_eq!(error.code, Code::RemoteError);
            assert!(error.message.starts_with(&start), "{error}");
        }
    });
}

#[test]
fn the_death_of_the_server_is_an_error_that_names_it() {
    let place = derived_place(23);
    let server = start_rank(&place, 0, 3);
    let mut waiting = start_rank(&place, 1, 3);
    waiting.wait_until_it_waits();
    let start = format!("FAILED RemoteError: rank 0 (PID {}), where the ranks meet, died", server.pid());
    drop(server);
    let said = waiting.verdict();
    assert!(said.starts_with(&start), "{said}");
}

#[test]
fn the_door_closes_when_no_meeting_is_left() {
    let place = derived_place(24);
    for heard in gather(&place, &all_of(2), LONG) {
        assert_eq!(heard.unwrap(), everybody(2));
    }
    // The server sees the guests leave a moment after they have.
    while socket::connect(ticket_of(&place).name()).is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
}
