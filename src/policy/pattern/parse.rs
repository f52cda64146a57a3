//! The parser of Java's regular expressions: text in, tree out.
//!
//! It follows `java.util.regex.Pattern` as documented, and where Java's reading is surprising
//! (a class that intersects with nothing, say) or depends on its Unicode tables it refuses
//! instead of guessing. Escapes are in `escape`, character classes
//! in `class`.

use super::PatternError;
use super::set::{self, CharSet};

/// Deepest nesting of groups and classes. Parsing and emitting recurse once per level; without
/// a bound, a line of brackets in a file would end the process.
const NESTING_MAX: usize = 100;

/// Largest count in `{..}`. The matching engine unrolls counts, and a name has 249 characters.
const REPEAT_MAX: u32 = 10_000;

/// One construct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Empty,
    Set(CharSet),
    Assert(Assertion),
    /// `\R`.
    LineEnding,
    Group(GroupKind, Box<Self>),
    Backreference(usize),
    Repeat {
        node: Box<Self>,
        min: u32,
        max: Option<u32>,
        greed: Greed,
    },
    Concat(Vec<Self>),
    Alternatives(Vec<Self>),
}

impl Node {
    /// Whether this node alone keeps a match from having a greatest length. In a
    /// look-behind, what Java finds then differs between its versions.
    fn is_unbounded(&self) -> bool {
        matches!(self, Self::Backreference(_) | Self::Repeat { max: None, .. })
    }

    /// Whether this node or one inside it is such that `test` holds.
    pub(super) fn contains(&self, test: &dyn Fn(&Self) -> bool) -> bool {
        test(self)
            || match self {
                Self::Empty
                | Self::Set(_)
                | Self::Assert(_)
                | Self::LineEnding
                | Self::Backreference(_) => false,
                Self::Group(_, node) | Self::Repeat { node, .. } => node.contains(test),
                Self::Concat(nodes) | Self::Alternatives(nodes) => {
                    nodes.iter().any(|node| node.contains(test))
                }
            }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    Start,
    /// `\z`.
    End,
    /// `$` and `\Z`: also before a last line terminator.
    EndOrLastTerminator {
        only_newline: bool,
    },
    WordBoundary,
    NotWordBoundary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupKind {
    Capture,
    Plain,
    Atomic,
    Look { ahead: bool, negative: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greed {
    Greedy,
    Lazy,
    Possessive,
}

/// The flags that change what a construct means, as they stand at one place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub(super) ignore_case: bool,
    dot_all: bool,
    pub(super) unix_lines: bool,
}

/// One character of the pattern; inside `\Q..\E` it stands for itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) c: char,
    pub(super) at: usize,
    pub(super) quoted: bool,
}

impl Token {
    pub(super) fn is(self, c: char) -> bool {
        !self.quoted && self.c == c
    }
}

pub(super) struct Parser {
    tokens: Vec<Token>,
    pub(super) next: usize,
    /// Characters of the pattern, for errors at its end.
    length: usize,
    pub(super) flags: Flags,
    pub(super) depth: usize,
    /// Names of the capturing groups opened so far, by number from 1.
    pub(super) groups: Vec<Option<String>>,
    /// Numbers of the groups that are not closed yet.
    pub(super) open: Vec<usize>,
}

pub(super) fn parse(pattern: &str) -> Result<Node, PatternError> {
    let mut parser = Parser {
        tokens: unquote(pattern),
        next: 0,
        length: pattern.chars().count(),
        flags: Flags::default(),
        depth: 0,
        groups: Vec::new(),
        open: Vec::new(),
    };
    let node = parser.alternatives()?;
    match parser.peek() {
        None => Ok(node),
        Some(token) => Err(parser.error(token.at, 1, "this `)` closes nothing")),
    }
}

/// Takes `\Q..\E` apart: what is inside stands for itself. A missing `\E` reaches to the end.
fn unquote(pattern: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(pattern.len());
    let mut quoted = false;
    let mut characters = pattern.chars().enumerate().peekable();
    while let Some((at, c)) = characters.next() {
        let mut then = |wanted: char| characters.next_if(|&(_, c)| c == wanted).is_some();
        if quoted {
            if c == '\\' && then('E') {
                quoted = false;
            } else {
                tokens.push(Token { c, at, quoted });
            }
        } else if c == '\\' && then('Q') {
            quoted = true;
        } else {
            tokens.push(Token { c, at, quoted });
            // The character after a backslash is taken along: in `\\Q` nothing is quoted.
            if c == '\\'
                && let Some((at, c)) = characters.next()
            {
                tokens.push(Token { c, at, quoted });
            }
        }
    }
    tokens
}

impl Parser {
    pub(super) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.next).copied()
    }

    pub(super) fn peek_second(&self) -> Option<Token> {
        self.tokens.get(self.next + 1).copied()
    }

    /// The token before the one that stands at `at`.
    pub(super) fn before(&self, at: usize) -> Option<Token> {
        self.tokens[..self.next].iter().rfind(|token| token.at < at).copied()
    }

