//! Floor 7: the program.

mod cli;
mod drain;
mod meter;
mod page;
mod report;
mod run;
mod wiring;

pub use cli::main;
