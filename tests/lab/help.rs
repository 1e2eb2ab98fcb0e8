//! The help of every command, as it is printed: what a person learns from it is part of the interface.
//!
//! `BLESS=1 cargo test --test lab help` writes `tests/lab/help.txt` anew; read what changed.

use clap::{Command, CommandFactory};
use punctual::cli::Cli;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/help.txt");

/// Every command below this one with its whole name, in order; `help` itself left out.
fn all(command: &Command, name: &str, found: &mut Vec<(String, Command)>) {
    found.push((name.to_owned(), command.clone()));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        all(below, &format!("{name} {}", below.get_name()), found);
    }
}

fn commands() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    // Built, so that what stands at the top is known to every command below it.
    let mut top = Cli::command();
    top.build();
    all(&top, "punctual", &mut found);
    found
}

fn help(name: &str, command: Command) -> String {
    let text = command.bin_name(name).render_long_help().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("$ {name} --help\n{}\n\n", lines.join("\n").trim_end())
}

#[test]
fn the_help_of_every_command_is_as_it_was_read() {
    let found: String = commands().into_iter().map(|(name, command)| help(&name, command)).collect();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PATH, &found).expect("the text can be written");
        return;
    }
    let wanted = std::fs::read_to_string(PATH).expect("tests/lab/help.txt");
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert!(found == wanted, "run BLESS=1 cargo test --test lab help, and read it; first: {differs:#?}");
}

#[test]
fn every_command_and_every_argument_says_what_it_is_for() {
    for (name, command) in commands() {
        assert!(command.get_about().is_some(), "{name} has no sentence");
        for argument in
            command.get_arguments().filter(|it| !["help", "version"].contains(&it.get_id().as_str()))
        {
            assert!(argument.get_help().is_some(), "{name}: {} has no sentence", argument.get_id());
        }
    }
}

#[test]
fn commands_that_print_answers_take_all_three_forms() {
    let mut printing = 0;
    for (name, command) in commands() {
        // Where everything is, for a shell to take: its own forms.
        let Some(output) =
            command.get_arguments().find(|it| it.get_id() == "output" && name != "punctual dev")
        else {
            continue;
        };
        let forms: Vec<String> =
            output.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        assert_eq!(
            (output.get_short(), forms),
            (Some('o'), ["table", "json", "jsonl"].map(str::to_owned).to_vec()),
            "{name}"
        );
        printing += 1;
    }
    assert!(printing > 30, "{printing}");
}
