//! Java's `.properties` syntax, with the place of every character.
//!
//! MM2 reads its file with `java.util.Properties.load`, whose syntax has corners that people
//! fall into: backslashes vanish, there are no comments behind a value, trailing blanks stay,
//! and bytes are ISO-8859-1. A file that means one thing to MM2 must not mean another here, so
//! the rules are Java's to the letter. Beyond Java, all entries are kept in order, and every
//! character remembers where it stood, so that a problem can be shown at its place.
//!
//! Proof: `proto-tests/tests/properties_read_as_in_java.rs`, against Java's own answers.

/// Where a character stands in the file; both count from 1. Bytes are characters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The natural line, not the logical one: continued lines count.
    pub line: u32,
    /// The column in that line.
    pub column: u32,
}

/// A key or a value: the text that Java would see, and where each character of it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    text: String,
    /// One per character, and one more for the end.
    places: Vec<Place>,
}

impl Text {
    /// The text after escapes are undone.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where the character with this index begins; the end's place for any larger index.
    ///
    /// An escaped character stands where its backslash stands.
    #[must_use]
    pub fn place(&self, character: usize) -> Place {
        self.places[character.min(self.places.len() - 1)]
    }

    /// Other text in the same place, such as what a config provider fills in.
    pub(super) fn replaced(&self, text: &str) -> Self {
        let mut places = vec![self.place(0); text.chars().count()];
        places.push(self.place(usize::MAX));
        Self { text: text.to_owned(), places }
    }
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Text,
    /// The value; empty text if there is none.
    pub value: Text,
}

/// Something that Java refuses, or text that is half a character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub problem: &'static str,
}

/// A file taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// All entries in the order of the file. Of two with one key, Java keeps the later one.
    pub entries: Vec<Entry>,
    /// All errors. If there is one, Java would have refused the whole file.
    pub errors: Vec<SyntaxError>,
    lines: Vec<String>,
}

impl Document {
    /// Reads a file.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut document = Self { entries: Vec::new(), errors: Vec::new(), lines: lines(bytes) };
        let mut reader = Reader { bytes, at: 0, place: Place { line: 1, column: 1 } };
        while let Some(line) = reader.logical_line() {
            let (key, value) = split(&line);
            let key = document.unescape(key);
            let value = document.unescape(value);
            if let (Some(key), Some(value)) = (key, value) {
                document.entries.push(Entry { key, value });
            }
        }
        document
    }

    /// A natural line as it stands in the file, without its end; counts from 1.
    #[must_use]
    pub fn line(&self, number: u32) -> &str {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.lines.get(number.checked_sub(1)?))
            .map_or("", String::as_str)
    }

    /// Undoes escapes; `None`, with an error noted, if one is malformed.
    fn unescape(&mut self, raw: Raw<'_>) -> Option<Text> {
        let mut units: Vec<(u16, Place)> = Vec::with_capacity(raw.bytes.len());
        let mut bytes = raw.bytes.iter();
        let errors = self.errors.len();
        while let Some(&(byte, place)) = bytes.next() {
            if byte != b'\\' {
                units.push((byte.into(), place));
                continue;
            }
            // A backslash at the very end of the file is dropped before this.
            let Some(&(escaped, _)) = bytes.next() else { break };
            let unit = match escaped {
                b't' => b'\t'.into(),
                b'n' => b'\n'.into(),
                b'r' => b'\r'.into(),
                b'f' => 0x0C,
                b'u' => match hexadecimal(&mut bytes) {
                    Some(unit) => unit,
                    None => {
                        let problem = "`\\u` needs four hexadecimal digits after it";
                        self.errors.push(SyntaxError { place, problem });
                        continue;
                    }
                },
                // Java just drops the backslash.
                other => other.into(),
            };
            units.push((unit, place));
        }
        let mut text = String::with_capacity(units.len());
        let mut places = Vec::with_capacity(units.len() + 1);
        let mut at = 0;
        for decoded in char::decode_utf16(units.iter().map(|(unit, _)| *unit)) {
            let place = units[at].1;
            match decoded {
                Ok(c) => {
                    text.push(c);
                    places.push(place);
                    at += c.len_utf16();
                }
                Err(_) => {
                    let problem = "half a character: a surrogate without its other half";
                    self.errors.push(SyntaxError { place, problem });
                    at += 1;
                }
            }
        }
        places.push(raw.end);
        (self.errors.len() == errors).then_some(Text { text, places })
    }
}

fn hexadecimal(bytes: &mut std::slice::Iter<'_, (u8, Place)>) -> Option<u16> {
    let digits = bytes.as_slice().get(..4)?;
    let mut unit = 0;
    for (digit, _) in digits {
        unit = unit * 16 + u16::try_from(char::from(*digit).to_digit(16)?).ok()?;
    }
    *bytes = bytes.as_slice()[4..].iter();
    Some(unit)
}

/// The natural lines, each byte one character.
fn lines(bytes: &[u8]) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut bytes = bytes.iter().peekable();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\r' => {
                bytes.next_if_eq(&&b'\n');
                lines.push(String::new());
            }
            b'\n' => lines.push(String::new()),
            byte => {
                if let Some(line) = lines.last_mut() {
                    line.push(char::from(byte));
                }
            }
        }
    }
    lines
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0C)
}

/// A part of a logical line before escapes are undone.
struct Raw<'a> {
    bytes: &'a [(u8, Place)],
    end: Place,
}

