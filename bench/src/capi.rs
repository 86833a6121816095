//! The C functions, called as a C program calls them; a failure is returned as Penny's sentence.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use penny::ffi::{self, pennyComm_t, pennyResult_t, pennySuccess, pennyUniqueId};
use penny::internals::types::{Collective, DataType, RedOp};

use crate::machine::Machine;
use crate::subject::Subject;

/// The communicator of all processes of this launch.
pub struct Communicator {
    raw: pennyComm_t,
    rank: u32,
    nranks: u32,
}

/// The arguments of one call. Arguments that the subject does not take are ignored.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Which function.
    pub subject: Subject,
    /// The input.
    pub send: *const u8,
    /// The output.
    pub recv: *mut u8,
    /// Elements a block.
    pub count: usize,
    /// Element type.
    pub dtype: DataType,
    /// Reduction.
    pub op: RedOp,
    /// Root.
    pub root: u32,
}

/// A rank's time on the declared machine.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// Its clock.
    pub now_ps: u64,
    /// Nanoseconds late, asked for, worked, and picoseconds on the machine, of all its calls.
    pub sums: [u64; 4],
}

fn no_info() -> ffi::pennyFabricInfo_t {
    // SAFETY: numbers and arrays of numbers, for which zeros are valid.
    let zeros: ffi::pennyFabricInfo_t = unsafe { std::mem::zeroed() };
    let size = size_of::<ffi::pennyFabricInfo_t>();
    let version = ffi::PENNY_VERSION_CODE;
    ffi::pennyFabricInfo_t { size, magic: ffi::PENNY_FABRIC_INFO_MAGIC, version, ..zeros }
}

/// Converts the result of a C call; for a failure, returns Penny's sentence.
#[inline]
pub(crate) fn outcome(result: pennyResult_t, comm: pennyComm_t) -> Result<(), String> {
    if result == pennySuccess { Ok(()) } else { Err(failure(result, comm)) }
}

#[cold]
fn failure(result: pennyResult_t, comm: pennyComm_t) -> String {
    let text = |string| {
        // SAFETY: the string getters never return NULL; the string lives until the thread's next failure.
        unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
    };
    let sentence = text(ffi::pennyGetLastError(comm));
    if sentence.is_empty() { text(ffi::pennyGetErrorString(result)) } else { sentence }
}

impl Communicator {
    /// Joins the launch. Blocks until all ranks have come or the deadline passes.
    pub fn from_env() -> Result<Communicator, String> {
        let mut raw: pennyComm_t = ptr::null_mut();
        // SAFETY: the pointer is to a local; a NULL configuration is the default one.
        outcome(unsafe { ffi::pennyCommInitFromEnv(&mut raw, ptr::null()) }, raw)?;
        Communicator::of(raw)
    }

    /// A communicator of this process only.
    pub fn alone() -> Result<Communicator, String> {
        let mut id = pennyUniqueId { internal: [0; ffi::PENNY_UNIQUE_ID_BYTES] };
        // SAFETY: the pointer is to a local.
        outcome(unsafe { ffi::pennyGetUniqueId(&mut id) }, ptr::null_mut())?;
        let mut raw: pennyComm_t = ptr::null_mut();
        // SAFETY: as above.
        outcome(unsafe { ffi::pennyCommInitRank(&mut raw, 1, id, 0) }, raw)?;
        Communicator::of(raw)
    }

    fn of(raw: pennyComm_t) -> Result<Communicator, String> {
        let (mut rank, mut nranks): (c_int, c_int) = (0, 0);
        // SAFETY: the communicator is live and the pointers are to locals.
        outcome(unsafe { ffi::pennyCommUserRank(raw, &mut rank) }, raw)?;
        // SAFETY: as above.
        outcome(unsafe { ffi::pennyCommCount(raw, &mut nranks) }, raw)?;
        Ok(Communicator { raw, rank: rank as u32, nranks: nranks as u32 })
    }

