//! Result codes and the sentence that goes with each failure.
//!
//! The numbers are NCCL's and are for life: programs compare against them.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

/// The result of a call. `include/README.md` says when each is used.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The call did what it says.
    Success = 0,
    /// Kept for NCCL's numbering; Penny has no device and never returns it.
    UnhandledDeviceError = 1,
    /// The operating system refused something (shared memory, sockets, limits).
    SystemError = 2,
    /// A defect in Penny. The communicator is poisoned.
    InternalError = 3,
    /// One argument is wrong by itself.
    InvalidArgument = 4,
    /// The arguments are each fine, but not together, not now, or not what the other ranks passed.
    InvalidUsage = 5,
    /// Another rank died, left or failed.
    RemoteError = 6,
    /// A non-blocking call has not finished yet.
    InProgress = 7,
    /// The deadline passed.
    Timeout = 8,
}

impl Code {
    /// Returns one fixed phrase for the code alone.
    pub const fn describe(self) -> &'static str {
        match self {
            Code::Success => "no error",
            Code::UnhandledDeviceError => "unhandled device error",
            Code::SystemError => "system error",
            Code::InternalError => "internal error: a defect in Penny; please report it",
            Code::InvalidArgument => "invalid argument",
            Code::InvalidUsage => "invalid usage",
            Code::RemoteError => "remote error: another rank died, left or failed",
            Code::InProgress => "operation in progress",
            Code::Timeout => "timeout: another rank did not arrive before the deadline",
        }
    }
}

/// An error. It is a pointer to its contents, so that a result without a value is one word and is returned in a register.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Arc<Failure>);

/// What has failed: the code for programs, the sentence for people.
///
/// The sentence names the argument, the rank and the remedy; `ffi` prefixes the function's name.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The number that C sees.
    pub code: Code,
    /// The sentence: the fault and the remedy.
    pub message: String,
}

const _: () = assert!(size_of::<Result<()>>() == size_of::<usize>());

impl Deref for Error {
    type Target = Failure;
    fn deref(&self) -> &Failure {
        &self.0
    }
}

/// Penny's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of any code.
    #[cold]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error(Arc::new(Failure { code, message: message.into() }))
    }
    /// Returns the same failure with another sentence.
    pub fn with_message(&self, message: impl Into<String>) -> Self {
        Self::new(self.code, message)
    }
    /// One argument is wrong by itself.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }
    /// A number that should be that of a rank; `what` names the argument.
    pub fn no_rank(what: &str, number: impl Into<i64>, nranks: u32) -> Self {
        let number = number.into();
        Self::argument(match nranks {
            1 => format!("{what} {number} is out of range: the only rank is 0"),
            n => format!("{what} {number} is out of range: ranks are 0 to {}", n - 1),
        })
    }
    /// Right arguments at the wrong time or in disagreement with other ranks.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidUsage, message)
    }
    /// The operating system refused; `what` says what Penny was doing and what to do.
    pub fn system(message: impl Into<String>) -> Self {
        Self::new(Code::SystemError, message)
    }
    /// A defect in Penny.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::InternalError, message)
    }
    /// A call panicked, which no input may bring about.
    pub fn panicked(panic: &(dyn Any + Send)) -> Self {
        let said =
            panic.downcast_ref::<&str>().copied().or(panic.downcast_ref::<String>().map(String::as_str));
        Self::internal(format!(
            "a defect in Penny, please report it: {}",
            said.unwrap_or("a panic without words")
        ))
    }
    /// Another rank died, left or failed.
    pub fn remote(message: impl Into<String>) -> Self {
        Self::new(Code::RemoteError, message)
    }
    /// Returns the value that a polled call gives until it is over. It is not a failure.
    pub fn pending() -> Self {
        static PENDING: LazyLock<Error> = LazyLock::new(|| Error::new(Code::InProgress, String::new()));
        PENDING.clone()
    }
    /// Tells whether this is what [`pending`](Self::pending) makes.
    pub fn is_pending(&self) -> bool {
        self.code == Code::InProgress
    }
    /// The deadline passed.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(Code::Timeout, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

/// As a program prints it that ends with it: `fn main() -> penny::Result<()>`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}
