//! `penny perf link`: the latency and bandwidth of the data mover on an Ethernet link of a declared machine.

mod channels;

use std::process::ExitCode;

use penny::Collective;
use penny::sim::algorithms;
use penny::sim::ethernet::LinkChannel;
use penny::sim::ethernet::Parameters;
use penny::sim::ethernet::SignalMode;
use penny::sim::ethernet::{Directions, one_way_ps, ring_ps, round_trip_ps, streamed, utilisation};
use penny::sim::fabric::{PricedCall, engine};
use penny::sim::plan::RankView;
use penny::sim::topology::{self, Class, Network, units};
use penny_bench::sizes::parse_bytes;
use serde::Serialize;

use crate::{answer, machine};

const EXAMPLES: &str = "\
Sizes are bytes; K, M, G and KiB, MiB, GiB multiply by powers of 1024, kB, MB, GB by powers of 1000. All figures are of the model, none of this machine.

Examples:
  penny perf link --fabric t3000
  penny perf link --fabric galaxy --chips 12 --sizes 1K,4K,16K
  penny perf link --fabric t3000:mover=ethernet --channel 0-1:messages=64,bytes=8K --channel 1-3:messages=64,bytes=8K,relays=0
  penny perf link --fabric n300 --json | jq 'select(.measure == \"ring_hop\") | .ns'";

/// The options of `penny perf link`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Machine whose links are of a class `eth`: n300, t3000, galaxy, or a TOML file
    #[arg(long, value_name = "MACHINE")]
    fabric: String,
    /// Chips of the ring, of the ping and of the all-gather; default: 8, or the number of chips if that is less
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=4096))]
    chips: Option<u32>,
    /// Payloads of the utilisation: whole words of 16 bytes
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = parse_bytes,
          default_value = "256,576,1088,2K,4K,8K,16K,32K")]
    sizes: Vec<usize>,
    /// Run channels between places instead, all at once from the handshake on, as
    /// FROM-TO:messages=N,bytes=BYTES,buffers=N,link=N,every=TIME,relays=CHANNEL; the machine needs a [mover]
    #[arg(long = "channel", value_name = "CHANNEL", value_parser = channels::parse)]
    channels: Vec<LinkChannel>,
    /// With --channel: how a message and the word that announces it travel; default: as on the machine
    #[arg(long, value_name = "MODE", requires = "channels")]
    signal: Option<channels::Signal>,
    /// With --channel: what ends the channels; default: as on the machine
    #[arg(long, value_name = "MODE", requires = "channels")]
    termination: Option<channels::Ending>,
    /// Print JSON, one object a line, instead of the tables
    #[arg(long)]
    json: bool,
}

/// A latency, with a merged or with a separate signal.
#[derive(Serialize)]
struct Latency<'a> {
    fabric: &'a str,
    measure: &'static str,
    signal: &'static str,
    bytes: u64,
    chips: Option<u32>,
    ns: f64,
    /// The published range for Wormhole chips.
    published_ns: Option<[f64; 2]>,
}

/// Used fractions of the wire's bandwidth.
#[derive(Serialize)]
struct Utilisation<'a> {
    fabric: &'a str,
    measure: &'static str,
    bytes: u64,
    channels: u32,
    /// The fraction for commands without flow control.
    streamed: f64,
    merged: f64,
    merged_both_ways: f64,
    separate: f64,
    separate_both_ways: f64,
    /// Published value for Wormhole chips.
    published: Option<&'static str>,
}

/// The price of an all-gather on a ring of Ethernet links or on a line of them.
#[derive(Serialize)]
struct Gather<'a> {
    fabric: &'a str,
    measure: &'static str,
    shape: &'static str,
    algorithm: &'static str,
    /// The older name of `algorithm`, until 1.0.
    algo: &'static str,
    chips: u32,
    bytes: u64,
    gb_per_s: f64,
    /// The used fraction of the ring's bandwidth.
    share: f64,
}

/// Total bytes of an all-gather.
const GATHERED: u64 = 64 << 20;

/// Machines of the chip whose figures are published.
const WORMHOLE: [&str; 3] = ["n300", "t3000", "galaxy"];

/// Measures, and prints the tables.
pub fn main(args: &Args) -> Result<ExitCode, String> {
    let network = topology::open(&args.fabric).map_err(|e| e.message.clone())?;
    if !args.channels.is_empty() {
        let text = channels::answer(&network, &args.channels, args.signal, args.termination, args.json)?;
        return answer::print(&text);
    }
    let class = ethernet(&network)?;
    let parameters = Parameters::wormhole(class.clone());
    let chips = args.chips.unwrap_or(network.shape.nranks().min(8));
    let fabric = network.name.as_str();
    let latencies = latencies(fabric, &parameters, chips).map_err(|e| e.message.clone())?;
    let shares = utilisations(fabric, &parameters, &args.sizes).map_err(|e| e.message.clone())?;
    let gathers = gathers(fabric, class, chips)?;
    let text = match args.json {
        true => [lines(&latencies)?, lines(&shares)?, lines(&gathers)?].concat(),
        false => table(fabric, class, &latencies, &shares, &gathers),
    };
    answer::print(&text)
}

