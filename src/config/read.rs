//! From text to values, by the rules of Kafka's `ConfigDef`.
//!
//! A value that cannot be read is noted and replaced by its default, so that one reading finds
//! all problems.

use std::fmt::Display;
use std::time::Duration;

use super::layers::Layered;
use super::problems::{Part, Problem};
use super::properties::{Document, Entry};
use crate::policy::NameList;

/// Reads values and collects what is wrong with them.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) document: &'a Document,
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// One element of a list, and where it stands in the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) text: &'a str,
    /// Its first character, counted in characters of the whole value.
    pub(super) start: usize,
}

impl Element<'_> {
    pub(super) fn part(self) -> Part {
        Part::Characters { start: self.start, length: self.text.chars().count() }
    }
}

/// A value without the blanks around it, and where it stands.
fn trimmed(entry: &Entry) -> Element<'_> {
    let text = entry.value.as_str();
    let start = text.chars().take_while(|c| java_blank(*c)).count();
    Element { text: text.trim_matches(java_blank), start }
}

/// What Java's `String.trim` takes away.
fn java_blank(c: char) -> bool {
    c <= ' '
}

impl Reader<'_> {
    pub(super) fn error(
        &mut self,
        entry: &Entry,
        part: Part,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let problem = Problem::at(self.document, entry, part, message);
        let problem = Problem { hint, ..problem };
        // One line may count for several flows; it is wrong once.
        if !self.errors.contains(&problem) {
            self.errors.push(problem);
        }
    }

    pub(super) fn warn(
        &mut self,
        entry: &Entry,
        part: Part,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let problem = Problem::at(self.document, entry, part, message);
        let problem = Problem { hint, ..problem };
        if !self.warnings.contains(&problem) {
            self.warnings.push(problem);
        }
    }

    /// The text without blanks around it.
    pub(super) fn text<'e>(value: &Layered<'e>) -> &'e str {
        trimmed(value.chosen).text
    }

    pub(super) fn boolean(&mut self, value: Option<&Layered<'_>>, default: bool) -> bool {
        let Some(value) = value else { return default };
        let element = trimmed(value.chosen);
        if element.text.eq_ignore_ascii_case("true") {
            true
        } else if element.text.eq_ignore_ascii_case("false") {
            false
        } else {
            self.error(value.chosen, Part::Value, "neither true nor false", None);
            default
        }
    }

    /// A whole number in `least..=most`.
    pub(super) fn number<T>(
        &mut self,
        value: Option<&Layered<'_>>,
        (least, most): (T, T),
        unit: &str,
    ) -> Option<T>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let entry = value?.chosen;
        let element = trimmed(entry);
        // Java takes a plus sign, and so does Rust.
        let number = element.text.parse::<i64>().ok().and_then(|number| T::try_from(number).ok());
        match number {
            Some(number) if least <= number && number <= most => Some(number),
            _ => {
                let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
                let message = format!("not a whole number from {least} to {most}{unit}");
                self.error(entry, Part::Value, message, None);
                None
            }
        }
    }

    /// Whether an interval is negative: that switches its round off, as in MM2
    /// (`Scheduler.scheduleRepeating`). It is said, because another key is there for it.
    pub(super) fn is_off(&mut self, interval: Option<&Layered<'_>>) -> bool {
        let Some(entry) = interval.map(|value| value.chosen) else { return false };
        let off = trimmed(entry).text.parse::<i64>().is_ok_and(|seconds| seconds < 0);
        if off {
            let message = "a negative interval switches this off, as in MirrorMaker 2";
            let key = entry.key.as_str().replace("interval.seconds", "enabled");
            self.warn(entry, Part::Value, message, Some(format!("`{key} = false` says the same")));
        }
        off
    }

    /// `HOST:PORT`, IPv6 addresses in brackets; nothing for an empty value.
    pub(super) fn listen(&mut self, value: Option<&Layered<'_>>) -> Option<(String, u16)> {
        let entry = value?.chosen;
        let text = trimmed(entry).text;
        if text.is_empty() {
            return None;
        }
        let parsed = text.rsplit_once(':').and_then(|(host, port)| {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = bare.unwrap_or(host);
            let plain = bare.is_some() || !host.contains(':');
            (!host.is_empty() && plain).then_some((host.to_owned(), port.parse().ok()?))
        });
        if parsed.is_none() {
            let hint = Some("write 127.0.0.1:9464, or 0.0.0.0:9464 for every interface".into());
            self.error(entry, Part::Value, "not HOST:PORT", hint);
        }
        parsed
    }

    pub(super) fn millis(&mut self, value: Option<&Layered<'_>>, default: u64) -> Duration {
        let number = self.number(value, (0_i64, i64::MAX), "ms");
        Duration::from_millis(number.map_or(default, i64::unsigned_abs))
    }

    /// One of some words, in exactly these letters.
    pub(super) fn word<T: Copy>(
        &mut self,
        value: Option<&Layered<'_>>,
        words: &[(&str, T)],
        default: T,
    ) -> T {
        let Some(value) = value else { return default };
        let element = trimmed(value.chosen);
        match words.iter().find(|(word, _)| *word == element.text) {
            Some((_, meaning)) => *meaning,
            None => {
                let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
                let message = format!("unknown value; known: {}", known.join(", "));
                let near = super::lint::nearest(element.text, known);
                let hint = near.map(|near| format!("did you mean {near}?"));
                self.error(value.chosen, Part::Value, message, hint);
                default
            }
        }
    }

    /// The elements of a list. Empty ones are errors, as in MM2 since 4.2; of equal ones the
    /// first is kept, with a warning, because MM2 refuses them in some places only.
    pub(super) fn list<'e>(&mut self, value: &Layered<'e>) -> Vec<Element<'e>> {
        let entry = value.chosen;
        let whole = trimmed(entry);
        let mut elements: Vec<Element<'e>> = Vec::new();
        if whole.text.is_empty() {
            return elements;
        }
        let mut start = whole.start;
        for raw in whole.text.split(',') {
            let text = raw.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
            let before = raw.chars().take_while(|c| c.is_ascii_whitespace() || *c == '\u{b}');
            let element = Element { text, start: start + before.count().min(raw.len()) };
            start += raw.chars().count() + 1;
            if text.is_empty() {
                let part = Part::Characters { start: element.start, length: 1 };
                self.error(entry, part, "an empty list element", Some("remove the comma".into()));
            } else if elements.iter().any(|known| known.text == text) {
                let message = format!("`{text}` stands twice in the list");
                self.warn(entry, element.part(), message, None);
            } else {
                elements.push(element);
            }
        }
        elements
    }

    /// A list of patterns, joined as MM2 joins them.
    pub(super) fn names(&mut self, value: Option<&Layered<'_>>, default: &str) -> NameList {
        let Some(value) = value else {
            let elements: Vec<&str> = default.split(',').collect();
            return NameList::new(&elements).unwrap_or_else(|_| NameList::none());
        };
        let elements = self.list(value);
        let texts: Vec<&str> = elements.iter().map(|element| element.text).collect();
        match NameList::new(&texts) {
            Ok(names) => names,
            Err(refused) => {
                let error = refused.error;
                let element = elements[refused.element];
                let start = element.start + error.at;
                let part = Part::Characters { start, length: error.length };
                self.error(value.chosen, part, error.problem, error.hint);
                NameList::none()
            }
        }
    }

    /// Brokers as `host:port`.
    pub(super) fn brokers(&mut self, value: &Layered<'_>) -> Vec<(String, u16)> {
        let mut brokers = Vec::new();
        for element in self.list(value) {
            match broker(element.text) {
                Some(broker) => brokers.push(broker),
                None => {
                    let message = format!("`{}` is no broker address", element.text);
                    let hint = "write host:port; an IPv6 address in brackets, as in [::1]:9092";
                    self.error(value.chosen, element.part(), message, Some(hint.to_owned()));
                }
            }
        }
        brokers
    }
}

