//! Variables of blocks and devices.
//!
//! ```text
//!     __shared__ T a[3], b;              typedef T penny_shared_a[3]; penny_shared_a &a = memory of the block; ...
//!     extern __shared__ T a[];           the same with the memory that the launch gives
//!     __constant__, __managed__,         variables of the file, as they are on a device; with relocatable code
//!     __device__ T a;                    those of the program
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use crate::edits::Edits;
use crate::rewrite::{Failure, failure};
use crate::tokens::Source;

/// What the words of CUDA are behind the headers.
const SHARED: &str = "__penny_shared__";
const CONSTANT: &str = "__penny_constant__";
const MANAGED: &str = "__penny_managed__";
const DEVICE: &str = "__penny_device__";

/// Rewrites all variables.
pub fn rewrite(source: &Source, edits: &mut Edits, is_relocatable: bool) -> Result<(), Failure> {
    let scopes = Scopes::of(source);
    // Variables of the file whose memory a launch gives.
    let mut given = BTreeMap::new();
    let mut i = 0;
    while i < source.tokens.len() {
        match source.at(i) {
            SHARED => i = shared(source, edits, &scopes, i, &mut given)?,
            CONSTANT | MANAGED | DEVICE => {
                let words = statement(source, i)..head_end(source, i);
                let is_variable = source.at(i) != DEVICE || is_variable(source, i);
                let is_first =
                    !(words.start..i).any(|at| matches!(source.at(at), CONSTANT | MANAGED | DEVICE));
                let is_linked = words.into_iter().any(|at| {
                    matches!(source.at(at), "static" | "extern" | "template" | "inline" | "constexpr")
                });
                let is_of_file =
                    is_variable && is_first && !is_linked && !is_relocatable && scopes.is_file(i);
                let word = if is_of_file { "static" } else { "" };
                edits.replace(source.tokens[i].range.clone(), word);
            }
            word => {
                if let Some(text) = given.get(word)
                    && !scopes.is_file(i)
                    && !matches!(source.at(i.wrapping_sub(1)), "." | "->" | "::")
                {
                    edits.replace(source.tokens[i].range.clone(), String::clone(text));
                }
            }
        }
        i += 1;
    }
    Ok(())
}

/// Which tokens stand outside of functions and classes.
struct Scopes(Vec<bool>);

impl Scopes {
    fn of(source: &Source) -> Scopes {
        let mut open = vec![true];
        let mut all = Vec::with_capacity(source.tokens.len());
        for i in 0..source.tokens.len() {
            all.push(open.iter().all(|&is_file| is_file));
            match source.at(i) {
                "{" => open.push(is_namespace(source, i)),
                "}" if open.len() > 1 => drop(open.pop()),
                _ => {}
            }
        }
        Scopes(all)
    }

    fn is_file(&self, i: usize) -> bool {
        self.0.get(i).copied().unwrap_or(true)
    }
}

/// Does this brace open a namespace, or `extern "C"`?
fn is_namespace(source: &Source, brace: usize) -> bool {
    let mut i = brace;
    while let Some(before) = i.checked_sub(1) {
        match source.at(before) {
            "namespace" => return true,
            "\"C\"" | "\"C++\"" => return before > 0 && source.at(before - 1) == "extern",
            "::" | "__attribute__" | "inline" => {}
            ")" | "]" => match source.opening(before) {
                Some(open) => {
                    i = open;
                    continue;
                }
                None => return false,
            },
            _ if source.is_word(before) => {}
            _ => return false,
        }
        i = before;
    }
    false
}

/// Returns the first token of the statement that a token belongs to.
fn statement(source: &Source, of: usize) -> usize {
    let mut i = of;
    while i > 0 {
        match source.at(i - 1) {
            ";" | "{" | "}" | ":" => break,
            ")" => {
                // An attribute belongs to it; the condition of an `if` does not.
                let Some(open) = source.opening(i - 1) else { break };
                if open == 0 || !matches!(source.at(open - 1), "__attribute__" | "alignas") {
                    break;
                }
                i = open;
            }
            _ => i -= 1,
        }
    }
    i
}

