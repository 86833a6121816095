//! What ranks tell and hear through a launcher, which a thread of the test plays.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn patience(timeout: Duration) -> Patience<'static> {
    Patience { timeout: Some(timeout), since: Instant::now(), watch: &|| Ok(()) }
}

/// Answers of a launcher, each after the command that it belongs to.
type Answers = &'static [(&'static str, &'static str)];

/// MPICH 5.0.2, to rank 0.
const MPICH: Answers = &[
    ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2"),
    ("cmd=get_my_kvsname", "cmd=my_kvsname rc=0 kvsname=kvs_16226_0_248958434_vm"),
    ("cmd=put kvsname=kvs_16226_0_248958434_vm key=penny-meeting value=mine", "cmd=put_result rc=0"),
    ("cmd=barrier_in", "cmd=barrier_out tag=0"),
    ("cmd=get kvsname=kvs_16226_0_248958434_vm key=penny-meeting", "cmd=get_result rc=0 value=mine"),
    ("cmd=finalize", "cmd=finalize_ack rc=0"),
];

/// Intel MPI 2021.19, to another rank.
const INTEL_MPI: Answers = &[
    ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
    ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_16317_0"),
    ("cmd=barrier_in", "cmd=barrier_out"),
    (
        "cmd=get kvsname=kvs_16317_0 key=penny-meeting",
        "cmd=get_result rc=0 msg=success value=10.0.0.1,fd00::2/7/ab",
    ),
    ("cmd=finalize", "cmd=finalize_ack"),
];

/// Lets a rank speak to a launcher that answers so, and closes afterwards.
fn play(answers: Answers, own: Option<&str>, timeout: Duration) -> Result<String> {
    let (rank, proxy) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut lines = BufReader::new(&proxy).lines();
            for (command, answer) in answers {
                assert_eq!(lines.next().unwrap().unwrap(), *command);
                // In two pieces, as a stream may deliver it.
                let (first, second) = answer.split_at(5);
                (&proxy).write_all(first.as_bytes()).unwrap();
                (&proxy).write_all(format!("{second}\n").as_bytes()).unwrap();
            }
            // A command without an answer is read, so that the rank hears of the end and of no reset.
            let _ = lines.next();
        });
        exchange_with(rank, own, timeout)
    })
}

fn exchange_with(stream: UnixStream, own: Option<&str>, timeout: Duration) -> Result<String> {
    pmi::Talk::new(stream).exchange(own, &patience(timeout))
}

#[test]
fn ranks_tell_and_hear_in_the_words_of_both_launchers() {
    assert_eq!(play(MPICH, Some("mine"), MINUTE).unwrap(), "mine");
    assert_eq!(play(INTEL_MPI, None, MINUTE).unwrap(), "10.0.0.1,fd00::2/7/ab");
}

#[test]
fn a_launcher_that_refuses_or_goes_is_told_with_the_command() {
    let told = play(&MPICH[..3], Some("mine"), MINUTE).unwrap_err();
    assert!(told.message.contains("it closed the connection at its PMI command `barrier_in`"), "{told}");
    const REFUSES: Answers = &[(MPICH[0].0, "cmd=response_to_init rc=-1")];
    let told = play(REFUSES, None, MINUTE).unwrap_err();
    assert!(
        told.message.contains("answered \"cmd=response_to_init rc=-1\" to its PMI command `init`"),
        "{told}"
    );
    const ELSE: Answers = &[(MPICH[0].0, "cmd=barrier_out")];
    assert!(play(ELSE, None, MINUTE).unwrap_err().message.contains("PENNY_SECRET and MASTER_ADDR"));
}

#[test]
fn a_launcher_that_waits_for_a_rank_is_waited_for_until_the_deadline() {
    let (rank, proxy) = UnixStream::pair().unwrap();
    let told = exchange_with(rank, None, Duration::from_millis(50)).unwrap_err();
    assert_eq!(told.code, crate::error::Code::Timeout);
    assert!(
        told.message.contains("within 0.05 s") && told.message.contains("every rank has begun"),
        "{told}"
    );
    drop(proxy);
}