/// Returns the class of the machine's first link if that is an Ethernet link.
fn ethernet(network: &Network) -> Result<&Class, String> {
    let mut way = Vec::new();
    if network.shape.nranks() > 1 {
        network.routes.route(0, 1, 0, &mut way)?;
    }
    match way.first().map(|&port| network.class(port)) {
        Some(class) if class.name.starts_with("eth") => Ok(class),
        other => Err(format!(
            "--fabric {}: its links are of class {}, which no data mover serves; take {}, or a file with [class.eth]",
            network.name,
            other.map_or("none", |class| class.name.as_str()),
            WORMHOLE.join(", ")
        )),
    }
}

fn is_wormhole(fabric: &str) -> bool {
    WORMHOLE.iter().any(|name| fabric.split(':').next() == Some(name))
}

fn word(signal: SignalMode) -> &'static str {
    match signal {
        SignalMode::Merged => "merged",
        SignalMode::Separate => "separate",
    }
}

fn latencies<'a>(fabric: &'a str, parameters: &Parameters, chips: u32) -> penny::Result<Vec<Latency<'a>>> {
    let known = is_wormhole(fabric);
    let mut rows = Vec::new();
    for bytes in [16, 1024] {
        for signal in [SignalMode::Merged, SignalMode::Separate] {
            let wire_ps = parameters.wire.serialisation_ps(bytes);
            let ring_ps = ring_ps(parameters, chips, bytes, 1, signal)?;
            let hop = match (bytes, signal) {
                (16, SignalMode::Merged) => 650.0,
                (16, SignalMode::Separate) => 690.0,
                _ => 1000.0,
            };
            let back_ps = round_trip_ps(parameters, bytes, signal)?;
            let mut row = |measure, ps, chips, published: Option<[f64; 2]>| {
                let published_ns = published.filter(|_| known);
                let ns = ps as f64 * 1e-3;
                rows.push(Latency { fabric, measure, signal: word(signal), bytes, chips, ns, published_ns });
            };
            row("one_way", one_way_ps(parameters, bytes, signal)?, None, None);
            let bare_ps = back_ps.saturating_sub(2 * wire_ps) / 2;
            row("one_way_without_wire_time", bare_ps, None, Some([530.0, 620.0]));
            row("round_trip", back_ps, None, (bytes == 16).then_some([1100.0; 2]));
            row("ring_hop", ring_ps / u64::from(chips), Some(chips), Some([hop; 2]));
            row("ring", ring_ps, Some(chips), (hop == 650.0 && chips == 8).then_some([5200.0; 2]));
        }
    }
    Ok(rows)
}

fn utilisations<'a>(
    fabric: &'a str,
    parameters: &Parameters,
    sizes: &[usize],
) -> penny::Result<Vec<Utilisation<'a>>> {
    let mut rows = Vec::new();
    for &bytes in sizes {
        let bytes = bytes as u64;
        parameters.check_payload(bytes)?;
        let most = parameters.room_for(bytes);
        let published = match bytes {
            _ if !is_wormhole(fabric) => None,
            576 => Some("91 streamed"),
            1088 | 2048 => Some("above 95 streamed"),
            4096..=16384 => Some("about 94 both ways"),
            _ => None,
        };
        for channels in [1, 2, 4, 8].into_iter().filter(|&channels| channels < most).chain([most]) {
            let share = |signal, directions| utilisation(parameters, bytes, channels, signal, directions);
            rows.push(Utilisation {
                fabric,
                measure: "utilisation",
                bytes,
                channels,
                streamed: streamed(parameters, bytes)?,
                merged: share(SignalMode::Merged, Directions::One)?,
                merged_both_ways: share(SignalMode::Merged, Directions::Both)?,
                separate: share(SignalMode::Separate, Directions::One)?,
                separate_both_ways: share(SignalMode::Separate, Directions::Both)?,
                published: published.filter(|_| channels == most),
            });
        }
    }
    Ok(rows)
}