/// Returns the token that ends the head of a declaration: `;`, `=`, `{`, `(`, `,`.
fn head_end(source: &Source, from: usize) -> usize {
    let mut i = from + 1;
    while i < source.tokens.len() {
        match source.at(i) {
            "__attribute__" | "alignas" | "decltype" => i = source.closing(i + 1).unwrap_or(i),
            "[" => i = source.closing(i).unwrap_or(i),
            "<" => i = source.closing_angle(i).unwrap_or(i),
            "struct" | "union" | "class" | "enum" => {
                let brace = (i + 1..i + 4).find(|&at| source.at(at) == "{");
                i = brace.and_then(|brace| source.closing(brace)).unwrap_or(i);
            }
            ";" | "=" | "{" | "(" | "," | ")" => break,
            _ => {}
        }
        i += 1;
    }
    i
}

/// Does `__device__` stand before a variable?
fn is_variable(source: &Source, i: usize) -> bool {
    let end = head_end(source, i);
    let is_of_operator = (i..end).any(|at| source.at(at) == "operator");
    let is_named = end > i + 2 && (source.is_word(end - 1) || source.at(end - 1) == "]");
    let is_class = source.at(end) == "{"
        && (i..end).any(|at| matches!(source.at(at), "struct" | "class" | "union" | "enum"));
    matches!(source.at(end), ";" | "=" | "," | "{") && is_named && !is_of_operator && !is_class
}

/// A declaration of `__shared__` variables: its type and their names with dimensions.
struct Declaration<'a> {
    specifiers: String,
    variables: Vec<(&'a str, &'a str)>,
    is_extern: bool,
    /// The tokens that it replaces.
    range: Range<usize>,
}

fn shared(
    source: &Source,
    edits: &mut Edits,
    scopes: &Scopes,
    i: usize,
    given: &mut BTreeMap<String, String>,
) -> Result<usize, Failure> {
    let declaration = declaration(source, i)?;
    let Declaration { specifiers, variables, is_extern, range } = declaration;
    let is_file = scopes.is_file(i);
    if is_file && !is_extern {
        return failure(
            source,
            i,
            "a __shared__ variable stands outside of a function; declare it in the kernel",
        );
    }
    let mut text = String::new();
    for (name, dimensions) in variables {
        let kind = format!("penny_shared_{name}");
        text += &format!("typedef {specifiers} {kind}{dimensions}; ");
        let memory = match is_extern {
            true => format!("::penny_cuda::dynamic_shared<{kind}>()"),
            false => format!("::penny_cuda::shared<{kind}>(penny_key_{name})"),
        };
        if is_file {
            given.insert(name.to_owned(), memory);
        } else if is_extern {
            text += &format!("{kind} &{name} = {memory}; ");
        } else {
            text += &format!("static const char penny_key_{name} = 0; {kind} &{name} = {memory}; ");
        }
    }
    let end = range.end;
    edits.replace(source.tokens[range.start].range.start..source.tokens[end].range.end, text);
    Ok(end)
}

fn declaration(source: &Source, word: usize) -> Result<Declaration<'_>, Failure> {
    let begin = statement(source, word);
    let (mut i, mut specifiers, mut is_extern) = (begin, Vec::new(), false);
    // The type goes on to the first name that is followed by the end of a declarator.
    loop {
        match source.at(i) {
            SHARED | "static" => {}
            "extern" => is_extern = true,
            "" => return failure(source, word, "a declaration with __shared__ has no end"),
            "__attribute__" | "alignas" | "decltype" => {
                let end = source.closing(i + 1).unwrap_or(i);
                specifiers.push(source.between(i, end + 1));
                i = end;
            }
            "<" => {
                let end = source.closing_angle(i).unwrap_or(i);
                specifiers.push(source.between(i, end + 1));
                i = end;
            }
            "{" => {
                let end = source.closing(i).unwrap_or(i);
                specifiers.push(source.between(i, end + 1));
                i = end;
            }
            _ if source.is_word(i) && matches!(source.at(i + 1), "[" | ";" | "," | "=") => break,
            "(" | ";" => {
                return failure(
                    source,
                    word,
                    "a __shared__ variable of this form is not known; give its type a name",
                );
            }
            other => specifiers.push(other),
        }
        i += 1;
    }
    let mut variables = Vec::new();
    let Some(end) = (i..source.tokens.len()).find(|&at| source.at(at) == ";") else {
        return failure(source, word, "a declaration with __shared__ has no end");
    };
    for part in source.parts(i, end) {
        let name = part.start;
        let rest = source.between(name + 1, part.end);
        if !source.is_word(name) || !(rest.is_empty() || rest.starts_with('[')) || rest.contains('=') {
            return failure(
                source,
                name,
                "a __shared__ variable has an initial value or a form that is not known; set it in the kernel",
            );
        }
        variables.push((source.at(name), rest));
    }
    Ok(Declaration { specifiers: specifiers.join(" "), variables, is_extern, range: begin..end })
}

