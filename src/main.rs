//! The binary: hands over to the command line and reports how it ended.

use std::process::ExitCode;

fn main() -> ExitCode {
    punctual::cli::main()
}
