//! The host profile in the output of commands: its path, and the algorithms that `auto` takes with it.

use penny::internals::comm::{HostProfileFound, find_host_profile};
use penny::internals::env;
use penny::internals::planner::profile::HostProfile;
use penny::internals::planner::select::{Selection, Why};
use penny::sim::algorithms;
use penny::sim::plan::RankView;
use std::sync::Arc;

/// The remedy for a host without a profile, or with a bad one.
pub const REMEDY: &str = "`penny calibrate host` on a quiet machine writes one";

/// Says in a line which profile ranks on this host choose by; `Err`: a file that is not used.
pub fn line(found: &HostProfileFound) -> Result<String, String> {
    Ok(match found {
        HostProfileFound::Off => {
            "none, says PENNY_HOST_PROFILE: auto chooses by the built-in table".to_owned()
        }
        HostProfileFound::None(_) => format!("none: auto chooses by the built-in table; {REMEDY}"),
        HostProfileFound::Good(path, profile) => {
            let choices = profile.choices().len();
            format!("{}: {choices} choices differ from the built-in table", path.display())
        }
        HostProfileFound::Bad(path, why) => return Err(format!("{} is not used: {why}", path.display())),
    })
}

/// Says in a line which algorithm ranks on this host take for a call, and what decides that.
pub fn auto(view: &RankView, bytes: u64) -> String {
    let (profile, file) = match find_host_profile() {
        HostProfileFound::Good(path, profile) => (Some(profile), format!(" {}", path.display())),
        _ => (None, String::new()),
    };
    let chosen = selection(profile).and_then(|s| s.choose(view, bytes));
    match chosen {
        Ok((algorithm, why)) => {
            let file = if why == Why::Profile { file } else { String::new() };
            format!("on this host: {}, says {why}{file}", algorithms::ALL[algorithm].name)
        }
        Err(e) => format!("on this host: {}", e.message),
    }
}

/// Returns the selection that the environment variables and `profile` result in.
fn selection(profile: Option<HostProfile>) -> penny::Result<Selection> {
    let [algo, reproducible, options] = ["PENNY_ALGO", "PENNY_REPRODUCIBLE", "PENNY_OPTIONS"].map(env::get);
    let selection = Selection::parse(algo.as_deref(), reproducible.as_deref())?;
    Ok(selection.with_options(options.as_deref())?.with_profile(profile.map(Arc::new)))
}
