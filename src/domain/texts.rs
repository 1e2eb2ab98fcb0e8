//! Enums of stored texts: each variant with its text and one sentence for people, as one table.
//!
//! **Promise.** The text that is stored, the one that is read and the sentence stand on one line, so that none can be
//! missing. The sentence is the variant's documentation too.

/// `Name, "What it is.": Variant = "text": "Sentence.", …`, perhaps behind attributes of the enum.
macro_rules! texts {
    ($( #[$attribute:meta] )* $name:ident, $what:literal : $( $variant:ident = $text:literal : $doc:literal ),* $(,)?) => {
        #[doc = $what]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $( #[$attribute] )*
        pub enum $name { $( #[doc = $doc] $variant, )* }
        impl $name {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[ $( Self::$variant, )* ];
            /// The stored and answered text.
            #[must_use]
            pub fn as_str(self) -> &'static str { match self { $( Self::$variant => $text, )* } }
            /// One sentence for people.
            #[must_use]
            pub fn explanation(self) -> &'static str { match self { $( Self::$variant => $doc, )* } }
            /// Reads the stored text.
            #[must_use]
            pub fn from_text(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.as_str() == text)
            }
        }
    };
}

pub(crate) use texts;
