//! An all-reduce of two ranks over a link between hosts, against the bare engine: an exchange of messages, and one of writes.
//!
//! The ranks are two processes. `PENNY_BENCH_ADDRESSES` has their local addresses, by default twice 127.0.0.1; `PENNY_BENCH_PREFIX` has words
//! to put before the second one's command, such as `ip netns exec b`. The three are measured in turns; the lower quartiles of the rounds are
//! printed, in microseconds, and the all-reduce as a multiple of the faster exchange.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use penny::internals::exec::{PeerProgress, PreparedCall, direct};
use penny::internals::kernels::Fold;
use penny::internals::memory::control::{Control, Layout};
use penny::internals::memory::heap;
use penny::internals::memory::segment::Segment;
use penny::internals::memory::view::Payload;
use penny::internals::sync::wait::Backoff;
use penny::internals::sys::endpoint::{
    Carrier, Endpoint, MemoryId, PeerId, Place, RemoteMemory, Report, SourceRange, Use,
};
use penny::internals::sys::network::Interface;
use penny::internals::transport::arrival::Fingerprint;
use penny::internals::transport::net_link::NetLink;
use penny::internals::transport::{Scope, Transport};
use penny::internals::types::{Collective, DataType, RedOp};

const SIZES: [usize; 3] = [8, 4 << 10, 64 << 10];
const ROUNDS: usize = 15;
const NANOSECONDS: u64 = 60_000_000_000;

/// What carries the bytes: TCP, or the provider of libfabric that `PENNY_BENCH_PROVIDER` names.
fn carrier() -> Carrier {
    std::env::var("PENNY_BENCH_PROVIDER").map_or(Carrier::Tcp(None), Carrier::Libfabric)
}

/// What the two ranks tell each other, in files.
struct Meeting {
    folder: PathBuf,
    rank: usize,
}

