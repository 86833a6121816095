//! Measurements on a declared machine: its time instead of wall-clock time.
//!
//! ```text
//!     all ranks   latest clock of all --> a moment after which no port is taken any more --> the call --> exit
//! ```
//!
//! All ranks enter at that moment, on a machine that is idle: so the time is the one that `penny sim` tells. With a
//! virtual clock every call takes the same, and one is made; a paced clock makes as many as the options say, and tells
//! how late they were.

use serde::{Deserialize, Serialize};

use crate::capi::{Call, Communicator};
use crate::options::Options;

/// The machine that PENNY_FABRIC declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// As it was declared.
    pub name: String,
    /// Tells machines apart.
    pub hash: u64,
    /// 0: the clock is virtual. Otherwise a call takes this many times as long as it takes on the machine.
    pub dilation: f64,
}

/// The time of a call on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineTime {
    /// Until the last rank was done, in picoseconds.
    pub time_ps: u64,
    /// How late paced calls returned, as a share of the time that they were asked to take, on the worst rank.
    pub slip: f64,
    /// The least dilation that this host can keep for this call, on the worst rank.
    pub needed_dilation: f64,
}

/// Calls on a machine with a paced clock, unless the options say how many.
const PACED_CALLS: u32 = 20;

/// The largest slip at which paced times are valid.
pub const MOST_SLIP: f64 = 0.01;

impl Machine {
    /// Returns the machine's line in the head of a table.
    pub fn text(&self) -> String {
        let clock = match self.dilation {
            0.0 => "virtual".to_owned(),
            dilation => format!("paced:{dilation}"),
        };
        format!(
            "# fabric: {}  hash: {:016x}  clock: {clock}  time: until the last rank is done",
            self.name, self.hash
        )
    }

    /// Returns the line below a row whose paced time is not valid.
    pub fn complaint(&self, time: &MachineTime) -> Option<String> {
        let late = self.dilation > 0.0 && time.slip > MOST_SLIP;
        late.then(|| {
            format!(
                "# invalid: calls were {:.1} % late; this host needs --clock paced:{:.0} or more for this size",
                time.slip * 100.0,
                (time.needed_dilation * 1.5).max(self.dilation * (1.0 + time.slip)).ceil()
            )
        })
    }
}

/// Time calls that all ranks enter together on the idle machine. An error tells beforehand which dilation this host needs, if
/// it cannot keep the one that is asked for.
///
/// # Safety
/// As for [`Communicator::call`].
pub unsafe fn time(
    comm: &Communicator,
    machine: &Machine,
    options: &Options,
    call: &Call,
) -> Result<MachineTime, String> {
    if machine.dilation == 0.0 {
        // SAFETY: the caller's promise.
        return unsafe { timed(comm, 1, call) };
    }
    // SAFETY: as above.
    let warmup = unsafe { timed(comm, 1, call) }?;
    if warmup.needed_dilation > machine.dilation {
        return Err(format!(
            "--clock paced:{}: this host needs {:.0} times what a call of {} elements takes on the machine; pass paced:{:.0} or more",
            machine.dilation,
            warmup.needed_dilation,
            call.count,
            (warmup.needed_dilation * 1.5).ceil()
        ));
    }
    // SAFETY: as above.
    unsafe { timed(comm, options.iters.unwrap_or(PACED_CALLS), call) }
}

/// Times `calls` calls, and returns the longest time and the slip of all.
unsafe fn timed(comm: &Communicator, calls: u32, call: &Call) -> Result<MachineTime, String> {
    let (mut time_ps, mut within) = (0, [0; 4]);
    for _ in 0..calls {
        let moment = align(comm)?;
        let start = comm.account()?.sums;
        // SAFETY: the caller's promise.
        unsafe { comm.call(call) }?;
        let account = comm.account()?;
        time_ps = account.now_ps.saturating_sub(moment).max(time_ps);
        for (sum, (now, then)) in within.iter_mut().zip(account.sums.iter().zip(start)) {
            *sum += now - then;
        }
    }
    let [late_ns, asked_ns, worked_ns, fabric_ps] = within.map(|sum| sum as f64);
    let share = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let worst = |mine: f64| Ok::<_, String>(comm.gather(mine)?.into_iter().fold(0.0, f64::max));
    Ok(MachineTime {
        time_ps: worst(time_ps as f64)? as u64,
        slip: worst(share(late_ns, asked_ns))?,
        needed_dilation: worst(share(worked_ns * 1e3, fabric_ps))?,
    })
}

/// Agrees with all ranks on a time at which no message is in flight.
fn align(comm: &Communicator) -> Result<u64, String> {
    let latest = || -> Result<u64, String> {
        let clocks = comm.gather(comm.account()?.now_ps as f64)?;
        Ok(clocks.into_iter().fold(0.0, f64::max) as u64)
    };
    let (first, second) = (latest()?, latest()?);
    // The second exchange takes about what the first took.
    let moment = second + 8 * (second - first) + 1_000_000;
    comm.advance_to(moment)?;
    Ok(moment)
}
