//! Prints include/penny.h as src/ffi says it.
//!
//! cbindgen reads plain Rust, and src/ffi defines its functions and numbers through two macros. Their input is Rust
//! syntax already, so it is taken out of them and completed with what the macros add:
//!
//! ```text
//!     c_api! { fn f(#[out] x: *mut c_int) { .. } }    ->   #[no_mangle] pub extern "C" fn f(x: *mut c_int) -> pennyResult_t {}
//!     c_numbers! { pub enum e { a = 0, } }            ->   #[repr(C)] pub enum e { a = 0 }
//! ```

use std::fs;
use std::path::Path;

use quote::{ToTokens, quote};
use syn::{Attribute, Expr, ExprLit, FnArg, Item, ItemFn, Lit, Meta, ReturnType};

/// The files of src/ffi that say something to C, in the header's order.
const FILES: &[&str] = &[
    "types.rs",
    "config.rs",
    "handle.rs",
    "library.rs",
    "communicator.rs",
    "memory.rs",
    "collectives.rs",
    "vector.rs",
    "point_to_point.rs",
    "group.rs",
    "stream.rs",
    "window.rs",
    "fabric.rs",
    "channel.rs",
    "shmem/heap.rs",
    "shmem/put.rs",
    "shmem/signal.rs",
    "shmem/wait.rs",
    "shmem/atomics.rs",
    "shmem/team.rs",
    "mailbox.rs",
    "semaphore.rs",
    "remote_copy.rs",
];

/// The repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn main() {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml"));
    let mut config = config.expect("cbindgen.toml is valid");
    config.after_includes = config.after_includes.map(|text| {
        text.replace("@MAJOR@", env!("CARGO_PKG_VERSION_MAJOR"))
            .replace("@MINOR@", env!("CARGO_PKG_VERSION_MINOR"))
            .replace("@PATCH@", env!("CARGO_PKG_VERSION_PATCH"))
    });
    let source = tempfile::Builder::new().suffix(".rs").tempfile().expect("a temporary file");
    fs::write(source.path(), plain_rust()).expect("the temporary file can be written");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(source.path())
        .generate()
        .expect("cbindgen understands the source");
    bindings.write(std::io::stdout());
}

/// What of src/ffi concerns C, as plain Rust.
fn plain_rust() -> String {
    let mut source = String::new();
    for name in FILES {
        let text = fs::read_to_string(root().join("src/ffi").join(name)).expect(name);
        for item in syn::parse_file(&text).expect(name).items {
            source += &plain_item(item);
            source.push('\n');
        }
    }
    source
}

fn plain_item(item: Item) -> String {
    match item {
        Item::Macro(call) if call.mac.path.is_ident("c_api") => {
            let functions: syn::File = call.mac.parse_body().expect("c_api! holds functions");
            functions.items.into_iter().map(plain_function).collect()
        }
        Item::Macro(call) if call.mac.path.is_ident("c_numbers") => {
            let numbers = call.mac.tokens;
            quote!(#[repr(C)] #numbers).to_string()
        }
        Item::Struct(_) | Item::Type(_) | Item::Const(_) => item.to_token_stream().to_string(),
        _ => String::new(),
    }
}

fn plain_function(item: Item) -> String {
    let Item::Fn(ItemFn { attrs, mut sig, .. }) = item else { panic!("c_api! holds functions only") };
    for arg in &mut sig.inputs {
        if let FnArg::Typed(arg) = arg {
            arg.attrs.clear();
        }
    }
    let attrs = attrs.into_iter().filter(|attr| !is_fence(attr));
    let result = matches!(sig.output, ReturnType::Default).then(|| quote!(-> pennyResult_t));
    quote!(#(#attrs)* #[no_mangle] pub extern "C" #sig #result {}).to_string()
}

/// A fence tells rustdoc that a drawing is not a program; in C the indentation is enough.
fn is_fence(attr: &Attribute) -> bool {
    match &attr.meta {
        Meta::NameValue(doc) => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => text.value().trim().starts_with("```"),
            _ => false,
        },
        _ => false,
    }
}
