//! Profiles that are read, refused, sent to other ranks, and that decide.

use crate::plan::RankView;
use crate::planner::profile::*;
use crate::planner::select::{Selection, Why};
use proptest::prelude::*;
use std::sync::Arc;

fn here() -> Host {
    Host { cpu: "Some (R) CPU @ 2.40GHz".into(), cores: 4 }
}

/// A profile of this host with these lines in its section.
fn file(auto: &str) -> String {
    format!(
        "format = 1\nversion = \"{VERSION}\"\ncpu = \"{}\"\ncores = 4\n[measured]\nx = 1.5\n[auto]\n{auto}\n",
        here().cpu
    )
}

fn refused(text: &str) -> String {
    HostProfile::parse(text, &here()).unwrap_err()
}

#[test]
fn choices_hold_for_their_ranks_collective_and_sizes_and_for_nothing_else() {
    let text = file(
        "2 = \"all_reduce:4k-16k:ring,16k-1m:tree;broadcast:1m-inf:two_shot\"\n3-8 = \"all_reduce:0-1k:two_shot\"",
    );
    let profile = HostProfile::parse(&text, &here()).unwrap();
    let name = |nranks, collective, bytes| {
        profile.algorithm(nranks, collective, bytes).map(|m| algorithms::ALL[m].name)
    };
    use Collective::*;
    assert_eq!(name(2, AllReduce, 4095), None);
    assert_eq!(name(2, AllReduce, 4096), Some("ring"));
    assert_eq!(name(2, AllReduce, 16384), Some("tree"));
    assert_eq!(name(2, Broadcast, 1 << 40), Some("two_shot"));
    assert_eq!(name(2, Reduce, 4096), None);
    assert_eq!([2, 3, 8, 9].map(|n| name(n, AllReduce, 8).is_some()), [false, true, true, false]);
    // What is written is read again.
    let again = file(profile.section().strip_prefix("[auto]\n").unwrap());
    assert_eq!(HostProfile::parse(&again, &here()).unwrap(), profile);
    assert_eq!(HostProfile::parse(&file(""), &here()).unwrap(), HostProfile::default());
}

#[test]
fn a_file_that_is_no_profile_of_this_host_is_refused_with_the_reason() {
    let good = file("");
    for (text, told) in [
        ("".into(), "it has no `format`"),
        ("x = ".into(), "string"),
        (good.replace("format = 1", "format = 2"), "its format is 2"),
        (good.replace(VERSION, "0.0.9"), "Penny 0.0.9 wrote it"),
        (good.replace("cores = 4", "cores = 8"), "another host (Some (R) CPU @ 2.40GHz, 8 cores)"),
        (good.replace("2.40", "2.50"), "another host"),
        (good.replace("cores = 4", "cores = \"many\""), "cores is `many`"),
        (good.replace("cores = 4", ""), "it has no `cores`"),
        (good.replace("[auto]", "[otto]"), "no section [auto]"),
        (file("x = \"\""), "no number of ranks"),
        (file("1 = \"all_reduce:0-4k:ring\""), "`1` are no numbers of ranks"),
        (file("2-2000 = \"all_reduce:0-4k:ring\""), "`2-2000` are no numbers of ranks"),
        (file("4-3 = \"all_reduce:0-4k:ring\""), "`4-3` are no numbers of ranks"),
        (file("2 = \"all_reduce:0-4k:rong\""), "`rong` is no algorithm"),
        (file("2 = \"all_reduce:0-5k:ring\""), "0-5120 is no range of powers of two"),
        (file("2 = \"ring\""), "names a collective"),
        (file("2 = \"all_reduce:^ring\""), "forbids nothing"),
        (file("2 = \"alltoall:0-4k:ring\""), "ring does not serve alltoall"),
        (file("2 = \"barrier:0-4k:one_shot\""), "one_shot does not serve barrier"),
    ] {
        let why = refused(&text);
        assert!(why.contains(told), "{text}: {why}");
    }
}

