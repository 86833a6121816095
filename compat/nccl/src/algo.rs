//! `NCCL_ALGO` in Penny's terms: which of Penny's algorithms NCCL's names stand for, and which have no counterpart.
//!
//! ```text
//!     NCCL_ALGO = entry (';' entry)*     entry = [collective ':'] ['^'] name (',' name)*
//!
//!     Ring                 allreduce:ring;reduce:ring;broadcast:ring;allgather:ring;reducescatter:ring
//!     ^Tree                allreduce:^tree;reduce:^tree;broadcast:^tree
//!     allreduce:ring       allreduce:ring
//! ```
//!
//! NCCL's list is what may be used: the first name of it that Penny has for the collective is taken.

/// NCCL's words for collectives, as Penny writes them.
const COLLECTIVES: [&str; 5] = ["allreduce", "reduce", "broadcast", "allgather", "reducescatter"];

/// NCCL's algorithms that Penny has too, and the collectives that they serve.
const ALGORITHMS: [(&str, &[&str]); 2] =
    [("ring", &COLLECTIVES), ("tree", &["allreduce", "reduce", "broadcast"])];

/// NCCL's algorithms that need hardware or have no counterpart.
const OTHERS: [&str; 5] = ["collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"];

/// What became of a value of `NCCL_ALGO`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// In Penny's notation; empty: nothing remains of it.
    pub algo: String,
    /// A sentence for each part that was ignored.
    pub ignored: Vec<String>,
}

/// Reads a value of `NCCL_ALGO`.
pub fn read(text: &str) -> Read {
    let mut read = Read::default();
    for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
        read.entry(entry);
    }
    read
}

impl Read {
    fn entry(&mut self, entry: &str) {
        let (collectives, names): (&[&str], &str) = match entry.split_once(':') {
            None => (&COLLECTIVES, entry),
            Some((collective, names)) => {
                match COLLECTIVES.iter().find(|known| known.eq_ignore_ascii_case(collective.trim())) {
                    Some(known) => (std::slice::from_ref(known), names),
                    None => return self.ignore(format!("`{collective}` is no collective of NCCL_ALGO")),
                }
            }
        };
        let (forbidden, names) = match names.trim().strip_prefix('^') {
            Some(names) => (true, names),
            None => (false, names),
        };
        let mut known: Vec<(&str, &[&str])> = Vec::new();
        for name in names.split(',').map(|name| name.trim().to_ascii_lowercase()) {
            match ALGORITHMS.iter().find(|(ours, _)| *ours == name) {
                Some(&found) => known.push(found),
                // What Penny does not have it does not use.
                None if OTHERS.contains(&name.as_str()) && forbidden => {}
                None if OTHERS.contains(&name.as_str()) => self.ignore(format!("Penny has no {name}")),
                None => self.ignore(format!("`{name}` is no algorithm")),
            }
        }
        for &collective in collectives {
            let mut serving = known.iter().filter(|(_, serves)| serves.contains(&collective));
            if forbidden {
                serving.for_each(|(name, _)| self.add(&format!("{collective}:^{name}")));
            } else if let Some((name, _)) = serving.next() {
                self.add(&format!("{collective}:{name}"));
            } else if collectives.len() == 1 && !known.is_empty() {
                self.ignore(format!("Penny has no {} for {collective}", known[0].0));
            }
        }
    }

    fn add(&mut self, entry: &str) {
        if !self.algo.is_empty() {
            self.algo.push(';');
        }
        self.algo += entry;
    }

    fn ignore(&mut self, why: String) {
        self.ignored
            .push(format!("NCCL_ALGO is ignored in part: {why}; PENNY_ALGO takes Penny's algorithms"));
    }
}
