//! Whole meetings: ranks as threads and as processes, and everything that may go wrong between them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::frame::{self, Secret};
use super::launcher::Launched;
use super::*;
use crate::error::Code;
use crate::sys::socket;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// An unnamed file that holds `text`.
fn file_with(text: &str) -> File {
    let path = std::env::temp_dir().join(format!("penny-test-{}-{text}", std::process::id()));
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// What a rank heard of the others: rank, info and the text in the file that came with it.
type Heard = Vec<(u32, Vec<u8>, String)>;

/// Come as `rank` with a file, and read the files of all the others.
fn attend(place: &Place, rank: u32, nranks: u32, timeout: Option<Duration>) -> Result<Heard> {
    let file =
        file_with(&format!("memory of {rank} for {:x}", nranks as usize ^ place as *const Place as usize));
    let info = format!("I am {rank}").into_bytes();
    let mut heard = Vec::new();
    let hello = Hello { rank, nranks, info: &info, fds: &[file.as_fd()] };
    meet(place, &hello, timeout, &mut |rank, info, fds| {
        let [fd]: [OwnedFd; 1] = fds.try_into().unwrap();
        let mut file = File::from(fd);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        heard.push((rank, info.to_vec(), text.split(" for").next().unwrap().to_owned()));
        Ok(())
    })?;
    Ok(heard)
}

fn everybody(nranks: u32) -> Heard {
    (0..nranks).map(|r| (r, format!("I am {r}").into_bytes(), format!("memory of {r}"))).collect()
}

/// These ranks come as threads of this process, each with the number of ranks that it believes in.
fn gather(place: &Place, ranks: &[(u32, u32)], timeout: Option<Duration>) -> Vec<Result<Heard>> {
    thread::scope(|s| {
        let threads: Vec<_> = ranks
            .iter()
            .map(|&(rank, nranks)| s.spawn(move || attend(place, rank, nranks, timeout)))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

fn all_of(nranks: u32) -> Vec<(u32, u32)> {
    (0..nranks).map(|r| (r, nranks)).collect()
}

fn id_place() -> Place {
    Place::Id(create_id().unwrap())
}

/// A place as `penny run` would give it to its job number `job`.
fn launched(job: u64, rank: u32, nranks: u32, series: u64) -> Launched {
    let variables = BTreeMap::from([
        ("PENNY_JOB_ID", format!("{:016x}{job:016x}", std::process::id())),
        ("PENNY_RANK", rank.to_string()),
        ("PENNY_WORLD_SIZE", nranks.to_string()),
    ]);
    launcher::read(&|name| variables.get(name).cloned(), &|_| None, series).unwrap()
}

fn derived_place(job: u64) -> Place {
    launched(job, 0, 4, 0).place
}

#[test]
fn ranks_meet_by_id_and_each_hears_of_all_with_their_files() {
    for n in [1, 2, 3, 7, 16] {
        for heard in gather(&id_place(), &all_of(n), LONG) {
            assert_eq!(heard.unwrap(), everybody(n));
        }
    }
}

#[test]
fn ranks_meet_at_a_derived_place_whoever_comes_first() {
    for n in [1, 2, 3, 7, 16] {
        let place = derived_place(100 + u64::from(n));
        let mut ranks = all_of(n);
        ranks.reverse();
        for heard in gather(&place, &ranks, LONG) {
            assert_eq!(heard.unwrap(), everybody(n));
        }
    }
}

#[test]
fn rank_0_may_be_the_last_to_come() {
    let place = derived_place(1);
    thread::scope(|s| {
        let early = s.spawn(|| attend(&place, 1, 2, LONG));
        thread::sleep(Duration::from_millis(50));
        assert!(!early.is_finished());
        assert_eq!(attend(&place, 0, 2, LONG).unwrap(), everybody(2));
        assert_eq!(early.join().unwrap().unwrap(), everybody(2));
    });
}

#[test]
fn descriptors_that_arrive_are_the_senders_files() {
    let place = id_place();
    let files: Vec<File> = (0..3).map(|r| file_with(&format!("same {r}"))).collect();
    let inode = |f: &File| f.metadata().unwrap().ino();
    thread::scope(|s| {
        for rank in 0..3 {
            let (files, place) = (&files, &place);
            s.spawn(move || {
                let fds = [files[rank].as_fd(), files[0].as_fd()];
                let hello = Hello { rank: rank as u32, nranks: 3, info: b"", fds: &fds };
                meet(place, &hello, LONG, &mut |r, _, fds| {
                    let [own, shared]: [OwnedFd; 2] = fds.try_into().unwrap();
                    assert_eq!(inode(&File::from(own)), inode(&files[r as usize]));
                    assert_eq!(inode(&File::from(shared)), inode(&files[0]));
                    Ok(())
                })
                .unwrap();
            });
        }
    });
}

#[test]
fn a_missing_rank_is_a_timeout_that_names_it_on_every_rank() {
    for place in [id_place(), derived_place(2)] {
        for result in gather(&place, &[(0, 5), (1, 5), (3, 5)], Some(Duration::from_millis(300))) {
            let error = result.unwrap_err();
            assert_eq!(error.code, Code::Timeout);
            let start = "ranks 2, 4 of 5 have not come after 0.3 s (the timeout of rank ";
            assert!(error.message.starts_with(start), "{error}");
        }
    }
}

#[test]
fn without_rank_0_a_derived_place_times_out_and_names_it() {
    let error = attend(&derived_place(3), 1, 2, Some(Duration::from_millis(100))).unwrap_err();
    assert_eq!(error.code, Code::Timeout);
    assert!(
        error.message.starts_with("rank 0 of 2, where the ranks meet, has not come after 0.1 s"),
        "{error}"
    );
}

#[test]
fn the_shortest_timeout_ends_the_meeting_for_those_who_would_wait_for_ever() {
    let place = id_place();
    thread::scope(|s| {
        let patient = s.spawn(|| attend(&place, 0, 3, None));
        let hasty = s.spawn(|| attend(&place, 1, 3, Some(Duration::from_millis(100))));
        for thread in [patient, hasty] {
            let error = thread.join().unwrap().unwrap_err();
            assert_eq!(error.code, Code::Timeout);
            assert!(error.message.starts_with("rank 2 of 3 has not come"), "{error}");
        }
    });
}

#[test]
fn different_numbers_of_ranks_are_an_error_on_every_rank_even_on_one_that_comes_later() {
    for place in [id_place(), derived_place(4)] {
        let mut results = gather(&place, &[(0, 4), (2, 8), (1, 4)], LONG);
        results.push(attend(&place, 3, 4, LONG));
        let first = results[0].clone().unwrap_err();
        assert_eq!(first.code, Code::InvalidUsage);
        for says in ["says nranks 8", "says 4", "rank 2 (PID "] {
            let other = says
                .replace("nranks 8", "8")
                .replace("says 4", "says nranks 4")
                .replace("rank 2 (", "rank 2 (");
            assert!(first.message.contains(says) || first.message.contains(&other), "{first}");
        }
        for result in results {
            assert_eq!(result.unwrap_err(), first);
        }
    }
}

#[test]
fn a_rank_that_comes_twice_is_an_error_on_every_rank() {
    let pid = std::process::id();
    for (place, twice) in [(id_place(), 1), (derived_place(5), 1), (derived_place(6), 0)] {
        for result in gather(&place, &[(0, 3), (twice, 3), (1, 3)], LONG) {
            let error = result.unwrap_err();
            assert_eq!(error.code, Code::InvalidUsage);
            let start = format!("two callers say that they are rank {twice} of 3: PID {pid} and PID {pid}");
            assert!(error.message.starts_with(&start), "{error}");
        }
    }
}

#[test]
fn a_rank_out_of_range_is_an_error_on_every_rank() {
    for result in gather(&id_place(), &[(0, 2), (7, 2)], LONG) {
        let error = result.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.starts_with("rank 7 (PID "), "{error}");
    }
}

/// Show up with a packet of our own making; returns the verdict, `None` if the door was closed without one.
fn knock_with(ticket: &client::Ticket, packet: &[u8]) -> Option<Error> {
    let connection = socket::connect(&ticket.name).unwrap();
    socket::send(&connection, packet, &[]).unwrap();
    socket::wait(&mut [socket::Watch::readable(&connection)], None).unwrap();
    let mut buffer = [0; frame::MAX_BYTES];
    let len = socket::receive(&connection, &mut buffer).map_or(0, |p| p.len);
    match frame::Answer::decode(&buffer[..len]) {
        Some(frame::Answer::Verdict(error)) => Some(error),
        _ => None,
    }
}

fn hello_packet(ticket: &client::Ticket, secret: Secret, version: [u8; 24]) -> Vec<u8> {
    let serial = ticket.serial;
    frame::Hello {
        serial,
        secret,
        version,
        abi: frame::ABI,
        rank: 1,
        nranks: 2,
        nfds: 0,
        patience: None,
        info: b"",
    }
    .encode()
}

fn ticket_of(place: &Place) -> client::Ticket {
    match place {
        Place::Id(id) => door::decode(id).unwrap(),
        Place::Derived(p) => {
            client::Ticket { name: p.name.clone(), serial: 0, secret: Secret(p.secret), creator: None }
        }
    }
}

#[test]
fn another_version_is_an_error_on_every_rank_that_names_both() {
    let place = id_place();
    let ticket = ticket_of(&place);
    let mut version = [0; 24];
    version[..5].copy_from_slice(b"9.8.7");
    thread::scope(|s| {
        let waiting = s.spawn(|| attend(&place, 0, 2, LONG));
        // Whichever comes first: the verdict stays for the other.
        let told = knock_with(&ticket, &hello_packet(&ticket, ticket.secret, version)).unwrap();
        assert_eq!(told.code, Code::InvalidUsage);
        assert!(told.message.contains("uses Penny 9.8.7"), "{told}");
        assert!(told.message.contains(concat!("uses Penny ", env!("CARGO_PKG_VERSION"))), "{told}");
        assert_eq!(waiting.join().unwrap().unwrap_err(), told);
    });
}

#[test]
fn a_wrong_secret_is_refused_and_the_meeting_goes_on() {
    let place = id_place();
    let ticket = ticket_of(&place);
    for byte in [0, 15] {
        let mut wrong = ticket.secret;
        wrong.0[byte] ^= 1;
        let refusal = knock_with(&ticket, &hello_packet(&ticket, wrong, frame::VERSION)).unwrap();
        assert!(refusal.message.starts_with("this id is not open"), "{refusal}");
    }
    for heard in gather(&place, &all_of(2), LONG) {
        assert_eq!(heard.unwrap(), everybody(2));
    }
}

#[test]
fn an_id_makes_one_communicator_and_then_no_more() {
    let place = id_place();
    assert_eq!(attend(&place, 0, 1, LONG).unwrap(), everybody(1));
    let error = attend(&place, 0, 1, LONG).unwrap_err();
    assert!(matches!(error.code, Code::InvalidUsage | Code::RemoteError), "{error}");
}

#[test]
fn two_jobs_and_two_communicators_of_one_job_never_mix() {
    let places = [(7, 0), (8, 0), (7, 1)].map(|(job, series)| launched(job, 0, 4, series).place);
    thread::scope(|s| {
        for place in &places {
            s.spawn(move || {
                for heard in gather(place, &all_of(4), LONG) {
                    assert_eq!(heard.unwrap(), everybody(4));
                }
            });
        }
    });
}

#[test]
fn thousands_of_unused_ids_cost_no_descriptor_and_the_last_ones_work() {
    let _first = create_id().unwrap();
    let ids: Vec<UniqueId> = (0..10_000).map(|_| create_id().unwrap()).collect();
    let doors: std::collections::BTreeSet<Vec<u8>> =
        ids.iter().map(|id| door::decode(id).unwrap().name).collect();
    assert!(doors.len() <= 2, "{} doors", doors.len());
    for id in ids.iter().rev().take(3) {
        for heard in gather(&Place::Id(*id), &all_of(2), LONG) {
            assert_eq!(heard.unwrap(), everybody(2));
        }
    }
    let error = attend(&Place::Id(ids[0]), 0, 1, LONG).unwrap_err();
    assert!(error.message.starts_with("this id is not open"), "{error}");
}

#[test]
fn an_error_of_the_callback_is_the_callers_own() {
    let hello = Hello { rank: 0, nranks: 1, info: b"", fds: &[] };
    let error = meet(&id_place(), &hello, LONG, &mut |_, _, _| Err(Error::system("no map"))).unwrap_err();
    assert_eq!(error, Error::system("no map"));
}

#[test]
fn garbage_and_idlers_neither_break_nor_join_a_meeting() {
    let place = id_place();
    let ticket = ticket_of(&place);
    let name = &ticket.name;
    let connect = || loop {
        match socket::connect(name) {
            Ok(connection) => return connection,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    };
    thread::scope(|s| {
        let waiting = s.spawn(|| attend(&place, 0, 3, LONG));
        // The test's own descriptors are the scarce ones, so the thousand idlers come and are held in turns.
        let idlers: Vec<OwnedFd> = (0..200).map(|_| connect()).collect();
        let mut noise = 0x9e37_79b9_7f4a_7c15u64;
        for i in 0..10_000 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i);
            let bytes = noise.to_le_bytes().repeat(1 + (noise >> 60) as usize * 40);
            // The server may have hung up on us already; that is its right.
            let _ = socket::send(&connect(), &bytes[..(noise >> 33) as usize % bytes.len()], &[]);
        }
        assert!(!waiting.is_finished());
        for heard in gather(&place, &[(1, 3), (2, 3)], LONG) {
            assert_eq!(heard.unwrap(), everybody(3));
        }
        assert_eq!(waiting.join().unwrap().unwrap(), everybody(3));
        drop(idlers);
    });
}

/// How a test makes a process of its own binary play a rank: place, rank, number of ranks, timeout in ms.
const ROLE: &str = "PENNY_TEST_ROLE";

fn start_rank(place: &Place, rank: u32, nranks: u32) -> Child {
    let place = match place {
        Place::Id(id) => id.0.iter().map(|b| format!("{b:02x}")).collect::<String>(),
        Place::Derived(p) => {
            format!("{}:{:032x}", String::from_utf8_lossy(&p.name), u128::from_be_bytes(p.secret))
        }
    };
    Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "bootstrap::tests::the_part_of_a_child_process"])
        .env(ROLE, format!("{place} {rank} {nranks}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "played by the processes that other tests start"]
fn the_part_of_a_child_process() {
    let role = std::env::var(ROLE).expect("only other tests start this one");
    let words: Vec<&str> = role.split(' ').collect();
    let place = match words[0].split_once(':') {
        Some((name, secret)) => {
            let secret = u128::from_str_radix(secret, 16).unwrap().to_be_bytes();
            Place::Derived(DerivedPlace { name: name.as_bytes().to_vec(), secret })
        }
        None => Place::Id(UniqueId(std::array::from_fn(|i| {
            u8::from_str_radix(&words[0][2 * i..2 * i + 2], 16).unwrap()
        }))),
    };
    let (rank, nranks) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    match attend(&place, rank, nranks, LONG) {
        Ok(heard) => println!("\nMET {}", heard == everybody(nranks)),
        Err(error) => println!("\nFAILED {:?}: {error}", error.code),
    }
}

/// The line that a child process ended with.
fn verdict_of(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|l| l.starts_with("MET") || l.starts_with("FAILED"));
    line.unwrap_or_else(|| panic!("the child said nothing: {text}")).to_owned()
}

/// Wait, without a clock, until somebody listens at the place.
fn until_served(place: &Place) {
    while socket::connect(&ticket_of(place).name).is_err() {
        thread::yield_now();
    }
}

#[test]
fn processes_meet_by_id_and_at_a_derived_place() {
    for place in [id_place(), derived_place(9)] {
        let children: Vec<Child> = (0..4).map(|rank| start_rank(&place, rank, 4)).collect();
        for child in children {
            assert_eq!(verdict_of(child), "MET true");
        }
    }
}

#[test]
fn a_rank_that_is_killed_while_it_waits_is_named_to_the_others() {
    let place = id_place();
    let mut victim = start_rank(&place, 2, 4);
    thread::scope(|s| {
        let waiting = s.spawn(|| gather(&place, &[(0, 4), (1, 4)], LONG));
        // A second rank 2 would be told of the first; so learn from the server when the victim has come.
        while !has_joined(&place, victim.id()) {
            thread::yield_now();
        }
        victim.kill().unwrap();
        for result in waiting.join().unwrap() {
            let error = result.unwrap_err();
            assert_eq!(error.code, Code::RemoteError);
            let start = format!("rank 2 (PID {}) died or gave up before all 4 ranks had come", victim.id());
            assert!(error.message.starts_with(&start), "{error}");
        }
    });
    victim.wait().unwrap();
}

/// Has this process a socket and sleeps in poll: it has said hello and waits for the others.
fn has_joined(_place: &Place, pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|t| std::fs::read_to_string(t.path().join("syscall")).ok()).any(|s| s.starts_with("7 "))
}

#[test]
fn the_death_of_the_server_is_an_error_that_names_it() {
    let place = derived_place(10);
    let mut server = start_rank(&place, 0, 3);
    until_served(&place);
    thread::scope(|s| {
        let waiting = s.spawn(|| attend(&place, 1, 3, LONG));
        thread::sleep(Duration::from_millis(100));
        server.kill().unwrap();
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.code, Code::RemoteError);
        assert!(
            error.message.starts_with(&format!("PID {}, where the ranks meet, died", server.id())),
            "{error}"
        );
    });
    server.wait().unwrap();
}