/// `host:port`, with brackets around an IPv6 address and an optional protocol in front, as
/// Kafka's clients take it.
fn broker(text: &str) -> Option<(String, u16)> {
    let text = text.split_once("://").map_or(text, |(_, address)| address);
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(address) => {
            let address = address.strip_suffix(']')?;
            address.contains(':').then_some(address)?
        }
        None if host.contains(':') => return None,
        None => host,
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-%._:".contains(c);
    (!host.is_empty() && host.chars().all(fits)).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_value<T>(
        value: &str,
        read: impl FnOnce(&mut Reader<'_>, &Layered<'_>) -> T,
    ) -> (T, Vec<String>) {
        let document = Document::parse(format!("key = {value}").as_bytes());
        let mut reader = Reader { document: &document, errors: Vec::new(), warnings: Vec::new() };
        let layered = Layered { chosen: &document.entries[0], shadowed: Vec::new() };
        let result = read(&mut reader, &layered);
        (result, reader.errors.into_iter().map(|error| error.message).collect())
    }

    #[test]
    fn values_are_trimmed_and_booleans_take_any_letter_case() {
        let (value, errors) = with_value("TRUE  ", |r, v| r.boolean(Some(v), false));
        assert!(value && errors.is_empty());

        let (value, errors) = with_value("yes", |r, v| r.boolean(Some(v), true));
        assert!(value);
        assert_eq!(errors, ["neither true nor false"]);
    }

    #[test]
    fn numbers_outside_their_range_are_named_with_the_range_and_the_unit() {
        let (value, _) = with_value("+5", |r, v| r.number(Some(v), (1_i32, 9), ""));
        assert_eq!(value, Some(5));

        let (value, errors) = with_value("-1", |r, v| r.millis(Some(v), 7));
        assert_eq!(value, Duration::from_millis(7));
        assert_eq!(errors, ["not a whole number from 0 to 9223372036854775807 ms"]);
    }

    #[test]
    fn list_elements_know_their_place_and_empty_ones_are_errors() {
        let (elements, errors) = with_value(" a , b,,c ,", |r, v| {
            r.list(v).into_iter().map(|e| (e.text.to_owned(), e.start)).collect::<Vec<_>>()
        });

        let expected = [("a", 0), ("b", 4), ("c", 7)].map(|(text, start)| (text.to_owned(), start));
        assert_eq!(elements, expected);
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn broker_addresses_may_be_names_ipv4_or_ipv6_in_brackets() {
        for (text, expected) in [
            ("kafka-1.example:9092", Some(("kafka-1.example", 9092))),
            ("10.0.0.1:1", Some(("10.0.0.1", 1))),
            ("[::1]:9092", Some(("::1", 9092))),
            ("[fe80::1%eth0]:9092", Some(("fe80::1%eth0", 9092))),
            ("PLAINTEXT://a:9092", Some(("a", 9092))),
            ("::1:9092", None),
            ("a", None),
            ("a:", None),
            (":9092", None),
            ("a:0", None),
            ("a:65536", None),
            ("a b:9092", None),
            ("[a]:9092", None),
            ("[::1:9092", None),
        ] {
            let found = broker(text);
            assert_eq!(found, expected.map(|(host, port)| (host.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn a_bad_pattern_is_marked_in_its_element() {
        let document = Document::parse(b"topics = orders, a[b");
        let mut reader = Reader { document: &document, errors: Vec::new(), warnings: Vec::new() };
        let layered = Layered { chosen: &document.entries[0], shadowed: Vec::new() };

        reader.names(Some(&layered), "");

        assert_eq!(reader.errors[0].excerpt.as_ref().unwrap().place.column, 19);
    }
}
