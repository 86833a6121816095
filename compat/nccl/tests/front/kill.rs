//! c/kill.c: a process is killed in the middle of collectives, and the others go on without it.

use super::dir;
use super::table::{is_long, with_runtime};
use penny_ffi_tests::ranks;

#[test]
fn survivors_are_told_who_was_killed_and_go_on_without_it() {
    let to = tempfile::tempdir().unwrap();
    let program = with_runtime("kill", to.path());
    // Each rank is a victim once.
    let kills = if is_long() { "200" } else { "4" };
    let path = dir().to_str().unwrap();
    let said = ranks::run(&program, to.path(), 1, &[("TEST_KILLS", kills), ("LD_LIBRARY_PATH", path)]);
    let lines: Vec<&str> = said[0].lines().collect();
    assert_eq!(lines.len(), 7, "{said:?}");
    assert_eq!(lines[0], format!("{kills} kills among 4 ranks"));
    println!("{}", said[0]);
}
