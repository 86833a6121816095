//! The table of what is fastest natively: what `auto` takes where no variable and no host profile decides.

use crate::memory::control::largest_payload;
use crate::plan::RankView;
use crate::types::Collective;

/// Bytes of all ranks' inputs up to which one rank folds them alone.
const FOLDED_AT_ONCE: usize = 128 << 10;

/// Bytes up to which a rank sends its input to each rank of another host, in one exchange. More bytes cross once between two hosts: what
/// the ranks of a host have combined, or all of them want.
const CROSSES_OFTEN: u64 = 4 << 10;
/// Bytes from which on a chain through all hosts is not slower than a tree, and its first host sends them once.
const CHAIN_FROM: u64 = 1 << 20;

/// Returns the native table: what was fastest where it was measured (bench/records), best first.
pub(super) fn fastest(view: &RankView, bytes: u64) -> &'static [&'static str] {
    use Collective::*;
    let (n, largest) = (view.nranks as usize, largest_payload(view.nranks as usize));
    let small = match view.collective {
        AlltoAll => bytes <= largest as u64,
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
    match view.collective {
        // The second where the first is forbidden.
        AllReduce if small => &["one_shot", "two_shot"],
        // The root reads n - 1 inputs; divided, each rank stages, folds and passes on: as much work at three ranks, more below.
        Reduce if !small && n <= 3 => &["one_shot", "two_shot"],
        AllReduce | Reduce if !small => &["two_shot", "one_shot"],
        AlltoAll if !small => &["pairwise", "one_shot"],
        _ => &["one_shot"],
    }
}