#[test]
fn a_profile_has_no_more_choices_than_a_rank_can_send() {
    let choices = |count| file(&format!("2 = \"{}\"", vec!["all_reduce:0-4k:ring"; count].join(";")));
    assert!(HostProfile::parse(&choices(MOST_CHOICES), &here()).is_ok());
    assert!(refused(&choices(MOST_CHOICES + 1)).contains("more than 240"));
}

#[test]
fn a_files_name_tells_the_processor_the_cores_and_the_version() {
    let name = here().file_name();
    assert_eq!(name, format!("host-some-r-cpu-2-40ghz-4-cores-{VERSION}.toml"));
    let elsewhere = Host { cpu: "../../etc".into(), cores: 1 };
    assert!(!elsewhere.file_name().contains(['/', ' ']));
}

/// What an all-reduce of 4 KiB over four ranks is done by, where a profile says `tree`.
fn with_tree(algo: &str, options: Option<&str>, reproducible: &str) -> (&'static str, Why) {
    let tree = ProfileChoice {
        ranks: 4..=4,
        collective: Collective::AllReduce,
        sizes: 4096..8192,
        algorithm: algorithms::index("tree"),
    };
    let profile = Arc::new(HostProfile::of(vec![tree]).unwrap());
    let selection = Selection::parse(Some(algo), Some(reproducible)).unwrap();
    let selection = selection.with_options(options).unwrap().with_profile(Some(profile));
    let view = RankView::flat(Collective::AllReduce, 0, 4, 0);
    let (algorithm, why) = selection.choose(&view, 4096).unwrap();
    (algorithms::ALL[algorithm].name, why)
}

#[test]
fn a_profile_decides_what_no_variable_does_and_gives_way_where_its_algorithm_may_not_serve() {
    assert_eq!(with_tree("", None, "0"), ("tree", Why::Profile));
    assert_eq!(with_tree("broadcast:two_shot", None, "0"), ("tree", Why::Profile));
    assert_eq!(with_tree("ring", None, "0"), ("ring", Why::Asked));
    assert_eq!(with_tree("^tree", None, "0"), ("one_shot", Why::Auto));
    let ring = Some(r#"{"method":"clockwise_ring"}"#);
    assert_eq!(with_tree("", ring, "0"), ("ring", Why::Asked));
    let broadcast = Some(r#"{"syncful.maxBroadcastSize":65536}"#);
    assert_eq!(with_tree("", broadcast, "0"), ("one_shot", Why::Asked));
    // The tree does not fold in rank order.
    assert_eq!(with_tree("", None, "1"), ("one_shot", Why::Auto));
}

fn choice() -> impl Strategy<Value = ProfileChoice> {
    let ranks = (2..=MAX_RANKS, 2..=MAX_RANKS).prop_map(|(a, b)| a.min(b)..=a.max(b));
    let served = prop::sample::select(
        (0..algorithms::ALL.len())
            .flat_map(|a| algorithms::ALL[a].serves.iter().map(move |&c| (a, c)))
            .collect::<Vec<_>>(),
    );
    (ranks, served, 0u8..65, 1u8..=65).prop_map(|(ranks, (algorithm, collective), low, more)| {
        let high = (low + more).min(65);
        ProfileChoice { ranks, collective, sizes: size(low).unwrap()..size(high).unwrap(), algorithm }
    })
}

proptest! {
    #[test]
    fn choices_survive_the_journey_to_another_rank(choices in prop::collection::vec(choice(), 0..MOST_CHOICES)) {
        let profile = HostProfile::of(choices).unwrap();
        prop_assert_eq!(HostProfile::decode(&profile.encode()), Some(profile));
    }

    #[test]
    fn random_bytes_are_no_profile_or_a_valid_one(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(profile) = HostProfile::decode(&bytes) {
            prop_assert!(profile.choices().iter().all(|c| c.fault().is_none()));
            prop_assert_eq!(profile.encode(), bytes);
        }
    }
}
