//! Meetings of ranks on several hosts, which are threads of this process with TCP connections over this machine's own addresses.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use super::super::client;
use super::super::excuses::no_meeting;
use super::super::invitation::{Door, Invitation, Knock};
use super::super::network::door::NetworkDoor;
use super::super::network::session::Session;
use super::super::who::Who;
use super::*;
use crate::sys::host::HostIdentity;

/// A port for one test, whose next ones are free as far as other tests go.
fn port(test: u16) -> u16 {
    20_000 + (std::process::id() % 800) as u16 * 32 + test % 2 * 16
}

fn place(port: u16, secret: &str, series: u64, host: &str) -> MeetingPlace {
    // The port of a launcher's own store; the meeting is at one of the next.
    let master = ("127.0.0.1", port - 1);
    MeetingPlace::Hosts(HostsPlace::new(master, secret.as_bytes(), &["job".into()], series).unwrap().on(host))
}

/// What a rank hears of the others: rank and info.
type All = Vec<(u32, Vec<u8>)>;

/// Come as `rank` and return what is heard of the others, and the connection.
fn come(place: &MeetingPlace, rank: u32, nranks: u32, timeout: Duration) -> Result<(All, Attendance)> {
    let info = format!("I am {rank}").into_bytes();
    let mut heard = Vec::new();
    let hello = Hello { rank, nranks, info: &info, fds: &[] };
    let mut each = |rank, info: &[u8], fds: Vec<OwnedFd>| {
        assert!(fds.is_empty());
        heard.push((rank, info.to_vec()));
        Ok(())
    };
    let attendance = super::super::meet(place, &hello, Some(timeout), &mut each, &|| Ok(()))?;
    Ok((heard, attendance))
}

const SECRET: &str = "0123456789abcdef";
const MINUTE: Duration = Duration::from_secs(60);

/// A unique id of this process for ranks of several hosts.
fn hosts_id() -> MeetingPlace {
    MeetingPlace::Id(id::create_id_for_hosts().unwrap())
}

fn meeting(nranks: u32, places: impl Fn(u32) -> MeetingPlace + Sync, then: impl Fn(u32, &Attendance) + Sync) {
    thread::scope(|scope| {
        for rank in 0..nranks {
            let (places, then) = (&places, &then);
            scope.spawn(move || {
                let (heard, attendance) = come(&places(rank), rank, nranks, MINUTE).unwrap();
                let all: Vec<_> = (0..nranks).map(|r| (r, format!("I am {r}").into_bytes())).collect();
                assert_eq!(heard, all);
                then(rank, &attendance);
            });
        }
    });
}

fn come_and_go(_: u32, attendance: &Attendance) {
    attendance.tell_joined();
    attendance.leave();
}

#[test]
fn ranks_of_several_hosts_meet_and_tell_each_other_until_they_leave() {
    for n in [1, 2, 5] {
        let id = hosts_id();
        let by_id = |_| id.clone();
        let series = u64::from(n);
        let by_launcher = |rank| place(port(0), SECRET, series, &format!("host {}", rank % 3));
        let then = |rank: u32, attendance: &Attendance| {
            attendance.tell(format!("from {rank}").as_bytes()).unwrap();
            let mut told = BTreeSet::new();
            // BOUND: the others.
            while told.len() + 1 < n as usize {
                match attendance.hear(MINUTE) {
                    Some(super::super::Heard::Left(_)) => {}
                    Some(super::super::Heard::Told { from, bytes }) => {
                        assert_eq!(bytes, format!("from {from}").into_bytes());
                        assert!(from != rank && told.insert(from));
                    }
                    other => panic!("rank {rank} heard {other:?}"),
                }
            }
            attendance.tell_joined();
            attendance.leave();
        };
        meeting(n, by_id, then);
        meeting(n, by_launcher, then);
    }
}

