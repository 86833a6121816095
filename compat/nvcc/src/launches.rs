//! Launches: `kernel<<<grid, block, shared, stream>>>(arguments)` becomes
//! `(::penny_cuda::configure(grid, block, shared, stream) ? (void)0 : kernel(arguments))`.

use crate::edits::Edits;
use crate::rewrite::{Failure, failure};
use crate::tokens::Source;

/// Rewrites all launches.
pub fn rewrite(source: &Source, edits: &mut Edits) -> Result<(), Failure> {
    let mut i = 0;
    while i + 2 < source.tokens.len() {
        if is_opening(source, i) {
            i = launch(source, edits, i)?;
        }
        i += 1;
    }
    Ok(())
}

/// Does a launch's `<<<` begin here? `<< <` was written by tools that do not know it. Otherwise only `operator<< <T>` has these signs.
fn is_opening(source: &Source, i: usize) -> bool {
    (i..i + 3).all(|at| source.at(at) == "<")
        && source.is_joined(i)
        && i > 0
        && !matches!(source.at(i - 1), "operator" | "<")
}

/// Returns the last `>` of the launch whose configuration begins at `from`.
fn end(source: &Source, from: usize) -> Option<usize> {
    let mut i = from;
    while i + 3 < source.tokens.len() {
        match source.at(i) {
            "(" | "[" | "{" => i = source.closing(i)?,
            ">" if (i..i + 3).all(|at| source.at(at) == ">") && source.at(i + 3) == "(" => {
                return Some(i + 2);
            }
            ")" | "]" | "}" | ";" => return None,
            _ => {}
        }
        i += 1;
    }
    None
}

fn launch(source: &Source, edits: &mut Edits, open: usize) -> Result<usize, Failure> {
    let Some(close) = end(source, open + 3) else {
        return failure(source, open, "a launch <<< has no >>> with arguments behind it");
    };
    let Some(last) = source.closing(close + 1) else {
        return failure(source, open, "the arguments of a launch have no end");
    };
    let Some(first) = callee(source, open) else {
        return failure(source, open, "no kernel stands before <<<");
    };
    let parts = source.parts(open + 3, close - 2);
    if parts.len() < 2 || parts.len() > 4 {
        return failure(
            source,
            open,
            format!(
                "a launch has {} arguments between <<< and >>>; pass grid, block, shared memory, stream",
                parts.len()
            ),
        );
    }
    let configuration = source.between(open + 3, close - 2);
    let at = |i: usize| source.tokens[i].range.clone();
    edits.insert(at(first).start, format!("(::penny_cuda::configure({configuration}) ? (void)0 : "));
    edits.replace(at(open).start..at(close).end, "");
    edits.insert(at(last).end, ")");
    Ok(close)
}

/// Words that end an expression's beginning: what stands before a parenthesis is no function.
const STATEMENTS: [&str; 9] = ["if", "while", "for", "switch", "return", "else", "do", "case", "constexpr"];

/// Returns the first token of the expression that ends before `end`: a name with its scope and template arguments, an element, a
/// member, a call, or an expression in parentheses.
fn callee(source: &Source, end: usize) -> Option<usize> {
    let mut i = end.checked_sub(1)?;
    loop {
        match source.at(i) {
            ">" => i = source.opening_angle(i)?.checked_sub(1)?,
            ")" | "]" => {
                let open = source.opening(i)?;
                let Some(before) = open.checked_sub(1) else { return Some(open) };
                let is_call = (source.is_word(before) && !STATEMENTS.contains(&source.at(before)))
                    || matches!(source.at(before), "]" | ">");
                let is_group = source.at(i) == ")";
                if is_group && (!is_call || source.at(before) == ">" && !source.is_joined(before)) {
                    return Some(open);
                }
                i = before;
                continue;
            }
            _ => {}
        }
        if !source.is_word(i) {
            return None;
        }
        let Some(mut before) = i.checked_sub(1) else { return Some(i) };
        if source.at(before) == "template" {
            before = before.checked_sub(1)?;
        }
        match source.at(before) {
            "::" => {
                let scope = before.checked_sub(1);
                match scope {
                    Some(scope) if source.is_word(scope) && !STATEMENTS.contains(&source.at(scope)) => {
                        i = scope
                    }
                    Some(scope) if source.at(scope) == ">" => i = scope,
                    _ => return Some(before),
                }
            }
            "." | "->" => i = before.checked_sub(1)?,
            _ => return Some(i),
        }
    }
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

    fn becomes(callee: &str) {
        let launch = format!("x = 1; {callee}<<<g(1, 2), b>>>(a, 3); y;");
        let wanted = format!("x = 1; (::penny_cuda::configure(g(1, 2), b) ? (void)0 : {callee}(a, 3)); y;");
        assert_eq!(made(&launch), wanted);
    }

    #[test]
    fn every_form_of_a_kernel_is_found() {
        for callee in [
            "k",
            "ns::k",
            "::ns::k",
            "k<float>",
            "ns::k<A<B<int>>, (3 > 2)>",
            "A<int>::k<4>",
            "(k)",
            "table[i]",
            "this->fn",
            "o.t.fn",
            "o.template k<int>",
            "choose(a)[1]",
            "choose<int>(a)",
        ] {
            becomes(callee);
        }
    }

    #[test]
    fn what_stands_before_a_launch_stays() {
        assert_eq!(made("if (a) k<<<1, 2>>>();"), "if (a) (::penny_cuda::configure(1, 2) ? (void)0 : k());");
        assert_eq!(
            made("if (a > b) (k)<<<1, 2>>>();"),
            "if (a > b) (::penny_cuda::configure(1, 2) ? (void)0 : (k)());"
        );
        assert_eq!(made("else k<<<1, 2>>>();"), "else (::penny_cuda::configure(1, 2) ? (void)0 : k());");
        assert_eq!(made("{k<<<1, 2>>>();}"), "{(::penny_cuda::configure(1, 2) ? (void)0 : k());}");
        assert_eq!(
            made("return ::k<<<1, 2>>>();"),
            "return (::penny_cuda::configure(1, 2) ? (void)0 : ::k());"
        );
        assert_eq!(made("k<< <1, 2>> >(a);"), "(::penny_cuda::configure(1, 2) ? (void)0 : k(a));");
    }

    #[test]
    fn what_is_no_launch_stays() {
        for text in [
            "f(\"k<<<1, 2>>>(a)\");",
            "a.operator<<<int>(b);",
            "x << y; A<B<C<int>>> z(1);",
            "operator<< <char>(a)",
        ] {
            assert_eq!(made(text), text);
        }
    }

    #[test]
    fn a_launch_that_is_none_is_told_with_its_line() {
        for (text, told) in [
            ("# 7 \"a.cu\"\nk<<<1>>>(a);", "a.cu:7: a launch has 1 arguments"),
            ("# 7 \"a.cu\"\n\nk<<<1, 2;", "a.cu:8: a launch <<< has no >>>"),
            ("# 1 \"a.cu\"\n; <<<1, 2>>>(a)", "a.cu:1: no kernel stands before"),
        ] {
            let failure = rewrite(&Source::new(text.into()), &mut Edits::default()).unwrap_err();
            assert!(failure.0.starts_with(told), "{}", failure.0);
        }
    }
}
