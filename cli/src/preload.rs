//! Libraries that are put before a program's own: where they lie, and the variables by which the loader takes them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Libraries that are put before a program's own together.
pub struct Libraries {
    /// The option that asks for them.
    option: &'static str,
    /// The names under which programs ask for them, and the package that each comes from.
    named: &'static [(&'static str, &'static str)],
    /// Programs that are linked with them find them by name, so they are on the loader's path as well.
    is_linked: bool,
}

/// NCCL's library and CUDA's runtime, for programs that use them.
pub const NCCL: Libraries = Libraries {
    option: "--nccl",
    named: &[("libnccl.so.2", "penny-nccl"), ("libcudart.so.12", "penny-cudart")],
    is_linked: true,
};

/// The library that tells a program the machine's time.
pub const TIME: Libraries =
    Libraries { option: "--virtual-time", named: &[("libpenny_time.so", "penny-time")], is_linked: false };

/// Returns the variables with which a program finds these libraries before its own: by name (LD_LIBRARY_PATH), and where it has a path
/// to another one in itself (LD_PRELOAD).
pub fn environment(all: &[&Libraries]) -> Result<Vec<(&'static str, String)>, String> {
    let (mut folders, mut preloaded, mut options) = (Vec::new(), Vec::new(), Vec::new());
    for libraries in all {
        let option = libraries.option;
        let program = std::env::current_exe()
            .map_err(|e| format!("{option}: this program's path is not known: {e}"))?;
        let folder = libraries.find(&program)?;
        preloaded.extend(libraries.named.iter().map(|(name, _)| folder.join(name)));
        folders.extend(libraries.is_linked.then_some(folder));
        options.push(option);
    }
    let options = options.join(", ");
    let variables = [("LD_LIBRARY_PATH", folders), ("LD_PRELOAD", preloaded)];
    let given = variables.into_iter().filter(|(_, paths)| !paths.is_empty());
    given.map(|(variable, paths)| Ok((variable, before(&options, variable, &paths)?))).collect()
}

impl Libraries {
    /// Returns the folder of all of them: that of the program, as in a checkout, or one of lib beside the program's folder, as
    /// `install.sh --nccl` or a package installs them.
    fn find(&self, program: &Path) -> Result<PathBuf, String> {
        let own = program.parent().unwrap_or(Path::new("."));
        let installed = ["lib/penny-cuda/lib64", "lib", "lib64"].map(|name| own.join("..").join(name));
        let folders = || std::iter::once(own).chain(installed.iter().map(PathBuf::as_path));
        let missing = |folder: &Path| self.named.iter().find(|(name, _)| !folder.join(name).exists());
        let option = self.option;
        if let Some(folder) = folders().find(|folder| missing(folder).is_none()) {
            return folder.canonicalize().map_err(|e| format!("{option}: {}: {e}", folder.display()));
        }
        let (name, package) = missing(own).copied().unwrap_or(self.named[0]);
        let looked: Vec<String> = folders().map(|folder| folder.display().to_string()).collect();
        Err(format!(
            "{option}: there is no {name} in {}; build it with `cargo build --release -p {package}`",
            looked.join(", ")
        ))
    }
}

/// Puts paths before those that a variable has.
fn before(options: &str, variable: &str, paths: &[PathBuf]) -> Result<String, String> {
    let mut all = OsString::new();
    for path in paths.iter().map(|path| path.as_os_str().to_owned()).chain(std::env::var_os(variable)) {
        if !all.is_empty() {
            all.push(":");
        }
        all.push(path);
    }
    all.into_string().map_err(|all| format!("{options}: {variable} is no UTF-8: {}", all.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_beside_the_program_or_where_they_are_installed() {
        let dir = tempfile::tempdir().unwrap();
        let (bin, lib) = (dir.path().join("bin"), dir.path().join("lib"));
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(&lib).unwrap();
        let program = bin.join("penny");
        let refused = NCCL.find(&program).unwrap_err();
        assert!(refused.contains("no libnccl.so.2 in") && refused.contains("-p penny-nccl"), "{refused}");
        std::fs::write(lib.join("libnccl.so.2"), "").unwrap();
        std::fs::write(lib.join("libcudart.so.12"), "").unwrap();
        assert_eq!(NCCL.find(&program).unwrap(), lib.canonicalize().unwrap());
        let own = lib.join("penny-cuda/lib64");
        std::fs::create_dir_all(&own).unwrap();
        for (name, _) in NCCL.named {
            std::fs::write(own.join(name), "").unwrap();
            std::fs::remove_file(lib.join(name)).unwrap();
        }
        assert_eq!(NCCL.find(&program).unwrap(), own.canonicalize().unwrap());
        let lib = own;
        std::fs::write(bin.join("libnccl.so.2"), "").unwrap();
        assert_eq!(
            NCCL.find(&program).unwrap(),
            lib.canonicalize().unwrap(),
            "one of them alone does not count"
        );
        std::fs::write(bin.join("libcudart.so.12"), "").unwrap();
        assert_eq!(NCCL.find(&program).unwrap(), bin.canonicalize().unwrap());
    }
}
