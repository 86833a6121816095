//! A rank's connection to the server of a meeting of several hosts, as long as it is in the communicator: what tells it that a rank of
//! another host has died.
//!
//! The links between hosts do not tell: a rank that only receives sees nothing of a sender's end. A TCP connection does, within
//! milliseconds if the process ended, within seconds if its host or the network is gone.

use crate::bootstrap::{Attendance, Heard};
use crate::error::{Error, Result};
use crate::log;
use crate::sync::prim::{AtomicBool, Ordering};
use crate::sys::background;
use crate::transport::Transport;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The time between two looks at whether the rank has left.
const LOOK: Duration = Duration::from_millis(500);

/// The time for which a farewell of rank 0 is waited for when its connection has ended.
const FAREWELL: Duration = Duration::from_secs(1);

/// The connection, which a thread listens to.
pub(super) struct Lifeline {
    attendance: Attendance,
    /// The server is a thread of rank 0's process.
    is_at_rank_0: bool,
    /// The verdict: the communicator will not come to be.
    verdict: OnceLock<Error>,
    /// The rank has left.
    is_over: AtomicBool,
}

impl Lifeline {
    /// Begins to listen, on a thread of its own, until the transport is dropped.
    pub fn begin(
        attendance: Attendance,
        is_at_rank_0: bool,
        transport: &Arc<Transport>,
    ) -> Result<Arc<Lifeline>> {
        let is_over = AtomicBool::new(false);
        let lifeline = Arc::new(Lifeline { attendance, is_at_rank_0, verdict: OnceLock::new(), is_over });
        transport.keep_until_end(Box::new(Leave(lifeline.clone())));
        let (listens, weak) = (lifeline.clone(), Arc::downgrade(transport));
        background::spawn("penny-lifeline", move || listens.listen(&weak)).map_err(|e| {
            Error::system(format!("no thread to hear of other hosts: {e}; check `ulimit -u`"))
        })?;
        Ok(lifeline)
    }

    fn listen(&self, transport: &Weak<Transport>) {
        // BOUND: the rank leaves, or its process ends.
        while !self.is_over.load(Ordering::Acquire) {
            let Some(heard) = self.attendance.hear(LOOK) else { continue };
            let Some(transport) = transport.upgrade() else { return };
            match heard {
                Heard::Death(rank) => transport.note_far_death(rank),
                Heard::Failed(error) => {
                    let _ = self.verdict.set(error);
                    transport.wake_own();
                }
                // What ranks tell each other before they join has been heard by now.
                Heard::Told { .. } => {}
                Heard::Silence => return self.miss_the_server(&transport),
            }
        }
    }

    /// The server's connection has ended: its process has left the communicator, or died.
    fn miss_the_server(&self, transport: &Transport) {
        if !self.is_at_rank_0 {
            log::warn(
                transport.rank(),
                format_args!(
                    "{}, where the ranks met, is gone: the death of a rank on another host will be noticed at the deadline only",
                    self.attendance.host()
                ),
            );
            return;
        }
        let until = Instant::now() + FAREWELL;
        // BOUND: the patience.
        while !transport.has_left(0) && !self.is_over.load(Ordering::Acquire) {
            if Instant::now() >= until {
                return transport.note_far_death(0);
            }
            transport.poll_far();
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the verdict, if there is one.
    pub fn check(&self) -> Result<()> {
        self.verdict.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Waits a moment for the verdict.
    pub fn last_check(&self) -> Result<()> {
        std::thread::sleep(Duration::from_millis(100));
        self.check()
    }

    /// Tells the server that this rank has joined.
    pub fn tell_joined(&self) {
        self.attendance.tell_joined();
    }

    /// Tells all others that this rank gives up, and why.
    pub fn give_up(&self, why: &Error) {
        self.is_over.store(true, Ordering::Release);
        self.attendance.tell_why(why);
    }
}

/// Tells the server that the rank has left when its transport is dropped.
struct Leave(Arc<Lifeline>);

impl Drop for Leave {
    fn drop(&mut self) {
        if !self.0.is_over.swap(true, Ordering::AcqRel) {
            self.0.attendance.leave();
        }
    }
}
