//! Planted faults: each makes a right set of plans wrong in one way, and the checker says which.

use crate::algorithms::{self, Algorithm, Cost, one_shot, pairwise, ring};
use crate::plan::Operand::{From, Own};
use crate::plan::check::prove;
use crate::plan::{Chunk, Plan, RankView};
use crate::types::Collective::{self, *};

/// The sentence about these plans.
#[track_caller]
fn sentence(collective: Collective, plans: &[Plan]) -> String {
    prove(plans, collective, 0).expect_err("a planted fault is found").to_string()
}

/// A right set of plans, one thing changed.
fn changed(
    algorithm: &Algorithm,
    collective: Collective,
    nranks: u32,
    change: impl FnOnce(&mut [Plan]),
) -> String {
    let mut plans = algorithms::plan_all(algorithm, &RankView::flat(collective, 0, nranks, 0));
    prove(&plans, collective, 0).expect("right before the change");
    change(&mut plans);
    sentence(collective, &plans)
}

#[test]
fn a_wrong_chunk() {
    let found = changed(&ring::RING, AllReduce, 4, |plans| plans[1].steps[0].chunk = Chunk::part(2));
    assert_eq!(
        found,
        "rank 2, step 1, block 0 part 1: expects block 0 part 1 on lane 0 from rank 1, \
         whose step 0 sends block 0 part 2 on lane 0"
    );
}

#[test]
fn a_wrong_lane() {
    let found = changed(&ring::RING, AllReduce, 3, |plans| plans[0].steps[0].lane = 1);
    assert_eq!(
        found,
        "rank 1, step 1, block 0 part 0: expects block 0 part 0 on lane 0 from rank 0, \
         whose step 0 sends block 0 part 0 on lane 1"
    );
}

#[test]
fn a_chunk_that_does_not_exist() {
    let found = changed(&ring::RING, AllReduce, 3, |plans| plans[0].steps[0].chunk = Chunk::part(3));
    assert_eq!(found, "rank 0, step 0, block 0 part 3: does not exist; blocks: 1, parts: 3");
}

#[test]
fn operands_in_another_order_than_on_the_other_ranks() {
    let found = changed(&one_shot::ONE_SHOT, AllReduce, 3, |plans| plans[2].steps[1].operands.swap(0, 1));
    assert_eq!(
        found,
        "rank 2, step 1, block 0 part 0: computes (x1 + x0 + x2) where rank 0 computes (x0 + x1 + x2)"
    );
}

#[test]
fn operands_out_of_rank_order_where_rank_order_is_claimed() {
    let mut plans = algorithms::plan_all(&one_shot::ONE_SHOT, &RankView::flat(ReduceScatter, 0, 3, 0));
    plans[1].steps.last_mut().unwrap().operands.swap(1, 2);
    let proof = prove(&plans, ReduceScatter, 0).expect("a reduce-scatter all the same");
    assert_eq!(
        proof.folds_in_rank_order().unwrap_err().to_string(),
        "rank 1, step 2, block 1 part 0: computes (x0 + x2 + x1), not one fold in rank order"
    );
}

#[test]
fn a_ring_is_not_one_fold() {
    let claims = Algorithm { rank_order: true, ..ring::RING };
    let found = algorithms::prove(&claims, &RankView::flat(ReduceScatter, 0, 3, 0)).unwrap_err().to_string();
    assert_eq!(
        found,
        "rank 0, step 2, block 0 part 0: computes ((x1 + x2) + x0), not one fold in rank order"
    );
}

#[test]
fn a_dropped_send() {
    let found = changed(&ring::RING, Broadcast, 3, |plans| {
        plans[0].steps.remove(2);
    });
    assert_eq!(found, "rank 1, step 2, block 0 part 2: waits for a message from rank 0 that nobody sends");
}

#[test]
fn a_message_that_nobody_takes() {
    let found = changed(&ring::RING, Broadcast, 3, |plans| {
        plans[2].steps.remove(2);
    });
    assert_eq!(found, "rank 1, step 2, block 0 part 2: sends a message that rank 2 never takes");
}

#[test]
fn a_send_to_itself() {
    let found = changed(&ring::RING, AllReduce, 3, |plans| plans[1].steps[0].to = vec![1]);
    assert_eq!(found, "rank 1, step 0, block 0 part 1: sends to itself");
}

#[test]
fn a_send_to_nobody_there() {
    let found = changed(&ring::RING, AllReduce, 3, |plans| plans[1].steps[0].to = vec![3]);
    assert_eq!(found, "rank 1, step 0, block 0 part 1: sends to rank 3 of 3");
}

