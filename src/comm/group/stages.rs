//! The transfers of one communicator in a group, in the lists in which they are made.
//!
//! ```text
//!     group start
//!       group start, send a, recv b, group end       inner group 0
//!       group start, send b, recv c, group end       inner group 1: sends what group 0 receives
//!     group end                                      two lists
//! ```
//!
//! All transfers of a group run side by side, however it is divided into inner groups: other ranks may have divided theirs in
//! another way. But where an inner group reads or overwrites what an earlier one receives, or receives into what an earlier one
//! sends, the program means one after the other, so inner groups are made in their order.

use crate::comm::calls::point_to_point::Transfer;

/// Returns the lists of transfers that are made one after the other. Each transfer comes with the number of its inner group.
pub(super) fn stages<'a>(transfers: Vec<(Transfer<'a>, u32)>) -> Vec<Vec<Transfer<'a>>> {
    let is_ordered = transfers.windows(2).any(|pair| pair[0].1 != pair[1].1) && depends(&transfers);
    let mut stages: Vec<Vec<Transfer<'a>>> = Vec::new();
    let mut last = None;
    for (transfer, inner) in transfers {
        match stages.last_mut() {
            Some(stage) if !is_ordered || last == Some(inner) => stage.push(transfer),
            _ => stages.push(vec![transfer]),
        }
        last = Some(inner);
    }
    stages
}

/// Tells whether transfers of different inner groups overlap, of which one is a receive.
fn depends(transfers: &[(Transfer<'_>, u32)]) -> bool {
    let range = |&(transfer, inner): &(Transfer<'_>, u32)| {
        let (at, bytes) = (transfer.buffer.get(), transfer.count.saturating_mul(transfer.dtype.size()));
        (at, at.saturating_add(bytes), transfer.send, inner)
    };
    let mut ranges: Vec<_> = transfers.iter().filter(|(transfer, _)| transfer.count > 0).map(range).collect();
    ranges.sort_unstable();
    // Ranges that are not over where the next one begins: end, send, inner group.
    let mut open: Vec<(usize, bool, u32)> = Vec::new();
    for (at, end, send, inner) in ranges {
        open.retain(|&(open_end, ..)| open_end > at);
        if open.iter().any(|&(_, other_send, other_inner)| other_inner != inner && !(send && other_send)) {
            return true;
        }
        match open.iter_mut().find(|other| (other.1, other.2) == (send, inner)) {
            Some(other) => other.0 = other.0.max(end),
            None => open.push((end, send, inner)),
        }
    }
    false
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memory::view::Address;
    use crate::types::DataType;

    /// Returns the lengths of the lists, for sends (`true`) and receives of `count` bytes from `at` on, with their inner groups.
    fn lengths(all: &[(bool, usize, usize, u32)]) -> Vec<usize> {
        let transfer = |&(send, at, count, inner): &(bool, usize, usize, u32)| {
            let buffer = Address::number(4096 + at);
            (Transfer { send, buffer, count, dtype: DataType::Uint8, peer: 1, of_collective: false }, inner)
        };
        stages(all.iter().map(transfer).collect()).iter().map(Vec::len).collect()
    }

    #[test]
    fn inner_groups_that_use_each_others_data_are_made_in_order() {
        assert_eq!(
            lengths(&[(true, 0, 8, 0), (false, 8, 8, 0), (true, 0, 16, 1), (false, 16, 16, 1)]),
            [2, 2]
        );
        assert_eq!(lengths(&[(true, 0, 8, 0), (false, 4, 8, 1)]), [1, 1]);
        assert_eq!(lengths(&[(false, 0, 8, 0), (false, 7, 8, 1)]), [1, 1]);
    }

    #[test]
    fn other_inner_groups_run_side_by_side() {
        assert_eq!(lengths(&[(true, 0, 8, 0), (false, 8, 8, 1)]), [2]);
        assert_eq!(lengths(&[(true, 0, 8, 0), (true, 0, 8, 1), (true, 4, 8, 2)]), [3]);
        assert_eq!(lengths(&[(true, 0, 8, 3), (false, 4, 8, 3)]), [2]);
        assert_eq!(lengths(&[(true, 0, 8, 0), (false, 4, 0, 1)]), [2]);
        assert_eq!(lengths(&[]), [0; 0]);
    }
}