/// Prices all-gathers with the general engine, on a ring of `chips` chips and on a line of them, with links of `class`.
fn gathers<'a>(fabric: &'a str, class: &Class, chips: u32) -> Result<Vec<Gather<'a>>, String> {
    let mut rows: Vec<Gather<'a>> = Vec::new();
    // Left out, it divides nothing.
    let mtu = match class.mtu {
        0 => String::new(),
        mtu => format!("mtu = \"{}\"\n", units::print_size(mtu)),
    };
    for (shape, name) in [("ring", "ring_pair"), ("line", "line")] {
        let text = format!(
            "name = \"{shape}\"\n[class.eth]\nbw = \"{}\"\nlat = \"{}\"\npost = \"{}\"\ngap = \"{}\"\n\
             {mtu}hdr = \"{}\"\n[{shape}]\nshape = \"{chips}\"\nlink = \"eth\"\n",
            units::print_bandwidth(class.rate),
            units::print_time(class.latency_ps),
            units::print_time(class.post_ps),
            units::print_time(class.gap_ps),
            units::print_size(class.header),
        );
        let network = topology::parse(shape, &text, &[]).map_err(|e| e.message.clone())?;
        let view = RankView::flat(Collective::AllGather, 0, chips, 0);
        let algorithm = algorithms::find(name).ok_or("an algorithm of the table is gone")?;
        let plans = algorithms::plan_all(algorithm, &view);
        let count = GATHERED / u64::from(chips);
        let places = machine::places(&network, chips)?;
        let call = PricedCall { plans: &plans, places: &places, view, count, size: 1, slice_bytes: 1 << 16 };
        let entry = vec![0; chips as usize];
        let outcome = engine::price(&network, &call, &entry).map_err(|e| e.message.clone())?;
        let ps = outcome.exit_ps.iter().copied().max().unwrap_or(0).max(1);
        let gb_per_s = (GATHERED - count) as f64 / ps as f64 * 1e3;
        let share = gb_per_s / rows.first().map_or(gb_per_s, |ring| ring.gb_per_s);
        rows.push(Gather {
            fabric,
            measure: "all_gather",
            shape,
            algorithm: name,
            algo: name,
            chips,
            bytes: GATHERED,
            gb_per_s,
            share,
        });
    }
    Ok(rows)
}

fn lines<T: Serialize>(rows: &[T]) -> Result<String, String> {
    let line = |row| serde_json::to_string(row).map(|line| line + "\n").map_err(|e| e.to_string());
    rows.iter().map(line).collect()
}

fn table(
    fabric: &str,
    class: &Class,
    latencies: &[Latency<'_>],
    shares: &[Utilisation<'_>],
    gathers: &[Gather<'_>],
) -> String {
    let mut text = format!(
        "# link  fabric: {fabric}  class: {}  {} each way  packets: {} + {}\n#\n# {:<28} {:<9} {:>6} {:>6} {:>10}  published\n",
        class.name,
        units::print_bandwidth(class.rate),
        units::print_size(class.mtu),
        units::print_size(class.header),
        "latency",
        "signal",
        "bytes",
        "chips",
        "ns"
    );
    for Latency { measure, signal, bytes, chips, ns, published_ns, .. } in latencies {
        let chips = chips.map_or(String::new(), |chips| chips.to_string());
        let published = match *published_ns {
            Some([from, to]) if from == to => format!("{from}"),
            Some([from, to]) => format!("{from} to {to}"),
            None => "-".to_owned(),
        };
        text += &format!("  {measure:<28} {signal:<9} {bytes:>6} {chips:>6} {ns:>10.1}  {published}\n");
    }
    text += &format!(
        "#\n# {:<14} {:>6} {:>9}   {:>8} {:>8} {:>10} {:>8} {:>10}  published\n",
        "utilisation, %", "bytes", "channels", "streamed", "merged", "both ways", "separate", "both ways"
    );
    for row in shares {
        let [streamed, merged, merged_both, separate, separate_both] =
            [row.streamed, row.merged, row.merged_both_ways, row.separate, row.separate_both_ways]
                .map(|share| share * 100.0);
        text += &format!(
            "  {:<14} {:>6} {:>9}   {streamed:>8.1} {merged:>8.1} {merged_both:>10.1} {separate:>8.1} {separate_both:>10.1}  {}\n",
            "",
            row.bytes,
            row.channels,
            row.published.unwrap_or("-")
        );
    }
    text += &format!(
        "#\n# {:<14} {:<9} {:>6} {:>9} {:>8}  share\n",
        "all_gather", "algorithm", "chips", "bytes", "GB/s"
    );
    for Gather { shape, algorithm, chips, bytes, gb_per_s, share, .. } in gathers {
        text += &format!("  {shape:<14} {algorithm:<9} {chips:>6} {bytes:>9} {gb_per_s:>8.2}  {share:.3}\n");
    }
    text
}
