//! include/penny.h is what src/ffi says, and compiles as every C and C++.

use std::fs;
use std::path::{Path, PathBuf};

use penny_ffi_tests::compiler::{STRICT, cc, cxx, run};
use penny_ffi_tests::{library, root};

#[test]
fn the_header_is_what_the_source_says() {
    let path = root().join("include/penny.h");
    let fresh = run(library::cargo()
        .args(["run", "--quiet", "--package", "penny-header", "--features", "header", "--target-dir"])
        .arg(library::target_dir()));
    if std::env::var_os("PENNY_BLESS").is_some() {
        // In one motion, because the other tests read the header meanwhile.
        let new = path.with_extension("h.new");
        fs::write(&new, &fresh).unwrap();
        fs::rename(&new, &path).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(fresh.lines()).position(|(a, b)| a != b);
    assert!(
        kept == fresh,
        "include/penny.h differs from src/ffi, first at line {}; PENNY_BLESS=1 rewrites it",
        differs.unwrap_or(kept.lines().count().min(fresh.lines().count())) + 1,
    );
}

/// The Rust files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn the_header_takes_in_every_file_that_speaks_to_c() {
    let folder = root().join("src/ffi");
    let listed = fs::read_to_string(root().join("ffi-tests/header/main.rs")).unwrap();
    for path in files(&folder) {
        let name = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let speaks = text.lines().any(|line| line == "c_api! {" || line == "c_numbers! {");
        if speaks && !name.ends_with("_tests.rs") {
            assert!(listed.contains(&format!("    \"{name}\",\n")), "{name} is not among FILES");
        }
    }
}

#[test]
fn the_header_compiles_as_every_c_and_cpp_twice_included_and_first() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <penny.h>\n#include <penny.h>\n\
        static pennyConfig_t config = PENNY_CONFIG_INITIALIZER;\n\
        int main(void) { return config.version == PENNY_VERSION(PENNY_MAJOR, PENNY_MINOR, PENNY_PATCH) ? 0 : 1; }\n";
    for (name, standards) in
        [("use.c", ["c99", "c11", "c17", "gnu2x"]), ("use.cpp", ["c++11", "c++14", "c++17", "c++20"])]
    {
        let path = dir.path().join(name);
        fs::write(&path, source).unwrap();
        for standard in standards {
            let mut compiler = if name == "use.c" { cc() } else { cxx() };
            run(compiler
                .args(STRICT)
                .arg(format!("-std={standard}"))
                .arg("-I")
                .arg(root().join("include"))
                .arg("-fsyntax-only")
                .arg(&path));
        }
    }
}
