//! Where Penny's `libnccl.so.2` and `libcudart.so.12` lie, and the variables by which the loader takes them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The libraries, by the names under which programs ask for them, and the package that each comes from.
const LIBRARIES: [(&str, &str); 2] = [("libnccl.so.2", "penny-nccl"), ("libcudart.so.12", "penny-cudart")];

/// Returns the variables with which a program finds both libraries before its own: by name (LD_LIBRARY_PATH), and where it has a path to
/// another one in itself (LD_PRELOAD).
pub fn environment() -> Result<Vec<(&'static str, String)>, String> {
    let program =
        std::env::current_exe().map_err(|e| format!("--nccl: this program's path is not known: {e}"))?;
    let folder = find(&program)?;
    let preloaded: Vec<PathBuf> = LIBRARIES.iter().map(|(name, _)| folder.join(name)).collect();
    Ok(vec![
        ("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", &[folder])?),
        ("LD_PRELOAD", before("LD_PRELOAD", &preloaded)?),
    ])
}

/// Returns the folder of both libraries: that of the program, as in a checkout, or one of lib beside the program's folder, as
/// `install.sh --nccl` or a package installs them.
fn find(program: &Path) -> Result<PathBuf, String> {
    let own = program.parent().unwrap_or(Path::new("."));
    let installed = ["lib/penny-cuda/lib64", "lib", "lib64"].map(|name| own.join("..").join(name));
    let folders = || std::iter::once(own).chain(installed.iter().map(PathBuf::as_path));
    let missing = |folder: &Path| LIBRARIES.iter().find(|(name, _)| !folder.join(name).exists());
    if let Some(folder) = folders().find(|folder| missing(folder).is_none()) {
        return folder.canonicalize().map_err(|e| format!("--nccl: {}: {e}", folder.display()));
    }
    let (name, package) = missing(own).copied().unwrap_or(LIBRARIES[0]);
    let looked: Vec<String> = folders().map(|folder| folder.display().to_string()).collect();
    Err(format!(
        "--nccl: there is no {name} in {}; build it with `cargo build --release -p {package}`",
        looked.join(", ")
    ))
}

/// Puts paths before those that a variable has.
fn before(variable: &str, paths: &[PathBuf]) -> Result<String, String> {
    let mut all = OsString::new();
    for path in paths.iter().map(|path| path.as_os_str().to_owned()).chain(std::env::var_os(variable)) {
        if !all.is_empty() {
            all.push(":");
        }
        all.push(path);
    }
    all.into_string().map_err(|all| format!("--nccl: {variable} is no UTF-8: {}", all.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_libraries_are_found_beside_the_program_or_where_they_are_installed() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib"));
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(&lib).unwrap();
        let program = bin.join("penny");
        let refused = find(&program).unwrap_err();
        assert!(refused.contains("no libnccl.so.2 in") && refused.contains("-p penny-nccl"), "{refused}");
        std::fs::write(lib.join("libnccl.so.2"), "").unwrap();
        std::fs::write(lib.join("libcudart.so.12"), "").unwrap();
        assert_eq!(find(&program).unwrap(), lib.canonicalize().unwrap());
        let own = lib.join("penny-cuda/lib64");
        std::fs::create_dir_all(&own).unwrap();
        for (name, _) in LIBRARIES {
            std::fs::write(own.join(name), "").unwrap();
            std::fs::remove_file(lib.join(name)).unwrap();
        }
        assert_eq!(find(&program).unwrap(), own.canonicalize().unwrap());
        let lib = own;
        std::fs::write(bin.join("libnccl.so.2"), "").unwrap();
        assert_eq!(find(&program).unwrap(), lib.canonicalize().unwrap(), "one of them alone does not count");
        std::fs::write(bin.join("libcudart.so.12"), "").unwrap();
        assert_eq!(find(&program).unwrap(), bin.canonicalize().unwrap());
    }
}
