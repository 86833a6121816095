//! The settings that a program is drawn with: methods, machines, variables.

use crate::random::Random;

/// The methods that serve each collective everywhere, in the grammar of PENNY_ALGO.
const METHODS: [(&str, &str); 8] = [
    (
        "allreduce",
        "ring ring_reverse ring_pair simple_ring tree one_shot two_shot meet_in_middle quad_ring line mailbox",
    ),
    ("reduce", "ring ring_reverse ring_pair simple_ring tree one_shot two_shot"),
    ("broadcast", "ring ring_reverse ring_pair simple_ring tree one_shot two_shot mailbox"),
    ("allgather", "ring ring_reverse ring_pair one_shot two_shot meet_in_middle quad_ring line mailbox"),
    ("reducescatter", "ring ring_reverse ring_pair one_shot two_shot meet_in_middle quad_ring line"),
    ("alltoall", "one_shot pairwise bruck"),
    ("gather", "one_shot pairwise"),
    ("scatter", "one_shot pairwise"),
];

/// Draws a method for some of the collectives.
pub fn draw_methods(random: &mut Random) -> String {
    let mut asked: Vec<String> = Vec::new();
    for (collective, methods) in METHODS {
        if random.chance(60) {
            let methods: Vec<&str> = methods.split(' ').collect();
            asked.push(format!("{collective}:{}", random.one(&methods)));
        }
    }
    asked.join(";")
}

/// Machines with room for the ranks.
pub const MACHINES: [(&str, usize); 9] = [
    ("dgx-h100", 8),
    ("dgx-h100:nodes=2", 16),
    ("dgx-a100", 8),
    ("dgx-1v", 8),
    ("t3000", 8),
    ("n300", 2),
    ("tpu-v5e", 256),
    ("ipu-pod16", 16),
    ("host", 1),
];

/// Variables of the library, with values.
pub const ENVIRONMENTS: [(&str, &str); 11] = [
    ("PENNY_STAGING", "65536"),
    ("PENNY_STAGING", "4194304"),
    ("PENNY_SPIN", "0"),
    ("PENNY_SPIN", "2000"),
    ("PENNY_SINGLE_COPY", "0"),
    ("PENNY_SINGLE_COPY", "1"),
    ("PENNY_ZERO_COPY_FROM", "0"),
    ("PENNY_ZERO_COPY_FROM", "64K"),
    ("PENNY_SHMEM_SIZE", "65536"),
    ("PENNY_HEAP_SIZE", "2G"),
    ("PENNY_REPRODUCIBLE", "1"),
];
