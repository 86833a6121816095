//! The declared machine: its clock, its description, the traffic of its ports, the time of a group on it.

use std::ffi::{c_char, c_double, c_float, c_int, c_uint};

use super::group::settle;
use super::guard::{OrNull, Out, Parameter};
use super::handle::pennyComm_t;
use super::types::PENNY_VERSION_CODE;
use crate::comm;
use crate::error::{Error, Result};

/// The magic of a pennyFabricInfo_t: "PEFI".
pub const PENNY_FABRIC_INFO_MAGIC: c_uint = 0x5045_4649;
/// The magic of a pennySimInfo_t: "PESI".
pub const PENNY_SIM_INFO_MAGIC: c_uint = 0x5045_5349;

/// The simulated cluster (declared machine) and the state of its time. Initialize it with PENNY_FABRIC_INFO_INITIALIZER.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyFabricInfo_t {
    /// Set by the initializer.
    pub size: usize,
    /// Set by the initializer.
    pub magic: c_uint,
    /// Set by the initializer.
    pub version: c_uint,
    /// The machine as PENNY_FABRIC declares it, cut to fit.
    pub name: [c_char; 128],
    /// Hash of the machine: two results with the same hash are of the same machine.
    pub hash: u64,
    /// Number of places for ranks.
    pub places: c_uint,
    /// Number of ports: see pennyFabricCounters.
    pub ports: c_uint,
    /// This rank's clock in picoseconds.
    pub nowPs: u64,
    /// Number of calls and transfers of all ranks so far.
    pub calls: u64,
    /// Hash over all calls and the times at which their ranks finished: equal for equal runs.
    pub trace: u64,
    /// Number of entries that arrived after later events had been handled, and were served up to 1 us late; 0 unless
    /// several communicators are busy at once or a rank was absent for long.
    pub late: u64,
    /// Factor by which calls take longer than on the machine; 0: the clock is virtual.
    pub dilation: c_double,
    /// Lateness of this rank's calls as a share of the time that they were to take.
    pub slip: c_double,
    /// Least dilation that this host can keep: the factor by which it was slower than the machine in this rank's calls.
    pub neededDilation: c_double,
    /// 1 if slip is at most 1 %, so that paced times are valid; else 0.
    pub valid: c_int,
    /// Sums over this rank's calls from which slip and neededDilation are computed: nanoseconds late, nanoseconds
    /// requested, nanoseconds in which this host did the work, picoseconds that the calls take on the machine.
    pub lateNs: u64,
    /// See lateNs.
    pub askedNs: u64,
    /// See lateNs.
    pub workedNs: u64,
    /// See lateNs.
    pub fabricPs: u64,
}

/// Traffic counters of one port of the simulated cluster.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennyFabricPort_t {
    /// Name of the port, such as n0.g3.nic.tx, cut to fit.
    pub name: [c_char; 64],
    /// Bytes of payload.
    pub bytes: u64,
    /// Number of messages.
    pub messages: u64,
    /// Picoseconds during which the port was busy.
    pub busyPs: u64,
    /// Largest number of messages that waited for the port at once.
    pub queueHigh: u64,
    /// Messages that a fault damaged or cut off.
    pub errors: u64,
    /// Messages that were sent again.
    pub resends: u64,
    /// Picoseconds during which a fault kept the port from serving.
    pub downPs: u64,
    /// 0.
    pub reserved: [u64; 8],
}

/// The simulated time of a group. Initialize it with PENNY_SIM_INFO_INITIALIZER.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct pennySimInfo_t {
    /// Set by the initializer.
    pub size: usize,
    /// Set by the initializer.
    pub magic: c_uint,
    /// Set by the initializer.
    pub version: c_uint,
    /// Microseconds.
    pub estimatedTime: c_float,
    /// Picoseconds.
    pub estimatedPs: u64,
}

