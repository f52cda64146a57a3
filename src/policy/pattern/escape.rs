//! What a backslash begins: characters, classes, boundaries and references.

use super::PatternError;
use super::parse::{Assertion, Node, Parser};
use super::set::{self, CharSet};

/// What an escape outside or inside a class denotes.
pub(super) enum Escape {
    Char(char),
    Set(CharSet),
    /// Anything else, by its letter; only outside a class.
    Other(char),
}

impl Parser {
    pub(super) fn escaped(&mut self, at: usize) -> Result<Node, PatternError> {
        Ok(match self.escape(at)? {
            Escape::Char(c) => self.literal(c),
            Escape::Set(set) => Node::Set(set),
            Escape::Other(letter) => match letter {
                'A' => Node::Assert(Assertion::Start),
                'z' => Node::Assert(Assertion::End),
                'Z' => Node::Assert(Assertion::EndOrLastTerminator {
                    only_newline: self.flags.unix_lines,
                }),
                'b' if self.peek().is_some_and(|token| token.is('{')) => {
                    return Err(self.error(at, 3, "`\\b{g}` is not supported"));
                }
                'b' => Node::Assert(Assertion::WordBoundary),
                'B' => Node::Assert(Assertion::NotWordBoundary),
                'R' => Node::LineEnding,
                'k' => self.named_reference(at)?,
                '1'..='9' => self.numbered_reference(letter, at)?,
                'G' => {
                    let problem = "`\\G` means the end of the last match, and there is none";
                    return Err(self.error(at, 2, problem));
                }
                other => return Err(self.unsupported(at, other)),
            },
        })
    }

    pub(super) fn unsupported(&self, at: usize, letter: char) -> PatternError {
        let problem = format!("`\\{letter}` is not supported here");
        self.error(at, 2, problem)
    }

    fn named_reference(&mut self, at: usize) -> Result<Node, PatternError> {
        if !self.take_if('<') {
            return Err(self.error(at, 2, "`\\k` needs a group's name in `<>`"));
        }
        let name = self.group_name(at)?;
        match self.groups.iter().position(|group| group.as_ref() == Some(&name)) {
            Some(index) => self.reference(index + 1, at),
            None => {
                let problem = format!("no group `{name}` before this");
                Err(self.error(at, self.here() - at, problem))
            }
        }
    }

    /// `\11` means group 11 if there are so many, else group 1 and a `1`.
    fn numbered_reference(&mut self, first: char, at: usize) -> Result<Node, PatternError> {
        let digit = |c: char| c.to_digit(10).map_or(0, |digit| digit as usize);
        let mut number = digit(first);
        while let Some(token) = self.peek().filter(|token| !token.quoted) {
            let longer = number * 10 + digit(token.c);
            if !token.c.is_ascii_digit() || longer > self.groups.len() {
                break;
            }
            self.next += 1;
            number = longer;
        }
        self.reference(number, at)
    }

    fn reference(&self, number: usize, at: usize) -> Result<Node, PatternError> {
        let length = self.here() - at;
        if number > self.groups.len() || self.open.contains(&number) {
            let problem = format!("group {number} is not closed before this reference");
            return Err(self.error(at, length, problem));
        }
        if self.flags.ignore_case {
            let problem = "a reference that ignores case is not supported";
            return Err(self.error(at, length, problem));
        }
        Ok(Node::Backreference(number))
    }

    /// What follows a backslash. Case is folded for sets that are more than one case of a
    /// letter; characters are folded by who uses them.
    pub(super) fn escape(&mut self, at: usize) -> Result<Escape, PatternError> {
        let Some(token) = self.take() else {
            return Err(self.error(at, 1, "a backslash at the end").hint(
                "in a properties file one backslash vanishes; write two for each in the pattern",
            ));
        };
        Ok(match token.c {
            'd' => Escape::Set(set::digits()),
            'D' => Escape::Set(set::digits().complement()),
            'w' => Escape::Set(set::word()),
            'W' => Escape::Set(set::word().complement()),
            's' => Escape::Set(set::space()),
            'S' => Escape::Set(set::space().complement()),
            'h' => Escape::Set(set::horizontal_space()),
            'H' => Escape::Set(set::horizontal_space().complement()),
            'v' => Escape::Set(set::vertical_space()),
            'V' => Escape::Set(set::vertical_space().complement()),
            'p' => Escape::Set(self.property(at, 'p')?),
            'P' => Escape::Set(self.property(at, 'P')?.complement()),
            't' => Escape::Char('\t'),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            'f' => Escape::Char('\u{c}'),
            'a' => Escape::Char('\u{7}'),
            'e' => Escape::Char('\u{1b}'),
            'c' => Escape::Char(self.control(at)?),
            '0' => Escape::Char(self.octal(at)?),
            'x' => Escape::Char(self.hexadecimal(at)?),
            'u' => Escape::Char(self.utf16(at)?),
            c if c.is_ascii_alphanumeric() => Escape::Other(c),
            c => Escape::Char(c),
        })
    }

