//! Quantities with their units, exact: `450GB/s`, `400Gbps`, `700ns`, `1.5us`, `1500B`, `0.5x`, `2:1`.
//!
//! A number without a unit is refused, and so is one that is not whole in the quantity's smallest unit: what is read
//! is what was written.

/// A unit, and its value in the smallest unit, as numerator and denominator.
type Unit = (&'static str, u64, u64);

/// Bits count eight to the byte, and `G` is 10^9.
const BANDWIDTHS: &[Unit] = &[
    ("TB/s", 1_000_000_000_000, 1),
    ("GB/s", 1_000_000_000, 1),
    ("MB/s", 1_000_000, 1),
    ("kB/s", 1_000, 1),
    ("B/s", 1, 1),
    ("Tb/s", 1_000_000_000_000, 8),
    ("Gb/s", 1_000_000_000, 8),
    ("Mb/s", 1_000_000, 8),
    ("kb/s", 1_000, 8),
    ("Tbps", 1_000_000_000_000, 8),
    ("Gbps", 1_000_000_000, 8),
    ("Mbps", 1_000_000, 8),
    ("kbps", 1_000, 8),
    ("Tbit/s", 1_000_000_000_000, 8),
    ("Gbit/s", 1_000_000_000, 8),
    ("Mbit/s", 1_000_000, 8),
    ("kbit/s", 1_000, 8),
    ("TBps", 1_000_000_000_000, 1),
    ("GBps", 1_000_000_000, 1),
    ("MBps", 1_000_000, 1),
    ("GiB/s", 1 << 30, 1),
    ("MiB/s", 1 << 20, 1),
];

const FLOPS: &[Unit] = &[
    ("PFLOPS", 1_000_000_000_000_000, 1),
    ("TFLOPS", 1_000_000_000_000, 1),
    ("GFLOPS", 1_000_000_000, 1),
    ("MFLOPS", 1_000_000, 1),
    ("FLOPS", 1, 1),
    ("PFLOP/s", 1_000_000_000_000_000, 1),
    ("TFLOP/s", 1_000_000_000_000, 1),
    ("GFLOP/s", 1_000_000_000, 1),
    ("MFLOP/s", 1_000_000, 1),
    ("FLOP/s", 1, 1),
];

const TIMES: &[Unit] = &[
    ("s", 1_000_000_000_000, 1),
    ("ms", 1_000_000_000, 1),
    ("us", 1_000_000, 1),
    ("µs", 1_000_000, 1),
    ("ns", 1_000, 1),
    ("ps", 1, 1),
];

const SIZES: &[Unit] = &[("GiB", 1 << 30, 1), ("MiB", 1 << 20, 1), ("KiB", 1 << 10, 1), ("B", 1, 1)];

/// A factor, exact as it was written: `0.97` is 97 over 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    over: u64,
    under: u64,
}

impl Ratio {
    /// The ratio 1.
    pub const ONE: Ratio = Ratio { over: 1, under: 1 };

    /// Makes the ratio `over / under`; `under` is not 0.
    pub(super) const fn new(over: u64, under: u64) -> Ratio {
        Ratio { over, under }
    }
    /// Returns numerator and denominator.
    pub const fn parts(self) -> (u64, u64) {
        (self.over, self.under)
    }
    /// Returns `amount` times the ratio, rounded down.
    pub fn of(self, amount: u64) -> u64 {
        u64::try_from(amount as u128 * self.over as u128 / self.under as u128).unwrap_or(u64::MAX)
    }
    /// Tells whether the ratio is above 0 and at most 1.
    pub const fn is_a_part(self) -> bool {
        self.over > 0 && self.over <= self.under
    }
}

/// Bytes a second.
pub fn bandwidth(text: &str) -> Result<u64, String> {
    quantity(text, BANDWIDTHS, "450GB/s")
}

/// Floating-point operations a second.
pub fn flops(text: &str) -> Result<u64, String> {
    quantity(text, FLOPS, "989TFLOPS")
}

