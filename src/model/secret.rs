//! Values that must not be printed.

use std::fmt;

use zeroize::Zeroizing;

/// Text that logs, errors and status must not show: passwords, tokens, private keys.
///
/// `Debug` and `Display` print `[hidden]`; reading it takes the explicit [`Secret::reveal`], which
/// a reviewer can search for. Its bytes are overwritten with zeros when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps `text`.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that needs it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_printed_as_hidden_and_read_only_on_purpose() {
        let secret = Secret::new("hunter2");

        assert_eq!(format!("{secret} {secret:?}"), "[hidden] [hidden]");
        assert_eq!(secret.reveal(), "hunter2");
    }
}
