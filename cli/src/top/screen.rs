//! The terminal screen, looked at anew at every interval and at every key.
//!
//! ```text
//!     head    the job, its NICs            stays
//!     table   a line a port or a rank      scrolls
//!     foot    keys                         stays
//! ```

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::jobs::{JobReport, Jobs};
use super::ranks::Sort;
use super::text::Lines;

/// The longest time until the screen notices that it was told to end.
const NAP: Duration = Duration::from_millis(100);

/// The view that the user has chosen by keys.
struct View {
    all: bool,
    sort: Sort,
    job: usize,
    scroll: usize,
}

/// The action of a key.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    Quit,
    Draw,
    Nothing,
}

/// The terminal, given back when dropped.
struct Screen;

impl Screen {
    fn open() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        let screen = Screen;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done about a terminal that is gone.
        let _ = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

/// Shows jobs until a key or a signal ends it.
pub fn run(jobs: Jobs, all: bool, sort: Sort, seconds: u32) -> Result<ExitCode, String> {
    let ending = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT].into_iter().collect::<SigSet>();
    let signals = ending
        .thread_block()
        .and_then(|()| SignalFd::with_flags(&ending, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK))
        .map_err(|why| format!("cannot watch signals: {why}"))?;
    let view = View { all, sort, job: 0, scroll: 0 };
    let screen = Screen::open().map_err(lost)?;
    let ended = watch(jobs, view, Duration::from_secs(seconds.into()), &signals);
    drop(screen);
    ended.map(|()| ExitCode::SUCCESS).map_err(lost)
}

fn lost(why: io::Error) -> String {
    format!("the terminal cannot be used ({why}); print once with --once")
}

fn watch(mut jobs: Jobs, mut view: View, interval: Duration, signals: &SignalFd) -> io::Result<()> {
    let mut next = Instant::now() + interval;
    let mut last = None;
    loop {
        let shown = show(&jobs, &mut view, &mut last);
        draw(&shown, &mut view)?;
        // BOUND: a key, a signal or the next look.
        loop {
            if matches!(signals.read_signal(), Ok(Some(_))) {
                return Ok(());
            }
            let now = Instant::now();
            if now >= next {
                jobs.look();
                next = now + interval;
                break;
            }
            if event::poll(NAP.min(next - now))? {
                match wish(&event::read()?, &mut view) {
                    Wish::Quit => return Ok(()),
                    Wish::Draw => break,
                    Wish::Nothing => {}
                }
            }
        }
    }
}

/// The lines to show.
struct Shown {
    lines: Lines,
    foot: String,
}

fn show(jobs: &Jobs, view: &mut View, last: &mut Option<JobReport>) -> Shown {
    let list = jobs.list();
    view.job %= list.len().max(1);
    let now = list.get(view.job).and_then(|job| job.report(view.all));
    let is_there = now.is_some();
    if is_there {
        *last = now;
    }
    let (keys, shown) = match last.clone() {
        Some(JobReport::Ranks(report)) => (
            "s sorts by the next of bytes, calls, waits and rank",
            JobReport::Ranks(report.sorted(view.sort)),
        ),
        Some(ports) => ("a all ports", ports),
        None => {
            return Shown {
                lines: Lines { head: Vec::new(), columns: String::new(), rows: Vec::new() },
                foot: "q quit".into(),
            };
        }
    };
    let mut foot = format!("q quit   {keys}   arrows scroll");
    if !is_there {
        foot = format!("the job is over; this is what was seen of it last   {foot}");
    }
    if list.len() > 1 {
        foot = format!("job {} of {}   Tab next   {foot}", view.job + 1, list.len());
    }
    Shown { lines: Lines::of(&shown), foot }
}

