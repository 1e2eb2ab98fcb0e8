//! The pages in a real browser.

use crate::figures::{Figures, Verdict};

/// Nothing looks at them yet.
pub async fn show(figures: &mut Figures) {
    figures.part("The pages in a browser");
    figures.line("the browser", "nothing looks yet", "it shows every page", Verdict::Unknown);
}
