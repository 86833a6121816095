//! A command that either takes arguments itself or has a subcommand.

use clap::{ArgMatches, Command, Error};

/// A command's own arguments, or one of its subcommands.
///
/// It is written by hand, because the derived form cannot drop the arguments that a subcommand makes unnecessary.
pub enum ArgsOr<A, S> {
    Args(A),
    Subcommand(S),
}

impl<A: clap::Args, S: clap::Subcommand> clap::Args for ArgsOr<A, S> {
    fn augment_args(command: Command) -> Command {
        S::augment_subcommands(A::augment_args(command))
            .subcommand_required(false)
            .arg_required_else_help(false)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
    }
    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<A: clap::Args, S: clap::Subcommand> clap::FromArgMatches for ArgsOr<A, S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        match matches.subcommand() {
            Some(_) => S::from_arg_matches(matches).map(ArgsOr::Subcommand),
            None => A::from_arg_matches(matches).map(ArgsOr::Args),
        }
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
