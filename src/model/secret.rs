//! Values that must not be printed.

use std::fmt;

/// Text that logs, errors and status must not show: passwords, tokens, private keys.
///
/// `Debug` prints a placeholder and there is no `Display`; reading it takes the explicit
/// [`Secret::reveal`], which a reviewer can search for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}
