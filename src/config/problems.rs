//! What is wrong with a file, and the way it is shown.
//!
//! All problems are collected, none ends the reading, and each knows its place. Values whose key
//! looks like a secret are never shown, and neither is the line they stand in.

use std::fmt;

use super::keys;
use super::properties::{Document, Entry, Place, SyntaxError};

/// Characters of a line that are shown around a problem; longer lines are cut.
const SHOWN_MAX: usize = 100;

/// One thing that is wrong or worth a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key as written, prefixes included; empty if no key is at fault.
    pub key: String,
    /// Where it stands; `None` if it is something that is missing.
    pub excerpt: Option<Excerpt>,
    /// What is wrong, as one line without a full stop.
    pub message: String,
    /// What to write instead, if there is an answer.
    pub hint: Option<String>,
}

/// A part of the file, with a mark under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// Where the marked part begins.
    pub place: Place,
    /// The line, or what may be shown of it.
    pub text: String,
    /// First marked character of `text`.
    pub mark_start: usize,
    /// Marked characters; at least 1.
    pub mark_length: usize,
}

/// Which part of an entry is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The key; the value is not shown.
    Key,
    /// The whole value.
    Value,
    /// Some characters of the value, from 0.
    Characters {
        /// The first.
        start: usize,
        /// How many.
        length: usize,
    },
}

impl Problem {
    /// A problem without a place: something is missing.
    #[must_use]
    pub fn missing(message: impl Into<String>) -> Self {
        Self { key: String::new(), excerpt: None, message: message.into(), hint: None }
    }

    /// A problem with a part of an entry.
    #[must_use]
    pub fn at(document: &Document, entry: &Entry, part: Part, message: impl Into<String>) -> Self {
        Self {
            key: entry.key.as_str().to_owned(),
            excerpt: Some(Excerpt::of(document, entry, part)),
            message: message.into(),
            hint: None,
        }
    }

    /// A line that Java would refuse. Its text is not shown: whose value it is, is not known.
    #[must_use]
    pub fn syntax(error: &SyntaxError) -> Self {
        Self {
            key: String::new(),
            excerpt: Some(Excerpt {
                place: error.place,
                text: "\\u".to_owned(),
                mark_start: 0,
                mark_length: 2,
            }),
            message: error.problem.to_owned(),
            hint: Some("a backslash itself is written as two".to_owned()),
        }
    }

    /// Message and hint, indented under a line of the file.
    fn said(&self) -> String {
        let hint = self.hint.as_ref().map(|hint| format!("    hint: {hint}\n"));
        format!("    {}\n{}", self.message, hint.unwrap_or_default())
    }

    /// The same problem with a way out.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Excerpt {
    fn of(document: &Document, entry: &Entry, part: Part) -> Self {
        let key = entry.key.as_str();
        let hidden = keys::is_secret(key) || keys::holds_secret(entry.value.as_str());
        if part == Part::Key || hidden {
            // Of a key that is not known, nobody can tell whether its value is a secret.
            let text = if part == Part::Key { key.to_owned() } else { format!("{key} = <secret>") };
            return Self {
                place: if part == Part::Key { entry.key.place(0) } else { entry.value.place(0) },
                mark_start: if part == Part::Key { 0 } else { key.chars().count() + 3 },
                mark_length: if part == Part::Key { key.chars().count().max(1) } else { 8 },
                text: printable(&text),
            };
        }
        let (start, length) = match part {
            Part::Characters { start, length } => (start, length),
            Part::Key | Part::Value => (0, entry.value.as_str().chars().count()),
        };
        let place = entry.value.place(start);
        let end = entry.value.place(start + length);
        let line: Vec<char> = printable(document.line(place.line)).chars().collect();
        let column = |place: Place| usize::try_from(place.column).unwrap_or(1).saturating_sub(1);
        let from = column(place);
        let to = if end.line == place.line { column(end) } else { line.len() };
        let blanks = line.iter().take_while(|c| **c == ' ').count().min(from);
        // The mark stays in sight of whatever the cut leaves.
        let first = if from - blanks > SHOWN_MAX / 2 { from - SHOWN_MAX / 4 } else { blanks };
        let last = line.len().min(first + SHOWN_MAX);
        let mut text: String = line.get(first..last).unwrap_or_default().iter().collect();
        let mut mark_start = from - first;
        if first > blanks {
            text.insert_str(0, "... ");
            mark_start += 4;
        }
        if last < line.len() {
            text.push_str(" ...");
        }
        let mark_length = to.min(last).saturating_sub(from).max(1);
        Self { place, text, mark_start, mark_length }
    }
}

/// One column per character, and nothing that a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(excerpt) = &self.excerpt {
            let Place { line, column } = excerpt.place;
            let place = format!("line {line}, column {column}");
            writeln!(f, "  {place}  {}", excerpt.text)?;
            let indent = place.chars().count() + 4 + excerpt.mark_start;
            writeln!(f, "{:indent$}{}", "", "^".repeat(excerpt.mark_length))?;
            f.write_str(&self.said())
        } else {
            f.write_str(self.said().get(2..).unwrap_or_default())
        }
    }
}

