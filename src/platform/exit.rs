//! The registry of exit codes; scripts rely on them, so none ever changes its meaning.

use std::process::ExitCode;

macro_rules! exits {
    ($( $variant:ident = $code:literal : $doc:literal ),* $(,)?) => {
        /// How the process ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Exit { $( #[doc = $doc] $variant, )* }

        impl Exit {
            /// Every exit, in the order of the table.
            pub const ALL: &[Self] = &[$( Self::$variant, )*];
            /// The number that the shell sees.
            #[must_use]
            pub const fn code(self) -> u8 { match self { $( Self::$variant => $code, )* } }
            /// What it means.
            #[must_use]
            pub const fn meaning(self) -> &'static str { match self { $( Self::$variant => $doc, )* } }
        }
    };
}

exits! {
    Done = 0: "Done.",
    Failed = 1: "It failed; the message says why.",
    Usage = 2: "The command line or the settings are wrong; nothing was started.",
    NotAllowed = 4: "The API key is not known or lacks the scope, or a second person is needed.",
    NotFound = 5: "No such thing, or not yours.",
    Conflict = 6: "The state does not allow it; the answer names the state.",
    Replaced = 7: "Another process took over its name; give each a name of its own.",
    Differences = 10: "The comparison worked and found differences.",
    Undecided = 11: "Nothing was found wrong, but what was asked for could not be looked at.",
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The README's table of exit codes; a test holds the README equal to it.
#[must_use]
pub fn reference_markdown() -> String {
    let rows: String =
        Exit::ALL.iter().map(|exit| format!("| {} | {} |\n", exit.code(), exit.meaning())).collect();
    format!("| code | meaning |\n|---|---|\n{rows}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_only_done_is_zero() {
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes[0], 0);
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
        assert!(codes.is_sorted());
    }
}