/// Picoseconds.
pub fn time(text: &str) -> Result<u64, String> {
    quantity(text, TIMES, "700ns")
}

/// Bytes.
pub fn size(text: &str) -> Result<u64, String> {
    quantity(text, SIZES, "1500B")
}

/// A plain number, such as an efficiency.
pub fn ratio(text: &str) -> Result<Ratio, String> {
    let (over, under) =
        decimal(text).ok_or_else(|| format!("`{text}` is not a number; write it like 0.97"))?;
    Ok(Ratio { over, under })
}

/// A number of times, `0.5x`; `None` if it is not written as one.
pub fn factor(text: &str) -> Option<Result<Ratio, String>> {
    text.strip_suffix('x').map(ratio)
}

/// A bandwidth over another one, `2:1` or `2`; above 0.
pub fn proportion(text: &str) -> Result<Ratio, String> {
    let both = match text.split_once(':') {
        Some((left, right)) => decimal(left.trim()).zip(decimal(right.trim())),
        None => decimal(text).map(|number| (number, (1, 1))),
    };
    let (left, right) =
        both.ok_or_else(|| format!("`{text}` is not a proportion; write it like 2:1 or 2"))?;
    let product = |a: u64, b: u64| a.checked_mul(b).filter(|&n| n > 0);
    match (product(left.0, right.1), product(left.1, right.0)) {
        (Some(over), Some(under)) => Ok(Ratio { over, under }),
        _ => Err(format!("`{text}` is not a proportion of two bandwidths above 0; write it like 2:1 or 2")),
    }
}

/// Formats a bandwidth as [`bandwidth`] reads it.
pub fn print_bandwidth(bytes_a_second: u64) -> String {
    print(bytes_a_second, &BANDWIDTHS[..5])
}

/// Formats operations a second as [`flops`] reads them.
pub fn print_flops(flops: u64) -> String {
    print(flops, &FLOPS[..5])
}

/// Formats a time as [`time`] reads it.
pub fn print_time(ps: u64) -> String {
    print(ps, TIMES)
}

/// Formats a size as [`size`] reads it.
pub fn print_size(bytes: u64) -> String {
    let &(unit, scale, _) =
        SIZES.iter().find(|u| bytes >= u.1 && bytes.is_multiple_of(u.1)).unwrap_or(&SIZES[SIZES.len() - 1]);
    format!("{}{unit}", bytes / scale)
}

/// In the largest unit that there is one of; the units are powers of ten, so the fraction ends.
fn print(amount: u64, units: &[Unit]) -> String {
    let &(unit, scale, _) = units.iter().find(|u| amount >= u.1).unwrap_or(&units[units.len() - 1]);
    let digits = scale.ilog10() as usize;
    let fraction = format!("{:0digits$}", amount % scale);
    match fraction.trim_end_matches('0') {
        "" => format!("{}{unit}", amount / scale),
        rest => format!("{}.{rest}{unit}", amount / scale),
    }
}

fn quantity(text: &str, units: &[Unit], like: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let Some((over, under)) = decimal(number) else {
        return Err(format!("`{text}` does not begin with a number; write it like {like}"));
    };
    let Some(&(_, scale, part)) = units.iter().find(|u| u.0 == unit) else {
        let known: Vec<&str> = units.iter().map(|u| u.0).collect();
        let what = if unit.is_empty() { "no unit" } else { "a unit that is not known here" };
        return Err(format!("`{text}` has {what}; write it like {like}, in one of {}", known.join(", ")));
    };
    let (over, under) = (over as u128 * scale as u128, under as u128 * part as u128);
    let smallest = units.iter().find(|u| (u.1, u.2) == (1, 1)).map_or("", |u| u.0);
    if over % under != 0 {
        return Err(format!("`{text}` is not a whole number of {smallest}; write fewer digits"));
    }
    u64::try_from(over / under)
        .map_err(|_| format!("`{text}` is more than can be counted in {smallest}; write less"))
}