    fn property(&mut self, at: usize, letter: char) -> Result<CharSet, PatternError> {
        let mut name = String::new();
        if self.take_if('{') {
            loop {
                match self.take() {
                    Some(token) if token.is('}') => break,
                    Some(token) if !token.quoted => name.push(token.c),
                    _ => return Err(self.error(at, 2, "this `{` has no `}`")),
                }
            }
        } else {
            name.extend(self.take().map(|token| token.c));
        }
        let Some(set) = set::posix(&name) else {
            let length = self.here() - at;
            let problem = format!(
                "Java's `\\{letter}{{{name}}}` has no equivalent here, so this pattern cannot be \
                 honoured exactly"
            );
            return Err(self.error(at, length, problem).hint(match name.as_str() {
                "javaLowerCase" | "Ll" | "IsLowercase" => "topic names are ASCII; write [a-z]",
                "javaUpperCase" | "Lu" | "IsUppercase" => "topic names are ASCII; write [A-Z]",
                "L" | "IsAlphabetic" | "IsLetter" => "topic names are ASCII; write [a-zA-Z]",
                "N" | "Nd" | "IsDigit" => "topic names are ASCII; write [0-9]",
                _ => "topic names are ASCII letters, digits, `.`, `_` and `-`; name those meant",
            }));
        };
        Ok(self.folded(set))
    }

    fn control(&mut self, at: usize) -> Result<char, PatternError> {
        let letter = self.take().filter(|token| !token.quoted && token.c.is_ascii());
        match letter.and_then(|token| char::from_u32(u32::from(token.c) ^ 64)) {
            Some(control) => Ok(control),
            None => Err(self.error(at, 2, "`\\c` needs an ASCII character after it")),
        }
    }

    /// `\0n`, `\0nn` or `\0mnn` with `m` up to 3.
    fn octal(&mut self, at: usize) -> Result<char, PatternError> {
        let mut value = 0;
        let mut digits = 0;
        while let Some(digit) =
            self.peek().filter(|token| !token.quoted).and_then(|token| token.c.to_digit(8))
        {
            if digits == 3 || (digits == 2 && value > 0o37) {
                break;
            }
            self.next += 1;
            value = value * 8 + digit;
            digits += 1;
        }
        match (digits, char::from_u32(value)) {
            (1.., Some(c)) => Ok(c),
            _ => Err(self.error(at, 2, "`\\0` needs one to three octal digits after it")),
        }
    }

    /// `\xhh` or `\x{h..h}`.
    fn hexadecimal(&mut self, at: usize) -> Result<char, PatternError> {
        let value = if self.take_if('{') {
            let mut value = None;
            while let Some(digit) = self.hex_digit() {
                value = Some((value.unwrap_or(0_u32).saturating_mul(16)).saturating_add(digit));
            }
            if self.take_if('}') { value } else { None }
        } else {
            self.hex_digits(2)
        };
        value.and_then(char::from_u32).ok_or_else(|| {
            self.error(at, self.here() - at, "`\\x` needs two hexadecimal digits, or some in `{}`")
        })
    }

    /// `\uhhhh`; two of them for a character beyond U+FFFF.
    fn utf16(&mut self, at: usize) -> Result<char, PatternError> {
        let mut units = vec![self.hex_digits(4)];
        if matches!(units[0], Some(0xD800..=0xDBFF)) && self.take_all("\\u") {
            units.push(self.hex_digits(4));
        }
        let units: Option<Vec<u16>> =
            units.into_iter().map(|unit| unit.and_then(|unit| u16::try_from(unit).ok())).collect();
        units
            .and_then(|units| String::from_utf16(&units).ok())
            .and_then(|text| text.chars().next())
            .ok_or_else(|| {
                self.error(at, self.here() - at, "`\\u` needs the four digits of a character")
            })
    }

    fn hex_digits(&mut self, count: usize) -> Option<u32> {
        (0..count).try_fold(0, |value, _| Some(value * 16 + self.hex_digit()?))
    }

    fn hex_digit(&mut self) -> Option<u32> {
        let digit = self.peek().filter(|token| !token.quoted)?.c.to_digit(16)?;
        self.next += 1;
        Some(digit)
    }
}
