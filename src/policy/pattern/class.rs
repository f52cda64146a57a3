//! Java's character classes: union by nesting, intersection by `&&`.
//!
//! `[[:alpha:]]` is a union of `:`, `a`, `l`, `p` and `h` in Java, not a POSIX class; that is
//! what a Java user gets, so it is what we do. Where `&&` stands beside nothing, beside a third
//! `&`, or between a nested class and single characters, Java's own reading is an accident of
//! its parser; there we refuse.

use super::PatternError;
use super::escape::Escape;
use super::parse::{Parser, Token};
use super::set::CharSet;

impl Parser {
    /// A class, from behind its `[` to behind its `]`.
    pub(super) fn class(&mut self, at: usize) -> Result<CharSet, PatternError> {
        self.deeper(at)?;
        let negative = self.take_if('^');
        let mut set = self.operand(at)?;
        while self.take_ampersands()? {
            set = set.intersect(&self.operand(at)?);
        }
        if !self.take_if(']') {
            return Err(self.error(at, 1, "this `[` is never closed"));
        }
        self.depth -= 1;
        Ok(if negative { set.complement() } else { set })
    }

    /// `&&`, if it comes next and Java gives it one meaning.
    fn take_ampersands(&mut self) -> Result<bool, PatternError> {
        let at = self.here();
        if !self.two_ampersands() {
            return Ok(false);
        }
        self.take();
        self.take();
        match self.peek() {
            Some(token) if token.is('&') || token.is(']') => {
                Err(self.error(at, 3, "`&&` needs characters or a class on both sides"))
            }
            _ => Ok(true),
        }
    }

    fn two_ampersands(&self) -> bool {
        self.peek().is_some_and(|token| token.is('&'))
            && self.peek_second().is_some_and(|token| token.is('&'))
    }

    /// The characters and nested classes up to `&&` or `]`.
    fn operand(&mut self, at: usize) -> Result<CharSet, PatternError> {
        let start = self.here();
        let intersected = start != at + 1 && self.in_intersection(start);
        let mut set = CharSet::empty();
        let (mut nested, mut single, mut first) = (false, false, true);
        while let Some(token) = self.peek() {
            // A `]` in first place stands for itself.
            if (token.is(']') && !first) || self.two_ampersands() {
                break;
            }
            if token.is('[') {
                self.take();
                set = set.union(&self.class(token.at)?);
                nested = true;
            } else {
                set = set.union(&self.item()?);
                single = true;
            }
            first = false;
        }
        if first {
            return Err(self.error(at, self.here() - at, "a class that names no character"));
        }
        let intersected = intersected || self.two_ampersands();
        if intersected && nested && single {
            let error = self.error(
                start,
                self.here() - start,
                "beside `&&`, single characters and nested classes mean different things in \
                 different Java versions",
            );
            return Err(error.hint("put the single characters into a class of their own"));
        }
        Ok(set)
    }

    /// Whether `&&` stands just before `start`.
    fn in_intersection(&self, start: usize) -> bool {
        self.before(start).is_some_and(|token| token.is('&'))
    }

    /// A character, a range, or a predefined class.
    fn item(&mut self) -> Result<CharSet, PatternError> {
        let at = self.here();
        let low = match self.character(at)? {
            Escape::Set(set) => return Ok(set),
            Escape::Char(c) => c,
            Escape::Other(letter) => return Err(self.unsupported(at, letter)),
        };
        let ranged = self.peek().is_some_and(|token| token.is('-'))
            && self.peek_second().is_some_and(|token| !token.is(']') && !token.is('['));
        if !ranged {
            return Ok(self.folded(CharSet::single(low)));
        }
        self.take();
        let high_at = self.here();
        match self.character(high_at)? {
            Escape::Char(high) if low <= high => Ok(self.folded(CharSet::of(&[(low, high)]))),
            _ => Err(self.error(at, self.here() - at, "a range that is none")),
        }
    }

    fn character(&mut self, at: usize) -> Result<Escape, PatternError> {
        match self.take() {
            Some(Token { c: '\\', quoted: false, .. }) => self.escape(at),
            Some(token) => Ok(Escape::Char(token.c)),
            None => Err(self.error(at, 1, "this class is never closed")),
        }
    }
}