/// Digits, and perhaps a point and more digits, as a fraction.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || text.ends_with('.') {
        return None;
    }
    let under = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some((format!("{whole}{fraction}").parse().ok()?, under))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_are_an_eighth_of_bytes() {
        assert_eq!(bandwidth("100Gb/s"), Ok(12_500_000_000));
        assert_eq!(bandwidth("12.5GB/s"), bandwidth("100Gb/s"));
        assert_eq!(bandwidth("48.5 GB/s"), Ok(48_500_000_000));
        for text in ["400Gb/s", "400Gbps", "400 Gbit/s", "0.4Tbps", "50GB/s", "50 GBps"] {
            assert_eq!(bandwidth(text), Ok(50_000_000_000), "{text}");
        }
        assert_eq!(bandwidth("1GiB/s"), Ok(1 << 30));
    }

    #[test]
    fn times_and_sizes_are_whole() {
        assert_eq!(time("4us"), Ok(4_000_000));
        assert_eq!(time("0.7ns"), Ok(700));
        assert_eq!((time("1.5us"), time("1.5 µs")), (Ok(1_500_000), Ok(1_500_000)));
        assert_eq!(size("1500B"), Ok(1500));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert!(time("0.5ps").is_err_and(|e| e.contains("not a whole number of ps")));
        assert!(bandwidth("1b/s").is_err_and(|e| e.contains("unit")));
    }

    #[test]
    fn a_number_alone_is_refused_and_the_units_are_listed() {
        let why = bandwidth("450").expect_err("no unit");
        assert!(why.contains("has no unit") && why.contains("GB/s, MB/s"), "{why}");
        assert!(time("700GB/s").is_err_and(|e| e.contains("us, µs, ns, ps")));
        assert!(time("ns").is_err_and(|e| e.contains("begin with a number")));
        assert!(time("99999999999s").is_err_and(|e| e.contains("more than can be counted")));
        assert!(
            time("1.ns").is_err()
                && time("-1ns").is_err()
                && time(".5ns").is_err()
                && time("1.2.3ns").is_err()
        );
    }

    #[test]
    fn a_ratio_is_exact() {
        assert_eq!(ratio("0.824").expect("a number").of(450_000_000_000), 370_800_000_000);
        assert_eq!(factor("0.5x").expect("a factor").expect("a number").of(7), 3);
        assert_eq!(factor("7ns"), None);
        assert!(!ratio("1.01").expect("a number").is_a_part() && !ratio("0").expect("a number").is_a_part());
        assert_eq!(Ratio::ONE.of(7), 7);
    }

    #[test]
    fn a_proportion_is_exact_and_never_0() {
        let parts = |text: &str| proportion(text).map(|ratio| (ratio.over, ratio.under));
        assert_eq!((parts("2:1"), parts("2"), parts("1.5:1")), (Ok((2, 1)), Ok((2, 1)), Ok((15, 10))));
        assert_eq!(parts("3:0.5"), Ok((30, 5)));
        for text in ["0", "0:1", "1:0"] {
            assert!(parts(text).is_err_and(|e| e.contains("above 0")), "{text}");
        }
        assert!(parts("two").is_err() && parts("1:2:3").is_err() && parts("-1").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_as_the_same(amount: u64) {
            prop_assert_eq!(bandwidth(&print_bandwidth(amount)), Ok(amount));
            prop_assert_eq!(time(&print_time(amount)), Ok(amount));
            prop_assert_eq!(flops(&print_flops(amount)), Ok(amount));
            prop_assert_eq!(size(&print_size(amount)), Ok(amount));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[0-9.]{0,30}[a-zA-Z/]{0,4}|\\PC*") {
            let _ = (bandwidth(&text), time(&text), size(&text), ratio(&text), factor(&text).is_some(), proportion(&text));
        }
    }
}