    /// Returns the handle for the C functions.
    pub(crate) fn raw(&self) -> pennyComm_t {
        self.raw
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the launch.
    pub fn nranks(&self) -> u32 {
        self.nranks
    }

    /// Makes the call and returns when it is done here.
    ///
    /// # Safety
    /// The buffers must hold what the subject takes: `count` elements a block, as many blocks as its layout says.
    pub unsafe fn call(&self, call: &Call) -> Result<(), String> {
        let Call { count, root, .. } = *call;
        let (send, recv) = (call.send.cast::<c_void>(), call.recv.cast::<c_void>());
        let (dtype, op, root, comm) = (call.dtype.into(), call.op.into(), root as c_int, self.raw);
        let here = ptr::null_mut();
        // SAFETY: the caller's promise; the communicator is live while self is.
        let result = unsafe {
            match call.subject {
                Subject::SendRecv => return self.exchange(call),
                Subject::Permute => {
                    let n = self.nranks as c_int;
                    let perm: Vec<c_int> = (0..n).map(|rank| (rank + 1) % n).collect();
                    ffi::pennyPermute(send, recv, count, dtype, perm.as_ptr(), comm, here)
                }
                Subject::Collective(collective) => match collective {
                    Collective::AllReduce => ffi::pennyAllReduce(send, recv, count, dtype, op, comm, here),
                    Collective::Reduce => ffi::pennyReduce(send, recv, count, dtype, op, root, comm, here),
                    Collective::Broadcast => ffi::pennyBroadcast(send, recv, count, dtype, root, comm, here),
                    Collective::AllGather => ffi::pennyAllGather(send, recv, count, dtype, comm, here),
                    Collective::ReduceScatter => {
                        ffi::pennyReduceScatter(send, recv, count, dtype, op, comm, here)
                    }
                    Collective::AlltoAll => ffi::pennyAlltoAll(send, recv, count, dtype, comm, here),
                    Collective::Gather => ffi::pennyGather(send, recv, count, dtype, root, comm, here),
                    Collective::Scatter => ffi::pennyScatter(send, recv, count, dtype, root, comm, here),
                    Collective::Barrier => ffi::pennyBarrier(comm, here),
                },
            }
        };
        outcome(result, comm)
    }

    /// Sends to the next rank and receives from the previous one, in one group.
    ///
    /// # Safety
    /// As for [`Communicator::call`].
    unsafe fn exchange(&self, call: &Call) -> Result<(), String> {
        let (next, previous) = ((self.rank + 1) % self.nranks, (self.rank + self.nranks - 1) % self.nranks);
        let (dtype, comm, here) = (call.dtype.into(), self.raw, ptr::null_mut());
        // SAFETY: the caller's promise; the communicator is live while self is.
        let results = unsafe {
            [
                ffi::pennyGroupStart(),
                ffi::pennySend(call.send.cast(), call.count, dtype, next as c_int, comm, here),
                ffi::pennyRecv(call.recv.cast(), call.count, dtype, previous as c_int, comm, here),
                ffi::pennyGroupEnd(),
            ]
        };
        results.into_iter().try_for_each(|result| outcome(result, comm))
    }

    /// The declared machine; `None`: none is declared.
    pub fn machine(&self) -> Result<Option<Machine>, String> {
        let mut info = no_info();
        // SAFETY: the communicator is live while self is, and the pointer is to a local.
        let result = unsafe { ffi::pennyFabricInfo(self.raw, &mut info) };
        if result == ffi::pennyInvalidUsage {
            return Ok(None);
        }
        outcome(result, self.raw)?;
        let name = info.name.iter().take_while(|&&byte| byte != 0).map(|&byte| byte as u8 as char).collect();
        Ok(Some(Machine { name, hash: info.hash, dilation: info.dilation }))
    }

    /// Returns this rank's time on the declared machine.
    pub fn account(&self) -> Result<Account, String> {
        let mut info = no_info();
        // SAFETY: the communicator is live while self is, and the pointer is to a local.
        outcome(unsafe { ffi::pennyFabricInfo(self.raw, &mut info) }, self.raw)?;
        let sums = [info.lateNs, info.askedNs, info.workedNs, info.fabricPs];
        Ok(Account { now_ps: info.nowPs, sums })
    }

    /// Advances this rank's clock on the declared machine to a time.
    pub fn advance_to(&self, ps: u64) -> Result<(), String> {
        // SAFETY: the communicator is live while self is.
        outcome(unsafe { ffi::pennyFabricAdvanceTo(self.raw, ps) }, self.raw)
    }

    /// Waits for all ranks.
    pub fn barrier(&self) -> Result<(), String> {
        // SAFETY: the communicator is live while self is.
        outcome(unsafe { ffi::pennyBarrier(self.raw, ptr::null_mut()) }, self.raw)
    }

    /// Returns every rank's number, in rank order. It uses sends and receives, because `PENNY_ALGO` may name an algorithm that
    /// serves the measured collective only, and goes through rank 0, because each pair of ranks that sends needs a ring.
    pub fn gather(&self, mine: f64) -> Result<Vec<f64>, String> {
        let mut all = vec![mine; self.nranks as usize];
        let n = all.len();
        let place = all.as_mut_ptr();
        let (dtype, here, comm) = (DataType::Float64.into(), ptr::null_mut(), self.raw);
        // SAFETY: each rank's number has its place in `all`, which lives until the group of each call has ended.
        let receive = |from: u32, at: usize, count: usize| unsafe {
            ffi::pennyRecv(place.add(at).cast(), count, dtype, from as c_int, comm, here)
        };
        // SAFETY: as above.
        let send = |to: u32, at: usize, count: usize| unsafe {
            ffi::pennySend(place.add(at).cast(), count, dtype, to as c_int, comm, here)
        };
        if self.rank == 0 {
            self.with_each(|peer| receive(peer, peer as usize, 1))?;
            self.with_each(|peer| send(peer, 0, n))?;
        } else {
            outcome(send(0, self.rank as usize, 1), comm)?;
            outcome(receive(0, 0, n), comm)?;
        }
        Ok(all)
    }

    /// Makes a call for each other rank, all in one group.
    fn with_each(&self, mut call: impl FnMut(u32) -> pennyResult_t) -> Result<(), String> {
        // SAFETY: it has no parameter.
        outcome(unsafe { ffi::pennyGroupStart() }, self.raw)?;
        let mut others = (0..self.nranks).filter(|&peer| peer != self.rank);
        let queued = others.try_for_each(|peer| outcome(call(peer), self.raw));
        // The group must end even after a failure; that failure is then the one to report.
        // SAFETY: as above.
        let ended = outcome(unsafe { ffi::pennyGroupEnd() }, self.raw);
        queued.and(ended)
    }

    /// Registers ordinary memory, so that the other ranks can access it without a copy.
    ///
    /// # Safety
    /// `bytes` bytes must be at `start`, and must not be freed while the registration lives.
    pub unsafe fn register(&self, start: *mut u8, bytes: usize) -> Result<Registration<'_>, String> {
        let mut handle: *mut c_void = ptr::null_mut();
        // SAFETY: the caller's promise; the communicator is live while self is, and the pointer is to a local.
        outcome(unsafe { ffi::pennyCommRegister(self.raw, start.cast(), bytes, &mut handle) }, self.raw)?;
        Ok(Registration { comm: self, handle })
    }

