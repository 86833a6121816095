//! Instructions of a device in `asm`: those that have a meaning on the host become code of it, the others are refused by their names.
//!
//! ```text
//!     asm volatile("red.global.add.u64 [%0], %1;" :: "l"(at), "l"(value) : "memory");
//!     { ::atomicAdd(penny_cuda::ptx_at<unsigned long long>(at), penny_cuda::ptx_get<unsigned long long>(value)); }
//! ```
//!
//! An `asm` whose first word is no instruction of a device is the host's and stays.

use crate::edits::Edits;
use crate::rewrite::{Failure, failure};
use crate::tokens::{Kind, Source};

/// Instructions of devices, up to their first dot.
const INSTRUCTIONS: [&str; 60] = [
    "abs",
    "activemask",
    "add",
    "addc",
    "and",
    "applypriority",
    "atom",
    "bar",
    "barrier",
    "bfe",
    "bfi",
    "bfind",
    "brev",
    "clz",
    "cp",
    "createpolicy",
    "cvt",
    "cvta",
    "discard",
    "div",
    "dp4a",
    "elect",
    "ex2",
    "exit",
    "fence",
    "fma",
    "fns",
    "griddepcontrol",
    "isspacep",
    "ld",
    "ldmatrix",
    "ldu",
    "lg2",
    "lop3",
    "mad",
    "mapa",
    "max",
    "mbarrier",
    "membar",
    "min",
    "mma",
    "mov",
    "mul",
    "multimem",
    "nanosleep",
    "neg",
    "popc",
    "prefetch",
    "prmt",
    "rcp",
    "red",
    "redux",
    "selp",
    "setp",
    "shf",
    "shfl",
    "st",
    "trap",
    "vote",
    "wgmma",
];

/// Rewrites the instructions of devices.
pub fn rewrite(source: &Source, edits: &mut Edits) -> Result<(), Failure> {
    let mut i = 0;
    while i < source.tokens.len() {
        if matches!(source.at(i), "asm" | "__asm__" | "__asm") {
            let mut open = i + 1;
            while matches!(source.at(open), "volatile" | "__volatile__" | "inline" | "goto") {
                open += 1;
            }
            if source.at(open) == "("
                && let Some(close) = source.closing(open)
                && let Some(text) = statement(source, open, close)?
            {
                edits.replace(source.tokens[i].range.start..source.tokens[close].range.end, text);
                i = close;
            }
        }
        i += 1;
    }
    Ok(())
}

/// Returns the text of an `asm`: the strings before its operands.
fn template(source: &Source, open: usize, close: usize) -> (String, usize) {
    let (mut text, mut i) = (String::new(), open + 1);
    while i < close && source.tokens[i].kind == Kind::Literal {
        let literal = source.at(i);
        let inside = literal.split_once('"').map_or("", |(_, rest)| rest.strip_suffix('"').unwrap_or(rest));
        text += &inside.replace("\\n", "\n").replace("\\t", " ").replace("\\r", "");
        i += 1;
    }
    (text, i)
}

/// Returns the expressions of the operands.
fn operands(source: &Source, from: usize, close: usize) -> Vec<String> {
    let (mut all, mut i, mut colons) = (Vec::new(), from, 0);
    while i < close && colons < 3 {
        match source.at(i) {
            ":" => colons += 1,
            "::" => colons += 2,
            "(" if colons < 3 => {
                let end = source.closing(i).unwrap_or(close);
                all.push(source.between(i, end + 1).to_owned());
                i = end;
            }
            _ => {}
        }
        i += 1;
    }
    all
}

/// Returns the host's code of an `asm`; `None`: it is the host's.
fn statement(source: &Source, open: usize, close: usize) -> Result<Option<String>, Failure> {
    let (text, behind) = template(source, open, close);
    let mut lines =
        text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    let Some(first) = lines.clone().next() else { return Ok(None) };
    let word = first.trim_start_matches(['{', ' ']).split([' ', '\t']).next().unwrap_or("");
    let name = word.split('.').next().unwrap_or("");
    let is_device = (INSTRUCTIONS.contains(&name) && (word.contains('.') || matches!(name, "trap" | "exit")))
        || word.starts_with('@')
        || word == ".reg";
    if !is_device {
        return Ok(None);
    }
    let operands = operands(source, behind, close);
    let mut made = String::from("{ ");
    lines.try_for_each(|line| match instruction(line, &operands) {
        Some(code) => {
            made += &code;
            made += "; ";
            Ok(())
        }
        None => failure(
            source,
            open,
            format!("the instruction \"{line}\" of a device has no meaning here; write C++ where PENNY_NVCC is defined"),
        ),
    })?;
    Ok(Some(made + "}"))
}

