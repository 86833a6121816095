//! The table of what is fastest natively: what `auto` takes where no variable and no host profile decides.

use crate::memory::control::largest_payload;
use crate::plan::RankView;
use crate::types::Collective;

/// Bytes of all ranks' inputs up to which one rank folds them alone.
const FOLDED_AT_ONCE: usize = 128 << 10;

/// The same for more than two ranks on cores of their own: each folds what it fetches from the others' caches, and all do so at once.
const FOLDED_BY_ALL: usize = 20 << 10;
/// Bytes of all ranks' inputs from which on more than three ranks on cores of their own reduce in a tree.
const FOLDED_IN_A_TREE: u64 = 64 << 10;
/// The same for ranks that share cores, of one input, by the square of their number.
const FOLDED_IN_A_SHARED_TREE: u64 = 4 << 10;

/// Bytes up to which a rank sends its input to each rank of another host, in one exchange. More bytes cross once between two hosts: what
/// the ranks of a host have combined, or all of them want.
const CROSSES_OFTEN: u64 = 4 << 10;
/// Bytes of an all-reduce up to which two hosts of one rank send their inputs at once. More goes in parts, of which several are under way by every rail.
const SENT_AT_ONCE: u64 = 2 << 20;
/// Bytes from which on a chain through all hosts is not slower than a tree, and its first host sends them once.
const CHAIN_FROM: u64 = 1 << 20;

/// Returns the native table: what was fastest where it was measured (bench/records), best first. `own_cores`: each rank has a core
/// of its own.
pub(super) fn fastest(view: &RankView, bytes: u64, own_cores: bool) -> &'static [&'static str] {
    use Collective::*;
    let (n, largest) = (view.nranks as usize, largest_payload(view.nranks as usize));
    let small = match view.collective {
        AlltoAll => bytes <= largest as u64,
        AllReduce if own_cores && n > 2 => bytes <= (FOLDED_BY_ALL / n) as u64,
        // All ranks, or the root, fold the inputs of all.
        _ => bytes <= (FOLDED_AT_ONCE / n.max(1)).clamp(largest.min(8 << 10), largest) as u64,
    };
    let input = if view.collective == AllGather { bytes / view.nranks as u64 } else { bytes };
    if let Some(hosts) = view.hosts.as_ref().filter(|hosts| input > CROSSES_OFTEN && !hosts.are_single()) {
        match view.collective {
            // The last where the first is forbidden, or the order of the ranks is asked for.
            AllReduce | ReduceScatter | AllGather if hosts.are_even() => {
                return &["hierarchical", "two_shot"];
            }
            AllReduce | ReduceScatter | AllGather => return &["ring", "two_shot"],
            Broadcast | Reduce if bytes > CHAIN_FROM => return &["ring", "two_shot"],
            Broadcast | Reduce => return &["tree", "two_shot"],
            _ => {}
        }
    }
    // Two hosts of one rank: both send all their bytes at once, and as many as if they divided the work.
    if view.collective == AllReduce && n == 2 && view.hosts.is_some() {
        return if bytes > SENT_AT_ONCE {
            &["ring", "one_shot", "two_shot"]
        } else {
            &["one_shot", "two_shot"]
        };
    }
    let ranks = n as u64;
    let least_in_a_tree =
        if own_cores { FOLDED_IN_A_TREE.div_ceil(ranks) } else { FOLDED_IN_A_SHARED_TREE * ranks * ranks };
    match view.collective {
        // The second where the first is forbidden.
        AllReduce if small => &["one_shot", "two_shot"],
        // The root reads n - 1 inputs; divided, each rank stages, folds and passes on: as much work at three ranks, more below.
        Reduce if n > 3 && bytes >= least_in_a_tree => &["tree", "two_shot"],
        Reduce if !small && n <= 3 => &["one_shot", "two_shot"],
        AllReduce | Reduce if !small => &["two_shot", "one_shot"],
        AlltoAll if !small => &["pairwise", "one_shot"],
        _ => &["one_shot"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Arrangement, HostGroups};

    #[test]
    fn ranks_with_cores_of_their_own_divide_the_work_earlier() {
        for (collective, nranks, bytes, names) in [
            (Collective::AllReduce, 2, 16 << 10, ["one_shot", "one_shot"]),
            (Collective::AllReduce, 4, 4 << 10, ["one_shot", "one_shot"]),
            (Collective::AllReduce, 4, 8 << 10, ["one_shot", "two_shot"]),
            (Collective::AllReduce, 16, 2 << 10, ["one_shot", "two_shot"]),
            (Collective::Reduce, 3, 64 << 10, ["one_shot", "one_shot"]),
            (Collective::Reduce, 4, 8 << 10, ["one_shot", "one_shot"]),
            (Collective::Reduce, 4, 60 << 10, ["two_shot", "tree"]),
            (Collective::Reduce, 4, 64 << 10, ["tree", "tree"]),
            (Collective::Reduce, 8, 128 << 10, ["two_shot", "tree"]),
            (Collective::Reduce, 8, 256 << 10, ["tree", "tree"]),
            (Collective::Reduce, 16, 4 << 10, ["one_shot", "tree"]),
        ] {
            let view = RankView::flat(collective, 0, nranks, 0);
            let both = [false, true].map(|own_cores| fastest(&view, bytes, own_cores)[0]);
            assert_eq!(both, names, "{collective} of {bytes} bytes, {nranks} ranks");
        }
    }

    #[test]
    fn two_hosts_of_a_rank_send_in_parts_what_takes_long() {
        let hosts = HostGroups::new(&[0, 1]).unwrap();
        let view = RankView::flat(Collective::AllReduce, 0, 2, 0).arranged(Arrangement::of_hosts(hosts));
        let chosen = [SENT_AT_ONCE, SENT_AT_ONCE + 1].map(|bytes| fastest(&view, bytes, true)[0]);
        assert_eq!(chosen, ["one_shot", "ring"]);
    }
}
