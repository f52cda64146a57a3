//! Log set-up: one line per fact on standard error, fields behind a constant message.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Writes a line to standard error. If it cannot be written, as on a full disk or when the reader
/// of a pipe has gone, nobody is told: that is no reason to end for what copies.
pub fn tell(line: impl Display) {
    let _nobody_reads = writeln!(io::stderr(), "{line}");
}

/// Starts logging to standard error. Lines that cannot be written are lost.
///
/// `filter` is in the syntax of `tracing_subscriber::EnvFilter`: a level, or levels by target.
///
/// # Errors
///
/// [`ParseError`] if `filter` is not.
pub fn start(filter: &str, format: Format) -> Result<(), ParseError> {
    let filter = EnvFilter::builder().parse(filter)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // It would say so on standard error, which is what cannot be written, and panic.
        .log_internal_errors(false);
    match format {
        Format::Text => lines.init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}
