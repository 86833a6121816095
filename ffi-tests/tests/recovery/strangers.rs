//! Another user of the machine, who knows the id and the PIDs, is refused, and the job goes on undisturbed.

use crate::ranks::{PLAIN, acts, start_one};

/// The victim sees only that its own side refuses, after the server has closed without a word.
#[test]
fn another_user_is_refused_at_the_socket_and_at_the_segments_and_the_job_goes_on() {
    if !nix::unistd::Uid::effective().is_root() {
        println!("SKIPPED: only root can become another user");
        return;
    }
    let id = penny::internals::comm::unique_id().unwrap();
    let list = ["join", "call all_reduce 100", "call mixed 100", "hold", "call transfer 100", "destroy"];
    let mut ranks: Vec<_> = (0..2).map(|rank| start_one(rank, 3, &id, &PLAIN, &acts(&list))).collect();
    // In the place of rank 2, before it comes.
    let others = format!("intrude {} {}", ranks[0].pid(), ranks[1].pid());
    let mut stranger = start_one(2, 3, &id, &PLAIN, std::slice::from_ref(&others));
    stranger.did("no answer");
    let said = stranger.failed();
    assert!(said.sentence.contains("belongs to user 0"), "{} {}", said.code, said.sentence);
    ranks.iter().for_each(|rank| stranger.did(&format!("nothing of {}", rank.pid())));
    stranger.did(&others);
    ranks.push(start_one(2, 3, &id, &PLAIN, &acts(&list)));
    for rank in &mut ranks {
        list[..3].iter().for_each(|act| rank.did(act));
    }
    // All segments are there now.
    let others = format!("intrude {} {} {}", ranks[0].pid(), ranks[1].pid(), ranks[2].pid());
    let mut stranger = start_one(1, 3, &id, &PLAIN, std::slice::from_ref(&others));
    let mut refused = 0;
    // BOUND: what it says; wrong words end the test.
    while let Some(said) = stranger.try_next() {
        refused +=
            u32::from(matches!(said, crate::ranks::Said::Ok(ref act) if act.starts_with("nothing of")));
    }
    assert_eq!(refused, 3, "the stranger tried all segments");
    ranks.iter_mut().for_each(crate::ranks::Rank::release);
    for rank in &mut ranks {
        list[3..].iter().for_each(|act| rank.did(act));
        assert_eq!(rank.end(), None);
    }
}