fn wish(event: &Event, view: &mut View) -> Wish {
    let key = match event {
        Event::Resize(..) => return Wish::Draw,
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        _ => return Wish::Nothing,
    };
    let page = terminal::size().map_or(20, |(_, height)| usize::from(height) / 2);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Wish::Quit,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Wish::Quit,
        KeyCode::Char('a') => view.all = !view.all,
        KeyCode::Char('s') => view.sort = view.sort.next(),
        KeyCode::Tab => (view.job, view.scroll) = (view.job + 1, 0),
        KeyCode::Up => view.scroll = view.scroll.saturating_sub(1),
        KeyCode::Down => view.scroll += 1,
        KeyCode::PageUp => view.scroll = view.scroll.saturating_sub(page),
        KeyCode::PageDown => view.scroll += page,
        KeyCode::Home => view.scroll = 0,
        KeyCode::End => view.scroll = usize::MAX,
        _ => return Wish::Nothing,
    }
    Wish::Draw
}

/// The lines that fit: the head first, then as much of the table as there is room for.
fn fit(shown: &Shown, scroll: &mut usize, height: usize) -> Vec<(String, bool)> {
    let room = height.saturating_sub(2);
    let mut lines: Vec<(String, bool)> =
        shown.lines.head.iter().take(room).map(|line| (line.clone(), false)).collect();
    lines.push((shown.lines.columns.clone(), true));
    let room = (height - 1).saturating_sub(lines.len());
    *scroll = (*scroll).min(shown.lines.rows.len().saturating_sub(room));
    lines.extend(shown.lines.rows.iter().skip(*scroll).take(room).map(|line| (line.clone(), false)));
    lines.resize(height - 1, (String::new(), false));
    lines.push((shown.foot.clone(), true));
    lines
}

fn draw(shown: &Shown, view: &mut View) -> io::Result<()> {
    let (width, height) = terminal::size()?;
    let mut out = io::stdout().lock();
    queue!(out, terminal::BeginSynchronizedUpdate)?;
    for (row, (line, marked)) in
        fit(shown, &mut view.scroll, usize::from(height).max(2)).into_iter().enumerate()
    {
        let line: String = line.chars().take(width.into()).collect();
        queue!(out, cursor::MoveTo(0, row as u16))?;
        if marked {
            queue!(out, SetAttribute(Attribute::Reverse), Print(format!("{line:<0$}", usize::from(width))))?;
            queue!(out, SetAttribute(Attribute::Reset))?;
        } else {
            queue!(out, Print(line), Clear(ClearType::UntilNewLine))?;
        }
    }
    queue!(out, terminal::EndSynchronizedUpdate)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::KeyEvent;

    fn press(code: KeyCode, modifiers: KeyModifiers) -> (Wish, View) {
        let mut view = View { all: false, sort: Sort::Bytes, job: 0, scroll: 5 };
        (wish(&Event::Key(KeyEvent::new(code, modifiers)), &mut view), view)
    }

    #[test]
    fn keys_quit_scroll_and_choose() {
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::NONE).0, Wish::Quit);
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL).0, Wish::Quit);
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::NONE).0, Wish::Nothing);
        assert!(press(KeyCode::Char('a'), KeyModifiers::NONE).1.all);
        assert_eq!(press(KeyCode::Char('s'), KeyModifiers::NONE).1.sort, Sort::Calls);
        let (drawn, view) = press(KeyCode::Tab, KeyModifiers::NONE);
        assert_eq!((drawn, view.job, view.scroll), (Wish::Draw, 1, 0));
        assert_eq!(press(KeyCode::Down, KeyModifiers::NONE).1.scroll, 6);
    }

    #[test]
    fn head_and_foot_stay_while_the_table_scrolls() {
        let rows = (0..9).map(|row| format!("row {row}")).collect();
        let lines = Lines { head: vec!["head".into()], columns: "PORT".into(), rows };
        let shown = Shown { lines, foot: "keys".into() };
        let fits = |mut scroll: usize, height| {
            let lines = fit(&shown, &mut scroll, height);
            (lines.into_iter().map(|(line, _)| line).collect::<Vec<_>>(), scroll)
        };
        assert_eq!(fits(0, 5).0, ["head", "PORT", "row 0", "row 1", "keys"]);
        assert_eq!(
            fits(usize::MAX, 5),
            (["head", "PORT", "row 7", "row 8", "keys"].map(String::from).into(), 7)
        );
        assert_eq!(fits(3, 13).1, 0, "all of it fits");
        assert_eq!(fits(0, 13).0.len(), 13);
        for height in 2..5 {
            assert_eq!(fits(0, height).0.len(), height);
        }
    }
}
