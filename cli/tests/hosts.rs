//! `penny run` with ranks on several hosts, which a script plays on this machine in ssh's place.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder with the script that runs a command as on another host.
struct Hosts {
    folder: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Hosts {
        let folder = tempfile::tempdir().unwrap();
        let hosts = Hosts { folder };
        let script = "#!/bin/sh\n[ \"$1\" != unreachable ] || { echo no route >&2; exit 255; }\nhost=$1; shift; PENNY_HOST_ID=$host exec sh -c \"$*\"\n";
        std::fs::write(hosts.rsh(), script).unwrap();
        std::fs::set_permissions(hosts.rsh(), std::fs::Permissions::from_mode(0o755)).unwrap();
        hosts
    }

    fn rsh(&self) -> PathBuf {
        self.folder.path().join("rsh")
    }

    fn run(&self, options: &[&str], script: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
        for name in ["PENNY_HOST_ID", "MASTER_ADDR", "MASTER_PORT", "PENNY_JOB_ID", "FI_TCP_MAX_RX_SIZE"] {
            command.env_remove(name);
        }
        let run = command.args(["run", "--rsh"]).arg(self.rsh()).args(options).args(["sh", "-c", script]);
        run.stdin(Stdio::null()).output().unwrap()
    }
}

fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const PLACE: &str = "echo $PENNY_RANK/$PENNY_WORLD_SIZE $PENNY_LOCAL_RANK/$PENNY_LOCAL_SIZE $RANK $LOCAL_WORLD_SIZE $PENNY_HOST_ID";

#[test]
fn each_host_gets_its_ranks_in_order() {
    let hosts = Hosts::new();
    let output = hosts.run(&["--hosts", "a:2,b"], PLACE);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    assert_eq!(lines(&output), ["0/3 0/2 0 2 a", "1/3 1/2 1 2 a", "2/3 0/1 2 1 b"]);
    let output = hosts.run(&["--hosts", "a,b,a:2"], PLACE);
    let of_a = ["0/4 0/3 0 3 a", "2/4 1/3 2 3 a", "3/4 2/3 3 3 a"];
    assert_eq!(lines(&output), [of_a[0], "1/4 0/1 1 1 b", of_a[1], of_a[2]], "{}", told(&output));
    let file = hosts.folder.path().join("hosts");
    std::fs::write(&file, "a slots=1\nb slots=4 # more than are taken\n").unwrap();
    let output =
        hosts.run(&["--tag", "-n", "2", "--hostfile", file.to_str().unwrap()], "echo $PENNY_HOST_ID");
    assert_eq!(lines(&output), ["[0] a", "[1] b"], "{}", told(&output));
}

#[test]
fn all_ranks_have_one_secret_and_one_place_to_meet() {
    let hosts = Hosts::new();
    let script = "echo $PENNY_JOB_ID $MASTER_ADDR $MASTER_PORT $MINE $PENNY_OPTIONS";
    let output = hosts.run(&["--hosts", "a,b", "--master", "10.9.8.7", "--env", "MINE=x y"], script);
    let said = lines(&output);
    assert!(
        said.len() == 2 && said[0] == said[1] && said[0].contains(" 10.9.8.7 "),
        "{said:?} {}",
        told(&output)
    );
    assert!(said[0].ends_with("x y"), "{said:?}");
    // No list of processes shows the secret.
    let output = hosts.run(&["--hosts", "a"], "tr '\\0' ' ' < /proc/$PPID/cmdline; echo $PENNY_JOB_ID");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let secret = said.split_whitespace().last().unwrap().to_owned();
    assert!(secret.len() == 32 && said.matches(&secret).count() == 1, "{said}");
}

#[test]
fn libfabric_takes_little_memory_for_each_communicator_unless_the_user_says_otherwise() {
    let hosts = Hosts::new();
    let size = |options: &[&str]| lines(&hosts.run(options, "echo $FI_TCP_MAX_RX_SIZE"));
    assert_eq!(size(&["--hosts", "a,b"]), ["256", "256"]);
    assert_eq!(size(&["--hosts", "a", "--env", "FI_TCP_MAX_RX_SIZE=4096"]), ["4096"]);
}

#[test]
fn a_rank_that_fails_ends_the_ranks_of_all_hosts() {
    let hosts = Hosts::new();
    let begun = Instant::now();
    let output = hosts.run(&["--hosts", "a:2,b:1"], "[ $PENNY_RANK = 2 ] && exit 7; exec sleep 600");
    assert!(begun.elapsed() < Duration::from_secs(120), "the others were not ended");
    assert_eq!(output.status.code(), Some(7));
    let said = told(&output);
    assert!(said.contains("rank 2 (PID ") && said.contains("exited with code 7"), "{said}");
    assert!(said.contains("host b (PID ") && said.contains("the other host is ended"), "{said}");
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let output = Hosts::new().run(&["--hosts", "a,unreachable"], "exec sleep 600");
    assert_eq!(output.status.code(), Some(255));
    let said = told(&output);
    assert!(said.contains("no route") && said.contains("host unreachable (PID "), "{said}");
}

#[test]
fn wrong_hosts_are_refused_with_a_sentence() {
    let hosts = Hosts::new();
    for (options, word) in [
        (&["--hosts", "a:0"][..], "no number of ranks"),
        (&["--hosts", ""], "no host is named"),
        (&["--hosts", "a:2", "-n", "3"], "places for 2 ranks"),
        (&["--hostfile", "/nowhere/hosts"], "/nowhere/hosts"),
        (&["--hosts", "a", "--env", "PENNY_NOT_SET_ANYWHERE"], "not set here"),
        (&["--hosts", "a", "--hostfile", "b"], "cannot be used with"),
    ] {
        let output = hosts.run(options, "true");
        assert_ne!(output.status.code(), Some(0));
        assert!(told(&output).contains(word), "{options:?}: {}", told(&output));
    }
}