    pub(super) fn take(&mut self) -> Option<Token> {
        let token = self.peek()?;
        self.next += 1;
        Some(token)
    }

    pub(super) fn take_if(&mut self, c: char) -> bool {
        let found = self.peek().is_some_and(|token| token.is(c));
        self.next += usize::from(found);
        found
    }

    pub(super) fn take_all(&mut self, text: &str) -> bool {
        let found = text
            .chars()
            .enumerate()
            .all(|(index, c)| self.tokens.get(self.next + index).is_some_and(|token| token.is(c)));
        if found {
            self.next += text.chars().count();
        }
        found
    }

    /// Where the next token stands, or the pattern's end.
    pub(super) fn here(&self) -> usize {
        self.peek().map_or(self.length, |token| token.at)
    }

    #[expect(clippy::unused_self, reason = "reads as the parser speaking, at every call")]
    pub(super) fn error(
        &self,
        at: usize,
        length: usize,
        problem: impl Into<String>,
    ) -> PatternError {
        PatternError { at, length: length.max(1), problem: problem.into(), hint: None }
    }

    pub(super) fn deeper(&mut self, at: usize) -> Result<(), PatternError> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            let problem = format!("groups and classes are nested deeper than {NESTING_MAX}");
            return Err(self.error(at, 1, problem));
        }
        Ok(())
    }

    fn alternatives(&mut self) -> Result<Node, PatternError> {
        let mut branches = vec![self.sequence()?];
        while self.take_if('|') {
            branches.push(self.sequence()?);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternatives(branches) })
    }

    fn sequence(&mut self) -> Result<Node, PatternError> {
        let mut nodes = Vec::new();
        while let Some(token) = self.peek() {
            if token.is('|') || token.is(')') {
                break;
            }
            let Some(atom) = self.atom()? else { continue };
            nodes.push(self.quantified(atom, token.at)?);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Concat(nodes),
        })
    }

    /// One construct without its quantifier; `None` for a group that only sets flags.
    fn atom(&mut self) -> Result<Option<Node>, PatternError> {
        let Some(token) = self.take() else { return Ok(Some(Node::Empty)) };
        if token.quoted {
            return Ok(Some(self.literal(token.c)));
        }
        Ok(Some(match token.c {
            '(' => return self.group(token.at),
            '[' => Node::Set(self.class(token.at)?),
            '\\' => self.escaped(token.at)?,
            '.' => Node::Set(self.dot()),
            '^' => Node::Assert(Assertion::Start),
            '$' => {
                Node::Assert(Assertion::EndOrLastTerminator { only_newline: self.flags.unix_lines })
            }
            '*' | '+' | '?' => {
                let problem = format!("`{}` has nothing to repeat", token.c);
                return Err(self.error(token.at, 1, problem));
            }
            '{' => {
                let error = self.error(token.at, 1, "`{` has nothing to repeat");
                return Err(error.hint("write `\\{` for the character itself"));
            }
            c => self.literal(c),
        }))
    }

    pub(super) fn literal(&self, c: char) -> Node {
        Node::Set(self.folded(CharSet::single(c)))
    }

    pub(super) fn folded(&self, set: CharSet) -> CharSet {
        if self.flags.ignore_case { set.fold_ascii_case() } else { set }
    }

    fn dot(&self) -> CharSet {
        if self.flags.dot_all {
            CharSet::empty().complement()
        } else if self.flags.unix_lines {
            CharSet::single('\n').complement()
        } else {
            set::line_terminators().complement()
        }
    }

    fn quantified(&mut self, node: Node, start: usize) -> Result<Node, PatternError> {
        let at = self.here();
        let (min, max) = if self.take_if('*') {
            (0, None)
        } else if self.take_if('+') {
            (1, None)
        } else if self.take_if('?') {
            (0, Some(1))
        } else if self.take_if('{') {
            self.counts(at)?
        } else {
            return Ok(node);
        };
        let greed = if self.take_if('?') {
            Greed::Lazy
        } else if self.take_if('+') {
            Greed::Possessive
        } else {
            Greed::Greedy
        };
        if matches!(&node, Node::Group(GroupKind::Look { .. }, _) | Node::Assert(_)) {
            let length = self.here() - start;
            return Err(self.error(start, length, "repeating what matches no character"));
        }
        if node.contains(&|node| *node == Node::LineEnding) {
            // Java does not try `\r` alone there once it took `\r\n` for one.
            let length = self.here() - start;
            return Err(self.error(start, length, "repeating `\\R` is not supported"));
        }
        Ok(Node::Repeat { node: Box::new(node), min, max, greed })
    }

    /// What stands between `{` and `}`. Java takes `{n}`, `{n,}` and `{n,m}`, no more.
    fn counts(&mut self, at: usize) -> Result<(u32, Option<u32>), PatternError> {
        let Some(min) = self.number(at)? else {
            let error = self.error(at, self.here() - at, "a count must begin with a number");
            return Err(error.hint("write `{0,3}` for at most three, `\\{` for the character"));
        };
        let max = if self.take_if(',') { self.number(at)? } else { Some(min) };
        if !self.take_if('}') {
            // The list was split at this comma before the pattern was read.
            let error = self.error(at, self.here() - at, "this `{` has no `}`");
            return Err(error.hint(
                "a comma always ends a list element, so `{1,3}` cannot be written; use `aa?a?`",
            ));
        }
        if max.is_some_and(|max| max < min) {
            return Err(self.error(at, self.here() - at, "the counts run backwards"));
        }
        Ok((min, max))
    }

    fn number(&mut self, at: usize) -> Result<Option<u32>, PatternError> {
        let mut number = None;
        while let Some(digit) =
            self.peek().filter(|token| !token.quoted).and_then(|token| token.c.to_digit(10))
        {
            self.next += 1;
            let value = number.unwrap_or(0) * 10 + digit;
            if value > REPEAT_MAX {
                let problem = format!("a count above {REPEAT_MAX}");
                return Err(self.error(at, self.here() - at, problem));
            }
            number = Some(value);
        }
        Ok(number)
    }

    fn group(&mut self, at: usize) -> Result<Option<Node>, PatternError> {
        self.deeper(at)?;
        let outer = self.flags;
        let kind = if !self.take_if('?') {
            self.groups.push(None);
            GroupKind::Capture
        } else if self.take_if(':') {
            GroupKind::Plain
        } else if self.take_if('>') {
            GroupKind::Atomic
        } else if self.take_if('=') {
            GroupKind::Look { ahead: true, negative: false }
        } else if self.take_if('!') {
            GroupKind::Look { ahead: true, negative: true }
        } else if self.take_all("<=") {
            GroupKind::Look { ahead: false, negative: false }
        } else if self.take_all("<!") {
            GroupKind::Look { ahead: false, negative: true }
        } else if self.take_if('<') {
            let name = self.group_name(at)?;
            if self.groups.contains(&Some(name.clone())) {
                let problem = format!("a second group with the name `{name}`");
                return Err(self.error(at, self.here() - at, problem));
            }
            self.groups.push(Some(name));
            GroupKind::Capture
        } else if self.flag_letters(at)? {
            // `(?i)` holds to the end of the group around it, over `|` too.
            self.depth -= 1;
            return Ok(None);
        } else {
            GroupKind::Plain
        };
        let number = self.groups.len();
        if kind == GroupKind::Capture {
            self.open.push(number);
        }
        let inner = self.alternatives()?;
        if !self.take_if(')') {
            return Err(self.error(at, 1, "this `(` is never closed"));
        }
        if kind == GroupKind::Capture {
            self.open.pop();
        }
        self.flags = outer;
        self.depth -= 1;
        if matches!(kind, GroupKind::Look { ahead: false, .. })
            && inner.contains(&Node::is_unbounded)
        {
            let problem = "this look-behind has no greatest length";
            return Err(self.error(at, self.here() - at, problem));
        }
        Ok(Some(Node::Group(kind, Box::new(inner))))
    }

    /// Flags after `(?`. True if `)` follows, false if `:` does.
    fn flag_letters(&mut self, at: usize) -> Result<bool, PatternError> {
        let mut on = true;
        while let Some(token) = self.take() {
            match token.c {
                ')' if !token.quoted => return Ok(true),
                ':' if !token.quoted => return Ok(false),
                '-' if on && !token.quoted => on = false,
                'i' => self.flags.ignore_case = on,
                's' => self.flags.dot_all = on,
                'd' => self.flags.unix_lines = on,
                // Off is how they are anyway.
                'u' | 'U' | 'm' | 'x' if !on => {}
                'u' | 'U' => {
                    let error = self.error(
                        at,
                        self.here() - at,
                        format!("flag `{}` asks for Java's Unicode tables", token.c),
                    );
                    return Err(error.hint("topic names are ASCII; leave the flag out"));
                }
                'm' | 'x' => {
                    let problem = format!("flag `{}` is not supported", token.c);
                    return Err(self.error(at, self.here() - at, problem));
                }
                c => {
                    let problem = format!("`(?` with an unknown `{c}`");
                    return Err(self.error(at, self.here() - at, problem));
                }
            }
        }
        Err(self.error(at, 1, "this `(` is never closed"))
    }

    pub(super) fn group_name(&mut self, at: usize) -> Result<String, PatternError> {
        let mut name = String::new();
        while let Some(token) = self.take() {
            if token.is('>') && !name.is_empty() {
                return Ok(name);
            }
            let fits =
                token.c.is_ascii_alphabetic() || (!name.is_empty() && token.c.is_ascii_digit());
            if !fits {
                break;
            }
            name.push(token.c);
        }
        Err(self.error(at, self.here() - at, "a group's name is ASCII letters and digits"))
    }
}
