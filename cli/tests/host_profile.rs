//! `penny calibrate host` measures this host with real ranks and writes a profile, which the other commands show and ranks use.

use penny::internals::comm::this_host;
use penny::internals::planner::profile::{FORMAT, HostProfile, VERSION};
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command with a folder of caches of its own, and no variables that would decide.
fn penny(caches: &Path, line: &str, env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    for variable in
        ["PENNY_ALGO", "PENNY_OPTIONS", "PENNY_REPRODUCIBLE", "PENNY_FABRIC", "PENNY_HOST_PROFILE"]
    {
        command.env_remove(variable);
    }
    let command = command.args(line.split_whitespace()).env("XDG_CACHE_HOME", caches);
    command.envs(env.iter().copied()).output().unwrap()
}

#[track_caller]
fn answer(caches: &Path, line: &str, env: &[(&str, &str)]) -> String {
    let output = penny(caches, line, env);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn refusal(caches: &Path, line: &str, env: &[(&str, &str)]) -> String {
    let output = penny(caches, line, env);
    assert!(!output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// A profile of this host that takes another algorithm for broadcasts of two ranks from 64 KiB to 256 KiB.
fn planted() -> String {
    let host = this_host();
    format!(
        "format = {FORMAT}\nversion = \"{VERSION}\"\ncpu = \"{}\"\ncores = {}\n[auto]\n2 = \"broadcast:64k-256k:two_shot\"\n",
        host.cpu, host.cores
    )
}

/// The file in which a profile is looked for.
fn place(caches: &Path) -> std::path::PathBuf {
    caches.join("penny").join(this_host().file_name())
}

fn plant(caches: &Path, text: &str) {
    std::fs::create_dir_all(caches.join("penny")).unwrap();
    std::fs::write(place(caches), text).unwrap();
}

#[test]
fn a_calibration_writes_a_profile_of_this_host_where_it_is_looked_for() {
    let caches = tempfile::tempdir().unwrap();
    // How good the numbers are does not matter here.
    let printed = answer(caches.path(), "calibrate host --ranks 2 --rounds 3 --seconds 5", &[]);
    let written = std::fs::read_to_string(place(caches.path())).unwrap();
    assert_eq!(printed, written);
    HostProfile::parse(&written, &this_host()).unwrap();
    for measured in
        ["[measured]", "ranks = [2]", "price_error", "copy = {", "fold = {", "call_ns", "switch_ns"]
    {
        assert!(written.contains(measured), "no {measured} in\n{written}");
    }
    assert_eq!(
        std::fs::read_dir(caches.path().join("penny")).unwrap().count(),
        1,
        "nothing is left beside it"
    );
    assert!(answer(caches.path(), "topo host", &[]).contains(place(caches.path()).to_str().unwrap()));
}

#[test]
fn a_calibration_is_refused_where_its_ranks_would_be_decided_for_or_its_file_has_no_place() {
    let caches = tempfile::tempdir().unwrap();
    for (variable, value) in [("PENNY_ALGO", "ring"), ("PENNY_FABRIC", "dgx-h100")] {
        let why = refusal(caches.path(), "calibrate host", &[(variable, value)]);
        assert!(why.contains(variable) && why.contains("unset it"), "{why}");
    }
    let why = refusal(caches.path(), "calibrate host", &[("XDG_CACHE_HOME", ""), ("HOME", "")]);
    assert!(why.contains("name a file with -o"), "{why}");
    assert!(refusal(caches.path(), "calibrate host --ranks 1", &[]).contains("it takes 2 to 128"));
    assert!(std::fs::read_dir(caches.path()).unwrap().next().is_none());
}

#[test]
fn a_check_times_what_differs_and_names_both_algorithms() {
    let caches = tempfile::tempdir().unwrap();
    assert!(refusal(caches.path(), "calibrate host --check", &[]).contains("has no profile"));
    plant(caches.path(), "no profile");
    assert!(refusal(caches.path(), "calibrate host --check", &[]).contains("write a new one"));
    plant(caches.path(), &planted());
    // Whether it is slower on this host now decides about the exit code only.
    let output = penny(caches.path(), "calibrate host --check --ranks 2 --rounds 3", &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(rows.len(), 8, "four sizes, two kinds of buffers: {text}");
    assert!(
        rows.iter()
            .all(|row| row.contains("broadcast") && row.contains("one_shot") && row.contains("two_shot"))
    );
    assert!(text.contains("8 calls differ; largest ratio"), "{text}");
    let same = answer(caches.path(), "calibrate host --check --ranks 3 --rounds 3", &[]);
    assert!(same.contains("takes the built-in table's algorithms for all these calls"), "{same}");
}

#[test]
fn plan_doctor_and_topo_say_where_a_choice_comes_from() {
    let caches = tempfile::tempdir().unwrap();
    let plan = |env: &[(&str, &str)]| answer(caches.path(), "plan broadcast -n 2 -b 64K", env);
    let shown = |command: &str, env: &[(&str, &str)]| answer(caches.path(), command, env);
    assert!(plan(&[]).contains("on this host: one_shot, says the built-in table"));
    assert!(shown("topo host", &[]).contains("host profile: none: auto chooses by the built-in table"));
    plant(caches.path(), &planted());
    let file = place(caches.path());
    let file = file.to_str().unwrap();
    assert!(plan(&[]).contains(&format!("on this host: two_shot, says the host profile {file}")));
    assert!(plan(&[("PENNY_ALGO", "tree")]).contains("on this host: tree, says PENNY_ALGO or PENNY_OPTIONS"));
    let none = [("PENNY_HOST_PROFILE", "none")];
    assert!(plan(&none).contains("on this host: one_shot, says the built-in table"));
    for command in ["topo host", "doctor"] {
        assert!(shown(command, &[]).contains(&format!("{file}: 1 choices differ")), "{command}");
        assert!(shown(command, &none).contains("none, says PENNY_HOST_PROFILE"), "{command}");
    }
    assert!(shown("topo host", &[]).contains("2 = \"broadcast:64k-256k:two_shot\""));
    plant(caches.path(), &planted().replace(VERSION, "0.0.1"));
    for command in ["topo host", "doctor"] {
        let text = shown(command, &[]);
        assert!(
            text.contains("is not used: Penny 0.0.1 wrote it") && text.contains("penny calibrate host"),
            "{text}"
        );
    }
}
