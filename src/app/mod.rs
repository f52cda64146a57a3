//! Floor 7: the program.

mod check;
mod check_page;
mod cli;
mod drain;
mod meter;
mod page;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod wiring;

pub use cli::main;
