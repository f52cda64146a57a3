//! What the process says at its end.

use std::fmt;
use std::process::ExitCode;

/// How the process ends. A panic keeps Rust's 101.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or drained.
    Done,
    /// Failed while running.
    Failed,
    /// Usage or configuration.
    Usage,
    /// `check` found something that would not work.
    Unfit,
    /// Told to end, and something was left undone.
    Late,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Exit {
    /// The number that the parent process sees.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unfit => 3,
            Self::Late => 4,
        }
    }
}

/// Why the process cannot do what it was asked: one paragraph and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(super) exit: Exit,
    text: String,
}

impl Failure {
    /// A mistake in arguments or files.
    pub(super) fn usage(text: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, text: format!("error: {text}") }
    }

    /// A text that is laid out already.
    pub(super) fn laid_out(text: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, text: text.to_string() }
    }

    /// Something that went wrong while running.
    pub(super) fn running(text: impl fmt::Display) -> Self {
        Self { exit: Exit::Failed, text: format!("error: {text}") }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}
