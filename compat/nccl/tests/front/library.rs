//! What libnccl.so.2 is to a linker and a loader, and include/nccl.h to a compiler.

use super::{dir, package};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ObjectSymbolTable, elf};
use penny_ffi_tests::compiler::{STRICT, cc, cxx, run};
use penny_ffi_tests::library::SONAME;
use std::fs;

fn shared_library() -> Vec<u8> {
    fs::read(dir().join("libnccl.so")).unwrap()
}

/// The names of symbols.txt with their versions.
fn listed() -> Vec<(String, [u32; 3])> {
    let text = fs::read_to_string(package().join("symbols.txt")).unwrap();
    let version = |text: &str| {
        let numbers: Vec<u32> = text.split('.').map(|number| number.parse().unwrap()).collect();
        numbers.try_into().expect("a version has three numbers")
    };
    text.lines()
        .map(|line| line.split_once(' ').map(|(name, since)| (name.to_owned(), version(since))).unwrap())
        .collect()
}

#[test]
fn the_exported_names_are_exactly_those_of_the_list_and_their_twins() {
    let bytes = shared_library();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let table = file.dynamic_symbol_table().unwrap();
    let names = table.symbols().filter(|symbol| symbol.is_definition()).map(|symbol| symbol.name().unwrap());
    let mut exported: Vec<_> = names.map(str::to_owned).collect();
    exported.sort();
    let mut expected: Vec<_> =
        listed().into_iter().flat_map(|(name, _)| [format!("p{name}"), name]).collect();
    expected.sort();
    assert_eq!(exported, expected);
}

#[test]
fn the_porting_page_has_each_name_once_with_its_version_and_names_of_penny_that_exist() {
    let page = fs::read_to_string(package().join("PORTING.md")).unwrap();
    let penny = fs::read_to_string(penny_ffi_tests::root().join("ffi-tests/symbols.txt")).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let mut told = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").map(|cell| cell.trim_matches(['`', ' ', '|'])).collect();
        assert!(cells.len() == 4 && (cells[2] != "-" || !cells[3].is_empty()), "{row}");
        assert!(cells[2] == "-" || penny.lines().any(|name| name == cells[2]), "{row}");
        told.push(format!("{} {}", cells[0], cells[1]));
    }
    let listed = fs::read_to_string(package().join("symbols.txt")).unwrap();
    assert_eq!(told, listed.lines().collect::<Vec<_>>());
}

#[test]
fn the_library_has_nccls_soname_and_finds_penny_beside_itself() {
    let bytes = shared_library();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let table = file.elf_dynamic_table().unwrap();
    let strings = |tag| {
        let entries = table.iter().filter(move |entry| entry.tag == tag);
        entries
            .map(|entry| String::from_utf8(table.string(entry).unwrap().to_vec()).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(strings(elf::DT_SONAME), ["libnccl.so.2"]);
    assert!(strings(elf::DT_NEEDED).contains(&SONAME.to_owned()));
    assert_eq!(strings(elf::DT_RUNPATH), ["$ORIGIN"]);
}

#[test]
fn the_header_declares_what_each_version_has() {
    let temp = tempfile::tempdir().unwrap();
    for minor in 27..=30 {
        // A name that is not declared is an error. The device interface has headers of its own.
        let device = |name: &str| {
            [
                "ncclDev",
                "ncclTeam",
                "ncclGetLsa",
                "ncclGetMultimem",
                "ncclGetPeer",
                "ncclLsa",
                "ncclLLA2A",
                "ncclGin",
            ]
            .iter()
            .any(|of| name.starts_with(of))
                || name == "ncclCommQueryProperties"
        };
        let (known, later): (Vec<_>, Vec<_>) = listed()
            .into_iter()
            .filter(|(name, _)| !device(name))
            .partition(|(_, since)| since[..2] <= [2, minor][..]);
        let uses: String =
            known.iter().map(|(name, _)| format!("(void)&{name}; (void)&p{name};\n")).collect();
        let source = temp.path().join("uses.c");
        fs::write(&source, format!("#include <nccl.h>\nvoid use(void) {{\n{uses}}}\n")).unwrap();
        let define = format!("-DPENNY_NCCL_MINOR={minor}");
        for (mut compiler, standard) in [(cc(), "-std=c99"), (cc(), "-std=c11"), (cxx(), "-std=c++11")] {
            let language = if standard.contains("++") { ["-x", "c++"] } else { ["-x", "c"] };
            compiler.args(STRICT).args(["-fsyntax-only", standard, &define, "-I"]);
            run(compiler.arg(package().join("include")).args(language).arg(&source));
        }
        for (name, _) in later {
            fs::write(&source, format!("#include <nccl.h>\nvoid use(void) {{ (void)&{name}; }}\n")).unwrap();
            let mut compile = cc();
            compile.args(["-fsyntax-only", &define, "-I"]).arg(package().join("include")).arg(&source);
            assert!(!compile.output().unwrap().status.success(), "2.{minor} declares {name}");
        }
    }
}

#[test]
fn structs_have_nccls_layout() {
    let temp = tempfile::tempdir().unwrap();
    for (minor, size, code) in [(27, 72, 22707), (28, 80, 22809), (29, 88, 22907), (30, 96, 23007)] {
        let source = temp.path().join("layout.c");
        let text = format!(
            "#include <nccl.h>\n#define SAME(a, b) _Static_assert((a) == (b), #a)\n\
             SAME(sizeof(ncclConfig_t), {size}); SAME(NCCL_VERSION_CODE, {code}); SAME(NCCL_VERSION(2, {minor}, 0), {code} / 100 * 100);\n\
             SAME(NCCL_VERSION(2, 8, 3), 2803); SAME(NCCL_VERSION(2, 9, 6), 20906);\n\
             SAME(offsetof(ncclConfig_t, blocking), 16); SAME(offsetof(ncclConfig_t, netName), 32);\n\
             SAME(offsetof(ncclConfig_t, commName), 48); SAME(offsetof(ncclConfig_t, nvlsCTAs), 68);\n\
             SAME(sizeof(ncclUniqueId), 128); SAME(sizeof(ncclSimInfo_t), 24); SAME(sizeof(ncclRedOp_t), 4);\n"
        );
        fs::write(&source, text).unwrap();
        let define = format!("-DPENNY_NCCL_MINOR={minor}");
        run(cc()
            .args(["-std=c11", "-fsyntax-only", &define, "-I"])
            .arg(package().join("include"))
            .arg(&source));
    }
}
