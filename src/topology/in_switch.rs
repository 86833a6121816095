//! Switches that copy and sum: `in_switch` in a class of a machine's file.
//!
//! ```toml
//! [class.nv18]
//! bw = "450GB/s"
//! lat = "300ns"
//! in_switch = 0.85       # a switch between two such ports copies and sums; what goes so gets this part of the bandwidth
//! ```
//!
//! ```text
//!     copy    g0.tx ---> switch ---> g0.rx, g1.rx, g2.rx ...      leaves its sender once, reaches everybody at the switch
//!     sum     g0.tx, g1.tx, g2.tx ... ---> switch ---> g0.rx      reaches its receiver once, in place of an operand from each
//! ```
//!
//! The switches are those of `[switch]`, those inside `[nodes]` and `[cluster]`, and the leaf of nodes of one place. Only the steps of algorithms
//! that say so use it (`Step::in_switch`). A rank's own part goes to the switch and comes back, too: the switch sums what ports
//! hand it, and copies to all of them.

use super::source::Section;
use super::{Class, Network, Routes};
use crate::error::Result;
use crate::plan::{Arrangement, InSwitch};
use crate::types::Rank;

/// Refuses what a switch that copies and sums cannot do.
pub(super) fn check(root: &Section, classes: &[Class], routes: &dyn Routes, fair: bool) -> Result<()> {
    let Some(class) = classes.iter().find(|class| class.in_switch.is_some()) else { return Ok(()) };
    let refuse = |why: &str| Err(root.error(format_args!("has in_switch in [class.{}], {why}", class.name)));
    if routes.switch(0).is_none() {
        return refuse("and a shape without switches; leave it out, or use [switch] or [nodes]");
    }
    if fair {
        return refuse(
            "and arb = \"fair\", by which packets of many messages cannot be one; leave one of them out",
        );
    }
    Ok(())
}

impl Class {
    /// Returns the class as a message finds it that a switch copies or sums.
    pub fn through_switch(&self) -> Class {
        let rate = self.in_switch.map_or(self.rate, |part| part.of(self.rate).max(1));
        Class { rate, ..self.clone() }
    }
}

impl Network {
    /// Returns the number of the switch that copies and sums what comes from a place and goes to it, if it stands at one.
    pub fn summing_switch(&self, place: Rank) -> Option<u32> {
        let (switch, ports) = self.routes.switch(place)?;
        ports.iter().all(|&port| self.class(port).in_switch.is_some()).then_some(switch)
    }

    /// Returns how ranks at these places stand.
    pub fn arrangement(&self, places: &[Rank]) -> Arrangement {
        let (shape, orders) = (self.shape_of(places), self.ring_orders(places));
        Arrangement { shape, orders, in_switch: self.in_switch(places), hosts: None }
    }

    /// Tells which of the ranks at these places have a switch between them that copies and sums.
    pub fn in_switch(&self, places: &[Rank]) -> InSwitch {
        if !self.classes.iter().any(|class| class.in_switch.is_some()) || places.len() < 2 {
            return InSwitch::None;
        }
        let shape = self.shape_of(places);
        let at_one = |places: &[Rank]| {
            let first = self.summing_switch(places[0]);
            first.is_some() && places.iter().all(|&place| self.summing_switch(place) == first)
        };
        if at_one(places) {
            InSwitch::All
        } else if shape.per_node() > 1 && places.chunks(shape.per_node() as usize).all(at_one) {
            InSwitch::Nodes
        } else {
            InSwitch::None
        }
    }
}