c_api! {
    /// Reads this rank's clock on the simulated cluster (declared machine): the time at which its last call completed
    /// there, plus the time that it declared since. If it is read repeatedly with no call in between, it advances by itself
    /// (after 16 reads by 50 ns, then by more, at most 1 us), so that a loop that waits for a time ends.
    ///
    /// ps: picoseconds, written on success. Without PENNY_FABRIC: pennyInvalidUsage.
    fn pennyFabricNow(comm: pennyComm_t, #[out] ps: *mut u64) {
        ps.set(comm::fabric_now(comm)?)
    }

    /// Declares that this rank computes for ns nanoseconds: its clock advances. With a paced clock the call also takes that
    /// time.
    ///
    /// ns: nanoseconds.
    fn pennyFabricAdvance(comm: pennyComm_t, ns: u64) {
        let ps = ns.checked_mul(1000).ok_or_else(|| Error::argument(format!("ns is {ns}, more than a clock can hold")))?;
        comm::fabric_advance(comm, ps).map(drop)
    }

    /// Advances this rank's clock to a time; does nothing if the clock is past it. Ranks that pass the same time enter
    /// their next call together.
    ///
    /// ps: picoseconds.
    fn pennyFabricAdvanceTo(comm: pennyComm_t, ps: u64) {
        comm::fabric_advance_to(comm, ps).map(drop)
    }

    /// Describes the simulated cluster and the state of its time.
    ///
    /// info: from PENNY_FABRIC_INFO_INITIALIZER; written on success.
    fn pennyFabricInfo(comm: pennyComm_t, #[out] info: *mut pennyFabricInfo_t) {
        let (seat, clock_stats) = comm::fabric_account(comm)?;
        let (machine, network) = (seat.machine(), seat.network());
        let ours = pennyFabricInfo_t {
            size: 0,
            magic: 0,
            version: 0,
            name: text(&machine.spec),
            hash: network.hash(),
            places: network.shape.nranks(),
            ports: network.ports.len() as c_uint,
            nowPs: clock_stats.now_ps,
            calls: clock_stats.calls,
            trace: clock_stats.trace,
            late: clock_stats.late,
            dilation: clock_stats.dilation,
            slip: clock_stats.slip,
            neededDilation: clock_stats.needed,
            valid: clock_stats.valid() as c_int,
            lateNs: clock_stats.sums[0],
            askedNs: clock_stats.sums[1],
            workedNs: clock_stats.sums[2],
            fabricPs: clock_stats.sums[3],
        };
        // SAFETY: the caller's promise: `info` is a pennyFabricInfo_t of some version, as its size says.
        unsafe { fill(info, &ours, PENNY_FABRIC_INFO_MAGIC, "pennyFabricInfo_t", "PENNY_FABRIC_INFO_INITIALIZER") }
    }

    /// Reads the traffic counters of the simulated cluster's ports, for all ranks, as of the last moment at which no call
    /// was in progress. After a call of all ranks the counters include all earlier calls.
    ///
    /// ports: room for *count, written on success; NULL: only the number is returned. count: before the call the room in
    /// ports, after it the number of ports of the machine; if there are more ports than fit, the first ones are written.
    fn pennyFabricCounters(comm: pennyComm_t, #[or_null] ports: *mut pennyFabricPort_t, #[out] count: *mut usize) {
        let (seat, counters) = comm::fabric_counters(comm)?;
        if !ports.0.is_null() {
            // SAFETY: the caller's promise: `count` holds the room in `ports`.
            let room = unsafe { count.0.read_unaligned() };
            let named = seat.network().ports.iter().zip(&counters).take(room);
            let lines = named.map(|(port, passed)| pennyFabricPort_t {
                name: text(&port.name),
                bytes: passed.bytes,
                messages: passed.messages,
                busyPs: passed.busy_ps,
                queueHigh: passed.queue_high as u64,
                errors: passed.errors,
                resends: passed.resends,
                downPs: passed.down_ps,
                reserved: [0; 8],
            });
            // SAFETY: as above.
            unsafe { Out(ports.0).set_all(lines)? };
        }
        count.set(counters.len())
    }

    /// Closes the innermost group of the calling thread, as pennyGroupEnd does, but runs nothing. The outermost call
    /// computes the time that the group would take on the idle simulated cluster if all ranks entered it together: its
    /// transfers at the same time, then its collectives one after the other. With several communicators it is the longest
    /// of their times.
    ///
    /// simInfo: from PENNY_SIM_INFO_INITIALIZER; written on success. Without PENNY_FABRIC: pennyInvalidUsage, and the group
    /// is closed.
    fn pennyGroupSimulateEnd(#[out] simInfo: *mut pennySimInfo_t) {
        let ps = settle(comm::group_simulate_end())?;
        let ours = pennySimInfo_t {
            size: 0,
            magic: 0,
            version: PENNY_VERSION_CODE,
            estimatedTime: (ps as f64 * 1e-6) as c_float,
            estimatedPs: ps,
        };
        // SAFETY: the caller's promise: `simInfo` is a pennySimInfo_t of some version, as its size says.
        unsafe { fill(simInfo, &ours, PENNY_SIM_INFO_MAGIC, "pennySimInfo_t", "PENNY_SIM_INFO_INITIALIZER") }
    }
}

impl Parameter for OrNull<*mut pennyFabricPort_t> {
    type Admitted = Out<pennyFabricPort_t>;
    unsafe fn admit(self, _name: &'static str) -> Result<Out<pennyFabricPort_t>> {
        Ok(Out(self.0))
    }
}

/// Writes as much of a struct as the caller's version of it has, behind the head that the caller's initializer set.
///
/// # Safety
/// `theirs` must be writable for the size that it states; its head is size, magic and version.
pub(super) unsafe fn fill<T>(
    theirs: Out<T>,
    ours: &T,
    magic: c_uint,
    name: &str,
    initializer: &str,
) -> Result<()> {
    const HEAD: usize = size_of::<usize>() + 2 * size_of::<c_uint>();
    let base = theirs.0.cast::<u8>();
    // SAFETY: the promise to `fill`; every version has the head.
    let (size, theirs_magic) = unsafe {
        (
            base.cast::<usize>().read_unaligned(),
            base.add(size_of::<usize>()).cast::<c_uint>().read_unaligned(),
        )
    };
    if theirs_magic != magic || size < HEAD {
        return Err(Error::argument(format!(
            "the place for the result is no {name} (size {size}, magic {theirs_magic:#x}); begin with {initializer}"
        )));
    }
    let bytes = size.min(size_of::<T>()) - HEAD;
    // SAFETY: within both, and they are different objects.
    unsafe {
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(ours).cast::<u8>().add(HEAD), base.add(HEAD), bytes)
    };
    Ok(())
}

fn text<const N: usize>(from: &str) -> [c_char; N] {
    let mut to = [0; N];
    for (to, byte) in to[..N - 1].iter_mut().zip(from.bytes()) {
        *to = byte as c_char;
    }
    to
}
