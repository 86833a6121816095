//! Kernels: a function with `__global__` hands its arguments to the runtime, and its body becomes what a thread runs.
//!
//! ```text
//!     template <class T> __global__ void fill(T *at, T value) { BODY }
//!
//!     template <class T> void fill(T *at, T value) {
//!         auto penny_body = [](T *at, T value) -> void { BODY };
//!         ::penny_cuda::Kernel<void (*)(plain<decltype(at)>, plain<decltype(value)>), &fill<T>, decltype(penny_body)>::launch(at, value);
//!     }
//! ```

use crate::declarations::{Parameter, of_function, of_template};
use crate::edits::Edits;
use crate::rewrite::{Failure, failure};
use crate::tokens::Source;

/// What `__global__` is behind the headers.
pub const GLOBAL: &str = "__penny_global__";

/// Rewrites all kernels.
pub fn rewrite(source: &Source, edits: &mut Edits) -> Result<(), Failure> {
    for i in 0..source.tokens.len() {
        // libstdc++ writes __attribute__((__noinline__)), so this is no macro of the headers.
        if source.at(i) == "__noinline__" && !matches!(source.at(i.wrapping_sub(1)), "(" | ",") {
            edits.replace(source.tokens[i].range.clone(), "__attribute__((noinline))");
        }
        if source.at(i) == GLOBAL {
            edits.replace(source.tokens[i].range.clone(), "");
            if let Some(head) = Head::after(source, i)? {
                define(source, edits, i, &head)?;
            }
        }
    }
    Ok(())
}

/// The head of a kernel's definition.
struct Head {
    /// The first token of its name, and the token behind it and its template arguments.
    name: (usize, usize),
    /// The parentheses of its parameters.
    open: usize,
    close: usize,
    /// The braces of its body.
    begin: usize,
    end: usize,
}

impl Head {
    /// Reads the head behind a `__global__`. `None`: it defines nothing.
    fn after(source: &Source, global: usize) -> Result<Option<Head>, Failure> {
        let mut i = global + 1;
        let name = loop {
            match source.at(i) {
                "__attribute__" | "alignas" | "decltype" => {
                    i = source.closing(i + 1).unwrap_or(source.tokens.len());
                }
                "[" => i = source.closing(i).unwrap_or(source.tokens.len()),
                "<" => i = source.closing_angle(i).unwrap_or(i),
                "(" => break i,
                "" | ";" | "{" | "}" | "=" => return Ok(None),
                _ => {}
            }
            i += 1;
        };
        let open = name;
        let first = match source.at(open - 1) {
            ">" => source.opening_angle(open - 1).and_then(|angle| angle.checked_sub(1)),
            _ => open.checked_sub(1),
        };
        let Some(first) =
            first.filter(|&first| first > global && source.is_word(first) && source.at(first) != "void")
        else {
            return Ok(None);
        };
        let Some(close) = source.closing(open) else {
            return failure(source, open, "the parameters of a kernel have no end");
        };
        let mut begin = close + 1;
        while !matches!(source.at(begin), "{" | ";" | "" | ",") {
            begin =
                if source.at(begin) == "(" { source.closing(begin).unwrap_or(begin) + 1 } else { begin + 1 };
        }
        if source.at(begin) != "{" {
            return Ok(None);
        }
        let Some(end) = source.closing(begin) else {
            return failure(source, begin, "the body of a kernel has no end");
        };
        Ok(Some(Head { name: (first, open), open, close, begin, end }))
    }
}

/// Returns the brackets of the template parameters of the declaration that a token belongs to.
fn template(source: &Source, of: usize) -> Option<(usize, usize)> {
    let mut i = of.checked_sub(1)?;
    loop {
        match source.at(i) {
            ";" | "{" | "}" | ":" => return None,
            ")" | "]" => i = source.opening(i)?,
            ">" => {
                let open = source.opening_angle(i)?;
                if open > 0 && source.at(open - 1) == "template" {
                    return Some((open, i));
                }
                i = open;
            }
            _ => {}
        }
        i = i.checked_sub(1)?;
    }
}