#[cfg(test)]
mod tests {
    use super::rewrite;
    use crate::edits::Edits;
    use crate::tokens::Source;

    fn made(text: &str) -> String {
        let source = Source::new(text.into());
        let mut edits = Edits::default();
        rewrite(&source, &mut edits, false).unwrap();
        edits.make(&source.text)
    }

    #[test]
    fn shared_variables_are_memory_of_the_block() {
        assert_eq!(
            made("void k() { __penny_shared__ float a[2][3], b; x; }"),
            "void k() { typedef float penny_shared_a[2][3]; static const char penny_key_a = 0; \
             penny_shared_a &a = ::penny_cuda::shared<penny_shared_a>(penny_key_a); typedef float penny_shared_b; \
             static const char penny_key_b = 0; penny_shared_b &b = ::penny_cuda::shared<penny_shared_b>(penny_key_b);  x; }"
        );
        assert_eq!(
            made("{ extern __penny_shared__ __attribute__((aligned(16))) A<int, 3> a[]; }"),
            "{ typedef __attribute__((aligned(16))) A < int, 3> penny_shared_a[]; \
             penny_shared_a &a = ::penny_cuda::dynamic_shared<penny_shared_a>();  }"
                .replace("A < int, 3>", "A <int, 3>")
        );
    }

    #[test]
    fn what_a_launch_gives_to_all_kernels_of_a_file_is_found_in_them() {
        assert_eq!(
            made("extern __penny_shared__ int s[]; void k() { s[1] = o.s; }"),
            "typedef int penny_shared_s[];  void k() { ::penny_cuda::dynamic_shared<penny_shared_s>()[1] = o.s; }"
        );
    }

    #[test]
    fn variables_of_devices_are_those_of_the_file() {
        assert_eq!(
            made("__penny_constant__ int a[3]; namespace n { __penny_device__ int b = 3; }"),
            "static int a[3]; namespace n { static int b = 3; }"
        );
        assert_eq!(
            made(
                "static __penny_constant__ int a; extern __penny_device__ int b; __penny_device__ static int c;"
            ),
            "static  int a; extern  int b;  static int c;"
        );
        assert_eq!(
            made(
                "__penny_device__ int f(int a); struct S { __penny_device__ int g(); __penny_device__ S() : x{1} {} };"
            ),
            " int f(int a); struct S {  int g();  S() : x{1} {} };"
        );
        assert_eq!(
            made("__penny_device__ __penny_managed__ int a; template <class T> __penny_device__ T b = 1;"),
            "static  int a; template <class T>  T b = 1;"
        );
    }

    #[test]
    fn what_cannot_be_is_told() {
        let told =
            |text: &str| rewrite(&Source::new(text.into()), &mut Edits::default(), false).unwrap_err().0;
        assert!(
            told("# 3 \"a.cu\"\n__penny_shared__ int a;")
                .starts_with("a.cu:3: a __shared__ variable stands outside")
        );
        assert!(told("{ __penny_shared__ int a = 3; }").contains("has an initial value"));
        assert!(told("{ __penny_shared__ int (*a)[3]; }").contains("of this form is not known"));
    }
}