#[test]
fn a_step_to_no_purpose() {
    let found = changed(&ring::RING, AllReduce, 3, |plans| plans[1].steps[0].to.clear());
    assert_eq!(found, "rank 1, step 0, block 0 part 1: neither keeps its result nor passes it on");
}

#[test]
fn a_wrong_cost() {
    let claims = Algorithm { cost: |v| Cost { sends: v.nranks - 1, ..(ring::RING.cost)(v) }, ..ring::RING };
    let found = algorithms::prove(&claims, &RankView::flat(AllReduce, 0, 4, 0)).unwrap_err().to_string();
    assert_eq!(found, "rank 0: declares 3 sends, but has 6");
}

#[test]
fn parts_that_differ_between_ranks() {
    let found = changed(&ring::RING, AllReduce, 3, |plans| plans[2].parts = 4);
    assert_eq!(found, "rank 2: divides blocks into 4 parts, rank 0 into 3");
}

#[test]
fn two_ranks_that_both_receive_before_they_send() {
    // own, send, take: make it own, take, send on both.
    let found = changed(&pairwise::PAIRWISE, AlltoAll, 2, |plans| {
        plans.iter_mut().for_each(|plan| plan.steps.swap(1, 2));
    });
    assert_eq!(
        found,
        "rank 0, step 1, block 2 part 0: deadlock: waits for step 2 of rank 1, which stands at step 1"
    );
}

#[test]
fn two_ranks_that_both_send_more_than_a_channel_holds() {
    let program = |me: u32| {
        let (mut plan, peer) = (Plan::new(2), 1 - me);
        (0..2).for_each(|part| _ = plan.send(peer, Chunk::part(part)));
        (0..2).for_each(|part| _ = plan.recv_reduce(operands(me), Chunk::part(part)));
        plan
    };
    assert_eq!(
        sentence(AllReduce, &[program(0), program(1)]),
        "rank 0, step 1, block 0 part 1: deadlock: has no place to send to [1], who have not taken what is \
         there, with fifos of depth 1, slices: 1"
    );
}

/// Both inputs of two ranks, in rank order.
fn operands(me: u32) -> Vec<crate::plan::Operand> {
    if me == 0 { vec![Own, From(1)] } else { vec![From(0), Own] }
}

#[test]
fn an_output_that_is_never_written() {
    let found = changed(&one_shot::ONE_SHOT, AllGather, 3, |plans| {
        plans[1].steps[0].keep = false;
    });
    assert_eq!(found, "rank 1, block 1 part 0: never writes this output");
}

#[test]
fn an_output_that_is_written_twice() {
    let found = changed(&one_shot::ONE_SHOT, Gather, 3, |plans| {
        plans[1].send(0, Chunk::block(1));
        plans[0].recv_copy(1, Chunk::block(1));
    });
    assert_eq!(found, "rank 0, step 3, block 1 part 0: writes an output that step 1 has written already");
}

#[test]
fn a_chunk_kept_where_there_is_no_output_for_it() {
    let found = changed(&ring::RING, ReduceScatter, 3, |plans| plans[1].steps[1].keep = true);
    assert_eq!(found, "rank 1, step 1, block 2 part 0: keeps a chunk that this rank has no output for");
}

#[test]
fn an_input_that_the_rank_does_not_have() {
    let found = changed(&ring::RING, Broadcast, 3, |plans| plans[1].steps[0].operands = vec![Own]);
    assert_eq!(found, "rank 1, step 0, block 0 part 0: reads an input that this rank does not have");
}

#[test]
fn an_input_that_is_counted_twice() {
    let found = changed(&one_shot::ONE_SHOT, Reduce, 3, |plans| plans[0].steps[0].operands.push(Own));
    assert_eq!(found, "rank 0, step 0, block 0 part 0: holds the input of rank 0 2 times");
}

#[test]
fn an_input_that_is_forgotten() {
    let found = changed(&ring::RING, ReduceScatter, 3, |plans| {
        plans[2].steps[1].operands.pop();
    });
    assert_eq!(found, "rank 0, step 2, block 0 part 0: lacks the input of rank 2");
}

#[test]
fn an_input_that_is_overwritten_in_place_before_it_is_sent() {
    // The usual partners: send to rank + k, receive from rank - k.
    let program = |me: u32| {
        let (mut plan, n) = (Plan::new(1), 3);
        plan.copy(Chunk::block(me * n + me));
        for k in 1..n {
            let (to, from) = ((me + k) % n, (me + n - k) % n);
            plan.send(to, Chunk::block(me * n + to));
            plan.recv_copy(from, Chunk::block(from * n + me));
        }
        plan
    };
    assert_eq!(
        sentence(AlltoAll, &[program(0), program(1), program(2)]),
        "rank 1, step 3, block 3 part 0: reads its input after step 2 has overwritten it in place"
    );
}
