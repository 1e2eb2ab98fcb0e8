//! The command line: which part to run.

use clap::Parser;
use std::process::ExitCode;

/// A distributed scheduler that executes one-shot payments once, on time.
#[derive(Debug, Parser)]
#[command(version)]
enum Command {
    /// Bring up everything on one machine.
    Dev(punctual::dev::Args),
}

#[tokio::main]
async fn main() -> ExitCode {
    match Command::parse() {
        Command::Dev(args) => punctual::dev::run(args).await,
    }
}
