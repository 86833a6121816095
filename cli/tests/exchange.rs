//! The exchange benchmark against the figures of the Penny worklog, which count both directions.

use std::process::Command;

/// Bandwidth by (second place, kind of signal), at one size.
fn exchange(options: &str) -> impl Fn(u64, &str) -> f64 + use<> {
    let line = format!("perf exchange {options} --json");
    let output = Command::new(env!("CARGO_BIN_EXE_penny")).args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<serde_json::Value> = text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    move |place, signal| {
        let row = rows.iter().find(|row| row["places"][1] == place && row["signal"] == signal);
        row.unwrap_or_else(|| panic!("no {signal} to {place}"))["gb_per_s"].as_f64().unwrap()
    }
}

/// Tells whether a value is within `percent` percent of the published one.
fn near(value: f64, published: f64, percent: f64) -> bool {
    (value / published - 1.0).abs() <= percent / 100.0
}

#[test]
fn an_exchange_on_h100_is_as_fast_as_the_worklog_found() {
    let gbps = exchange("--fabric dgx-h100 -b 1G -e 1G");
    for (place, fused, unfused) in [(1, 733.0, 560.0), (8, 96.0, 80.0)] {
        let (found, lossy) = (gbps(place, "fused"), gbps(place, "unfused"));
        assert!(near(found, fused, 2.0), "fused to {place}: {found} for {fused}");
        assert!(near(lossy, unfused, 15.0), "unfused to {place}: {lossy} for {unfused}");
        assert!(lossy < 0.95 * found, "to {place} the separate signal costs too little: {lossy} of {found}");
    }
}

#[test]
fn messages_that_a_thread_of_the_host_posts_are_as_slow_as_the_worklog_found() {
    // NCCL's model counts 1 us of a host's thread for each message of a NIC.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy.toml");
    let preset =
        Command::new(env!("CARGO_BIN_EXE_penny")).args(["topo", "print", "dgx-h100"]).output().unwrap();
    let machine =
        String::from_utf8(preset.stdout).unwrap() + "[[override]]\nlink = \"*.nic.*\"\ngap = \"1us\"\n";
    std::fs::write(&file, machine).unwrap();
    let gbps = exchange(&format!("--fabric {}:nodes=2 -b 1G -e 1G", file.display()));
    assert!(near(gbps(8, "fused"), 87.0, 3.0), "{} for 87", gbps(8, "fused"));
}

#[test]
fn a_signal_of_its_own_never_gains_and_a_wide_window_hides_it() {
    for size in ["4K", "1M", "64M"] {
        let gbps = exchange(&format!("--fabric dgx-h100 -b {size} -e {size}"));
        assert!([1, 8].iter().all(|&place| gbps(place, "unfused") < gbps(place, "fused")), "{size}");
    }
    let wide = exchange("--fabric dgx-h100 -b 1G -e 1G --slots 16");
    assert!([1, 8].iter().all(|&place| near(wide(place, "unfused"), wide(place, "fused"), 1.0)));
}

#[test]
fn one_wave_takes_the_sum_of_its_parts() {
    // 1 GB/s and 1 us each of two ports; a wave of 1000 B is 1 us: fused 1 + 2 + 0.3 us for the copy, and unfused two
    // messages of 2 us more.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pair.toml");
    let machine = "name = \"pair\"\n[class.wire]\nbw = \"1GB/s\"\nlat = \"1us\"\nmtu = \"1B\"\n[switch]\nplaces = 2\nport = \"wire\"\n";
    std::fs::write(&file, machine).unwrap();
    let gbps = exchange(&format!("--fabric {} -b 1000 -e 1000", file.display()));
    let us = |signal: &str| 2.0 * 1000.0 / gbps(1, signal) * 1e-3;
    // Cut-through: the second port begins a byte after the first.
    assert!((us("fused") - 3.301).abs() < 1e-6, "{}", us("fused"));
    assert!((us("unfused") - 7.301).abs() < 1e-6, "{}", us("unfused"));
}
