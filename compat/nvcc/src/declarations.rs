//! The names that a declaration gives: of parameters of functions and of templates.

use std::ops::Range;

use crate::tokens::Source;

/// Words that are types or belong to one, so they are no names.
const TYPES: [&str; 32] = [
    "void",
    "bool",
    "char",
    "short",
    "int",
    "long",
    "float",
    "double",
    "signed",
    "unsigned",
    "const",
    "volatile",
    "struct",
    "class",
    "union",
    "enum",
    "typename",
    "auto",
    "register",
    "wchar_t",
    "char16_t",
    "char32_t",
    "char8_t",
    "__restrict__",
    "__restrict",
    "restrict",
    "__int128",
    "_Bool",
    "__volatile__",
    "__const",
    "__signed__",
    "decltype",
];
/// Words that do not make a type alone.
const HALF: [&str; 13] = [
    "const",
    "volatile",
    "struct",
    "class",
    "union",
    "enum",
    "typename",
    "register",
    "__restrict__",
    "__restrict",
    "restrict",
    "__volatile__",
    "__const",
];

/// A parameter: its tokens without a default, and its name.
pub struct Parameter {
    pub tokens: Range<usize>,
    /// The token that is its name; `None`: it has none.
    pub name: Option<usize>,
    /// The token before which a name may be put.
    pub place: usize,
    /// Does it stand for any number of parameters?
    pub is_pack: bool,
}

/// Returns the parameters of a template.
pub fn of_template(source: &Source, from: usize, to: usize) -> Vec<Parameter> {
    let parts = source.parts(from, to).into_iter();
    // `class T` has a type in it, in contrast to a function's `class T`.
    parts.map(|part| parameter(source, part, &["class", "typename"])).collect()
}

/// Returns the parameters of a function.
pub fn of_function(source: &Source, from: usize, to: usize) -> Vec<Parameter> {
    let parts = source.parts(from, to);
    if let [only] = parts.as_slice()
        && source.between(only.start, only.end) == "void"
    {
        return Vec::new();
    }
    parts.into_iter().map(|part| parameter(source, part, &[])).collect()
}

fn parameter(source: &Source, part: Range<usize>, whole: &[&str]) -> Parameter {
    let mut end = part.end;
    let (mut name, mut place, mut types, mut is_pack) = (None, None, 0, false);
    let mut i = part.start;
    while i < part.end {
        match source.at(i) {
            "=" => {
                end = i;
                break;
            }
            "<" => {
                i = source.closing_angle(i).filter(|&close| close < part.end).unwrap_or(i);
                // What has template arguments is a type.
                name = None;
            }
            // A pointer to a function or a reference to an array: `type (*name)(...)`.
            "(" if matches!(source.at(i + 1), "*" | "&") => {
                let close = source.closing(i).unwrap_or(part.end);
                name = (i..close).rev().find(|&at| source.is_word(at) && !TYPES.contains(&source.at(at)));
                place = Some(close);
                i = close;
            }
            // An attribute or the type of an expression.
            "(" => i = source.closing(i).unwrap_or(part.end),
            "[" => {
                place = place.or(Some(i));
                i = source.closing(i).unwrap_or(part.end);
            }
            "..." => is_pack = true,
            "__attribute__" | "alignas" => i += 1,
            word if source.is_word(i) => {
                if name.is_some() && place.is_none() {
                    types += 1;
                }
                let is_name = !TYPES.contains(&word) && source.at(i.wrapping_sub(1)) != "::";
                if place.is_none() {
                    name = is_name.then_some(i);
                    types += usize::from(!is_name && (!HALF.contains(&word) || whole.contains(&word)));
                }
            }
            _ => {}
        }
        i += 1;
    }
    // A single word is a type, unless another stands before it.
    let has_type = name.is_some_and(|name| {
        types > 0
            || (part.start..name).any(|at| matches!(source.at(at), ">" | ")") || source.at(at) == "auto")
    });
    let is_pointer =
        name.is_some_and(|name| place.is_some_and(|place| name < place && source.at(place) == ")"));
    Parameter {
        tokens: part.start..end,
        name: name.filter(|_| has_type || is_pointer),
        place: place.unwrap_or(end),
        is_pack,
    }
}

#[cfg(test)]
mod tests {
    use super::{Parameter, of_function, of_template};
    use crate::tokens::Source;

    fn names_of(text: &str, read: impl Fn(&Source, usize, usize) -> Vec<Parameter>) -> Vec<String> {
        let source = Source::new(format!("{text} ;"));
        let end = source.tokens.len() - 1;
        let name = |name: Option<usize>| name.map_or("-".into(), |name| source.at(name).to_owned());
        let all = read(&source, 0, end);
        all.iter().map(|one| name(one.name) + if one.is_pack { "..." } else { "" }).collect()
    }

    fn names(text: &str) -> Vec<String> {
        names_of(text, of_function)
    }

    #[test]
    fn parameters_of_functions_have_names_or_none() {
        assert_eq!(names("T *a, const float* __restrict__ b, int n = f(1, 2)"), ["a", "b", "n"]);
        assert_eq!(names("int, Foo, const Foo, struct Foo, a::B, unsigned long, T *"), ["-"; 7]);
        assert_eq!(
            names("Foo x, const Foo x, struct Foo x, a::B x, unsigned x, T const *x, a::b<c, d> x"),
            ["x"; 7]
        );
        assert_eq!(names("int x[3], void (*x)(int, Foo), T (&x)[4], std::array<T, N> x"), ["x"; 4]);
        assert_eq!(names("int [3], std::vector<int>, typename T::type, int (*)(int)"), ["-"; 4]);
        assert_eq!(names("A... a, B..., const A &...c"), ["a...", "-...", "c..."]);
        assert_eq!(names("void"), [""; 0]);
        assert_eq!(names("__attribute__((aligned(8))) int x, decltype(y) z, auto w"), ["x", "z", "w"]);
    }

    #[test]
    fn parameters_of_templates_have_names_or_none() {
        let names = |text| names_of(text, of_template);
        assert_eq!(names("class T, typename U = int, int N = (3 > 2), bool"), ["T", "U", "N", "-"]);
        assert_eq!(
            names("class, template <class> class C, typename... A, std::enable_if_t<(N > 1), int> = 0"),
            ["-", "C", "A...", "-"]
        );
    }
}
