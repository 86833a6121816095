//! What Penny promises when things go wrong, held against real processes and real signals.
//!
//! `PENNY_LONG=1` repeats what chance plays a part in more often. A line `name value target PASS` tells a measurement; no
//! test passes or fails by one.

mod cut_links;
mod deadlines;
mod deaths;
mod die_points;
mod hostile;
mod joining;
mod kills;
mod kills_of_hosts;
mod limits;
mod machines;
mod namespaces;
mod ranks;
mod stopped;
mod strangers;
mod stress;
