//! Text and files that people write, and what token servers answer.

use std::fmt::Write as _;

use heliograph::client::doors;
use heliograph::config::properties::Document;
use heliograph::policy::{Engine, Pattern};

use super::{Feed, with};
use crate::golden;

/// A file is read without panic, its characters stand where it is said; and written anew as Java's
/// `Properties.store` does, it says the same.
///
/// # Panics
///
/// If not.
pub(super) fn properties(data: &[u8]) {
    let document = Document::parse(data);
    for entry in &document.entries {
        for text in [&entry.key, &entry.value] {
            for (index, c) in text.as_str().chars().enumerate() {
                let place = text.place(index);
                let column = usize::try_from(place.column).expect("small") - 1;
                let found = document.line(place.line).chars().nth(column);
                assert!(found == Some(c) || found == Some('\\'), "{c:?} at {place:?}: {found:?}");
            }
        }
    }
    for error in &document.errors {
        assert!(!document.line(error.place.line).is_empty(), "an error at a place");
    }
    let mut stored = String::new();
    for entry in &document.entries {
        store(entry.key.as_str(), true, &mut stored);
        stored.push('=');
        store(entry.value.as_str(), false, &mut stored);
        stored.push('\n');
    }
    let again = Document::parse(stored.as_bytes());
    assert!(again.errors.is_empty(), "{:?} in {stored:?}", again.errors);
    let texts = |document: &Document| {
        let text = |text: &heliograph::config::properties::Text| text.as_str().to_owned();
        document.entries.iter().map(|one| (text(&one.key), text(&one.value))).collect::<Vec<_>>()
    };
    assert_eq!(texts(&again), texts(&document), "as stored: {stored:?}");
}

/// `Properties.saveConvert` in Java.
fn store(text: &str, key: bool, out: &mut String) {
    for (index, unit) in text.encode_utf16().enumerate() {
        match u8::try_from(unit).map(char::from) {
            Ok(' ') if key || index == 0 => out.push_str("\\ "),
            Ok(' ') => out.push(' '),
            Ok('\t') => out.push_str("\\t"),
            Ok('\n') => out.push_str("\\n"),
            Ok('\r') => out.push_str("\\r"),
            Ok('\u{c}') => out.push_str("\\f"),
            Ok(sign @ ('\\' | '=' | ':' | '#' | '!')) => out.extend(['\\', sign]),
            Ok(plain @ ' '..='~') => out.push(plain),
            _ => write!(out, "\\u{unit:04X}").expect("a String takes everything"),
        }
    }
}

/// A pattern is taken or refused at a place in it, matching ends, and both engines agree.
///
/// # Panics
///
/// If not.
pub(super) fn java_pattern(data: &[u8]) {
    let mut feed = Feed(data);
    let length = usize::from(feed.byte() % 64);
    let names = String::from_utf8_lossy(feed.take(length)).into_owned();
    let text = String::from_utf8_lossy(feed.0.get(..256).unwrap_or(feed.0)).into_owned();

    // What is quoted matches itself, and nothing else.
    if !text.contains("\\E") {
        let quoted = Pattern::new(&format!("\\Q{text}\\E")).expect("a quotation");
        assert_eq!(quoted.matches(&text), Ok(true));
        assert_eq!(quoted.matches(&format!("{text}.")), Ok(false));
    }
    let pattern = match Pattern::new(&text) {
        Ok(pattern) => pattern,
        Err(error) => {
            assert!(error.length >= 1 && !error.problem.is_empty());
            // Also one character behind the end, where something is missing.
            assert!(error.at <= text.chars().count(), "{error:?} in {text:?}");
            return;
        }
    };
    assert_eq!(pattern.as_str(), text);
    let mut names: Vec<&str> = names.split('\0').collect();
    names.extend(["", "a", "orders", "my.topic-1_x", "mm2-offsets.A.internal"]);
    names.push(&text);
    // An empty look-ahead changes nothing but the engine. (An open quotation would swallow it.)
    let other = if text.contains("\\Q") || pattern.engine() == Engine::Backtracking {
        None
    } else {
        Pattern::new(&format!("(?:{text})(?=)")).ok()
    };
    for name in names {
        let answer = pattern.matches(name);
        if pattern.engine() == Engine::Linear {
            assert!(answer.is_ok(), "{text:?} on {name:?}: {answer:?}");
        }
        if let Some(Ok(found)) = other.as_ref().map(|other| other.matches(name)) {
            assert_eq!(answer, Ok(found), "{text:?} on {name:?}");
        }
    }
}