/// Returns the C++ type of a type of an instruction.
fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "u8" | "b8" => "unsigned char",
        "s8" => "signed char",
        "u16" | "b16" => "unsigned short",
        "s16" => "short",
        "u32" | "b32" => "unsigned int",
        "s32" => "int",
        "u64" | "b64" => "unsigned long long",
        "s64" => "long long",
        "f32" => "float",
        "f64" => "double",
        _ => return None,
    })
}

/// Returns the code of one instruction.
fn instruction(line: &str, operands: &[String]) -> Option<String> {
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let parts: Vec<&str> = word.split('.').collect();
    let arguments = arguments(rest, operands)?;
    let has = |part: &str| parts.contains(&part);
    let last = parts.last().copied().and_then(kind);
    let set = |to: &str, kind: &str, value: &str| format!("::penny_cuda::ptx_set<{kind}>({to}, {value})");
    match (parts[0], arguments.as_slice()) {
        ("red", [at, value]) => atomic(&parts, last?, at, std::slice::from_ref(value)),
        ("atom", [to, at, values @ ..]) if !values.is_empty() => {
            Some(set(to.one()?, last?, &atomic(&parts, last?, at, values)?))
        }
        ("ld" | "ldu", [to, at]) => {
            let load = |i: usize| {
                format!(
                    "::penny_cuda::ptx_load<{}>({}, {i})",
                    last.unwrap_or(""),
                    at.address().unwrap_or_default()
                )
            };
            at.address()?;
            Some(
                to.all()
                    .iter()
                    .enumerate()
                    .map(|(i, to)| set(to, last.unwrap_or(""), &load(i)))
                    .collect::<Vec<_>>()
                    .join(", "),
            )
            .filter(|_| last.is_some())
        }
        ("st", [at, from]) => {
            let (at, kind) = (at.address()?, last?);
            let store =
                |(i, value): (usize, &String)| format!("::penny_cuda::ptx_store<{kind}>({at}, {i}, {value})");
            Some(from.all().iter().enumerate().map(store).collect::<Vec<_>>().join(", "))
        }
        ("membar" | "fence", []) => Some("::__threadfence_system()".into()),
        ("bar", [mask]) if has("warp") => Some(format!("::__syncwarp({})", mask.one()?)),
        ("bar" | "barrier", [number]) if has("sync") && number.one()? == "0" => {
            Some("::__syncthreads()".into())
        }
        ("mov", [to, from]) => Some(set(to.one()?, last?, from.one()?)),
        ("nanosleep", [time]) => Some(format!("::__nanosleep({})", time.one()?)),
        ("activemask", [to]) => Some(set(to.one()?, "unsigned int", "::__activemask()")),
        ("prefetch" | "discard" | "applypriority", _) | ("griddepcontrol", []) => Some("(void)0".into()),
        ("trap", []) => Some("::__trap()".into()),
        _ => None,
    }
}

fn atomic(parts: &[&str], kind: &str, at: &Argument, values: &[Argument]) -> Option<String> {
    let function = parts.iter().find_map(|part| {
        Some(match *part {
            "add" => "atomicAdd",
            "and" => "atomicAnd",
            "or" => "atomicOr",
            "xor" => "atomicXor",
            "min" => "atomicMin",
            "max" => "atomicMax",
            "exch" => "atomicExch",
            "cas" => "atomicCAS",
            "inc" => "atomicInc",
            "dec" => "atomicDec",
            _ => return None,
        })
    })?;
    let values: Option<Vec<String>> = values
        .iter()
        .map(|value| Some(format!(", ::penny_cuda::ptx_get<{kind}>({})", value.one()?)))
        .collect();
    Some(format!("::{function}(::penny_cuda::ptx_at<{kind}>({}){})", at.address()?, values?.concat()))
}

/// An operand of an instruction: expressions, or an address.
struct Argument {
    values: Vec<String>,
    is_address: bool,
}

impl Argument {
    fn one(&self) -> Option<&str> {
        match self.values.as_slice() {
            [one] if !self.is_address => Some(one),
            _ => None,
        }
    }

    fn all(&self) -> &[String] {
        if self.is_address { &[] } else { &self.values }
    }

    fn address(&self) -> Option<&str> {
        self.values.first().map(String::as_str).filter(|_| self.is_address)
    }
}

