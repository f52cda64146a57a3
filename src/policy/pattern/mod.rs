//! Java's regular expressions with Java's meaning.
//!
//! Filters in a properties file are patterns of `java.util.regex`. No engine here speaks that
//! dialect, and several of its forms mean something else in theirs without an error. So a
//! pattern is parsed, its character classes are worked out to code points, and a pattern is
//! written that means the same; what cannot be honoured exactly is refused with its place.
//!
//! ```text
//!   text ── parse, class ──▶ Node ── emit ──▶ regex (linear) or fancy-regex (backtracking)
//! ```
//!
//! Where Java itself changed: `\b` is the ASCII boundary that the documentation promises and
//! that Java has since 19; before, other letters counted too. Topic names are ASCII.
//!
//! Proof: `proto-tests/tests/patterns_match_as_in_java.rs`, against Java's own answers.

mod class;
mod emit;
mod escape;
mod parse;
mod set;

use std::fmt;

use thiserror::Error;

/// Steps that one match may take in the backtracking engine.
///
/// A name has at most 249 characters, so an honest pattern needs some thousands; the bound is
/// for patterns like `(a+)+b`, on which Java would hang. At some 10 ns each it is 10 ms.
const STEPS_MAX: usize = 1_000_000;

/// Which engine runs a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Time linear in the name's length, whatever the pattern.
    Linear,
    /// For look-around, back-references, atomic groups and possessive counts.
    Backtracking,
}

/// A Java regular expression, ready to match whole names.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    matcher: Matcher,
}

#[derive(Clone)]
enum Matcher {
    Linear(regex::Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// Why a pattern cannot be honoured, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct PatternError {
    /// Character of the pattern at which the problem begins, from 0.
    pub at: usize,
    /// How many characters it covers; at least 1, and may end behind the pattern.
    pub length: usize,
    /// What it is.
    pub problem: String,
    /// What to write instead, if there is an answer.
    pub hint: Option<String>,
}

impl PatternError {
    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// A match that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{pattern}` on `{name}` takes more than {STEPS_MAX} steps")]
pub struct StepLimit {
    /// The pattern as configured.
    pub pattern: String,
    /// The name that it was to match.
    pub name: String,
}

impl Pattern {
    /// Reads a pattern of `java.util.regex` without flags.
    ///
    /// # Errors
    ///
    /// [`PatternError`] if Java refuses it too, or if it means something that cannot be kept.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let node = parse::parse(text)?;
        let (engine, emitted) = emit::emit(&node);
        let whole = |problem: String| PatternError {
            at: 0,
            length: text.chars().count().max(1),
            problem,
            hint: None,
        };
        let matcher = match engine {
            Engine::Linear => Matcher::Linear(
                regex::Regex::new(&emitted).map_err(|error| whole(in_words(&error)))?,
            ),
            Engine::Backtracking => Matcher::Backtracking(Box::new(
                fancy_regex::RegexBuilder::new(&emitted)
                    .backtrack_limit(STEPS_MAX)
                    .build()
                    .map_err(|error| whole(format!("the matching engine refuses it: {error}")))?,
            )),
        };
        Ok(Self { text: text.to_owned(), matcher })
    }

    /// Whether the WHOLE of `name` matches, as Java's `Matcher.matches`.
    ///
    /// # Errors
    ///
    /// [`StepLimit`] if the backtracking engine does not come to an end.
    pub fn matches(&self, name: &str) -> Result<bool, StepLimit> {
        match &self.matcher {
            Matcher::Linear(regex) => Ok(regex.is_match(name)),
            Matcher::Backtracking(regex) => regex
                .is_match(name)
                .map_err(|_| StepLimit { pattern: self.text.clone(), name: name.to_owned() }),
        }
    }

    /// The pattern as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Which engine it needs.
    #[must_use]
    pub fn engine(&self) -> Engine {
        match &self.matcher {
            Matcher::Linear(_) => Engine::Linear,
            Matcher::Backtracking(_) => Engine::Backtracking,
        }
    }
}

fn in_words(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(limit) => {
            format!("its counts unroll to more than {limit} bytes")
        }
        other => format!("the matching engine refuses it: {other}"),
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_must_match_the_whole_name_over_all_alternatives() {
        let pattern = Pattern::new("a|ab").unwrap();

        assert_eq!(pattern.matches("ab"), Ok(true));
        assert_eq!(pattern.matches("abc"), Ok(false));
        assert_eq!(pattern.engine(), Engine::Linear);
    }

    #[test]
    fn a_negative_look_ahead_excludes_names_and_keeps_its_dollar() {
        let pattern = Pattern::new("(?!.*-test$).*").unwrap();

        assert_eq!(pattern.engine(), Engine::Backtracking);
        assert_eq!(pattern.matches("orders"), Ok(true));
        assert_eq!(pattern.matches("orders-test"), Ok(false));
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_at_its_place() {
        let refused = Pattern::new(r"a\p{javaLowerCase}+").unwrap_err();

        assert_eq!((refused.at, refused.length), (1, 17));
        assert_eq!(refused.hint.as_deref(), Some("topic names are ASCII; write [a-z]"));
        assert_eq!(Pattern::new("ab[cd").unwrap_err().at, 2);
        assert_eq!(Pattern::new("a{,3}").unwrap_err().at, 1);
    }

    #[test]
    fn a_pattern_that_would_run_for_ever_is_given_up_and_says_so() {
        let pattern = Pattern::new(r"(?:(a|aa)+)\1[bc]").unwrap();

        let given_up = pattern.matches(&format!("{}dc", "a".repeat(60))).unwrap_err();

        assert_eq!(given_up.pattern, r"(?:(a|aa)+)\1[bc]");
    }

    #[test]
    fn brackets_without_end_are_refused_and_do_not_overflow_the_stack() {
        for bracket in ["(", "[", "(?:", "[^"] {
            assert!(Pattern::new(&bracket.repeat(100_000)).is_err());
        }
    }
}
