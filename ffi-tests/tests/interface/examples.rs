//! c-examples: each builds without a warning and prints what its README promises.

use std::fs;
use std::path::PathBuf;

use penny_ffi_tests::{compiler, hosts, ranks, root};

/// An example, built.
struct Example {
    folder: PathBuf,
    program: PathBuf,
    readme: String,
    _dir: tempfile::TempDir,
}

impl Example {
    fn build(name: &str) -> Example {
        let dir = tempfile::tempdir().unwrap();
        let folder = root().join("c-examples").join(name);
        let program = dir.path().join(name);
        match folder.join("main.cpp") {
            source if source.exists() => {
                compiler::program_by(compiler::cxx().arg("-std=c++17"), &source, &program);
            }
            _ => compiler::program(&folder.join("main.c"), &program),
        }
        Example { readme: fs::read_to_string(folder.join("README.md")).unwrap(), folder, program, _dir: dir }
    }

    /// Builds it from a source that differs.
    fn build_with(name: &str, change: impl Fn(&str) -> String) -> Example {
        let example = Example::build(name);
        let source = fs::read_to_string(example.folder.join("main.c")).unwrap();
        let changed = example.program.with_extension("c");
        fs::write(&changed, change(&source)).unwrap();
        compiler::program(&changed, &example.program);
        example
    }

    /// The lines that the README shows below the line `heading`, in any order.
    fn promised(&self, heading: &str) -> Option<Vec<&str>> {
        let mut lines = self.readme.lines().skip_while(|line| *line != heading);
        lines.next()?;
        let mut shown: Vec<_> =
            lines.skip_while(|line| line.is_empty()).map_while(|line| line.strip_prefix("    ")).collect();
        shown.sort();
        Some(shown)
    }

    /// Runs it, and compares what it prints with what is promised below `heading`, if anything is.
    #[track_caller]
    fn keeps(&self, heading: &str, on: usize, env: &[(&str, &str)]) {
        let said = ranks::run(&self.program, &self.folder, on, env);
        if let Some(promised) = self.promised(heading) {
            let mut printed: Vec<_> = said.iter().flat_map(|text| text.lines()).collect();
            printed.sort();
            assert_eq!(printed, promised, "{heading}");
        }
    }

    /// The same on 2 ranks, whose output every README shows, and on 3.
    #[track_caller]
    fn keeps_its_word(&self) {
        assert!(
            self.promised("With 2 ranks:").is_some_and(|lines| !lines.is_empty()),
            "the README shows 2 ranks"
        );
        self.keeps("With 2 ranks:", 2, &[]);
        self.keeps("With 3 ranks:", 3, &[]);
    }
}

#[test]
fn init_meets_and_parts() {
    Example::build("01_init").keeps_its_word();
}

#[test]
fn all_reduce_combines() {
    Example::build("02_all_reduce").keeps_its_word();
}

#[test]
fn a_token_goes_around_the_ring() {
    Example::build("03_group_send_recv").keeps_its_word();
}

#[test]
fn shareable_buffers_give_the_same_sums() {
    Example::build("04_zero_copy_buffers").keeps_its_word();
}

#[test]
fn digits_are_learnt_with_the_same_bits_on_any_number_of_ranks() {
    let example = Example::build("05_data_parallel_digits");
    let heading = "With PENNY_REPRODUCIBLE=1, on 1, 2, 3 or 4 ranks:";
    assert!(example.promised(heading).is_some_and(|lines| lines.len() > 20), "the README shows the curve");
    for on in 1..=4 {
        example.keeps(heading, on, &[("PENNY_REPRODUCIBLE", "1")]);
        // The program itself fails below 95 % or if two ranks' networks differ.
        ranks::run(&example.program, &example.folder, on, &[]);
    }
}