/// A rank that speaks to the launcher of the test.
fn talking(stream: UnixStream) -> Result<Conversation> {
    Ok(Conversation { own: None, talk: Talk::Pmi(pmi::Talk::new(stream)) })
}

#[test]
fn a_rank_whose_patience_was_at_its_end_goes_on_with_the_conversation() {
    let (rank, proxy) = UnixStream::pair().unwrap();
    let mut state = State::Silent;
    let refused = state.go_on(|| Err(Error::usage("no interface")), &patience(MINUTE));
    assert!(refused.is_err() && matches!(state, State::Silent), "nothing was said");
    let told = state.go_on(|| talking(rank), &patience(Duration::from_millis(50))).unwrap_err();
    assert!(told.message.contains("within 0.05 s"), "{told}");
    let secret = "0f".repeat(16);
    thread::scope(|scope| {
        let value = format!("cmd=get_result rc=0 value=10.0.0.1/7/{secret}");
        scope.spawn(move || {
            let mut lines = BufReader::new(&proxy).lines();
            for (command, answer) in INTEL_MPI {
                assert_eq!(lines.next().unwrap().unwrap(), *command, "each is said once");
                let answer = if command.starts_with("cmd=get ") { &value } else { *answer };
                (&proxy).write_all(format!("{answer}\n").as_bytes()).unwrap();
            }
        });
        let again = || Err(Error::usage("it begins again"));
        assert_eq!(state.go_on(again, &patience(MINUTE)).unwrap().secret, secret);
    });
    assert_eq!(state.go_on(|| Err(Error::usage("again")), &patience(MINUTE)).unwrap().port, 7);
}

#[test]
fn a_launcher_that_has_failed_is_not_spoken_to_again() {
    let (rank, proxy) = UnixStream::pair().unwrap();
    drop(proxy);
    let mut state = State::Silent;
    let told = state.go_on(|| talking(rank), &patience(MINUTE)).unwrap_err();
    let again = state.go_on(|| Err(Error::usage("it begins again")), &patience(MINUTE)).unwrap_err();
    assert_eq!(again.message, told.message);
}

#[test]
fn a_line_without_end_is_not_read_for_ever() {
    let (rank, proxy) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| while (&proxy).write_all(&[b'x'; 256]).is_ok() {});
        let told = exchange_with(rank, None, MINUTE).unwrap_err();
        assert!(told.message.contains("a line without end"), "{told}");
    });
}

#[test]
fn a_descriptor_that_does_not_lead_to_the_launcher_is_not_spoken_to() {
    use std::os::fd::AsRawFd;
    let (one, other) = UnixStream::pair().unwrap();
    // Its other end is this process, which is not above itself.
    let told = pmi::inherited(one.as_raw_fd()).err().unwrap();
    assert!(told.message.contains("does not lead to the launcher"), "{told}");
    drop(other);
    let file = std::fs::File::open("/dev/null").unwrap();
    for descriptor in [file.as_raw_fd(), -1, 1_000_000] {
        let told = pmi::inherited(descriptor).err().unwrap();
        assert!(told.message.contains("which is no open socket"), "{told}");
    }
}

#[test]
fn what_is_told_is_read_whole_or_refused() {
    let told = Told { addresses: "10.0.0.1,fd00::2".into(), port: 16_123, secret: "0f".repeat(16) };
    assert_eq!(Told::decode(&told.encode()), Some(told.clone()));
    let own = Told::new().unwrap();
    assert_eq!(Told::decode(&own.encode()), Some(own.clone()));
    assert!(PORTS.contains(&own.port) && PORTS.contains(&(own.port + PORTS_AFTER)));
    let whole = told.encode();
    for cut in ["", "10.0.0.1", "10.0.0.1/1/ab", "/16123/00112233445566778899aabbccddeeff"] {
        assert_eq!(Told::decode(cut), None, "{cut}");
    }
    assert_eq!(Told::decode(&format!("{whole}/more")), None);
}
