//! The pages for people, asked as a browser asks them: with cookies, by forms, without scripts.

pub(crate) mod browser;
mod differences;
mod door;
mod guard;
mod machine;
mod overview;
mod stream;
mod people;
mod workers;