impl Meeting {
    /// Gives the other rank some bytes, and returns its bytes.
    fn swap(&self, topic: &str, mine: &[u8]) -> Vec<u8> {
        let file = |rank: usize| self.folder.join(format!("{topic}-{rank}"));
        let draft = self.folder.join(format!("draft-{}", self.rank));
        std::fs::write(&draft, mine).expect("a file of the meeting");
        std::fs::rename(&draft, file(self.rank)).expect("a file of the meeting");
        let start = Instant::now();
        loop {
            if let Ok(bytes) = std::fs::read(file(1 - self.rank)) {
                return bytes;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the other rank does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The bare engine.
struct Engine {
    endpoint: Box<dyn Endpoint>,
    peer: PeerId,
    source: MemoryId,
    theirs: RemoteMemory,
    /// Messages and writes that have come.
    come: u64,
    sent: u64,
}

impl Engine {
    fn new(meeting: &Meeting, address: IpAddr) -> Engine {
        let mut endpoint = carrier().open(address, 1024).expect("an endpoint");
        let memory = |endpoint: &mut dyn Endpoint, used| {
            let segment = Segment::private(1 << 20).expect("memory");
            endpoint.register(Box::new(segment), 0, 1 << 20, used).expect("registered memory")
        };
        let source = memory(&mut *endpoint, Use::Send);
        let target = memory(&mut *endpoint, Use::Written);
        let RemoteMemory { address, key } = endpoint.remote(target);
        let words = meeting.swap("memory", &[address.to_ne_bytes(), key.to_ne_bytes()].concat());
        let word = |at: usize| u64::from_ne_bytes(words[at..at + 8].try_into().expect("eight bytes"));
        let theirs = RemoteMemory { address: word(0), key: word(8) };
        let peer = endpoint.insert(&meeting.swap("endpoint", endpoint.name())).expect("a peer");
        Engine { endpoint, peer, source, theirs, come: 0, sent: 0 }
    }

    fn poll(&mut self) {
        let Engine { endpoint, come, .. } = self;
        let took = |event: Report<'_>| match event {
            Report::Lost(_, why) => panic!("{why}"),
            _ => *come += 1,
        };
        let mut took = took;
        endpoint.poll(&mut took).expect("a poll");
    }

    fn finish(&mut self) {
        let mut polls = 0u32;
        while self.come < self.sent {
            self.poll();
            polls += 1;
            if polls > 1000 {
                std::thread::yield_now();
            }
        }
    }

    fn exchange_messages(&mut self, bytes: usize) {
        let message = [7u64; 1024];
        self.sent += 1;
        while !self.endpoint.send(self.peer, &message[..bytes / 8]).expect("a message") {
            self.poll();
        }
        self.finish();
    }

    fn exchange_writes(&mut self, bytes: usize) {
        let at = (self.sent % 8) as usize * (64 << 10);
        let place = Place { address: self.theirs.address + at as u64, key: self.theirs.key };
        let source = SourceRange::Memory { memory: self.source, at, bytes };
        self.sent += 1;
        while !self.endpoint.write(self.peer, source, &[], [place; 2], 1).expect("a write") {
            self.poll();
        }
        self.finish();
    }
}

/// All-reduce over the link.
struct Rank {
    transport: Transport,
    peers: PeerProgress,
    fold: Fold,
    seq: u64,
    input: Vec<u64>,
    output: Vec<u64>,
}

impl Rank {
    fn new(meeting: &Meeting, address: IpAddr) -> Rank {
        let rank = meeting.rank as u32;
        let near = Arc::new(Control::create(Layout::new(2, 1 << 20)).expect("a segment"));
        let rail = Interface { name: address.to_string(), address, is_loopback: address.is_loopback() };
        let prepared = NetLink::prepare(&near, rank, 2, &[rail], &carrier()).expect("a link");
        let mut blobs = [None, None];
        blobs[1 - meeting.rank] = Some(meeting.swap("blob", &prepared.blob()));
        let far = prepared.connect(&blobs).expect("a connection");
        let heaps = (0..2).map(|_| heap::own().expect("a heap")).collect();
        let backoff = Backoff::for_ranks(2, None);
        let transport = Transport::new(near, rank, heaps, backoff, NANOSECONDS).with_far(Some(far));
        transport.live(std::process::id(), 1);
        let fold = Fold::new(DataType::Float64, RedOp::Sum, 2).expect("floats have sums");
        let words = || vec![0; SIZES[SIZES.len() - 1] / 8];
        Rank { transport, peers: PeerProgress::default(), fold, seq: 0, input: words(), output: words() }
    }

    fn all_reduce(&mut self, bytes: usize) {
        self.seq += 1;
        let count = bytes / 8;
        let said = Fingerprint {
            collective: Collective::AllReduce,
            dtype: DataType::Float64,
            op: RedOp::Sum,
            root: 0,
            algorithm: 0,
            padded: false,
            count: count as u64,
        };
        let mut scope = Scope::new(self.seq, [said.pack(), count as u64], 0, None);
        let value = self.seq as f64 + f64::from(self.transport.rank());
        self.input[count - 1] = value.to_bits();
        let job = PreparedCall {
            collective: Collective::AllReduce,
            root: 0,
            input: Payload::from(&mut self.input[..count]),
            output: Payload::from(&mut self.output[..count]),
            count,
            limit: usize::MAX,
            size: 8,
            fold: Some(&self.fold),
            offer: direct::PACKED,
        };
        direct::enter(&self.transport, &mut scope, &mut self.peers, &job, true).expect("an arrival");
        direct::run(&self.transport, &mut scope, &mut self.peers, &job).expect("a sum");
        assert_eq!(f64::from_bits(self.output[count - 1]), 2.0 * self.seq as f64 + 1.0);
    }
}

/// Microseconds a repetition.
fn time(repetitions: usize, mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..repetitions).for_each(|_| work());
    start.elapsed().as_secs_f64() * 1e6 / repetitions as f64
}

fn lower_quartile(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 4]
}

fn measure(meeting: &Meeting, address: IpAddr) {
    let mut engine = Engine::new(meeting, address);
    let mut rank = Rank::new(meeting, address);
    for bytes in SIZES {
        let repetitions = if bytes > 8 << 10 { 500 } else { 2000 };
        let mut times = [vec![], vec![], vec![]];
        for round in 0..=ROUNDS {
            let messages = if bytes <= 8 << 10 {
                time(repetitions, || engine.exchange_messages(bytes))
            } else {
                f64::INFINITY
            };
            let writes = time(repetitions, || engine.exchange_writes(bytes));
            let sums = time(repetitions, || rank.all_reduce(bytes));
            // The first one warms up.
            if round > 0 {
                [messages, writes, sums].into_iter().zip(&mut times).for_each(|(time, all)| all.push(time));
            }
        }
        let [messages, writes, sums] = times.map(lower_quartile);
        if meeting.rank == 0 {
            println!(
                "{bytes:>6} B  messages {messages:6.1}  writes {writes:6.1}  all-reduce {sums:6.1}  {:.2}",
                sums / messages.min(writes)
            );
        }
    }
}

fn second(folder: &Path) -> Child {
    let this = std::env::current_exe().expect("this program");
    let prefix = std::env::var("PENNY_BENCH_PREFIX").unwrap_or_default();
    let mut words = prefix.split_whitespace().map(Into::into).chain([this.into_os_string()]);
    Command::new(words.next().expect("a word"))
        .args(words)
        .env("PENNY_BENCH_MEETING", folder)
        .spawn()
        .expect("the second rank's command")
}

fn main() {
    let addresses = std::env::var("PENNY_BENCH_ADDRESSES").unwrap_or("127.0.0.1,127.0.0.1".into());
    let addresses: Vec<IpAddr> =
        addresses.split(',').map(|a| a.parse().expect("PENNY_BENCH_ADDRESSES has two addresses")).collect();
    if let Some(folder) = std::env::var_os("PENNY_BENCH_MEETING") {
        return measure(&Meeting { folder: folder.into(), rank: 1 }, addresses[1]);
    }
    let folder = std::env::temp_dir().join(format!("penny-bench-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder for the meeting");
    let mut second = second(&folder);
    measure(&Meeting { folder: folder.clone(), rank: 0 }, addresses[0]);
    assert!(second.wait().expect("the second rank").success());
    std::fs::remove_dir_all(&folder).expect("the meeting's folder");
}