#[test]
fn ranks_of_rank_0s_host_reach_it_by_any_of_its_loopback_addresses() {
    for (series, master) in [(7, "127.0.0.1"), (8, "127.0.1.1"), (9, "::1")] {
        if TcpListener::bind((master, 0)).is_err() {
            println!("SKIPPED: this machine has no {master}");
            continue;
        }
        let at = |_| {
            let place = HostsPlace::new((master, port(0) - 1), SECRET.as_bytes(), &["job".into()], series);
            MeetingPlace::Hosts(place.unwrap())
        };
        let kinds = std::sync::Mutex::new(BTreeSet::new());
        meeting(2, at, |_, attendance| {
            let links = super::super::reachable(attendance.local_address().unwrap());
            kinds.lock().unwrap().insert(links.is_ipv4());
            attendance.tell_joined();
            attendance.leave();
        });
        assert_eq!(kinds.into_inner().unwrap().len(), 1, "{master}: IPv4 on one rank and IPv6 on the other");
    }
}

#[test]
fn a_port_that_a_connection_of_this_host_has_taken_at_the_known_address_is_passed_over() {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
    use std::os::fd::AsRawFd;
    let first = port(0) + 8;
    let far = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(taken.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, first)).unwrap();
    connect(taken.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, far.local_addr().unwrap().port())).unwrap();
    let at = |rank| place(first, SECRET, 10, &format!("host {rank}"));
    meeting(2, at, come_and_go);
}

#[test]
fn a_rank_that_goes_without_a_word_is_dead_to_all_others_and_one_that_leaves_is_not() {
    let id = hosts_id();
    meeting(
        4,
        |_| id.clone(),
        |rank, attendance| {
            attendance.tell_joined();
            // Ranks 1 and 2 end, 1 without a word, when all have joined.
            attendance.tell(b"joined").unwrap();
            for _ in 0..3 {
                assert!(matches!(attendance.hear(MINUTE), Some(super::super::Heard::Told { .. })));
            }
            match rank {
                1 => {}
                2 => attendance.leave(),
                _ => {
                    use super::super::Heard::{Death, Left};
                    let both = [attendance.hear(MINUTE), attendance.hear(MINUTE)];
                    assert!(both.contains(&Some(Death(1))) && both.contains(&Some(Left(2))), "{both:?}");
                    attendance.leave();
                }
            }
        },
    );
}

#[test]
fn a_rank_that_dies_while_others_join_is_named_to_all_that_have_not() {
    let id = hosts_id();
    thread::scope(|scope| {
        for rank in 0..3 {
            let id = &id;
            scope.spawn(move || {
                let (_, attendance) = come(id, rank, 3, MINUTE).unwrap();
                if rank == 1 {
                    return;
                }
                let until = Instant::now() + MINUTE;
                let told = loop {
                    if let Err(told) = attendance.check() {
                        break told;
                    }
                    assert!(Instant::now() < until);
                    thread::yield_now();
                };
                assert!(told.message.starts_with("rank 1 (PID "), "{told}");
                assert!(told.message.contains("died or gave up while joining"), "{told}");
            });
        }
    });
}

#[test]
fn ranks_that_meet_and_do_not_join_in_time_are_told_so_and_named_to_those_that_have() {
    let id = hosts_id();
    thread::scope(|scope| {
        for rank in 0..3 {
            let id = &id;
            scope.spawn(move || {
                let (_, attendance) = come(id, rank, 3, Duration::from_secs(2)).unwrap();
                match rank {
                    0 => {
                        attendance.tell_joined();
                        let dead = [attendance.hear(MINUTE), attendance.hear(MINUTE)];
                        let [first, second] = [1, 2].map(|rank| Some(super::super::Heard::Death(rank)));
                        assert!(dead.contains(&first) && dead.contains(&second), "{dead:?}");
                        attendance.leave();
                    }
                    _ => match attendance.hear(MINUTE) {
                        Some(super::super::Heard::Failed(told)) => {
                            assert_eq!(told.code, Code::Timeout, "{told}");
                            assert!(told.message.contains("not each has connected"), "{told}");
                        }
                        other => panic!("{other:?}"),
                    },
                }
            });
        }
    });
}

