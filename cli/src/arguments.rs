//! Reading the command line: negative numbers are values, and what is wrong with a number is said in words.

use clap::error::ErrorKind;
use clap::{Command, Error, FromArgMatches};

use crate::answer;

/// Reads the arguments of this process, or ends it with what is wrong with them.
pub fn read<T: FromArgMatches>(command: Command) -> T {
    let mut command = with_negative_numbers(command);
    let read = command.try_get_matches_from_mut(std::env::args_os());
    let read = read.and_then(|matches| T::from_arg_matches(&matches).map_err(|e| e.format(&mut command)));
    read.unwrap_or_else(|error| end(&error))
}

/// Lets options take negative numbers, so that the option can say which numbers there are. To clap they are options that it does not know.
fn with_negative_numbers(command: Command) -> Command {
    let named = |arg: clap::Arg| match !arg.is_positional() && arg.get_action().takes_values() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    };
    command.mut_args(named).mut_subcommands(with_negative_numbers)
}

fn end(error: &Error) -> ! {
    let text = error.render().to_string();
    let plain = match error.kind() {
        ErrorKind::ValueValidation => in_words(&text),
        ErrorKind::MissingRequiredArgument => with_place_of_ranks(&text, std::env::args()),
        ErrorKind::UnknownArgument => as_in_nccl_tests(&text),
        _ => text.clone(),
    };
    // Help and version are answers; with colours where they go to a terminal.
    if !error.use_stderr() {
        match error.print() {
            Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
                answer::tell(format_args!("penny: cannot write: {why}"));
                std::process::exit(1);
            }
            _ => std::process::exit(error.exit_code()),
        }
    }
    if plain == text {
        error.exit();
    }
    answer::tell(plain.trim_end());
    std::process::exit(error.exit_code());
}

/// Says where -n stands, if it was taken for the program's: `penny run ./program -n 2`.
fn with_place_of_ranks(text: &str, mut line: impl Iterator<Item = String>) -> String {
    let mut is_there = || line.any(|word| word == "-n" || word == "-np" || word.starts_with("--ranks"));
    match text.contains("--ranks <N>") && is_there() {
        true => text.replacen(
            "\n\nUsage",
            "\n\n  tip: -n stands before the program: penny run -n 2 ./program\n\nUsage",
            1,
        ),
        false => text.to_owned(),
    }
}

/// Says which option is meant by those of nccl-tests that number devices and threads of a process.
fn as_in_nccl_tests(text: &str) -> String {
    ["-g", "-t"].iter().fold(text.to_owned(), |text, option| {
        text.replace(
            &format!("to pass '{option}' as a value, use '-- {option}'"),
            "each rank is a process here: -n is their number, what -g times -t is in nccl-tests",
        )
    })
}

/// Says what Rust's parsers say of numbers in words of the command line.
fn in_words(text: &str) -> String {
    let text = text
        .replace("invalid digit found in string", "not a whole number")
        .replace("cannot parse integer from empty string", "not a whole number")
        .replace("number too large to fit in target type", "too large a number");
    let Some((before, range)) = text.split_once(" is not in ") else { return text };
    let (range, after) = range.split_once('\n').unwrap_or((range, ""));
    let Some((least, most)) = range.split_once("..") else { return text };
    let most = most.trim_start_matches('=');
    let is_open = most.is_empty()
        || [u64::from(u32::MAX), i64::MAX as u64, u64::MAX].iter().any(|end| end.to_string() == most);
    // The value stands before it, which the sentence has already.
    let before = before.rsplit_once(' ').map_or("", |(before, _)| before);
    match is_open {
        true => format!("{before} it takes {least} or more\n{after}"),
        false => format!("{before} it takes {least} to {most}\n{after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_digits_are_told_in_words() {
        let of =
            |why: &str| in_words(&format!("error: invalid value '0' for '--iters <COUNT>': {why}\n\nmore\n"));
        let told = |why: &str| format!("error: invalid value '0' for '--iters <COUNT>': {why}\n\nmore\n");
        assert_eq!(of("0 is not in 1..=4294967295"), told("it takes 1 or more"));
        assert_eq!(of("0 is not in 1.."), told("it takes 1 or more"));
        assert_eq!(of("0 is not in 1..=3600"), told("it takes 1 to 3600"));
        assert_eq!(of("invalid digit found in string"), told("not a whole number"));
        assert_eq!(of("not a size"), told("not a size"));
    }
}
