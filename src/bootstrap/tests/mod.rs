//! Whole meetings with ranks as threads, and what may go wrong between honest ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::frame::Secret;
use super::launcher::Launched;
use super::*;
use crate::error::Code;

mod hostile;
mod launchers;
mod network;
mod processes;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// Meet the others, and have joined at once.
fn meet(
    place: &MeetingPlace,
    hello: &Hello<'_>,
    timeout: Option<Duration>,
    each: &mut Each<'_>,
) -> Result<()> {
    super::meet(place, hello, timeout, each, &|| Ok(())).map(Attendance::joined)
}

/// An unnamed file that holds `text`.
fn file_with(text: &str) -> File {
    let unique = format!("penny-test-{}-{:?}-{text}", std::process::id(), thread::current().id());
    let path = std::env::temp_dir().join(unique);
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// What a rank heard of the others: rank, info and the text in the file that came with it.
type Heard = Vec<(u32, Vec<u8>, String)>;

/// Come as `rank` with a file, and read the files of all the others.
fn attend(place: &MeetingPlace, rank: u32, nranks: u32, timeout: Option<Duration>) -> Result<Heard> {
    let file = file_with(&format!("memory of {rank}"));
    let info = format!("I am {rank}").into_bytes();
    let mut heard = Vec::new();
    let hello = Hello { rank, nranks, info: &info, fds: &[file.as_fd()] };
    meet(place, &hello, timeout, &mut |rank, info, fds| {
        let [fd]: [OwnedFd; 1] = fds.try_into().unwrap();
        // All ranks share the file's offset, so it is not used.
        let mut text = [0; 32];
        let len = File::from(fd).read_at(&mut text, 0).unwrap();
        heard.push((rank, info.to_vec(), String::from_utf8_lossy(&text[..len]).into_owned()));
        Ok(())
    })?;
    Ok(heard)
}

fn everybody(nranks: u32) -> Heard {
    (0..nranks).map(|r| (r, format!("I am {r}").into_bytes(), format!("memory of {r}"))).collect()
}

/// These ranks come as threads of this process, each with the number of ranks that it believes in.
fn gather(place: &MeetingPlace, ranks: &[(u32, u32)], timeout: Option<Duration>) -> Vec<Result<Heard>> {
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

fn id_place() -> MeetingPlace {
    MeetingPlace::Id(create_id().unwrap())
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

fn derived_place(job: u64) -> MeetingPlace {
    launched(job, 0, 4, 0).place
}

/// What opens this place.
fn ticket_of(place: &MeetingPlace) -> Invitation {
    match place {
        MeetingPlace::Id(id) => id::decode(id).unwrap(),
        MeetingPlace::Hosts(p) => p.invitation(),
        MeetingPlace::Published(_) => panic!("not resolved"),
        MeetingPlace::Derived(p) => Invitation {
            door: Door::Local(p.name.clone()),
            serial: 0,
            secret: Secret(p.secret),
            creator: None,
        },
    }
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
        let pid = std::process::id();
        let either =
            [format!("rank 2 (PID {pid}) says nranks 8, rank "), format!("rank 2 (PID {pid}) says 8;")];
        assert!(either.iter().any(|part| first.message.contains(part)), "{first}");
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

#[test]
fn that_rank_0_cannot_join_is_told_to_every_rank_whoever_asks_twice_and_whoever_comes_late() {
    let place = derived_place(30);
    thread::scope(|s| {
        s.spawn(|| super::refuse(&place, 0, 3, &Error::system("no thread")));
        for (rank, late) in [(1, 0), (1, 0), (2, 3)] {
            thread::sleep(Duration::from_secs(late));
            let error = attend(&place, rank, 3, LONG).unwrap_err();
            assert!(error.message.contains("where the ranks meet, cannot join: no thread"), "{error}");
        }
    });
}

#[test]
fn the_process_that_serves_a_meeting_that_failed_hears_it_after_all_others() {
    let place = derived_place(31);
    let has_come = AtomicBool::new(false);
    thread::scope(|s| {
        // Knocks before there is a meeting, so it may be the first to come.
        s.spawn(|| super::refuse(&place, 1, 3, &Error::system("no thread")));
        s.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            has_come.store(true, Ordering::Relaxed);
            attend(&place, 2, 3, LONG).unwrap_err()
        });
        let error = attend(&place, 0, 3, LONG).unwrap_err();
        assert!(error.message.contains("rank 1 (PID") && error.message.contains("no thread"), "{error}");
        assert!(
            has_come.load(Ordering::Relaxed),
            "rank 0, with which the server may end, heard it before rank 2 came"
        );
    });
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
    let doors: BTreeSet<Vec<u8>> = ids.iter().map(|id| id::decode(id).unwrap().name().to_vec()).collect();
    assert!(doors.len() <= 2, "{} doors", doors.len());
    for id in ids.iter().rev().take(3) {
        for heard in gather(&MeetingPlace::Id(*id), &all_of(2), LONG) {
            assert_eq!(heard.unwrap(), everybody(2));
        }
    }
    let error = attend(&MeetingPlace::Id(ids[0]), 0, 1, LONG).unwrap_err();
    assert!(error.message.starts_with("this id is not open"), "{error}");
}

#[test]
fn an_error_of_the_callback_is_the_callers_own() {
    let hello = Hello { rank: 0, nranks: 1, info: b"", fds: &[] };
    let error = meet(&id_place(), &hello, LONG, &mut |_, _, _| Err(Error::system("no map"))).unwrap_err();
    assert_eq!(error, Error::system("no map"));
}

#[test]
fn an_id_whose_maker_has_ended_is_an_error_at_once() {
    let id = create_id().unwrap();
    let MeetingPlace::Derived(nowhere) = derived_place(11) else { unreachable!() };
    let ticket =
        Invitation { door: Door::Local(nowhere.name), creator: Some(4_000_000), ..id::decode(&id).unwrap() };
    let hello = Hello { rank: 0, nranks: 1, info: b"", fds: &[] };
    let error = client::meet(&ticket, &hello, None, &mut |_, _, _| Ok(()), &|| Ok(())).map(drop).unwrap_err();
    assert_eq!(error.code, Code::RemoteError);
    assert!(error.message.contains("PID 4000000, which made it, has ended"), "{error}");
}

#[test]
fn a_meeting_that_waits_does_not_hold_up_another_behind_the_same_door() {
    let (slow, fast) = (id_place(), id_place());
    thread::scope(|s| {
        let waiting = s.spawn(|| attend(&slow, 0, 2, LONG));
        for heard in gather(&fast, &all_of(3), LONG) {
            assert_eq!(heard.unwrap(), everybody(3));
        }
        assert!(!waiting.is_finished());
        assert_eq!(attend(&slow, 1, 2, LONG).unwrap(), everybody(2));
        assert_eq!(waiting.join().unwrap().unwrap(), everybody(2));
    });
}