#[test]
fn an_id_whose_maker_has_ended_is_an_error_at_once() {
    let id = create_id().unwrap();
    let Place::Derived(nowhere) = derived_place(11) else { unreachable!() };
    let ticket =
        client::Ticket { name: nowhere.name, creator: Some(4_000_000), ..door::decode(&id).unwrap() };
    let hello = Hello { rank: 0, nranks: 1, info: b"", fds: &[] };
    let error = client::meet(&ticket, &hello, None, &mut |_, _, _| Ok(())).unwrap_err();
    assert_eq!(error.code, Code::RemoteError);
    assert!(error.message.contains("PID 4000000, which made it, has ended"), "{error}");
}

#[test]
fn the_callback_sees_ranks_in_order_while_others_still_come_to_other_meetings() {
    let order = Mutex::new(Vec::new());
    let start = Instant::now();
    let (slow, fast) = (id_place(), id_place());
    thread::scope(|s| {
        s.spawn(|| attend(&slow, 0, 2, LONG).unwrap());
        for heard in gather(&fast, &all_of(3), LONG) {
            order.lock().unwrap().extend(heard.unwrap().into_iter().map(|(rank, ..)| rank));
        }
        attend(&slow, 1, 2, LONG).unwrap();
    });
    assert_eq!(order.into_inner().unwrap(), [0, 1, 2].repeat(3));
    assert!(start.elapsed() < LONG.unwrap(), "the slow meeting held the fast one up");
}
