//! A folder as CUDA's installation is: `bin/nvcc`, `include`, `lib64`; with NCCL's header and library, so it is NCCL's, too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::places::Places;

/// Makes the folder, or brings it up to date.
pub fn make(home: &Path) -> Result<(), String> {
    let places = Places::find()?;
    let program = std::env::current_exe().and_then(fs::canonicalize).map_err(|error| error.to_string())?;
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for name in ["bin", "include", "lib64"] {
        let folder = home.join(name);
        fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
    }
    link(&program, &home.join("bin/nvcc"))?;
    link(Path::new("lib64"), &home.join("lib"))?;
    for folder in &places.include {
        for entry in fs::read_dir(folder).map_err(|error| failed(folder, error))?.flatten() {
            if entry.path().extension().is_some_and(|ending| ending == "h") {
                link(&absolute(&entry.path())?, &home.join("include").join(entry.file_name()))?;
            }
        }
    }
    for entry in fs::read_dir(&places.library).map_err(|error| failed(&places.library, error))?.flatten() {
        let name = entry.file_name();
        let is_ours = ["libcudart.so", "libnccl.so", "libpenny.so"]
            .iter()
            .any(|own| name.to_string_lossy().starts_with(own));
        if is_ours {
            link(&absolute(&entry.path())?, &home.join("lib64").join(name))?;
        }
    }
    // Linkers read this as a library that consists of the other.
    for (name, text) in [("libcudart_static.a", "INPUT(-lcudart)\n"), ("libcudadevrt.a", "INPUT(-lcudart)\n")]
    {
        let path = home.join("lib64").join(name);
        fs::write(&path, text).map_err(|error| failed(&path, error))?;
    }
    println!("{} has bin/nvcc, include and lib64; use it as CUDA_HOME and as NCCL_HOME", home.display());
    Ok(())
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes a link, in place of one that is there.
fn link(to: &Path, at: &Path) -> Result<(), String> {
    if fs::symlink_metadata(at).is_ok_and(|meta| meta.is_symlink()) {
        let _ = fs::remove_file(at);
    }
    symlink(to, at).map_err(|error| format!("{}: {error}; pass a folder of its own", at.display()))
}
