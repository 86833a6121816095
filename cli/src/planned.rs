//! What commands that compute plans and prices can be asked for: collectives that algorithms plan, and one element type.

use penny::{Collective, DataType};
use penny_bench::options::Named;
use penny_bench::subject::Subject;
use penny_bench::words::Words;

/// Returns the parser of a collective, which lists those that have plans.
pub fn collectives() -> Words<Subject> {
    let parse = |text: &str| text.parse().map_err(|_| Subject::unknown(text, planned()));
    Words { all: || planned().map(Subject::name).collect(), parse }
}

/// Returns the parser of one type.
pub fn datatype() -> Words<DataType> {
    let parse = |text: &str| match text {
        "all" => Err("this takes one type; give the command once for each".to_owned()),
        text => DataType::parsed(text),
    };
    Words { all: DataType::all, parse }
}

/// Returns the collective. The error says why a subject has no plan, and what measures it.
pub fn collective(subject: Subject) -> Result<Collective, String> {
    let why = match subject {
        Subject::Collective(Collective::Barrier) => "moves no data",
        Subject::Collective(collective) => return Ok(collective),
        Subject::SendRecv => "is two calls, not a collective",
        Subject::Permute => "is one message from each rank to another, not a collective",
    };
    Err(format!(
        "{subject} {why}: it has no plan; measure it with penny perf {subject} -n RANKS --fabric MACHINE"
    ))
}

fn planned() -> impl Iterator<Item = Subject> {
    Subject::all().filter(|&subject| collective(subject).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use penny::sim::algorithms;

    #[test]
    fn a_collective_is_offered_if_an_algorithm_plans_it() {
        for subject in Subject::all() {
            let is_planned = match subject {
                Subject::Collective(collective) => algorithms::candidates(collective).next().is_some(),
                Subject::SendRecv | Subject::Permute => false,
            };
            assert_eq!(collective(subject).is_ok(), is_planned, "{subject}");
        }
    }
}
