//! Where headers and libraries lie: beside this program, in the tree that it was built in or in an installation.

use std::path::{Path, PathBuf};

/// The folders that programs are compiled and linked with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// CUDA's headers, and NCCL's.
    pub include: Vec<PathBuf>,
    /// libcudart.so, libnccl.so, libpenny.so.
    pub library: PathBuf,
}

const HEADER: &str = "cuda_runtime.h";
const LIBRARY: &str = "libcudart.so";

impl Places {
    /// Finds the folders: below `PENNY_CUDA_HOME` if that is set, else beside the program.
    pub fn find() -> Result<Places, String> {
        if let Some(home) = std::env::var_os("PENNY_CUDA_HOME").filter(|home| !home.is_empty()) {
            let home = PathBuf::from(home);
            return Places::below(&home).ok_or_else(|| {
                format!(
                    "PENNY_CUDA_HOME is {}, and there is no include/{HEADER} with lib64/{LIBRARY}",
                    home.display()
                )
            });
        }
        let program =
            std::env::current_exe().and_then(std::fs::canonicalize).map_err(|error| error.to_string())?;
        Places::beside(&program).ok_or_else(|| {
            format!(
                "{HEADER} and {LIBRARY} are not beside {}; build penny-cudart, or set PENNY_CUDA_HOME to the folder of include and lib64",
                program.display()
            )
        })
    }

    /// `<home>/include` with `<home>/lib64` or `<home>/lib`.
    fn below(home: &Path) -> Option<Places> {
        let include = home.join("include");
        let libraries = ["lib64", "lib"].map(|name| home.join(name));
        let library = libraries.into_iter().find(|folder| folder.join(LIBRARY).exists())?;
        include.join(HEADER).is_file().then(|| Places { include: vec![include], library })
    }

    fn beside(program: &Path) -> Option<Places> {
        let folder = program.parent()?;
        // <home>/bin/nvcc
        if let Some(found) = folder.parent().and_then(Places::below) {
            return Some(found);
        }
        // target/<profile>/penny-nvcc in the repository, or wherever cargo was told to build.
        let built = Path::new(env!("CARGO_MANIFEST_DIR"));
        let library = folder.join(LIBRARY).exists().then(|| folder.to_path_buf())?;
        let mut roots =
            folder.ancestors().map(Path::to_path_buf).chain(built.ancestors().nth(2).map(Path::to_path_buf));
        let root = roots.find(|root| root.join("compat/cudart/include").join(HEADER).is_file())?;
        Some(Places {
            include: vec![root.join("compat/cudart/include"), root.join("compat/nccl/include")],
            library,
        })
    }
}