#[test]
fn a_rank_with_a_wrong_secret_is_told_where_it_was_refused_and_the_others_that_it_is_missing() {
    let (right, wrong) = (place(port(1), SECRET, 0, "a"), place(port(1), "another secret 16", 0, "b"));
    let second = Duration::from_secs(1);
    thread::scope(|scope| {
        let rank_0 = scope.spawn(|| come(&right, 0, 2, second).err().unwrap());
        // Rank 0 has given up before: nobody listens any more.
        let rank_1 = come(&wrong, 1, 2, 2 * second).err().unwrap();
        assert_eq!(rank_1.code, Code::Timeout, "{rank_1}");
        assert!(rank_1.message.contains("the secret is not that of its meeting"), "{rank_1}");
        assert!(rank_1.message.contains(&format!("127.0.0.1:{}", port(1))), "{rank_1}");
        let rank_0 = rank_0.join().unwrap();
        assert!(rank_0.message.starts_with("rank 1 of 2 has not come after 1 s"), "{rank_0}");
    });
}

#[test]
fn an_id_of_a_process_that_has_ended_is_refused_with_the_addresses_that_were_tried() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let door = NetworkDoor::of_addresses(&["127.0.0.1".parse().unwrap()], port, MINUTE);
    let invitation = Invitation {
        door: Door::Network { door, host: HostIdentity::this(None) },
        serial: 0,
        secret: Secret([1; 16]),
        creator: Some(77),
    };
    let hello = Hello { rank: 3, nranks: 4, info: b"", fds: &[] };
    let told = client::meet(
        &invitation,
        &hello,
        Some(Duration::from_millis(300)),
        &mut |_, _, _| Ok(()),
        &|| Ok(()),
    );
    let told = told.err().unwrap();
    assert!(told.message.contains(&format!("127.0.0.1:{port} (no process listens there)")), "{told}");
    assert!(told.message.contains("lead to the rank's own host only"), "{told}");
    // A rank that had been there before.
    let Err(Knock::Astray(attempts)) = invitation.knock() else { panic!("a process listens at {port}") };
    let told = no_meeting(&invitation, &hello, &attempts);
    assert!(told.message.contains("its network is cut or its process has ended: mend that"), "{told}");
}

#[test]
fn a_host_whose_name_has_no_address_yet_is_asked_for_until_the_deadline() {
    let place =
        HostsPlace::new(("penny-has-no-such-host.invalid", 29_500), SECRET.as_bytes(), &[], 0).unwrap();
    let told = come(&MeetingPlace::Hosts(place), 1, 2, Duration::from_millis(300)).err().unwrap();
    assert_eq!(told.code, Code::Timeout, "{told}");
    assert!(told.message.contains("penny-has-no-such-host.invalid (it has no address: "), "{told}");
}

#[test]
fn garbage_idle_connections_and_floods_disturb_no_meeting() {
    let id = hosts_id();
    let MeetingPlace::Id(bytes) = &id else { panic!("an id") };
    let Door::Network { door, .. } = id::decode(bytes).unwrap().door else { panic!("a network") };
    let address = format!("{}:{}", door.host.split(',').next().unwrap(), door.ports.start());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let idle: Vec<TcpStream> = (0..40).filter_map(|_| TcpStream::connect(&address).ok()).collect();
        let flood = scope.spawn(|| {
            let mut noise = 88172645463325252u64;
            // BOUND: the meeting.
            while !stop.load(Ordering::SeqCst) {
                let Ok(mut stream) = TcpStream::connect(&address) else { continue };
                noise ^= noise << 13;
                noise ^= noise >> 7;
                noise ^= noise << 17;
                let _ = stream.write_all(&noise.to_le_bytes().repeat(1 + noise as usize % 64));
            }
        });
        meeting(3, |_| id.clone(), come_and_go);
        stop.store(true, Ordering::SeqCst);
        flood.join().unwrap();
        drop(idle);
    });
}

