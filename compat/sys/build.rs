//! Reads `include/penny.h` and writes its declarations in Rust; and makes an import library, a `libpenny.so` without code, so that
//! the libraries of `compat` can be linked before Penny is built, and a name that Penny lacks is an error of the linker.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    // A link to include/penny.h; a package of this crate has the file.
    // Cargo starts this in the package's folder, also after the checkout has been moved.
    let header = Path::new("penny.h");
    println!("cargo::rerun-if-changed=penny.h");
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR").expect("cargo sets the build script's directory");
    let header = fs::read_to_string(header).expect("the header is in the checkout");
    let declarations = Declarations::read(&header);
    fs::write(Path::new(&out).join("declarations.rs"), &declarations.rust).expect("OUT_DIR is writable");
    import_library(Path::new(&out), &declarations.functions);
}

/// Compiles a shared library that has Penny's SONAME and its functions, each of them empty.
fn import_library(out: &Path, functions: &[String]) {
    let source = out.join("penny.c");
    let code: String = functions.iter().map(|name| format!("void {name}(void) {{}}\n")).collect();
    fs::write(&source, code).expect("OUT_DIR is writable");
    let soname =
        format!("-Wl,-soname,libpenny.so.{}", env::var("CARGO_PKG_VERSION_MAJOR").expect("cargo sets it"));
    let status = Command::new(env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-shared", "-fPIC", "-nostdlib", &soname, "-o"])
        .arg(out.join("libpenny.so"))
        .arg(&source)
        .status()
        .expect("there is a C compiler");
    assert!(status.success(), "the import library does not compile");
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=dylib=penny");
}

/// What a header of cbindgen declares, in Rust.
struct Declarations {
    rust: String,
    functions: Vec<String>,
}

impl Declarations {
    fn read(header: &str) -> Declarations {
        let mut read = Declarations { rust: String::new(), functions: Vec::new() };
        let mut version = [0u32; 3];
        let text: String =
            header.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n").collect();
        for line in text.lines() {
            if let Some((name, value)) =
                line.strip_prefix("#define ").and_then(|rest| rest.trim().split_once(' '))
            {
                read.constant(name, value.trim(), &mut version);
            }
        }
        let [major, minor, patch] = version;
        let code = major * 10000 + minor * 100 + patch;
        writeln!(read.rust, "pub const PENNY_VERSION_CODE: core::ffi::c_uint = {code};")
            .expect("a string takes it");
        let plain = without_preprocessor(&text);
        for declaration in statements(&plain) {
            read.declaration(&declaration);
        }
        read
    }

    fn constant(&mut self, name: &str, value: &str, version: &mut [u32; 3]) {
        let Ok(number) = value.parse::<i64>() else { return };
        match name {
            "PENNY_MAJOR" => version[0] = number as u32,
            "PENNY_MINOR" => version[1] = number as u32,
            "PENNY_PATCH" => version[2] = number as u32,
            _ => {}
        }
        writeln!(self.rust, "pub const {name}: i64 = {number};").expect("a string takes it");
    }

    /// Translates one statement of the header, without its semicolon.
    fn declaration(&mut self, text: &str) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let rust = if let Some(rest) = text.strip_prefix("typedef enum { ") {
            let (body, name) = rest.split_once(" } ").expect("an enum has a name");
            let values = body.split(',').filter_map(|one| one.split_once('='));
            let values = values
                .map(|(value, number)| format!("pub const {}: {name} = {};\n", value.trim(), number.trim()));
            format!("pub type {name} = core::ffi::c_int;\n{}", values.collect::<String>())
        } else if let Some(rest) = text.strip_prefix("typedef struct { ") {
            let (body, name) = rest.split_once(" } ").expect("a struct has a name");
            let fields = body
                .split(';')
                .map(str::trim)
                .filter(|field| !field.is_empty())
                .map(|field| format!("pub {},\n", variable(field)));
            format!(
                "#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {name} {{\n{}}}\n",
                fields.collect::<String>()
            )
        } else if let Some(rest) = text.strip_prefix("typedef struct ") {
            let (_, name) = rest.split_once(' ').expect("a struct has a name");
            format!("#[repr(C)]\npub struct {name} {{\n_opaque: [u8; 0],\n}}\n")
        } else if let Some(rest) = text.strip_prefix("typedef ") {
            match rest.split_once(" (*") {
                Some((returns, rest)) => {
                    let (name, parameters) =
                        rest.split_once(")(").expect("a function pointer has parameters");
                    format!(
                        "pub type {name} = Option<unsafe extern \"C\" fn({}){}>;\n",
                        list(parameters),
                        result(returns)
                    )
                }
                None => format!("pub type {};\n", variable(rest).replacen(':', " =", 1)),
            }
        } else if let Some((before, parameters)) = text.split_once('(') {
            let before = before.trim_start_matches("extern \"C\" {").trim();
            let at = before.rfind([' ', '*']).expect("a function has a type") + 1;
            let (returns, name) = before.split_at(at);
            if !name.starts_with("penny") {
                return;
            }
            self.functions.push(name.to_owned());
            format!("unsafe extern \"C\" {{\npub fn {name}({}){};\n}}\n", list(parameters), result(returns))
        } else {
            return;
        };
        self.rust += &rust;
    }
}

