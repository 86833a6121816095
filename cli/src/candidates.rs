//! The algorithms that a command line names.

use penny::internals::spelling;
use penny::sim::algorithms::{self, Algorithm};
use penny::sim::plan::RankView;

/// Returns the algorithms that can serve a view; there is at least one.
pub fn able(view: &RankView) -> Result<Vec<&'static Algorithm>, String> {
    let able: Vec<_> =
        algorithms::candidates(view.collective).filter(|a| a.refuses(view).is_none()).collect();
    match able.is_empty() {
        true => Err(format!("no algorithm plans {} among {} ranks", view.collective, view.nranks)),
        false => Ok(able),
    }
}

/// Returns the algorithm called `name` if it can serve a view. The error lists the algorithms that can.
pub fn named(name: &str, view: &RankView) -> Result<&'static Algorithm, String> {
    let names: Vec<_> = able(view)?.iter().map(|a| a.name).collect();
    let instead = format!("there are {}", names.join(", "));
    let call = format!("{} among {} ranks", view.collective, view.nranks);
    let Some(algorithm) = algorithms::find(name) else {
        let meant = spelling::hint(name, names.iter().copied());
        return Err(format!("--algorithm {name}: no such algorithm{meant}; for {call} {instead}"));
    };
    match algorithm.refuses(view) {
        Some(why) => Err(format!("--algorithm {name} cannot serve {call}: {why}; {instead}")),
        None => Ok(algorithm),
    }
}
