//! Which files a trace has.

use std::path::{Path, PathBuf};

use super::schema::TraceNode;
use super::{json, schema};

/// The nodes of one rank, and their file.
pub type RankTrace = (String, Vec<TraceNode>);

const ENDINGS: [&str; 2] = ["et", "json"];

/// Finds and reads the files of a trace that `--workload` names: by their prefix, by the file of one rank, or as a single file. `None`:
/// there is no such file. `alike`: if there is only the file of rank 0, this number of ranks do what it says.
pub fn find(path: &Path, alike: Option<u32>) -> Result<Option<Vec<RankTrace>>, String> {
    let Some(paths) = paths(path)? else { return Ok(None) };
    let mut ranks = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    if let ([only], Some(alike)) = (&ranks[..], alike) {
        ranks = vec![only.clone(); alike as usize];
    }
    Ok(Some(ranks))
}

fn paths(path: &Path) -> Result<Option<Vec<PathBuf>>, String> {
    let name = path.to_string_lossy();
    let of_rank =
        |prefix: &str, rank: usize, ending: &str| PathBuf::from(format!("{prefix}.{rank}.{ending}"));
    let mut prefixes = vec![(name.as_ref(), ENDINGS.to_vec())];
    if let Some((rest, ending)) = name.rsplit_once('.')
        && ENDINGS.contains(&ending)
    {
        match rest.rsplit_once('.') {
            Some((prefix, rank)) if rank.parse::<usize>().is_ok() => {
                prefixes.insert(0, (prefix, vec![ending]))
            }
            _ if path.is_file() => return Ok(Some(vec![path.to_owned()])),
            _ => {}
        }
    }
    for (prefix, endings) in prefixes {
        for ending in endings {
            let all: Vec<PathBuf> =
                (0..).map(|rank| of_rank(prefix, rank, ending)).take_while(|path| path.is_file()).collect();
            if let Some(missing) = gap(prefix, all.len(), ending) {
                if path.is_file() {
                    // What is wrong with it comes first: its name may end in a number that is no rank.
                    read(path)?;
                }
                return Err(format!(
                    "--workload {name}: {} is there, and rank {}'s {} is not; a trace has a file for every rank from 0 on",
                    missing.display(),
                    all.len(),
                    of_rank(prefix, all.len(), ending).display()
                ));
            }
            if !all.is_empty() {
                return Ok(Some(all));
            }
        }
    }
    Ok(None)
}

/// Returns the file of a rank behind the first that is missing.
fn gap(prefix: &str, first: usize, ending: &str) -> Option<PathBuf> {
    let prefix = Path::new(prefix);
    let folder = prefix.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let stem = format!("{}.", prefix.file_name()?.to_string_lossy());
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let ranks = entries.filter_map(|entry| {
        let name = entry.file_name();
        let rank = name.to_str()?.strip_prefix(&stem)?.strip_suffix(ending)?.strip_suffix('.')?;
        let rank: usize = rank.parse().ok()?;
        (rank > first).then(|| (rank, entry.path()))
    });
    ranks.min().map(|(_, path)| path)
}

fn read(path: &Path) -> Result<RankTrace, String> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|why| format!("{name}: {why}"))?;
    let is_json = path.extension().is_some_and(|ending| ending == "json");
    let nodes = match is_json {
        true => {
            String::from_utf8(bytes).map_err(|_| "is no text".to_owned()).and_then(|text| json::decode(&text))
        }
        false => schema::decode(&bytes),
    };
    Ok((name.clone(), nodes.map_err(|why| format!("{name}: {why}"))?))
}
