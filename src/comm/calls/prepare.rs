//! What holds for a collective and for each one like it, put together before the first of them is made.

use super::collective::{Call, Checked};
use super::repeat::{Recipe, Repeat};
use crate::comm::communicator::CommCore;
use crate::error::Result;
use crate::exec::{borrowed, direct};
use crate::planner::Chosen;
use crate::transport::arrival::Fingerprint;

impl CommCore {
    /// Prepares a collective that is like none before it, so that it can be made as if there had been one. Returns false where
    /// `another_collective` has to make it: it reports wrong arguments, and logs the algorithm that was chosen.
    #[inline(never)]
    pub(super) fn prepare(&mut self, call: &Call<'_>) -> bool {
        if !self.may_be_remembered() {
            return false;
        }
        let Ok(Some((checked, chosen))) = self.choose(call) else { return false };
        !self.planner.has_news() && self.recipe(call, &checked, chosen).is_ok()
    }

    /// Puts together what holds for a collective whose arguments are right, and remembers it for the next one like it.
    pub(in crate::comm) fn recipe(
        &mut self,
        call: &Call<'_>,
        checked: &Checked<'_>,
        Chosen { algorithm, why, .. }: Chosen,
    ) -> Result<Recipe> {
        let mine = Fingerprint {
            collective: call.collective,
            dtype: call.dtype,
            op: call.op,
            root: checked.root,
            algorithm: algorithm as u8,
            padded: call.padded,
            count: call.count as u64,
        };
        let (block, single_copy) = (checked.count * call.dtype.size(), self.transport.single_copy());
        let small = self.planner.is_one_shot(algorithm)
            && direct::fits(call.collective, self.nranks(), block, single_copy);
        let lends = borrowed::lends(call.collective, self.nranks(), block, single_copy.has_own_cores());
        let recipe = Recipe {
            mine: [mine.pack(), mine.count],
            algorithm,
            shared_algorithm: self.planner.shared_algorithm(call.collective, algorithm, why),
            small,
            lends: small && !self.transport.has_far() && lends,
            one_pass: self.planner.is_like_one_pass(call.collective, algorithm, why),
            fold: if call.collective.reduces() { Some(self.fold(call.dtype, call.op)?) } else { None },
        };
        if self.may_be_remembered() {
            let is_direct = small && !self.divides(call.collective, checked.bytes);
            self.remember(call.collective, Repeat::of(&self.transport, call, checked, recipe, is_direct));
        }
        Ok(recipe)
    }

    /// Tells whether calls may be made as those before them: no order is checked, and no machine is declared.
    pub(in crate::comm) fn may_be_remembered(&self) -> bool {
        let checks_order = self.symmetric.as_ref().is_some_and(|s| s.symmetric().races().is_some());
        !checks_order && !self.timing().is_declared()
    }
}