/// A logical line: continued lines joined, comments and blank lines left out.
struct LogicalLine {
    bytes: Vec<(u8, Place)>,
    end: Place,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    place: Place,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<(u8, Place)> {
        let byte = *self.bytes.get(self.at)?;
        let place = self.place;
        self.at += 1;
        let ends_line = match byte {
            b'\n' => true,
            b'\r' => self.bytes.get(self.at) != Some(&b'\n'),
            _ => false,
        };
        if ends_line {
            self.place = Place { line: place.line.saturating_add(1), column: 1 };
        } else {
            self.place.column = place.column.saturating_add(1);
        }
        Some((byte, place))
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next logical line; `None` at the end of the file.
    fn logical_line(&mut self) -> Option<LogicalLine> {
        let mut bytes: Vec<(u8, Place)> = Vec::new();
        let mut skipping = true;
        let mut continued = false;
        let mut escaped = false;
        while let Some((byte, place)) = self.next() {
            let newline = matches!(byte, b'\r' | b'\n');
            if skipping {
                if is_blank(byte) || (newline && !continued) {
                    continue;
                }
                skipping = false;
                continued = false;
            }
            // Java asks whether anything was read, so a line that consists of a lone backslash
            // may be "continued" by a comment.
            if bytes.is_empty() && matches!(byte, b'#' | b'!') {
                self.skip_comment();
                skipping = true;
                continue;
            }
            if !newline {
                escaped = byte == b'\\' && !escaped;
                bytes.push((byte, place));
            } else if bytes.is_empty() {
                skipping = true;
            } else if escaped {
                bytes.pop();
                skipping = true;
                continued = true;
                escaped = false;
                if self.peek().is_none() {
                    // Even if it is empty: Java reads a last line of one backslash, ended by
                    // one character, as an empty key.
                    return Some(LogicalLine { bytes, end: self.place });
                }
                if byte == b'\r' && self.peek() == Some(b'\n') {
                    self.next();
                }
            } else {
                return Some(LogicalLine { bytes, end: place });
            }
        }
        if escaped {
            bytes.pop();
        }
        (!bytes.is_empty() || escaped).then_some(LogicalLine { bytes, end: self.place })
    }

    fn skip_comment(&mut self) {
        while let Some(byte) = self.peek()
            && !matches!(byte, b'\r' | b'\n')
        {
            self.next();
        }
    }
}

/// Splits at the first separator that no backslash precedes.
fn split(line: &LogicalLine) -> (Raw<'_>, Raw<'_>) {
    let bytes = line.bytes.as_slice();
    let mut escaped = false;
    let key_end = bytes
        .iter()
        .position(|&(byte, _)| {
            let separates = !escaped && (matches!(byte, b'=' | b':') || is_blank(byte));
            escaped = byte == b'\\' && !escaped;
            separates
        })
        .unwrap_or(bytes.len());
    let (key, mut value) = bytes.split_at(key_end);
    let mut separator = false;
    while let Some((&(byte, _), rest)) = value.split_first() {
        if matches!(byte, b'=' | b':') && !separator {
            separator = true;
        } else if !is_blank(byte) {
            break;
        }
        value = rest;
    }
    let place = |at: usize| bytes.get(at).map_or(line.end, |&(_, place)| place);
    (Raw { bytes: key, end: place(key_end) }, Raw { bytes: value, end: line.end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(file: &str) -> Vec<(String, String)> {
        let document = Document::parse(file.as_bytes());
        assert_eq!(document.errors, []);
        let text = |text: Text| text.text;
        document.entries.into_iter().map(|entry| (text(entry.key), text(entry.value))).collect()
    }

    fn place(line: u32, column: u32) -> Place {
        Place { line, column }
    }

    #[test]
    fn a_flow_key_may_be_separated_in_three_ways() {
        for file in ["A->B.enabled: true", "A->B.enabled=true", "A->B.enabled true"] {
            assert_eq!(entries(file), [("A->B.enabled".to_owned(), "true".to_owned())]);
        }
    }

    #[test]
    fn there_are_no_comments_behind_a_value_and_trailing_blanks_stay() {
        assert_eq!(entries("topics = .*   # all ")[0].1, ".*   # all ");
    }

    #[test]
    fn a_single_backslash_vanishes() {
        assert_eq!(entries(r"x = .*\.internal")[0].1, ".*.internal");
        assert_eq!(entries(r"x = .*\\.internal")[0].1, r".*\.internal");
    }

    #[test]
    fn places_count_natural_lines_and_columns_through_continuations_and_escapes() {
        let document = Document::parse(b"# first\n  a->b.topics = x,\\\r\n     \\u0079z\r\nc=d");
        let [topics, c] = document.entries.as_slice() else { panic!("two entries") };

        assert_eq!(topics.value.as_str(), "x,yz");
        assert_eq!(topics.key.place(0), place(2, 3));
        assert_eq!(topics.key.place(11), place(2, 14));
        assert_eq!(topics.value.place(0), place(2, 17));
        assert_eq!(topics.value.place(2), place(3, 6));
        assert_eq!(topics.value.place(3), place(3, 12));
        assert_eq!(c.key.place(0), place(4, 1));
        assert_eq!(document.line(3), "     \\u0079z");
        assert_eq!(document.line(99), "");
    }

    #[test]
    fn every_malformed_escape_is_reported_not_only_the_first() {
        let document = Document::parse(b"a = \\u00g1\nb = 1\nc = \\u12");

        let places: Vec<Place> = document.errors.iter().map(|error| error.place).collect();
        assert_eq!(places, [place(1, 5), place(3, 5)]);
        assert_eq!(document.entries.len(), 1);
    }

    #[test]
    fn duplicates_are_all_kept_in_order() {
        let values: Vec<String> = entries("a=1\nb=2\na=3").into_iter().map(|(_, v)| v).collect();

        assert_eq!(values, ["1", "2", "3"]);
    }
}
