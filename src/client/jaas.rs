//! `sasl.jaas.config`, read as Java reads it.
//!
//! Kafka cuts the text into tokens with `java.io.StreamTokenizer` (`JaasConfig`), so words, quotes,
//! escapes and comments follow that class: `class flag name=value ... ;`, once or several times.

use std::iter::Peekable;
use std::str::Chars;

use crate::model::Secret;

/// One login module with its options.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LoginModule {
    /// The full name of the Java class.
    pub(super) class: String,
    /// Its options; of two with one name, the later counts.
    pub(super) options: Vec<(String, Secret)>,
}

impl LoginModule {
    /// The option with this name.
    #[must_use]
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.reveal())
    }
}

/// Takes a text apart.
///
/// # Errors
///
/// What Java would refuse, in words that show no value.
pub(super) fn parse(text: &str) -> Result<Vec<LoginModule>, String> {
    let mut tokens = Tokens { rest: text.chars().peekable() };
    let mut modules = Vec::new();
    while let Some(token) = tokens.next()? {
        let Token::Text(class) = token else {
            return Err("it must begin with the class of a login module".into());
        };
        modules.push(module(class, &mut tokens)?);
    }
    if modules.is_empty() { Err("no login module is named".into()) } else { Ok(modules) }
}

fn module(class: String, tokens: &mut Tokens<'_>) -> Result<LoginModule, String> {
    const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];
    let flag = match tokens.next()? {
        Some(Token::Text(flag)) => flag,
        _ => String::new(),
    };
    if !FLAGS.iter().any(|known| flag.eq_ignore_ascii_case(known)) {
        return Err(format!("{class} must be followed by `required`"));
    }
    let mut options = Vec::new();
    loop {
        let name = match tokens.next()? {
            Some(Token::Sign(';')) => return Ok(LoginModule { class, options }),
            Some(Token::Text(name)) => name,
            Some(Token::Sign(_) | Token::Number) => {
                return Err(format!("{class}: name=value is expected; quote the value before it"));
            }
            None => return Err(format!("the `;` behind {class} and its options is missing")),
        };
        if !matches!(tokens.next()?, Some(Token::Sign('='))) {
            return Err(format!("{class}: a `=` is missing behind an option"));
        }
        match tokens.next()? {
            Some(Token::Text(value)) => options.push((name, Secret::new(value))),
            Some(Token::Number) => {
                return Err(format!(
                    "{class}: the value of {name} begins with a digit, `.` or `-`, which Java takes \
                     for a number; put it in quotes"
                ));
            }
            Some(Token::Sign(_)) | None => return Err(format!("{class}: {name} has no value")),
        }
    }
}

enum Token {
    /// A word or what stood in quotes.
    Text(String),
    /// Java reads a number here, and Kafka wants none.
    Number,
    /// Any other character.
    Sign(char),
}

struct Tokens<'t> {
    rest: Peekable<Chars<'t>>,
}

impl Tokens<'_> {
    fn next(&mut self) -> Result<Option<Token>, String> {
        loop {
            let Some(first) = self.rest.next() else { return Ok(None) };
            return Ok(Some(match first {
                blank if blank <= ' ' => continue,
                '/' => {
                    self.comment();
                    continue;
                }
                '"' | '\'' => Token::Text(self.quoted(first)?),
                '0'..='9' | '.' | '-' => {
                    while self.rest.next_if(|c| word(*c)).is_some() {}
                    Token::Number
                }
                letter if word(letter) => {
                    let mut text = String::from(letter);
                    while let Some(next) = self.rest.next_if(|c| word(*c)) {
                        text.push(next);
                    }
                    Token::Text(text)
                }
                sign => Token::Sign(sign),
            }));
        }
    }

    /// Behind a slash: Java takes one, two, or one with a star for the beginning of a comment.
    fn comment(&mut self) {
        if self.rest.next_if_eq(&'*').is_some() {
            let mut before = ' ';
            for c in self.rest.by_ref() {
                if before == '*' && c == '/' {
                    return;
                }
                before = c;
            }
        } else {
            for c in self.rest.by_ref() {
                if matches!(c, '\n' | '\r') {
                    return;
                }
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String, String> {
        let open = || format!("a {quote} is never closed");
        let mut text = String::new();
        loop {
            let c = self.rest.next().ok_or_else(open)?;
            match c {
                c if c == quote => return Ok(text),
                '\n' | '\r' => return Err(open()),
                '\\' => text.push(self.escaped().ok_or_else(open)?),
                c => text.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        Some(match self.rest.next()? {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            first @ '0'..='7' => {
                let mut code = first.to_digit(8)?;
                let digits = if first <= '3' { 2 } else { 1 };
                for _ in 0..digits {
                    match self.rest.next_if(|c| c.is_digit(8)) {
                        Some(digit) => code = code * 8 + digit.to_digit(8)?,
                        None => break,
                    }
                }
                char::from_u32(code)?
            }
            other => other,
        })
    }
}

/// Letters and digits of a word, as Kafka sets the tokenizer.
fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$' | '.') || c >= '\u{a0}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Vec<(String, String)> {
        let modules = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let pairs = modules.into_iter().flat_map(|module| module.options);
        pairs.map(|(name, value)| (name, value.reveal().to_owned())).collect()
    }

    #[test]
    fn a_login_is_read_with_quotes_escapes_and_comments() {
        let text = r#"a.b.PlainLoginModule required /* who */ username="mi\"rr\\or" // and
            password='p;=\101\x' realm=some-word_$1.x;"#;

        assert_eq!(parse(text).unwrap()[0].class, "a.b.PlainLoginModule");
        let expected =
            [("username", "mi\"rr\\or"), ("password", "p;=Ax"), ("realm", "some-word_$1.x")];
        assert_eq!(options(text), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }

    #[test]
    fn several_modules_may_stand_in_one_text() {
        let modules = parse("a required x=y; b Optional;").unwrap();

        assert_eq!(modules.len(), 2);
        assert_eq!(modules[0].option("x"), Some("y"));
        assert_eq!(modules[1].class, "b");
    }

    #[test]
    fn what_java_refuses_is_refused_and_no_value_is_shown() {
        for (text, word) in [
            ("", "no login module"),
            ("a", "required"),
            ("a maybe;", "required"),
            ("a required", "`;`"),
            ("a required password=hunter2", "`;`"),
            ("a required password=\"hunter2;", "never closed"),
            ("a required password hunter2;", "`=`"),
            ("a required password=;", "has no value"),
            ("a required password=2hunter2;", "quotes"),
            ("= required;", "begin with the class"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