    /// Leaves the launch.
    pub fn destroy(self) -> Result<(), String> {
        // SAFETY: the communicator is live, and `self` was the only owner.
        outcome(unsafe { ffi::pennyCommDestroy(self.raw) }, ptr::null_mut())
    }
}

/// Memory that the other ranks of a communicator can access without a copy.
pub struct Registration<'a> {
    comm: &'a Communicator,
    handle: *mut c_void,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        // SAFETY: the communicator is live while self is, and the handle came from it.
        let result = unsafe { ffi::pennyCommDeregister(self.comm.raw, self.handle) };
        if let Err(sentence) = outcome(result, self.comm.raw) {
            eprintln!("{sentence}");
        }
    }
}

/// Returns Penny's version as a number. No call is cheaper.
pub fn version() -> c_int {
    let mut version = 0;
    // SAFETY: the pointer is to a local. It fails for NULL only.
    unsafe { ffi::pennyGetVersion(&mut version) };
    version
}

/// Memory that the other ranks can reach without a copy.
pub fn mem_alloc(bytes: usize) -> Result<*mut u8, String> {
    let mut memory: *mut c_void = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    outcome(unsafe { ffi::pennyMemAlloc(&mut memory, bytes) }, ptr::null_mut())?;
    Ok(memory.cast())
}

/// Gives memory of [`mem_alloc`] back.
///
/// # Safety
/// `memory` must come from `mem_alloc`, once, and not be used afterwards.
pub unsafe fn mem_free(memory: *mut u8) -> Result<(), String> {
    // SAFETY: the caller's promise.
    outcome(unsafe { ffi::pennyMemFree(memory.cast()) }, ptr::null_mut())
}
