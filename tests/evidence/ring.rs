//! The distributed half: members that come and go, brokers that die, gateways that are slow or hold back,
//! the midnight of the 1st. On an optimised build, since what is measured is time.

use crate::figures::Figures;

/// All of it, or the part of that name.
pub async fn show(figures: &mut Figures, part: Option<&str>) {
    let wants = |name: &str| part.is_none_or(|part| part == name);
    let _ = (figures, wants("members"));
}
