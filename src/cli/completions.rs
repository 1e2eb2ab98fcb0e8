//! `punctual completions`: what a shell needs to complete this command line.

use super::{Cli, Ended, print};
use clap::{CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};

pub(super) const HELP: &str = "\
To use it:
  bash   punctual completions bash > ~/.local/share/bash-completion/completions/punctual
  zsh    punctual completions zsh > \"${fpath[1]}/_punctual\"
  fish   punctual completions fish > ~/.config/fish/completions/punctual.fish";

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum For {
    /// GNU Bash.
    Bash,
    /// The Z shell.
    Zsh,
    /// fish.
    Fish,
}

/// Prints its completions.
///
/// # Errors
/// Standard output cannot be written to.
pub(super) fn run(shell: For) -> Result<(), Ended> {
    let shell = match shell {
        For::Bash => Shell::Bash,
        For::Zsh => Shell::Zsh,
        For::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "punctual", &mut script);
    print(&String::from_utf8_lossy(&script))
}
