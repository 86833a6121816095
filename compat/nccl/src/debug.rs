//! What `NCCL_DEBUG` prints, in NCCL's shape: `host:pid:tid [device] NCCL INFO text`.
//!
//! `NCCL_DEBUG` is VERSION, WARN, INFO or TRACE; `NCCL_DEBUG_FILE` names the file, with %h for the host and %p for the process;
//! `NCCL_DEBUG_SUBSYS` chooses among INIT, ENV and COLL, as NCCL's grammar has it. They are read once, at the first line.

use crate::cuda;
use std::cell::Cell;
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

/// How much is printed; NCCL's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Level {
    /// Nothing.
    None = 0,
    /// The version.
    Version = 1,
    /// Failures as well.
    Warn = 2,
    /// What communicators are made, and calls if `NCCL_DEBUG_SUBSYS` has COLL.
    Info = 3,
    /// Calls as well.
    Trace = 5,
}

/// What a line of INFO is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum About {
    /// Communicators.
    Init = 1,
    /// Variables.
    Env = 2,
    /// Calls.
    Coll = 4,
}

const ALL: u8 = 7;

/// The level as a number; negative until the variables are read.
static LEVEL: AtomicI32 = AtomicI32::new(-1);
static SETTINGS: Mutex<Option<Settings>> = Mutex::new(None);

struct Settings {
    level: Level,
    about: u8,
    host: String,
    file: Option<File>,
}

thread_local! {
    /// The device of the communicator of which this thread told last.
    static DEVICE: Cell<i32> = const { Cell::new(0) };
}

/// Makes the next line read the variables again.
pub fn reset() {
    LEVEL.store(-1, Ordering::Relaxed);
    *SETTINGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
}

/// Notes the device that the lines of this thread carry.
pub fn on_device(device: i32) {
    let _ = DEVICE.try_with(|of| of.set(device));
}

/// Is a line of INFO about this printed? Costs one load while nothing is.
#[inline]
pub fn tells(about: About) -> bool {
    match LEVEL.load(Ordering::Relaxed) {
        level if level >= 0 && level < Level::Info as i32 => false,
        _ => with(|settings| settings.tells(about)),
    }
}

/// Prints a line of INFO.
#[cold]
pub fn info(about: About, text: &str) {
    if tells(about) {
        line(Level::Info, text);
    }
}

/// Prints the line that says which library this is: bare while little else is printed, as NCCL does.
pub fn version(text: &str) {
    with(|settings| match settings.level {
        Level::None => {}
        Level::Version | Level::Warn => settings.write(&format!("{text}\n")),
        _ => settings.write(&settings.shaped(Level::Info, text)),
    });
}

/// Prints a line if the level has it.
#[cold]
pub fn line(level: Level, text: &str) {
    with(|settings| {
        if settings.level >= level {
            settings.write(&settings.shaped(level, text));
        }
    });
}

fn with<T>(act: impl FnOnce(&Settings) -> T) -> T {
    let mut settings = SETTINGS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let settings = settings.get_or_insert_with(Settings::read);
    LEVEL.store(settings.level as i32, Ordering::Relaxed);
    act(settings)
}

impl Settings {
    fn read() -> Settings {
        let variable = |name| std::env::var_os(name).map(|text| text.to_string_lossy().into_owned());
        let level = variable("NCCL_DEBUG").map_or(Level::None, |text| level(&text));
        let host = host();
        let file = variable("NCCL_DEBUG_FILE")
            .filter(|_| level > Level::Version)
            .and_then(|path| File::create(path_of(&path, &host, std::process::id())).ok());
        Settings { level, about: about(variable("NCCL_DEBUG_SUBSYS").as_deref()), host, file }
    }

    fn tells(&self, about: About) -> bool {
        let traced = about == About::Coll && self.level == Level::Trace;
        self.level >= Level::Info && (traced || self.about & about as u8 != 0)
    }

    /// Returns the whole line.
    fn shaped(&self, level: Level, text: &str) -> String {
        let device = cuda::current_device().unwrap_or_else(|| DEVICE.try_with(Cell::get).unwrap_or(0));
        let word = if level == Level::Warn { "WARN" } else { "INFO" };
        // SAFETY: the call has no arguments and cannot fail.
        let thread = unsafe { libc::gettid() };
        format!("{}:{}:{thread} [{device}] NCCL {word} {text}\n", self.host, std::process::id())
    }

    /// Writes a line at once. A full disk or a closed output loses it.
    fn write(&self, line: &str) {
        let _ = match &self.file {
            Some(file) => (&*file).write_all(line.as_bytes()),
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(line.as_bytes()).and_then(|()| out.flush())
            }
        };
    }
}

/// Reads `NCCL_DEBUG`; another word is none, as in NCCL.
fn level(text: &str) -> Level {
    let levels = [
        ("VERSION", Level::Version),
        ("WARN", Level::Warn),
        ("INFO", Level::Info),
        ("ABORT", Level::Info),
        ("TRACE", Level::Trace),
    ];
    levels.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map_or(Level::None, |&(_, level)| level)
}

/// Reads `NCCL_DEBUG_SUBSYS`: a list, or what is not to be printed behind a `^`.
fn about(text: Option<&str>) -> u8 {
    let Some(text) = text else { return About::Init as u8 | About::Env as u8 };
    let (without, list) = match text.strip_prefix('^') {
        Some(list) => (true, list),
        None => (false, text),
    };
    let named = list.split(',').fold(0, |bits, word| {
        bits | match word.to_ascii_uppercase().as_str() {
            "INIT" => About::Init as u8,
            "ENV" => About::Env as u8,
            "COLL" | "P2P" | "CALL" => About::Coll as u8,
            "ALL" => ALL,
            _ => 0,
        }
    });
    if without { ALL & !named } else { named }
}

/// Puts the host and the process into the name of a file.
fn path_of(text: &str, host: &str, process: u32) -> String {
    let mut path = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, if letter == '%' { letters.next() } else { None }) {
            ('%', Some('h')) => path += host,
            ('%', Some('p')) => path += &process.to_string(),
            ('%', Some('%')) => path.push('%'),
            (letter, other) => path.extend([letter].into_iter().chain(other)),
        }
    }
    path
}

/// Returns the host's name up to its first dot.
fn host() -> String {
    let mut name = [0u8; 256];
    // SAFETY: the buffer has one byte more than is said, which stays 0.
    let failed = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } != 0;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy();
    match name.split('.').next() {
        Some(name) if !failed && !name.is_empty() => name.to_owned(),
        _ => "unknown".into(),
    }
}
