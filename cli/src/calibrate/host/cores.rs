//! The cores that this process may use, and how far apart they are.
//!
//! ```text
//!     /sys/devices/system/cpu/cpuN/topology/thread_siblings_list      threads of one core
//!     /sys/devices/system/cpu/cpuN/cache/indexM/{level,shared_cpu_list,size}
//!     /sys/devices/system/node/nodeN/cpulist
//! ```
//!
//! If the kernel does not report one of these, all cores are taken to be alike: one node, one cache.

use std::fmt;
use std::path::Path;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::launch::bind;

/// The distance of two processors; the nearest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// One core runs both as threads.
    Core,
    /// Their cores share the last level of cache.
    Cache,
    /// Their cores share the memory of a NUMA node.
    Node,
    /// They share neither core, cache nor NUMA node.
    Far,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Distance::Core => "same_core",
            Distance::Cache => "same_cache",
            Distance::Node => "same_node",
            Distance::Far => "other_node",
        })
    }
}

/// A processor in the kernel's sense: a core, or one of a core's hardware threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Processor {
    number: usize,
    /// The first processor of the same core; of the same cache; of the same node.
    core: usize,
    cache: usize,
    node: usize,
}

/// The processors of this process.
#[derive(Clone, Debug)]
pub struct Cores {
    processors: Vec<Processor>,
    /// Bytes of the last level of cache, for all processors that share it.
    cache_bytes: u64,
}

impl Cores {
    /// Reads the topology that the kernel reports.
    pub fn read() -> Result<Cores, String> {
        let usable = bind::cores().map_err(|e| format!("cannot ask for the cores: {e}"))?;
        Ok(Cores::below(Path::new("/sys/devices/system"), usable))
    }

    /// Reads the topology of the processors `usable` from the folder `root`.
    fn below(root: &Path, usable: Vec<usize>) -> Cores {
        let text = |path: String| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let first = |path: String| numbers(&text(path)).first().copied();
        let nodes: Vec<Vec<usize>> = (0..1024)
            .map(|node| text(format!("node/node{node}/cpulist")))
            .take_while(|list| !list.is_empty())
            .map(|list| numbers(&list))
            .collect();
        let last_cache = |cpu: usize| {
            let level = |index: usize| text(format!("cpu/cpu{cpu}/cache/index{index}/level"));
            let levels = (0..8).filter_map(|index| Some((level(index).trim().parse::<u32>().ok()?, index)));
            levels.max().map(|(_, index)| format!("cpu/cpu{cpu}/cache/index{index}"))
        };
        let processor = |&number: &usize| Processor {
            number,
            core: first(format!("cpu/cpu{number}/topology/thread_siblings_list")).unwrap_or(number),
            cache: last_cache(number).and_then(|c| first(c + "/shared_cpu_list")).unwrap_or(0),
            node: nodes.iter().position(|node| node.contains(&number)).unwrap_or(0),
        };
        let mut processors: Vec<Processor> = usable.iter().map(processor).collect();
        // In the order of launchers: node after node, and all cores of a node before their second threads.
        let is_second = |p: &Processor| p.core != p.number;
        processors.sort_by_key(|p| (is_second(p), p.node, p.cache, p.number));
        let size = usable.first().and_then(|&cpu| Some(text(last_cache(cpu)? + "/size")));
        let kib = size.and_then(|size| size.trim().strip_suffix('K')?.parse::<u64>().ok());
        Cores { processors, cache_bytes: kib.map_or(8 << 20, |kib| kib << 10) }
    }

    /// Returns the number of processors.
    pub fn len(&self) -> usize {
        self.processors.len()
    }
    /// Returns the kernel's number of a processor.
    pub fn number(&self, index: usize) -> usize {
        self.processors[index].number
    }
    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        let mut nodes: Vec<usize> = self.processors.iter().map(|p| p.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    }
    /// Returns the bytes of the last level of cache.
    pub fn cache_bytes(&self) -> u64 {
        self.cache_bytes
    }

    /// Returns the distance of two processors, counted from 0 in the order in which ranks take them.
    pub fn distance(&self, one: usize, other: usize) -> Distance {
        let (one, other) = (self.processors[one], self.processors[other]);
        if one.core == other.core {
            Distance::Core
        } else if one.cache == other.cache {
            Distance::Cache
        } else if one.node == other.node {
            Distance::Node
        } else {
            Distance::Far
        }
    }