/// The open descriptors of this process, and its resident memory in bytes.
fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    (descriptors, line.split_ascii_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10)
}

#[test]
fn ten_thousand_connections_of_strangers_leave_nothing_and_keep_nobody_out() {
    let id = hosts_id();
    let MeetingPlace::Id(bytes) = &id else { panic!("an id") };
    let Door::Network { door, .. } = id::decode(bytes).unwrap().door else { panic!("a network") };
    let address = format!("{}:{}", door.host.split(',').next().unwrap(), door.ports.start());
    let (descriptors, memory) = held();
    let mut idle = VecDeque::new();
    for number in 0..10_000u64 {
        let Ok(mut stream) = TcpStream::connect(&address) else { continue };
        // Nothing; a part of a claim; a claim that proves nothing; more than any claim.
        let length = [0, 77, super::super::network::handshake::CLAIM, 3000][number as usize % 4];
        let _ = stream.write_all(&number.to_le_bytes().repeat(length.div_ceil(8))[..length]);
        idle.push_back(stream);
        if idle.len() > 64 {
            idle.pop_front();
        }
    }
    meeting(3, |_| id.clone(), come_and_go);
    drop(idle);
    let (now, grown) = held();
    // Other tests of this process hold some, too.
    assert!(now < descriptors + 200, "{descriptors} descriptors have become {now}");
    assert!(grown < memory + (256 << 20), "{memory} bytes have become {grown}");
}

/// Passes bytes on between a client and a server, and changes one byte of what the client sends.
fn meddle(listener: &TcpListener, server: SocketAddr, at: usize) {
    let (client, _) = listener.accept().unwrap();
    let server = TcpStream::connect(server).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (&server, &client);
            let _ = std::io::copy(&mut from, &mut to);
            let _ = client.shutdown(std::net::Shutdown::Both);
        });
        let (mut sent, mut buffer) = (0, [0; 512]);
        while let Ok(read @ 1..) = (&client).read(&mut buffer) {
            if let Some(byte) = at.checked_sub(sent).and_then(|at| buffer[..read].get_mut(at)) {
                *byte ^= 0x20;
            }
            sent += read;
            if (&server).write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(std::net::Shutdown::Both);
    });
}

#[test]
fn a_byte_that_is_changed_on_the_way_ends_the_connection() {
    let secret = Secret([9; 16]);
    // In the claim, and in the length, the content and the seal of the first packet.
    let claim = super::super::network::handshake::CLAIM;
    for at in [3, 50, claim - 1, claim, claim + 9, claim + 4 + 11, usize::MAX] {
        let (front, back) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (to, behind) = (front.local_addr().unwrap(), back.local_addr().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| meddle(&front, behind, at));
            let server = scope.spawn(|| {
                let session = Session::accepted(back.accept().unwrap().0, MINUTE).unwrap();
                let me = Who::this(HostIdentity::this(Some("b")));
                let until = Instant::now() + MINUTE;
                let mut buffer = [0; 64];
                // BOUND: the connection.
                loop {
                    assert!(Instant::now() < until);
                    let heard = session.hear_claim(&|serial| (serial == 5).then_some(secret), &me);
                    match heard.and_then(|()| session.receive(&mut buffer)) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
                        Ok(len) => return buffer[..len] == *b"hello world",
                        Err(_) => return false,
                    }
                }
            });
            let me = Who::this(HostIdentity::this(Some("a")));
            let session = Session::connect(to, MINUTE, 5, &secret, &me, Instant::now() + MINUTE);
            let claimed = session.is_ok_and(|session| {
                let sent = session.send(b"hello world").is_ok();
                drop(session);
                sent && server.join().unwrap()
            });
            assert_eq!(claimed, at == usize::MAX, "byte {at}");
        });
    }
}
