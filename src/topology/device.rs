//! What a place computes with: `[device]` in a machine's file. Calls take the same time with it and without it; only whole
//! workloads look at it.
//!
//! ```toml
//! [device]
//! flops = "989.4TFLOPS"          # operations a second; FLOPS, or FLOP/s
//! mem_bw = "3.35TB/s"            # bytes a second between the device and its memory
//! eff = 0.6                      # the part of both that programs get; left out: all
//! ```

use super::source::Section;
use super::units::{self, Ratio};
use crate::error::Result;

/// The speed of a place's processor and of its memory, as the vendor states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Floating-point operations a second.
    pub flops: u64,
    /// Bytes a second from and to its memory.
    pub mem_rate: u64,
    /// The part of both that programs get.
    pub efficiency: Ratio,
}

impl DeviceSpec {
    /// Returns the picoseconds of an interval that computes `flops` and moves `bytes`: the longer one of the two, rounded up.
    pub fn time_ps(&self, flops: u64, bytes: u64) -> u64 {
        self.part_ps(flops, self.flops).max(self.part_ps(bytes, self.mem_rate))
    }

    fn part_ps(&self, amount: u64, rate: u64) -> u64 {
        let rate = self.efficiency.of(rate).max(1);
        let ps = (u128::from(amount) * 1_000_000_000_000).div_ceil(rate.into());
        u64::try_from(ps).unwrap_or(u64::MAX)
    }
}

/// The section `[device]`, if the file has one.
pub(super) fn read(root: &Section<'_>) -> Result<Option<DeviceSpec>> {
    let Some(value) = root.table.get("device") else { return Ok(None) };
    let section = root.inner("[device]".into(), value)?;
    section.knows(&["flops", "mem_bw", "eff"])?;
    let (flops, mem_bw) = (section.need("flops", "\"989TFLOPS\"")?, section.need("mem_bw", "\"3.35TB/s\"")?);
    let efficiency = section.get("eff").map_or(Ok(Ratio::ONE), |field| field.part())?;
    let spec =
        DeviceSpec { flops: flops.read(units::flops)?, mem_rate: mem_bw.read(units::bandwidth)?, efficiency };
    for (field, rate) in [(&flops, spec.flops), (&mem_bw, spec.mem_rate)] {
        if efficiency.of(rate) == 0 {
            return Err(field.error("a device with this would never be done; write more"));
        }
    }
    Ok(Some(spec))
}

#[cfg(test)]
mod tests {
    use super::super::{open, parse, presets};
    use super::*;

    fn declared(section: &str) -> Result<Option<DeviceSpec>> {
        let machine =
            "name = \"m\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"1ns\"\n[line]\nshape = \"2\"\nlink = \"w\"\n";
        parse("m.toml", &format!("{machine}{section}"), &[]).map(|network| network.device)
    }

    #[test]
    fn an_interval_takes_the_longer_time_of_computing_and_of_moving_data() {
        let spec =
            declared("[device]\nflops = \"100TFLOPS\"\nmem_bw = \"2TB/s\"\neff = 0.5\n").unwrap().unwrap();
        // 50 TFLOPS and 1 TB/s.
        assert_eq!(spec.time_ps(50_000_000, 0), 1_000_000);
        assert_eq!(spec.time_ps(0, 1_000_000), 1_000_000);
        assert_eq!(spec.time_ps(50_000_000, 3_000_000), 3_000_000);
        assert_eq!(spec.time_ps(1, 0), 1, "rounded up");
        assert_eq!(
            spec.time_ps(u64::MAX, u64::MAX),
            18_446_744_073_709_551_615,
            "as many picoseconds as bytes, at 1 TB/s"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        assert_eq!(declared("").unwrap(), None);
        for (section, part) in [
            ("[device]\nflops = \"1TFLOPS\"\n", "mem_bw"),
            ("[device]\nflops = \"1TB/s\"\nmem_bw = \"1TB/s\"\n", "TFLOPS"),
            ("[device]\nflops = \"0TFLOPS\"\nmem_bw = \"1TB/s\"\n", "never be done"),
            ("[device]\nflops = \"1TFLOPS\"\nmem_bw = \"1TB/s\"\neff = 1.5\n", "eff"),
            ("[device]\nflops = \"1TFLOPS\"\nmem_bw = \"1TB/s\"\nspeed = 1\n", "speed"),
        ] {
            let why = declared(section).expect_err(section).message.clone();
            assert!(why.contains(part) && why.contains("m.toml:"), "{why}");
        }
    }

    #[test]
    fn a_device_does_not_change_what_calls_take() {
        let with = |text: &str| parse("m.toml", text, &[]).unwrap().hash();
        let machine =
            "name = \"m\"\n[class.w]\nbw = \"1GB/s\"\nlat = \"1ns\"\n[line]\nshape = \"2\"\nlink = \"w\"\n";
        assert_eq!(
            with(machine),
            with(&format!("{machine}[device]\nflops = \"1TFLOPS\"\nmem_bw = \"1TB/s\"\n"))
        );
    }

    #[test]
    fn presets_of_accelerators_declare_their_devices() {
        for (name, _) in presets() {
            let device = open(name).unwrap().device;
            assert_eq!(device.is_some(), !["poets", "host"].contains(name), "{name}");
        }
    }
}