/// What is to be kept secret is not in what is said about it.
const SECRET: &str = "s3cr3t-W0rd";

/// Key stores of all formats, encrypted keys, and `sasl.jaas.config`: no panic, no more memory than they are, and
/// what is said about them does not show the password.
///
/// # Panics
///
/// If not.
pub(super) fn key_stores(data: &[u8]) {
    let mut feed = Feed(data);
    match feed.byte() % 3 {
        0 => {}
        1 => return jaas(feed.0),
        _ => {
            let why = doors::private_key(feed.0, SECRET).err().unwrap_or_default();
            assert!(!why.contains(SECRET), "{why}");
            return;
        }
    }
    for trust in [false, true] {
        match doors::key_store(feed.0, SECRET, trust) {
            Ok((certificates, key)) => {
                // Each takes a byte at least, and a trust store gives no key.
                assert!(certificates + usize::from(key) <= feed.0.len());
            }
            Err(why) => assert!(!why.is_empty() && !why.contains(SECRET), "{why}"),
        }
    }
}

fn jaas(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(modules) = doors::jaas(&text) else { return };
    // Written in quotes, with the escapes that Java knows, it says the same.
    let mut written = String::new();
    for (class, options) in &modules {
        quote(class, &mut written);
        written.push_str(" required");
        for (name, value) in options {
            written.push(' ');
            quote(name, &mut written);
            written.push('=');
            quote(value, &mut written);
        }
        written.push_str(";\n");
    }
    assert_eq!(doors::jaas(&written), Ok(modules), "{written:?}");
    // Without its end it is refused, and the refusal shows no value.
    let open = format!("a.B required password=\"{SECRET}\" {text}");
    if let Err(why) = doors::jaas(&open)
        && !text.contains(SECRET)
    {
        assert!(!why.contains(SECRET), "{why}");
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '"' | '\\' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Answers of a token server: a token that is taken can be sent, lasts for some time, and stood in
/// the answer; what is said of a refusal is bounded and of one line.
///
/// # Panics
///
/// If not.
pub(super) fn token_answers(data: &[u8]) {
    let mut feed = Feed(data);
    let status = u16::from_be_bytes([feed.byte(), feed.byte()]);
    let now_ms = i64::from_be_bytes([0, 0, feed.byte(), feed.byte(), 0, 0, 0, feed.byte()]);
    if let Ok((token, lasts)) = doors::token_answer(feed.0, now_ms) {
        assert!(lasts > 0, "a token that has ended");
        let token = token.reveal();
        // RFC 6750, section 2.1: nothing that would end the message that it is sent in.
        assert!(
            !token.is_empty() && token.bytes().all(|byte| byte > b' ' && byte < 0x7f),
            "{token:?}"
        );
        let stands = String::from_utf8_lossy(feed.0).contains(token) || feed.0.contains(&b'\\');
        assert!(stands, "{token} is not in the answer");
    }
    let said = doors::token_refusal(status, feed.0);
    assert!(said.len() < 8 * 1024 && said.chars().all(|c| !c.is_control()), "{said:?}");
}

/// The texts of Java's answers about something, as bytes.
fn vectors(json: &str, list: &str, field: &str) -> Vec<String> {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let entries = json[list].as_array().expect("entries");
    entries.iter().map(|entry| entry[field].as_str().expect("text").to_owned()).collect()
}

pub(super) fn properties_seeds() -> Vec<Vec<u8>> {
    let files = vectors(include_str!("../../vectors/properties.json"), "files", "file");
    let latin = |file: &String| file.chars().filter_map(|c| u8::try_from(c).ok()).collect();
    files.iter().step_by(7).map(latin).collect()
}

pub(super) fn java_pattern_seeds() -> Vec<Vec<u8>> {
    let patterns = vectors(include_str!("../../vectors/patterns.json"), "patterns", "pattern");
    let mut seeds: Vec<Vec<u8>> = patterns
        .iter()
        .step_by(5)
        .map(|pattern| with(b"\x0eorders\0aab\0A.b", pattern.as_bytes()))
        .collect();
    // Counts of counts, and what makes a backtracking engine try for ever.
    for hard in
        ["(((a{90}){90}){90}){90}", "(?=(a+)+b)a+", "(a|a)*+b", "(?<=a{1,50})(.*)*x", "((a*)*)*\\1"]
    {
        seeds.push(with(b"\x1eaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", hard.as_bytes()));
    }
    seeds
}

/// A key store of format JKS: one trusted certificate, without a checksum that holds.
fn jks() -> Vec<u8> {
    let mut store = vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
    store.extend_from_slice(b"\0\x02ca\0\0\0\0\0\0\0\x01\0\x05X.509\0\0\0\x04\x30\x02\x05\0");
    store.extend_from_slice(&[0; 20]);
    store
}

pub(super) fn key_stores_seeds() -> Vec<Vec<u8>> {
    let pem = b"-----BEGIN CERTIFICATE-----\nMAIFAA==\n-----END CERTIFICATE-----\n\
        -----BEGIN PRIVATE KEY-----\nMAIFAA==\n-----END PRIVATE KEY-----\n";
    let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n\
        MCgwIgYKKoZIhvcNAQwBAzAUBAgBAgMEBQYHCAICB9AEAgEC\n-----END ENCRYPTED PRIVATE KEY-----";
    let pfx = [
        0x30, 0x16, 2, 1, 3, 0x30, 0x11, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 7, 1, 0xa0, 4,
        4, 2, 0x30, 0,
    ];
    // EncryptedPrivateKeyInfo under PBES2: scrypt with 2^14, 8, 1, then AES-256.
    let key = golden::hex(
        "3073304f06092a864886f70d01050d3042302106092b06010401da47040b30140408010101010101\
        010102024000020108020101301d060960864801650304012a041007070707070707070707070707\
        07070704200909090909090909090909090909090909090909090909090909090909090909",
    );
    let jaas =
        b"org.apache.kafka.common.security.scram.ScramLoginModule required username=\"u\\tx\" \
        password='p\\101' /* more */ a=b ; // end\n x.Y optional;";
    vec![
        with(&[0], pem),
        with(&[0], encrypted),
        with(&[0], &jks()),
        with(&[0], &pfx),
        with(&[1], jaas),
        with(&[2], &key),
    ]
}

pub(super) fn token_answers_seeds() -> Vec<Vec<u8>> {
    let head = [0, 200, 0, 0, 0];
    // Its claims: {"exp":4102444800.5}
    let token = br#"{"access_token":"e30.eyJleHAiOjQxMDI0NDQ4MDAuNX0.c2ln","token_type":"Bearer","expires_in":300}"#;
    let opaque = br#"{"access_token":"e30.e30.","expires_in":17.5,"scope":"a b"}"#;
    let refused = br#"{"error":"invalid_client","error_description":"no\nsuch client"}"#;
    let odd = br#"{"access_token":"e30.eyJleHAiOi0xZTMwMH0.x","expires_in":9223372036854775807}"#;
    [&token[..], opaque, refused, odd].map(|body| with(&head, body)).into()
}