/// Returns the value of a name that begins with `%` or is a number.
fn value(text: &str, operands: &[String]) -> Option<String> {
    if let Some(register) = text.strip_prefix("%%") {
        return Some(
            match register {
                "laneid" => "(::penny_cuda::thread_number() % 32u)",
                "warpid" => "(::penny_cuda::thread_number() / 32u)",
                "smid" => "0u",
                "nsmid" => "1u",
                "clock" => "(unsigned int)::clock64()",
                "clock64" => "(unsigned long long)::clock64()",
                "globaltimer" => "::penny_cuda::global_timer()",
                "tid.x" => "threadIdx.x",
                "tid.y" => "threadIdx.y",
                "tid.z" => "threadIdx.z",
                "ctaid.x" => "blockIdx.x",
                "ctaid.y" => "blockIdx.y",
                "ctaid.z" => "blockIdx.z",
                "ntid.x" => "blockDim.x",
                "ntid.y" => "blockDim.y",
                "ntid.z" => "blockDim.z",
                "nctaid.x" => "gridDim.x",
                "nctaid.y" => "gridDim.y",
                "nctaid.z" => "gridDim.z",
                "lanemask_lt" => "((1u << ::penny_cuda::thread_number() % 32u) - 1u)",
                _ => return None,
            }
            .into(),
        );
    }
    match text.strip_prefix('%') {
        Some(number) => operands.get(number.parse::<usize>().ok()?).cloned(),
        None => text.parse::<i64>().ok().map(|number| number.to_string()),
    }
}

fn arguments(text: &str, operands: &[String]) -> Option<Vec<Argument>> {
    let (mut all, mut rest) = (Vec::new(), text.trim());
    while !rest.is_empty() {
        let (close, is_address) = match rest.as_bytes()[0] {
            b'[' => (rest.find(']')?, true),
            b'{' => (rest.find('}')?, false),
            _ => (rest.find(',').unwrap_or(rest.len()), false),
        };
        let is_enclosed = matches!(rest.as_bytes()[0], b'[' | b'{');
        let inside = &rest[usize::from(is_enclosed)..close];
        let values = match inside.split_once('+').filter(|_| is_address) {
            Some((base, offset)) => {
                let (base, offset) = (value(base.trim(), operands)?, value(offset.trim(), operands)?);
                vec![format!("(const char *){base} + {offset}")]
            }
            None => inside.split(',').map(|one| value(one.trim(), operands)).collect::<Option<Vec<_>>>()?,
        };
        all.push(Argument { values, is_address });
        rest = rest[close..].trim_start_matches([']', '}']).trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::rewrite;
    use crate::edits::Edits;
    use crate::tokens::Source;

    fn made(text: &str) -> Result<String, String> {
        let source = Source::new(text.into());
        let mut edits = Edits::default();
        rewrite(&source, &mut edits).map_err(|failure| failure.0)?;
        Ok(edits.make(&source.text))
    }

    #[test]
    fn instructions_with_a_meaning_become_code() {
        assert_eq!(
            made("asm volatile(\"red.global.add.u64 [%0],%1;\" :: \"l\"(at), \"l\"(n + 1) : \"memory\");")
                .unwrap(),
            "{ ::atomicAdd(::penny_cuda::ptx_at<unsigned long long>((at)), ::penny_cuda::ptx_get<unsigned long long>((n + 1))); };"
        );
        assert_eq!(
            made("asm(\"ld.volatile.global.v2.u32 {%0,%1}, [%2+8];\" : \"=r\"(a), \"=r\"(b) : \"l\"(p));")
                .unwrap(),
            "{ ::penny_cuda::ptx_set<unsigned int>((a), ::penny_cuda::ptx_load<unsigned int>((const char *)(p) + 8, 0)), \
             ::penny_cuda::ptx_set<unsigned int>((b), ::penny_cuda::ptx_load<unsigned int>((const char *)(p) + 8, 1)); };"
        );
        assert_eq!(
            made("asm volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(lane));").unwrap(),
            "{ ::penny_cuda::ptx_set<unsigned int>((lane), (::penny_cuda::thread_number() % 32u)); };"
        );
        assert_eq!(
            made("asm(\"bar.sync 0;\" \"membar.gl;\");").unwrap(),
            "{ ::__syncthreads(); ::__threadfence_system(); };"
        );
    }

    #[test]
    fn instructions_of_the_host_stay() {
        for text in [
            "asm volatile(\"pause\" ::: \"memory\");",
            "__asm__(\"add %1, %0\" : \"+r\"(a) : \"r\"(b));",
            "int f() asm(\"g\");",
            "asm(\"rep; nop\");",
        ] {
            assert_eq!(made(text).unwrap(), text);
        }
    }

    #[test]
    fn other_instructions_of_a_device_are_refused() {
        let told = made("# 3 \"a.cu\"\nasm(\"mma.sync.aligned.m16n8k16 %0, %1;\" : \"=r\"(a) : \"r\"(b));")
            .unwrap_err();
        assert!(told.starts_with("a.cu:3: the instruction \"mma.sync.aligned.m16n8k16 %0, %1\""), "{told}");
        assert!(made("asm(\"{ .reg .u32 x; mov.u32 x, %1; }\" : \"=r\"(a) : \"r\"(b));").is_err());
    }
}
