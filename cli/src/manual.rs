//! `penny completions` and `penny man`: what shells and `man` need to know of the command line, made from the command line itself.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use penny::sim::{algorithms, topology};

use crate::answer;

/// The options of `penny completions`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  penny completions bash > ~/.local/share/bash-completion/completions/penny
  penny completions zsh > ~/.zfunc/_penny                         with fpath+=~/.zfunc before compinit in ~/.zshrc
  penny completions fish > ~/.config/fish/completions/penny.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// The options of `penny man`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  penny man -o ~/.local/share/man/man1 && man penny-perf
  penny man | man -l -")]
pub struct Man {
    /// Write all pages to this folder, penny.1, penny-run.1 and so on; unset: print that of `penny`
    #[arg(short = 'o', long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Prints the completions.
pub fn completions(args: &Completions, command: Command) -> Result<ExitCode, String> {
    answer::print(&script(args.shell, command))
}

/// Returns the completions of a shell.
fn script(shell: Shell, command: Command) -> String {
    let mut text = Vec::new();
    let mut command = with_names(without_hidden(command));
    clap_complete::generate(shell, &mut command, "penny", &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if shell == Shell::Fish {
        text += &fish_positionals(&command, "");
    }
    with_files(shell, &text)
}

/// Names machines for `--fabric` and algorithms for `--algorithm`. To read a command line these are any text: a machine may be a
/// file, or a preset with arguments, and algorithms may be several.
fn with_names(command: Command) -> Command {
    let named = |arg: Arg| match arg.get_id().as_str() {
        "fabric" | "machine" => arg.value_parser(PossibleValuesParser::new(machines())),
        "algorithm" | "algorithms" => {
            let all = algorithms::ALL.iter().map(|algorithm| algorithm.name);
            arg.value_parser(PossibleValuesParser::new(all.chain(["auto", "all"])))
        }
        _ => arg,
    };
    command.mut_args(named).mut_subcommands(with_names)
}

fn machines() -> impl Iterator<Item = &'static str> {
    topology::presets().iter().map(|(name, _)| *name)
}

/// Lets files be completed where machines are: `clap_complete` has either words or files.
fn with_files(shell: Shell, text: &str) -> String {
    let words = machines().collect::<Vec<_>>().join(" ");
    match shell {
        Shell::Bash => {
            text.replace(&format!("compgen -W \"{words}\""), &format!("compgen -f -W \"{words}\""))
        }
        Shell::Zsh => {
            let both = format!(
                "_penny_machines() {{\n    _alternative 'machines:machine:({words})' 'files:file:_files'\n}}\n\n"
            );
            let text = text.replace(&format!(":({words})'"), ":_penny_machines'");
            text.replacen("if [ \"$funcstack", &(both + "if [ \"$funcstack"), 1)
        }
        Shell::Fish => text.lines().map(|line| with_files_of_fish(line) + "\n").collect(),
        _ => text.to_owned(),
    }
}

fn with_files_of_fish(line: &str) -> String {
    let names_machines = machines().next().is_some_and(|first| line.contains(&format!("-f -a \"{first}")));
    if names_machines { line.replace(" -f -a ", " -F -a ") } else { line.to_owned() }
}

/// Returns what `clap_complete` leaves out for fish: the words of arguments that have no name, such as the collective. `outer`: the
/// command that these subcommands are of, if it is not `penny`.
fn fish_positionals(command: &Command, outer: &str) -> String {
    let mut text = String::new();
    for inner in command.get_subcommands() {
        let name = inner.get_name();
        let words: Vec<String> = inner
            .get_positionals()
            .flat_map(Arg::get_possible_values)
            .filter(|word| !word.is_hide_set())
            .map(|word| word.get_name().to_owned())
            .collect();
        if outer.is_empty() {
            text += &fish_positionals(inner, name);
        }
        if words.is_empty() {
            continue;
        }
        let others: Vec<&str> = inner.get_subcommands().map(Command::get_name).collect();
        let here = match outer {
            "" => format!("__fish_penny_using_subcommand {name}"),
            outer => format!("__fish_penny_using_subcommand {outer}; and __fish_seen_subcommand_from {name}"),
        };
        let words = words.join(" ");
        text += &format!(
            "complete -c penny -n \"{here}; and not __fish_seen_subcommand_from {}\" -f -a \"{words}\"\n",
            [&others.join(" "), &words].map(String::as_str).join(" ").trim(),
        );
    }
    text
}

/// Prints or writes the pages.
pub fn man(args: &Man, command: Command) -> Result<ExitCode, String> {
    let mut command = without_hidden(command).disable_help_subcommand(true);
    command.build();
    let Some(folder) = &args.output else {
        return answer::print(&page(&command)?);
    };
    std::fs::create_dir_all(folder).map_err(|e| format!("--output {}: {e}", folder.display()))?;
    write(folder, &command)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command, and those of its subcommands.
fn write(folder: &std::path::Path, command: &Command) -> Result<(), String> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = folder.join(format!("{name}.1"));
    std::fs::write(&file, page(command)?).map_err(|e| format!("--output {}: {e}", file.display()))?;
    command.get_subcommands().try_for_each(|inner| write(folder, inner))
}

fn page(command: &Command) -> Result<String, String> {
    let page = clap_mangen::Man::new(command.clone());
    // An empty date would leave its place to the name.
    let page = page.date(" ").source(concat!("penny ", env!("CARGO_PKG_VERSION"))).manual("Penny");
    let mut text = Vec::new();
    page.render(&mut text).map_err(|e| e.to_string())?;
    Ok(laid_out(&String::from_utf8_lossy(&text)))
}

/// Gives what is below the options a name, and keeps lines of examples, which begin with spaces, as they are.
fn laid_out(text: &str) -> String {
    let mut page = String::new();
    let mut is_kept = false;
    for line in text.lines() {
        if line.starts_with("  ") != is_kept {
            is_kept = !is_kept;
            page += if is_kept { ".nf\n" } else { ".fi\n" };
        }
        page += if line == ".SH EXTRA" { ".SH NOTES" } else { line };
        page.push('\n');
    }
    page
}

/// Returns the command without the subcommands that it starts for itself.
fn without_hidden(command: Command) -> Command {
    let shown: Vec<Command> =
        command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    let bare = Command::new("penny").version(env!("CARGO_PKG_VERSION"));
    let about = command.get_about().cloned().unwrap_or_default();
    bare.about(about).arg_required_else_help(true).subcommand_required(true).subcommands(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn completions_know_the_words_of_arguments() {
        let mut text = Vec::new();
        clap_complete::generate(Shell::Bash, &mut crate::Penny::command(), "penny", &mut text);
        let text = String::from_utf8_lossy(&text);
        for word in ["reduce_scatter", "bfloat16", "logical_xor", "registered", "cores"] {
            assert!(text.split_ascii_whitespace().any(|part| part.trim_matches('"') == word), "{word}");
        }
    }

    #[test]
    fn fish_knows_the_collectives() {
        let text = script(Shell::Fish, crate::Penny::command());
        for command in ["perf", "sim", "plan"] {
            let of_it = format!("using_subcommand {command};");
            let line = text
                .lines()
                .find(|line| line.contains(&of_it) && line.contains("-a \"all_reduce "))
                .unwrap_or_else(|| panic!("{command}: {text}"));
            assert!(line.contains(" -f "), "{line}");
        }
        assert!(text.contains("not __fish_seen_subcommand_from link exchange shmem"), "{text}");
    }

    #[test]
    fn machines_are_completed_beside_files_and_algorithms_by_their_names() {
        let command = crate::Penny::command;
        let bash = script(Shell::Bash, command());
        assert!(bash.contains("compgen -f -W \"dgx-h100 ") && !bash.contains("compgen -W \"dgx-h100 "));
        let zsh = script(Shell::Zsh, command());
        assert!(zsh.contains(":MACHINE:_penny_machines'") && !zsh.contains("MACHINE:(dgx-h100 "), "{zsh}");
        assert!(zsh.contains("_penny_machines() {\n    _alternative 'machines:machine:(dgx-h100 "), "{zsh}");
        let fish = script(Shell::Fish, command());
        assert!(fish.contains("-F -a \"dgx-h100") && !fish.contains("-f -a \"dgx-h100"), "{fish}");
        assert!(
            fish.contains("using_subcommand topo; and __fish_seen_subcommand_from show; and not"),
            "{fish}"
        );
        for text in [bash, zsh, fish] {
            assert!(text.contains("two_shot") && text.contains("rail_trees"), "{text}");
        }
    }

    #[test]
    fn lines_of_examples_stay_lines() {
        let page = laid_out(".SH EXTRA\nExamples:\n  penny top\n  penny man\nand more\n");
        assert_eq!(page, ".SH NOTES\nExamples:\n.nf\n  penny top\n  penny man\n.fi\nand more\n");
    }
}
