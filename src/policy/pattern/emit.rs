//! Writes a parsed pattern in the syntax of the matching engines.
//!
//! Only the common core of both engines is used: sets spelled out, plain and capturing groups,
//! look-around, counts. No flags and no predefined classes, because these are what the
//! dialects disagree on.

use std::fmt::Write as _;

use super::Engine;
use super::parse::{Assertion, Greed, GroupKind, Node};
use super::set::{self, CharSet};

/// The pattern for `node`, made to match whole names, and the engine that it needs.
pub(super) fn emit(node: &Node) -> (Engine, String) {
    let engine = if needs_backtracking(node, true) { Engine::Backtracking } else { Engine::Linear };
    let mut writer = Writer {
        engine,
        captures: node.contains(&|node| matches!(node, Node::Backreference(_))),
        out: String::new(),
    };
    writer.out.push_str("\\A(?:");
    writer.node(node, true);
    writer.out.push_str(")\\z");
    (engine, writer.out)
}

/// `last` tells that nothing can follow this node but the end of the name.
fn needs_backtracking(node: &Node, last: bool) -> bool {
    match node {
        Node::Empty | Node::Set(_) | Node::LineEnding => false,
        Node::Assert(Assertion::NotWordBoundary) | Node::Backreference(_) => true,
        Node::Assert(Assertion::EndOrLastTerminator { .. }) => !last,
        Node::Assert(Assertion::Start | Assertion::End | Assertion::WordBoundary) => false,
        Node::Group(GroupKind::Capture | GroupKind::Plain, inner) => {
            needs_backtracking(inner, last)
        }
        Node::Group(GroupKind::Atomic | GroupKind::Look { .. }, _) => true,
        Node::Repeat { node, greed, .. } => {
            *greed == Greed::Possessive || needs_backtracking(node, false)
        }
        Node::Concat(nodes) => nodes
            .iter()
            .enumerate()
            .any(|(index, node)| needs_backtracking(node, last && index + 1 == nodes.len())),
        Node::Alternatives(nodes) => nodes.iter().any(|node| needs_backtracking(node, last)),
    }
}

struct Writer {
    engine: Engine,
    captures: bool,
    out: String,
}

impl Writer {
    fn node(&mut self, node: &Node, last: bool) {
        match node {
            Node::Empty => {}
            Node::Set(set) => self.set(set),
            Node::LineEnding => {
                self.out.push_str("(?:\\x{d}\\x{a}|");
                self.set(&set::vertical_space());
                self.out.push(')');
            }
            Node::Assert(assertion) => self.assertion(*assertion, last),
            Node::Group(kind, inner) => {
                self.out.push_str(match kind {
                    GroupKind::Capture if self.captures => "(",
                    GroupKind::Capture | GroupKind::Plain => "(?:",
                    GroupKind::Atomic => "(?>",
                    GroupKind::Look { ahead: true, negative: false } => "(?=",
                    GroupKind::Look { ahead: true, negative: true } => "(?!",
                    GroupKind::Look { ahead: false, negative: false } => "(?<=",
                    GroupKind::Look { ahead: false, negative: true } => "(?<!",
                });
                let last = last && matches!(kind, GroupKind::Capture | GroupKind::Plain);
                self.node(inner, last);
                self.out.push(')');
            }
            Node::Backreference(number) => self.put(format_args!("(?:\\{number})")),
            Node::Repeat { node, min, max, greed } => self.repeat(node, *min, *max, *greed),
            Node::Concat(nodes) => {
                for (index, node) in nodes.iter().enumerate() {
                    self.node(node, last && index + 1 == nodes.len());
                }
            }
            Node::Alternatives(nodes) => {
                for (index, node) in nodes.iter().enumerate() {
                    if index > 0 {
                        self.out.push('|');
                    }
                    self.node(node, last);
                }
            }
        }
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>, greed: Greed) {
        if greed == Greed::Possessive {
            self.out.push_str("(?>");
        }
        self.out.push_str("(?:");
        self.node(node, false);
        self.out.push(')');
        match (min, max) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (min, None) => self.put(format_args!("{{{min},}}")),
            (min, Some(max)) => self.put(format_args!("{{{min},{max}}}")),
        }
        match greed {
            Greed::Greedy => {}
            Greed::Lazy => self.out.push('?'),
            Greed::Possessive => self.out.push(')'),
        }
    }

    fn assertion(&mut self, assertion: Assertion, last: bool) {
        match assertion {
            Assertion::Start => self.out.push_str("\\A"),
            Assertion::End => self.out.push_str("\\z"),
            // Standing before a last terminator does not help where nothing may follow.
            Assertion::EndOrLastTerminator { .. } if last => self.out.push_str("\\z"),
            Assertion::EndOrLastTerminator { only_newline: true } => {
                self.out.push_str("(?=\\x{a}?\\z)");
            }
            Assertion::EndOrLastTerminator { only_newline: false } => {
                // Between `\r` and `\n` is not before a terminator.
                self.out.push_str("(?=\\x{d}\\x{a}\\z|");
                self.set(&set::line_terminators());
                self.out.push_str("?\\z)(?!(?<=\\x{d})\\x{a})");
            }
            Assertion::WordBoundary if self.engine == Engine::Linear => {
                self.out.push_str("(?-u:\\b)");
            }
            Assertion::WordBoundary => self.boundary(["(?<=", "(?!", "(?<!", "(?="]),
            Assertion::NotWordBoundary => self.boundary(["(?<=", "(?=", "(?<!", "(?!"]),
        }
    }

    fn boundary(&mut self, [left, right, or_left, or_right]: [&str; 4]) {
        self.out.push_str("(?:");
        for (index, look) in [left, right, or_left, or_right].into_iter().enumerate() {
            if index == 2 {
                self.out.push('|');
            }
            self.out.push_str(look);
            self.set(&set::word());
            self.out.push(')');
        }
        self.out.push(')');
    }

    fn set(&mut self, set: &CharSet) {
        let ranges = set.ranges();
        match ranges.as_slice() {
            // A class without characters is written as an end that is followed by something.
            [] => self.out.push_str("(?:\\z[\\x{0}-\\x{10FFFF}])"),
            [(from, to)] if from == to => self.character(*from),
            ranges => {
                self.out.push('[');
                for &(from, to) in ranges {
                    self.character(from);
                    if from != to {
                        self.out.push('-');
                        self.character(to);
                    }
                }
                self.out.push(']');
            }
        }
    }

    fn character(&mut self, c: char) {
        if c.is_ascii_alphanumeric() {
            self.out.push(c);
        } else {
            self.put(format_args!("\\x{{{:x}}}", u32::from(c)));
        }
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.out.write_fmt(arguments).expect("a String takes everything");
    }
}
