//! `penny perf link --channel`: channels of the data mover between the places of a machine, packet by packet.

use penny::sim::ethernet::{LinkChannel, MoverSetup, ProgramTimes, SignalMode, Termination, run_channels};
use penny::sim::topology::{Network, units};
use penny_bench::sizes::parse_bytes;
use serde::Serialize;

/// A channel's times.
#[derive(Serialize)]
struct Row<'a> {
    fabric: &'a str,
    measure: &'static str,
    channel: usize,
    from: u32,
    to: u32,
    link: u32,
    messages: u64,
    bytes: u64,
    relays: Option<usize>,
    /// Until the first message is where it is needed, from the begin of all programs on.
    first_ns: f64,
    /// Until the last one is.
    last_ns: f64,
    /// All messages over that time, in GB/s.
    bw_gb_s: f64,
}

/// The words of `--signal`.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Signal {
    /// In one command with the message
    Merged,
    /// In a command of its own
    Separate,
}

/// The words of `--termination`.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Ending {
    /// Both ends know the number of messages
    MessageCount,
    /// The workers say with a message that it is the last
    WorkerInitiated,
}

/// Reads a channel such as `0-1:messages=64,bytes=8K,buffers=2,link=1,every=1us,relays=0`.
pub fn parse(text: &str) -> Result<LinkChannel, String> {
    let (ends, keys) = text.split_once(':').unwrap_or((text, ""));
    let place = |text: &str| text.trim().parse::<u32>().ok();
    let ends = ends.split_once('-').and_then(|(from, to)| Some((place(from)?, place(to)?)));
    let Some((from, to)) = ends else {
        return Err(format!("`{text}` names no two places; write a channel like 0-1:messages=64,bytes=8K"));
    };
    let mut channel =
        LinkChannel { from, to, link: 0, messages: 1, bytes: 16, buffers: 0, every_ps: 0, relays: None };
    for setting in keys.split(',').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
        let count =
            || value.parse::<u64>().map_err(|_| format!("{key}: `{value}` is not a whole number; write one"));
        let small = || {
            count().and_then(|n| {
                u32::try_from(n).map_err(|_| format!("{key}: {n} is too many; write a smaller number"))
            })
        };
        match key {
            "link" => channel.link = small()?,
            "buffers" => channel.buffers = small()?,
            "messages" => channel.messages = count()?,
            "bytes" => channel.bytes = parse_bytes(value)? as u64,
            "every" => channel.every_ps = units::time(value).map_err(|why| format!("{key}: {why}"))?,
            "relays" => channel.relays = Some(small()? as usize),
            _ => {
                return Err(format!(
                    "a channel has no `{key}`; it has link, buffers, messages, bytes, every, relays"
                ));
            }
        }
    }
    Ok(channel)
}

/// Runs the channels, all places at once, and returns the table or the lines of JSON.
pub fn answer(
    network: &Network,
    channels: &[LinkChannel],
    signal: Option<Signal>,
    termination: Option<Ending>,
    json: bool,
) -> Result<String, String> {
    let setup = MoverSetup {
        signal: signal.map(|signal| match signal {
            Signal::Merged => SignalMode::Merged,
            Signal::Separate => SignalMode::Separate,
        }),
        termination: termination.map(|ending| match ending {
            Ending::MessageCount => Termination::MessageCount,
            Ending::WorkerInitiated => Termination::WorkerInitiated,
        }),
    };
    let begin_ps = vec![0; network.shape.nranks() as usize];
    let times = run_channels(network, channels, setup, &begin_ps).map_err(|e| e.message.clone())?;
    let rows = rows(&network.name, channels, &times);
    if json {
        return super::lines(&rows);
    }
    let end_ns = times.places.iter().max().map_or(0.0, |&ps| ps as f64 * 1e-3);
    let mut text = format!(
        "# channels  fabric: {}  all programs have ended after {end_ns:.1} ns\n#\n# {:>7} {:>5} {:>5} {:>5} {:>9} {:>9} {:>6} {:>12} {:>12} {:>8}\n",
        network.name,
        "channel",
        "from",
        "to",
        "link",
        "messages",
        "bytes",
        "relays",
        "first ns",
        "last ns",
        "GB/s"
    );
    for Row { channel, from, to, link, messages, bytes, relays, first_ns, last_ns, bw_gb_s, .. } in rows {
        let relays = relays.map_or("-".to_owned(), |source| source.to_string());
        text += &format!(
            "  {channel:>7} {from:>5} {to:>5} {link:>5} {messages:>9} {bytes:>9} {relays:>6} {first_ns:>12.1} {last_ns:>12.1} {bw_gb_s:>8.2}\n"
        );
    }
    Ok(text)
}

fn rows<'a>(fabric: &'a str, channels: &[LinkChannel], times: &ProgramTimes) -> Vec<Row<'a>> {
    let row = |(index, (channel, &[first_ps, last_ps])): (usize, (&LinkChannel, &[u64; 2]))| {
        let LinkChannel { from, to, link, messages, bytes, relays, .. } = *channel;
        Row {
            fabric,
            measure: "channel",
            channel: index,
            from,
            to,
            link,
            messages,
            bytes,
            relays,
            first_ns: first_ps as f64 * 1e-3,
            last_ns: last_ps as f64 * 1e-3,
            bw_gb_s: messages as f64 * bytes as f64 / last_ps.max(1) as f64 * 1e3,
        }
    };
    channels.iter().zip(&times.channels).enumerate().map(row).collect()
}
