//! `penny doctor --post-mortem` after a rank was killed, with real ranks.

use std::path::Path;
use std::process::{Command, Output};

use penny_ffi_tests::{compiler, root};

fn penny(arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penny"));
    command.args(arguments).env_remove("PENNY_POST_MORTEM").envs(variables.iter().copied());
    command.output().expect("penny starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn after_a_kill_a_page_tells_what_each_rank_did_last() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("dying");
    compiler::program(&root().join("cli/tests/fixtures/dying_program.c"), &program);
    let program = program.to_str().unwrap();

    let told = folder.path().join("told");
    let run = penny(&["run", "-n", "4", program], &[("PENNY_POST_MORTEM", &told)]);
    assert_eq!(run.status.code(), Some(128 + 9), "{}", text(&run.stderr));
    // Survivors have a moment to say what they know.
    assert_eq!(text(&run.stderr).matches("rank 3 (pid ").count(), 3, "{}", text(&run.stderr));
    let files = std::fs::read_dir(&told).unwrap().count();
    assert_eq!(files, 3, "a file for each survivor");

    let page = penny(&["doctor", "--post-mortem", told.to_str().unwrap()], &[]);
    let page = text(&page.stdout);
    for part in [
        "communicator of 4 ranks",
        "3 of them wrote what they knew",
        "died                                       21 ",
        "21  broadcast(count 3, type int32, root 1): all\n",
        "22  all_reduce(count 8, type float, op max): ranks 0-2\n",
        "  rank 0 to rank 1: 1 sent, 1 received\n",
        "died; abort this communicator",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

#[test]
fn a_rank_that_waits_for_a_message_of_a_dead_one_tells_of_messages_alone() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("messages");
    compiler::program(&root().join("cli/tests/fixtures/dying_sender.c"), &program);

    let told = folder.path().join("told");
    let run = penny(&["run", "-n", "3", program.to_str().unwrap()], &[("PENNY_POST_MORTEM", &told)]);
    assert_eq!(run.status.code(), Some(128 + 9), "{}", text(&run.stderr));
    let page = penny(&["doctor", "--post-mortem", told.to_str().unwrap()], &[]);
    let page = text(&page.stdout);
    // Rank 1 has begun its receive of a fourth message; rank 2 has neither sent nor received.
    let messages = page.split("\nmessages, those included that were under way\n").nth(1);
    let messages = messages.unwrap_or_else(|| panic!("no messages: {page}"));
    let ways = "  rank 0 to rank 1: 3 sent, 4 received\n  rank 1 to rank 0: 1 sent, 1 received\n";
    assert!(messages.starts_with(&format!("{ways}\nwhat they said\n")), "{page}");
    assert!(!page.contains("last calls"), "{page}");
}

#[test]
fn a_folder_of_the_job_is_named_after_a_failure_and_none_is_left_after_a_success() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("dying");
    compiler::program(&root().join("cli/tests/fixtures/dying_program.c"), &program);
    let program = program.to_str().unwrap();
    let runtime = [("XDG_RUNTIME_DIR", folder.path())];
    let kept = || {
        std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count()
    };

    // The only rank would have to survive itself.
    assert_eq!(penny(&["run", "-n", "1", "true"], &runtime).status.code(), Some(0));
    assert_eq!(kept(), 0);
    let run = penny(&["run", "-n", "3", program], &runtime);
    let said = text(&run.stderr);
    let named = said.lines().find_map(|line| line.split("penny doctor --post-mortem ").nth(1));
    let named = named.unwrap_or_else(|| panic!("no folder is named: {said}"));
    let page = penny(&["doctor", "--post-mortem", named], &[]);
    assert!(text(&page.stdout).contains("communicator of 3 ranks"), "{}", text(&page.stderr));
    assert_eq!(kept(), 1);
}

#[test]
fn what_is_no_post_mortem_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    let refusal =
        |path: &Path| text(&penny(&["doctor", "--post-mortem", path.to_str().unwrap()], &[]).stderr);
    assert!(refusal(&file).contains("x.json: No such file"));
    assert!(refusal(folder.path()).contains("PENNY_POST_MORTEM names it"));
    for (content, what) in [
        ("{\"ranks\":[]}", "it has other contents"),
        ("", "it is empty"),
        ("{\"ranks\":[", "it ends too early"),
        ("{\nranks", "line 2 is not JSON"),
    ] {
        std::fs::write(&file, content).unwrap();
        let said = refusal(&file);
        let whole = format!(
            "x.json: no rank of Penny wrote this file when it failed: {what}; name the folder of which"
        );
        assert!(said.contains(&whole), "{said}");
    }
}