/// All problems of a file, and what is worth a word besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    /// The file's name, as given.
    pub file: String,
    /// What must be changed; not empty.
    pub errors: Vec<Problem>,
    /// What may stay, but may not be what was meant.
    pub warnings: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.errors.len();
        let problems = if count == 1 { "problem" } else { "problems" };
        writeln!(f, "error: {count} {problems} in {}", self.file)?;
        for problem in &self.errors {
            write!(f, "\n{problem}")?;
        }
        if !self.warnings.is_empty() {
            write!(f, "\n{}", render_warnings(&self.file, &self.warnings))?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// Warnings as people read them; empty text if there are none.
#[must_use]
pub fn render_warnings(file: &str, warnings: &[Problem]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    let count = warnings.len();
    let noun = if count == 1 { "warning" } else { "warnings" };
    let mut out = format!("{count} {noun} about {file}\n");
    let mut shown = vec![false; warnings.len()];
    for (index, first) in warnings.iter().enumerate() {
        if shown[index] {
            continue;
        }
        let same = |other: &Problem| other.message == first.message && other.hint == first.hint;
        let alike: Vec<usize> = (index..warnings.len()).filter(|at| same(&warnings[*at])).collect();
        out.push('\n');
        match alike.as_slice() {
            [_] => out.push_str(&first.to_string()),
            several => {
                // Many keys, one thing to say: it is said once.
                for excerpt in several.iter().filter_map(|at| warnings[*at].excerpt.as_ref()) {
                    let place = format!("line {}", excerpt.place.line);
                    out.push_str(&format!("  {place:<9} {}\n", excerpt.text));
                }
                out.push_str(&first.said());
            }
        }
        for at in alike {
            shown[at] = true;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(file: &str, part: Part, message: &str) -> Problem {
        let document = Document::parse(file.as_bytes());
        Problem::at(&document, &document.entries[0], part, message)
    }

    #[test]
    fn a_problem_is_shown_with_a_mark_under_its_place() {
        let problem = problem(
            "\n  a->b.topics = orders.*, x[y",
            Part::Characters { start: 10, length: 3 },
            "this `[` is never closed",
        )
        .hint("close it");

        assert_eq!(
            problem.to_string(),
            format!(
                "  line 2, column 27  a->b.topics = orders.*, x[y\n{:45}^^^\n    {}\n    {}\n",
                "", "this `[` is never closed", "hint: close it"
            )
        );
    }

    #[test]
    fn a_place_on_a_continued_line_shows_that_line() {
        let problem = problem(
            "a->b.topics = orders,\\\n    x[y",
            Part::Characters { start: 7, length: 3 },
            "never closed",
        );

        let excerpt = problem.excerpt.unwrap();
        assert_eq!(excerpt.place, Place { line: 2, column: 5 });
        assert_eq!((excerpt.text.as_str(), excerpt.mark_start, excerpt.mark_length), ("x[y", 0, 3));
    }

    #[test]
    fn a_secret_is_never_shown_whatever_part_is_marked() {
        for file in [
            "b.ssl.key.password = hunter2",
            "b.sasl.jaas.config = hunter2",
            "b.sasl.jaas.config = a \\\n  hunter2",
            "b.whatever = user password=hunter2",
        ] {
            for part in [Part::Key, Part::Value, Part::Characters { start: 1, length: 2 }] {
                let text = problem(file, part, "wrong").to_string();
                assert!(!text.contains("hunter2"), "{text}");
            }
        }
    }

    #[test]
    fn a_warning_about_several_lines_is_said_once() {
        let document = Document::parse(b"first = 1\nsecond = 2\nthird = 3");
        let [first, second, third] = document.entries.as_slice() else { panic!("three") };
        let warn = |entry, message: &str| Problem::at(&document, entry, Part::Key, message);
        let warnings =
            [warn(first, "no effect"), warn(second, "unknown"), warn(third, "no effect")];

        assert_eq!(
            render_warnings("mm2.properties", &warnings),
            "3 warnings about mm2.properties\n\
             \n\
             \x20 line 1    first\n\
             \x20 line 3    third\n\
             \x20   no effect\n\
             \n\
             \x20 line 2, column 1  second\n\
             \x20                   ^^^^^^\n\
             \x20   unknown\n"
        );
    }

    #[test]
    fn a_long_line_is_cut_around_the_mark() {
        let file = format!("topics = {}x[y{}", "a,".repeat(300), ",b".repeat(300));
        let problem = problem(&file, Part::Characters { start: 600, length: 3 }, "wrong");

        let excerpt = problem.excerpt.unwrap();
        let marked: String =
            excerpt.text.chars().skip(excerpt.mark_start).take(excerpt.mark_length).collect();
        assert_eq!(marked, "x[y");
        assert!(excerpt.text.len() < 120 && excerpt.text.starts_with("... "));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = problem("a = x\u{1b}[31m", Part::Value, "wrong").to_string();

        assert!(!text.contains('\u{1b}'));
    }
}