/// Removes comments of several lines and what the preprocessor reads.
fn without_preprocessor(text: &str) -> String {
    let mut plain = String::new();
    let mut goes_on = false;
    for line in text.split("/*").flat_map(|part| part.rsplit("*/").next().unwrap_or("").lines()) {
        let is_code = !goes_on && !line.starts_with('#');
        goes_on = !is_code && line.ends_with('\\');
        if is_code {
            plain += line;
            plain.push(' ');
        }
    }
    plain
}

/// Divides the header at the semicolons that are in no braces but those of `extern "C"`.
fn statements(text: &str) -> Vec<String> {
    let text = text.replace("extern \"C\" {", " ");
    let (mut all, mut present, mut depth) = (Vec::new(), String::new(), 0);
    for letter in text.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth <= 0 => {
                all.push(std::mem::take(&mut present));
                continue;
            }
            _ => {}
        }
        present.push(letter);
    }
    all
}

/// Translates parameters, up to their closing parenthesis.
fn list(parameters: &str) -> String {
    let parameters = parameters.trim_end().trim_end_matches(')');
    match parameters.trim() {
        "void" | "" => String::new(),
        some => some.split(',').map(|one| variable(one.trim())).collect::<Vec<_>>().join(", "),
    }
}

fn result(returns: &str) -> String {
    match returns.trim() {
        "void" => String::new(),
        some => format!(" -> {}", kind(some)),
    }
}

/// Translates `const char *name[N]` to `name: ...`.
fn variable(text: &str) -> String {
    let (text, length) = match text.split_once('[') {
        Some((before, length)) => (before, Some(length.trim_end_matches(']'))),
        None => (text, None),
    };
    let at = text.rfind([' ', '*']).expect("a variable has a type") + 1;
    let (of, name) = text.split_at(at);
    let name = if name == "type" { "r#type" } else { name };
    match length {
        // A parameter is a pointer.
        Some("") => format!("{name}: *mut {}", kind(of)),
        Some(length) => format!("{name}: [{}; {length} as usize]", kind(of)),
        None => format!("{name}: {}", kind(of)),
    }
}

/// Translates a type.
fn kind(text: &str) -> String {
    let text = text.trim();
    if let Some(of) = text.strip_suffix('*') {
        let of = of.trim();
        return match of.strip_suffix("const").or(of.strip_prefix("const ")) {
            Some(of) => format!("*const {}", kind(of)),
            None => format!("*mut {}", kind(of)),
        };
    }
    match text {
        "void" => "core::ffi::c_void".into(),
        "char" => "core::ffi::c_char".into(),
        "int" => "core::ffi::c_int".into(),
        "unsigned int" => "core::ffi::c_uint".into(),
        "float" => "f32".into(),
        "double" => "f64".into(),
        "size_t" => "usize".into(),
        "ptrdiff_t" => "isize".into(),
        other => match other
            .strip_suffix("_t")
            .filter(|number| number.starts_with("uint") || number.starts_with("int"))
        {
            Some(number) => number.replace("uint", "u").replace("int", "i"),
            None => other.into(),
        },
    }
}