    /// Returns a pair of processors for each distance that there is.
    pub fn pairs(&self) -> Vec<(Distance, [usize; 2])> {
        let mut pairs: Vec<(Distance, [usize; 2])> = Vec::new();
        for one in 0..self.len() {
            for other in one + 1..self.len() {
                let distance = self.distance(one, other);
                if !pairs.iter().any(|(known, _)| *known == distance) {
                    pairs.push((distance, [one, other]));
                }
            }
        }
        pairs.sort_by_key(|(distance, _)| *distance);
        pairs
    }

    /// Lets the calling thread run on one processor only.
    pub fn pin(&self, index: usize) -> Result<(), String> {
        let number = self.processors[index].number;
        let mut one = CpuSet::new();
        one.set(number)
            .and_then(|()| sched_setaffinity(Pid::from_raw(0), &one))
            .map_err(|e| format!("cannot run on processor {number}: {e}"))
    }

    /// Makes a host of `nodes` nodes with `each` cores, which share a cache.
    #[cfg(test)]
    pub fn imagined(nodes: usize, each: usize) -> Cores {
        let processor =
            |number| Processor { number, core: number, cache: number / each * each, node: number / each };
        Cores { processors: (0..nodes * each).map(processor).collect(), cache_bytes: 32 << 20 }
    }
}

/// Reads a list of the kernel's: `0-3,8`.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like /sys/devices/system.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn threads_caches_and_nodes_are_told_apart() {
        let mut files = Vec::new();
        // Two nodes of two cores; of node 0 each core has two threads and all share a cache, of node 1 each core has its own.
        for (cpu, siblings, cache) in [
            (0, "0,4", "0-1,4-5"),
            (1, "1,5", "0-1,4-5"),
            (2, "2", "2"),
            (3, "3", "3"),
            (4, "0,4", "0-1,4-5"),
            (5, "1,5", "0-1,4-5"),
        ] {
            files.push((format!("cpu/cpu{cpu}/topology/thread_siblings_list"), siblings.to_owned()));
            files.push((format!("cpu/cpu{cpu}/cache/index0/level"), "1\n".to_owned()));
            files.push((format!("cpu/cpu{cpu}/cache/index3/level"), "3\n".to_owned()));
            files.push((format!("cpu/cpu{cpu}/cache/index3/shared_cpu_list"), cache.to_owned()));
            files.push((format!("cpu/cpu{cpu}/cache/index3/size"), "1024K\n".to_owned()));
        }
        files.push(("node/node0/cpulist".into(), "0-1,4-5\n".into()));
        files.push(("node/node1/cpulist".into(), "2-3\n".into()));
        let files: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
        let cores = Cores::below(tree(&files).path(), (0..6).collect());
        assert_eq!((cores.len(), cores.nodes(), cores.cache_bytes()), (6, 2, 1 << 20));
        // Second threads come last.
        assert_eq!(cores.processors.iter().map(|p| p.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        let distances: Vec<Distance> = cores.pairs().into_iter().map(|(distance, _)| distance).collect();
        assert_eq!(distances, [Distance::Core, Distance::Cache, Distance::Node, Distance::Far]);
        assert_eq!(cores.distance(0, 4), Distance::Core);
        assert_eq!(cores.distance(0, 1), Distance::Cache);
        assert_eq!(cores.distance(2, 3), Distance::Node);
        assert_eq!(cores.distance(0, 2), Distance::Far);
    }

    #[test]
    fn a_kernel_that_tells_nothing_has_cores_of_one_kind() {
        let cores = Cores::below(Path::new("/nowhere"), vec![3, 7]);
        assert_eq!((cores.len(), cores.nodes(), cores.distance(0, 1)), (2, 1, Distance::Cache));
        assert!(Cores::below(Path::new("/nowhere"), vec![3]).pairs().is_empty());
    }

    #[test]
    fn this_process_has_cores() {
        let cores = Cores::read().unwrap();
        assert!(cores.len() >= 1 && cores.nodes() >= 1);
        let pinned = std::thread::spawn(move || {
            cores.pin(0)?;
            Cores::read().map(|one| one.len())
        });
        assert_eq!(pinned.join().unwrap(), Ok(1));
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(numbers("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(numbers(""), Vec::<usize>::new());
    }
}
