//! The cost of queued calls and groups, compared with blocking calls: all-reduce of floats, out of place, modes in turns,
//! lower quartiles.
//!
//! ```text
//!     penny run -n 2 stream_perf queued -b 8,4096            queued and waited for, asked for, or 300 at once; beside blocking
//!     stream_perf group -n 2,4 -b 65536,1048576              a group of n ranks by one thread; beside n threads
//! ```

use std::ffi::c_int;
use std::process::ExitCode;
use std::ptr::null_mut;
use std::time::Instant;

use clap::{Parser, Subcommand};
use penny::ffi::*;

/// Measures queued calls and groups
#[derive(Parser)]
#[command(name = "stream_perf", version)]
struct Program {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// On the ranks of this launch
    Queued {
        #[command(flatten)]
        sizes: Sizes,
    },
    /// On ranks of this process
    Group {
        /// Numbers of ranks
        #[arg(short, value_delimiter = ',', default_value = "2,4")]
        n: Vec<usize>,
        #[command(flatten)]
        sizes: Sizes,
    },
}

#[derive(clap::Args)]
struct Sizes {
    /// Bytes
    #[arg(short, value_delimiter = ',', default_value = "8,4096,65536")]
    bytes: Vec<usize>,
    /// Rounds, in each of which every mode has its turn
    #[arg(long, default_value_t = 15)]
    rounds: usize,
}

/// The number of calls that the mode with many calls queues before it waits.
const SEVERAL: usize = 300;

fn must(result: pennyResult_t) {
    if result != pennySuccess {
        // SAFETY: the string is valid until the thread's next failure.
        let sentence = unsafe { std::ffi::CStr::from_ptr(pennyGetLastError(null_mut())) };
        eprintln!("{}", sentence.to_string_lossy());
        std::process::exit(1);
    }
}

/// A rank's communicator and buffers.
struct Member {
    comm: pennyComm_t,
    send: Vec<f32>,
    recv: Vec<f32>,
}

// SAFETY: a handle may be used by one thread at a time.
unsafe impl Send for Member {}

impl Member {
    fn new(comm: pennyComm_t, bytes: usize) -> Member {
        Member { comm, send: vec![0.0; bytes / 4], recv: vec![0.0; bytes / 4] }
    }

    fn all_reduce(&mut self, stream: pennyStream_t) {
        let (send, recv) = (self.send.as_ptr().cast(), self.recv.as_mut_ptr().cast());
        // SAFETY: the buffers live until the call is over: every mode waits for what it has queued.
        must(unsafe { pennyAllReduce(send, recv, self.send.len(), pennyFloat, pennySum, self.comm, stream) });
    }
}

/// Returns the time of one call in microseconds; `calls` should be enough for some milliseconds.
fn time(calls: usize, run: impl FnOnce(usize)) -> f64 {
    let start = Instant::now();
    run(calls);
    start.elapsed().as_secs_f64() * 1e6 / calls as f64
}

fn quartile(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

fn queued(sizes: &Sizes) {
    let (mut comm, mut stream, mut rank): (pennyComm_t, pennyStream_t, c_int) = (null_mut(), null_mut(), 0);
    // SAFETY: places for results; a NULL configuration is the default one.
    unsafe {
        must(pennyCommInitFromEnv(&mut comm, std::ptr::null()));
        must(pennyCommUserRank(comm, &mut rank));
        must(pennyStreamCreate(&mut stream));
    }
    for &bytes in &sizes.bytes {
        let mut member = Member::new(comm, bytes);
        let calls = (20_000_000 / (bytes + 1000)).clamp(20, 10_000);
        let mut times: [Vec<f64>; 4] = Default::default();
        for _ in 0..sizes.rounds {
            for (mode, times) in times.iter_mut().enumerate() {
                // SAFETY: the communicator and the stream live until the end.
                unsafe { must(pennyBarrier(comm, null_mut())) };
                times.push(time(calls, |calls| {
                    for call in 1..=calls {
                        member.all_reduce(if mode == 0 { null_mut() } else { stream });
                        // SAFETY: as above.
                        unsafe {
                            match mode {
                                1 => must(pennyStreamSynchronize(stream)),
                                2 => while pennyStreamQuery(stream) == pennyInProgress {},
                                3 if call % SEVERAL == 0 => must(pennyStreamSynchronize(stream)),
                                _ => {}
                            }
                        }
                    }
                    // SAFETY: as above.
                    unsafe { must(pennyStreamSynchronize(stream)) };
                }));
            }
        }
        let [blocking, waited, asked, several] = times.map(quartile);
        if rank == 0 {
            println!(
                "{bytes:>9} bytes: blocking {blocking:.3} us, queued and waited for {:.2} times that, asked for {:.2}, \
                 {SEVERAL} queued {:.2}",
                waited / blocking,
                asked / blocking,
                several / blocking
            );
        }
    }
    // SAFETY: the last calls with them.
    unsafe {
        must(pennyStreamDestroy(stream));
        must(pennyCommDestroy(comm));
    }
}

fn group(n: usize, sizes: &Sizes) {
    let mut comms = vec![null_mut(); n];
    // SAFETY: a place for each communicator; NULL: the devices of the ranks' own numbers.
    must(unsafe { pennyCommInitAll(comms.as_mut_ptr(), n as c_int, std::ptr::null()) });
    for &bytes in &sizes.bytes {
        let mut members: Vec<Member> = comms.iter().map(|comm| Member::new(*comm, bytes)).collect();
        let calls = (20_000_000 / (bytes + 1000)).clamp(20, 1000);
        let mut times: [Vec<f64>; 2] = Default::default();
        for _ in 0..sizes.rounds {
            times[0].push(time(calls, |calls| {
                for _ in 0..calls {
                    // SAFETY: no pointers.
                    unsafe { must(pennyGroupStart()) };
                    members.iter_mut().for_each(|member| member.all_reduce(null_mut()));
                    // SAFETY: the buffers outlive the group.
                    unsafe { must(pennyGroupEnd()) };
                }
            }));
            times[1].push(time(calls, |calls| {
                std::thread::scope(|scope| {
                    for member in &mut members {
                        scope.spawn(move || (0..calls).for_each(|_| member.all_reduce(null_mut())));
                    }
                });
            }));
        }
        let [group, threads] = times.map(quartile);
        println!(
            "{n} ranks, {bytes:>9} bytes: a group by one thread {group:.2} us, threads {threads:.2} us; bandwidth {:.2} of theirs",
            threads / group
        );
    }
    // SAFETY: the last calls with them.
    comms.into_iter().for_each(|comm| must(unsafe { pennyCommDestroy(comm) }));
}

fn main() -> ExitCode {
    match Program::parse().what {
        What::Queued { sizes } => queued(&sizes),
        What::Group { n, sizes } => n.into_iter().for_each(|n| group(n, &sizes)),
    }
    ExitCode::SUCCESS
}
