//! Amounts of work: bytes as vendors and as programmers write them, and floating-point operations.

use penny::Collective;

const BYTES: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

const OPERATIONS: [(&str, u64); 6] = [
    ("EFLOP", 1_000_000_000_000_000_000),
    ("PFLOP", 1_000_000_000_000_000),
    ("TFLOP", 1_000_000_000_000),
    ("GFLOP", 1_000_000_000),
    ("MFLOP", 1_000_000),
    ("FLOP", 1),
];

/// Reads a number of bytes: `64MiB` or `64MB`.
pub fn bytes(text: &str) -> Result<u64, String> {
    amount(text, &BYTES, "64MiB")
}

/// Reads a number of floating-point operations: `1.5TFLOP`.
pub fn operations(text: &str) -> Result<u64, String> {
    amount(text, &OPERATIONS, "1.5TFLOP")
}

fn amount(text: &str, units: &[(&str, u64)], like: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let Some((_, scale)) = units.iter().find(|(known, _)| *known == unit) else {
        let known: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
        return Err(format!(
            "`{text}` has no unit that is known here; write it like {like}, in one of {}",
            known.join(", ")
        ));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let wrong = || format!("`{text}` is no number of {unit}; write it like {like}");
    if whole.is_empty() || number.ends_with('.') || fraction.contains('.') || fraction.len() > 18 {
        return Err(wrong());
    }
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| wrong())?;
    let under = 10u128.pow(fraction.len() as u32);
    let over = digits.checked_mul(u128::from(*scale)).ok_or_else(wrong)?;
    if over % under != 0 {
        return Err(format!("`{text}` is not a whole number; write fewer digits"));
    }
    u64::try_from(over / under).map_err(|_| format!("`{text}` is more than can be counted; write less"))
}

/// Returns the bytes of a block where the larger buffer of a rank has `bytes`, as `penny sim` counts sizes.
pub fn block(collective: Collective, bytes: u64, ranks: u64) -> u64 {
    use Collective::{AllGather, AlltoAll, Gather, ReduceScatter, Scatter};
    match collective {
        AllGather | ReduceScatter | AlltoAll | Gather | Scatter => bytes / ranks.max(1),
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact_and_have_units() {
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("1.5 kB"), Ok(1500));
        assert_eq!(operations("1.5TFLOP"), Ok(1_500_000_000_000));
        assert_eq!(operations("18EFLOP"), Ok(18_000_000_000_000_000_000));
        for wrong in [
            "64",
            "B",
            "1..5MB",
            "1.MB",
            "-1MB",
            "0.5B",
            "99999999999TB",
            "12TFLOPS",
            "9999999999999999999999999999999999999999B",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert!(operations("1TFLOPS").is_err_and(|why| why.contains("in one of EFLOP")));
    }
}