fn define(source: &Source, edits: &mut Edits, global: usize, head: &Head) -> Result<(), Failure> {
    let values = of_function(source, head.open + 1, head.close);
    let names = named(source, edits, &values, "penny_argument")?;
    let name = source.between(head.name.0, head.name.1);
    let mut own = name.to_owned();
    if let Some((open, close)) = template(source, global)
        && !name.contains('<')
        && close > open + 1
    {
        let types = of_template(source, open + 1, close);
        let arguments = named(source, edits, &types, "PennyParameter")?;
        let arguments: Vec<String> =
            arguments.iter().zip(&types).map(|(name, one)| name.clone() + dots(one)).collect();
        own = format!("{name}<{}>", arguments.join(", "));
    }
    let declared: Vec<&str> =
        values.iter().map(|one| source.between(one.tokens.start, one.tokens.end)).collect();
    // A parameter with the kernel's name hides it, so it has another one outside of the body.
    let outer = |(number, (one, inner)): (usize, (&Parameter, &String))| match one.name {
        Some(token) if inner == name => {
            let other = format!("penny_argument_{number}");
            edits.replace(source.tokens[token].range.clone(), other.clone());
            other
        }
        _ => inner.clone(),
    };
    let outer: Vec<String> = values.iter().zip(&names).enumerate().map(outer).collect();
    let named: Vec<_> = outer.iter().zip(&values).collect();
    let types: Vec<String> = named
        .iter()
        .map(|(name, one)| format!("::penny_cuda::plain<decltype({name})>{}", dots(one)))
        .collect();
    let passed: Vec<String> = named.iter().map(|(name, one)| format!("{name}{}", dots(one))).collect();
    let at = |i: usize| source.tokens[i].range.clone();
    edits.insert(at(head.begin).end, format!(" auto penny_body = []({}) -> void {{", declared.join(", ")));
    edits.insert(
        at(head.end).start,
        format!(
            "}}; ::penny_cuda::Kernel<void (*)({}), &{own}, decltype(penny_body)>::launch({}); ",
            types.join(", "),
            passed.join(", ")
        ),
    );
    Ok(())
}

fn dots(parameter: &Parameter) -> &'static str {
    if parameter.is_pack { "..." } else { "" }
}

/// Returns the names of parameters; those without one get one.
fn named(
    source: &Source,
    edits: &mut Edits,
    parameters: &[Parameter],
    prefix: &str,
) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for (number, one) in parameters.iter().enumerate() {
        names.push(match one.name {
            Some(name) => source.at(name).to_owned(),
            None => {
                let name = format!("{prefix}_{number}");
                let Some(token) = source.tokens.get(one.place) else {
                    return failure(source, one.tokens.start, "a parameter of a kernel has no end");
                };
                edits.insert(token.range.start, format!(" {name}"));
                name
            }
        });
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::rewrite;
    use crate::edits::Edits;
    use crate::tokens::Source;

    fn made(text: &str) -> String {
        let source = Source::new(text.into());
        let mut edits = Edits::default();
        rewrite(&source, &mut edits).unwrap();
        edits.make(&source.text)
    }

    #[test]
    fn a_body_becomes_what_a_thread_runs() {
        assert_eq!(
            made("static __penny_global__ void __attribute__((noinline)) k(int *a, int n = 3) { x; }"),
            "static  void __attribute__((noinline)) k(int *a, int n = 3) { auto penny_body = [](int *a, int n) -> void { x; }; \
             ::penny_cuda::Kernel<void (*)(::penny_cuda::plain<decltype(a)>, ::penny_cuda::plain<decltype(n)>), &k, \
             decltype(penny_body)>::launch(a, n); }"
        );
    }

    #[test]
    fn a_parameter_with_the_name_of_the_kernel_does_not_hide_it() {
        let text = made("__penny_global__ void k(int *k, int n) { *k = n; }");
        assert!(text.contains("void k(int *penny_argument_0, int n) { auto penny_body = [](int *k, int n) -> void { *k = n; }"), "{text}");
        assert!(text.contains("&k, ") && text.contains("::launch(penny_argument_0, n)"), "{text}");
    }

    #[test]
    fn a_template_names_its_own_instance() {
        let text = made("template <class T, int N = 2, class... A> __penny_global__ void k(T a, A... r) {}");
        assert!(text.contains("&k<T, N, A...>") && text.contains("::launch(a, r...)"), "{text}");
        let text = made("template <class T, int> inline __penny_global__ void k(T, int) {}");
        assert!(
            text.starts_with("template <class T, int PennyParameter_1>")
                && text.contains("&k<T, PennyParameter_1>"),
            "{text}"
        );
        assert!(text.contains("void k(T penny_argument_0, int penny_argument_1) {"), "{text}");
        let text = made("template <> __penny_global__ void k<int, 3>(int *a) {}");
        assert!(text.contains("&k<int, 3>, "), "{text}");
    }

    #[test]
    fn a_declaration_stays() {
        assert_eq!(made("__penny_global__ void k(int); int x;"), " void k(int); int x;");
        assert_eq!(made("template __penny_global__ void k<int>(int);"), "template  void k<int>(int);");
        assert_eq!(made("typedef __penny_global__ void (*f)(int);"), "typedef  void (*f)(int);");
    }
}