#[test]
fn digits_are_learnt_with_the_same_bits_on_hosts_of_unlike_size() {
    let example = Example::build("05_data_parallel_digits");
    let promised = example.promised("With PENNY_REPRODUCIBLE=1, on 1, 2, 3 or 4 ranks:").expect("the curve");
    for on in [&["a", "b", "a"][..], &["a", "b", "b", "b"]] {
        let port = hosts::port();
        let mut env: Vec<_> =
            on.iter().map(|host| hosts::variables(host, port, &hosts::Carrier::new())).collect();
        env.iter_mut().for_each(|of| of.push(("PENNY_REPRODUCIBLE".into(), "1".into())));
        let said = ranks::run_each(&example.program, &example.folder, &env);
        let mut printed: Vec<_> = said.iter().flat_map(|text| text.lines()).collect();
        printed.sort();
        assert_eq!(printed, promised, "{on:?}");
    }
}

#[test]
fn errors_are_told_and_survived() {
    Example::build("06_errors").keeps_its_word();
}

#[test]
fn pairs_swap_their_buffers_through_the_symmetric_heap() {
    let example = Example::build("07_symmetric_heap");
    example.keeps_its_word();
    example.keeps("With 4 ranks:", 4, &[]);
}

#[test]
fn rings_written_by_hand_have_the_bits_of_the_library() {
    let example = Example::build("08_ring_all_reduce_by_hand");
    let heading = "With 1 to 8 ranks:";
    assert!(example.promised(heading).is_some_and(|lines| lines.len() == 2), "the README shows both rings");
    for on in 1..=8 {
        example.keeps(heading, on, &[]);
    }
}

#[test]
fn the_declared_machine_tells_its_time_beside_a_right_result() {
    let example = Example::build("11_declared_machine");
    for on in [2, 16] {
        let heading = format!("With {on} ranks:");
        assert!(
            example.promised(&heading).is_some_and(|lines| !lines.is_empty()),
            "the README shows {on} ranks"
        );
        example.keeps(&heading, on, &[]);
    }
}

#[test]
fn blocks_are_summed_while_the_next_are_computed() {
    Example::build("12_streams").keeps_its_word();
}

#[test]
fn remote_copy_kernels_print_the_numbers_of_the_pallas_guide() {
    let example = Example::build("09_remote_copy_kernels");
    for on in [4, 2] {
        let heading = format!("With {on} ranks:");
        assert!(
            example.promised(&heading).is_some_and(|lines| lines.len() == 5),
            "the README shows {on} ranks"
        );
        example.keeps(&heading, on, &[]);
        example.keeps(&heading, on, &[("PENNY_CHECK", "race")]);
    }
}

#[test]
fn shortest_paths_found_by_messages_are_right_on_any_number_of_ranks() {
    let example = Example::build("10_mailbox_graph");
    let heading = "With 1, 2, 3 or 4 ranks:";
    assert!(example.promised(heading).is_some_and(|lines| lines.len() == 6), "the README shows the answer");
    for on in 1..=4 {
        example.keeps(heading, on, &[]);
    }
}

#[test]
fn shortest_paths_found_by_messages_are_right_on_a_machine_of_mailboxes() {
    let example = Example::build_with("10_mailbox_graph", |source| {
        // Sixteen threads a rank in turn, a switch of threads for each event: a smaller graph.
        assert!(source.contains("VERTICES = 20000"));
        source.replace("VERTICES = 20000", "VERTICES = 2000")
    });
    // Whatever this host does, no thread counts as away. The program itself fails if the answer is wrong.
    let env = [("PENNY_FABRIC", "poets"), ("PENNY_FABRIC_GRACE", "0")];
    let said = ranks::run(&example.program, &example.folder, 2, &env);
    assert!(said[0].contains("vertices                2000\n"), "{said:?}");
}

#[test]
fn a_line_is_fitted_in_cpp() {
    Example::build("14_cpp").keeps_its_word();
}

#[test]
fn the_overview_lists_every_example() {
    let overview = fs::read_to_string(root().join("c-examples/README.md")).unwrap();
    for entry in fs::read_dir(root().join("c-examples")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            assert!(overview.contains(&format!("[{name}]({name})")), "{name} is not in c-examples/README.md");
        }
    }
}
