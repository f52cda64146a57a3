//! The direction of dependencies: a module imports from lower floors only.
//!
//! A scanner of words, not a compiler: it strips comments and literals, spells out every path,
//! and looks at its first segments. What it must find is shown by its negative controls.

use std::fs;
use std::path::{Path, PathBuf};

/// The floors, lowest first. Modules of one floor never import each other.
const FLOORS: &[&[&str]] = &[
    &["model"],
    &["batch", "wire", "mm2"],
    &["copy", "policy"],
    &["client"],
    &["flow"],
    &["mirror"],
    &["config", "telemetry"],
    &["app"],
    &["embed"],
];

/// Imports that break the rule on purpose: (importing module, imported module, reason).
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// The first floor that may await, open sockets and ask what time it is.
const ASYNC_FROM: usize = 3;

/// Paths that do not occur below [`ASYNC_FROM`], by their beginning.
const PURE_WITHOUT: &[&[&str]] =
    &[&["tokio"], &["tokio_util"], &["rand"], &["std", "fs"], &["std", "net"]];

/// Beginnings of paths in any place below [`ASYNC_FROM`].
const NO_CLOCK: &[[&str; 2]] = &[["Instant", "now"], ["SystemTime", "now"]];

/// Longest module; past this it is split.
const MODULE_LINES_MAX: usize = 800;

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&module))
}

/// Every Rust file below `src/`, with its path relative to it.
fn sources() -> Vec<(PathBuf, String)> {
    fn collect(dir: &Path, root: &Path, out: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).expect("src") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, root, out);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("readable sources");
                out.push((path.strip_prefix(root).expect("below src").to_owned(), text));
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut out = Vec::new();
    collect(&root, &root, &mut out);
    out.sort();
    assert!(out.len() > 50, "the sources are where they are looked for");
    out
}

/// The words and signs of a source text, without comments, strings and character literals.
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let hashes = after.len() - after.trim_start_matches('#').len();
        rest = if rest.starts_with("//") {
            &rest[rest.find('\n').unwrap_or(rest.len())..]
        } else if rest.starts_with("/*") {
            rest.split_once("*/").map_or("", |(_, rest)| rest)
        } else if first == 'r' && after[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            after[hashes + 1..].split_once(end.as_str()).map_or("", |(_, rest)| rest)
        } else if first == '"' {
            let mut escaped = false;
            let end = after.find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            &after[end.map_or(after.len(), |at| at + 1)..]
        } else if first == '\'' && after.starts_with('\\') {
            after[2..].split_once('\'').map_or("", |(_, rest)| rest)
        } else if first == '\'' && after.chars().nth(1) == Some('\'') {
            after.split_once('\'').map_or("", |(_, rest)| rest)
        } else if word > 0 {
            out.push(rest[..word].to_owned());
            &rest[word..]
        } else if let Some(after) = rest.strip_prefix("::") {
            out.push("::".to_owned());
            after
        } else {
            if !first.is_whitespace() {
                out.push(first.to_string());
            }
            after
        };
    }
    out
}

/// For each token, how many inline modules (`mod tests { .. }`) it lies in.
fn inline_modules(tokens: &[String]) -> Vec<usize> {
    let mut open = Vec::new();
    let mut depth = 0_usize;
    let mut out = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => {
                depth += 1;
                if at >= 2 && tokens[at - 2] == "mod" {
                    open.push(depth);
                }
            }
            "}" => {
                if open.last() == Some(&depth) {
                    open.pop();
                }
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
        out.push(open.len());
    }
    out
}

/// Every path of a token list and the token it begins at, groups spelt out: `a::{b, c::d}` gives
/// `a::b` and `a::c::d`.
fn paths(tokens: &[String]) -> Vec<(usize, Vec<String>)> {
    /// Reads one tree that begins at `at`; returns where it ends.
    fn tree(
        tokens: &[String],
        mut at: usize,
        prefix: &[String],
        out: &mut Vec<Vec<String>>,
    ) -> usize {
        let mut path = prefix.to_vec();
        while let Some(token) = tokens.get(at) {
            if token == "{" && tokens.get(at.wrapping_sub(1)).is_some_and(|t| t == "::") {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = tree(tokens, at, &path, out).max(at + 1);
                    if tokens.get(at).is_some_and(|token| token == ",") {
                        at += 1;
                    }
                }
                return at + 1;
            }
            if !token.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                break;
            }
            path.push(token.clone());
            at += 1;
            if tokens.get(at).is_none_or(|token| token != "::") {
                break;
            }
            at += 1;
        }
        if path.len() > prefix.len() {
            out.push(path);
        }
        at
    }
    let mut out = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let mut here = Vec::new();
        let next = tree(tokens, at, &[], &mut here).max(at + 1);
        out.extend(here.into_iter().map(|path| (at, path)));
        at = next;
    }
    out
}

/// How many modules lie around a file's own: 1 for `batch/mod.rs`, 2 for `batch/crc.rs`.
fn depth(file: &Path) -> usize {
    file.components().count() - usize::from(file.ends_with("mod.rs"))
}

/// What breaks the rule in one file, as text.
fn violations(file: &Path, text: &str) -> Vec<String> {
    let own = file.iter().next().and_then(|name| name.to_str()).expect("a name");
    let own = own.trim_end_matches(".rs");
    // `lib.rs` and `main.rs` stand above all floors.
    if matches!(own, "lib" | "main") {
        return Vec::new();
    }
    let Some(own_floor) = floor(own) else { return vec![format!("{own} stands on no floor")] };
    let tokens = tokens(text);
    let inline = inline_modules(&tokens);
    let mut out = Vec::new();
    for (at, path) in paths(&tokens) {
        let ups = path.iter().take_while(|segment| *segment == "super").count();
        let target = match path.first().map(String::as_str) {
            Some("crate") => path.get(1),
            Some("super") if ups >= depth(file) + inline[at] => path.get(ups),
            _ => None,
        };
        if let Some(target) = target.filter(|target| *target != own) {
            let allowed = EXCEPTIONS.iter().any(|(from, to, _)| (*from, *to) == (own, target));
            match floor(target) {
                Some(floor) if floor < own_floor || allowed => {}
                Some(_) => out.push(format!("{own} imports {target}: {}", path.join("::"))),
                None => out.push(format!("{target} stands on no floor: {}", path.join("::"))),
            }
        }
        if own_floor < ASYNC_FROM {
            let begins = |with: &[&str]| path.iter().zip(with).filter(|(a, b)| a == *b).count();
            let impure = PURE_WITHOUT.iter().any(|with| begins(with) == with.len());
            let clock = path.windows(2).any(|pair| NO_CLOCK.iter().any(|clock| pair == clock));
            let span = path.first().is_some_and(|first| first == "tracing")
                && path.iter().any(|segment| segment.contains("span") || segment == "instrument");
            if impure || clock || span || ["async", "await"].contains(&path[0].as_str()) {
                out.push(format!("{own} is pure and says {}", path.join("::")));
            }
        }
    }
    out
}

#[test]
fn a_module_imports_from_lower_floors_only_and_pure_floors_stay_pure() {
    let mut found = Vec::new();
    for (file, text) in sources() {
        let in_file = violations(&file, &text);
        found.extend(in_file.into_iter().map(|what| format!("src/{}: {what}", file.display())));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_exception_is_still_needed() {
    for (from, to, reason) in EXCEPTIONS {
        let needed = sources().iter().any(|(file, text)| {
            file.starts_with(from)
                && paths(&tokens(text)).iter().any(|(_, path)| path.get(1).is_some_and(|p| p == to))
        });
        assert!(needed, "{from} no longer imports {to} ({reason})");
    }
}

#[test]
fn no_module_is_longer_than_800_lines() {
    let long: Vec<String> = sources()
        .iter()
        .map(|(file, text)| (file, text.lines().count()))
        .filter(|(_, lines)| *lines > MODULE_LINES_MAX)
        .map(|(file, lines)| format!("src/{} has {lines} lines", file.display()))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn every_module_says_what_it_is() {
    let silent: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| !text.starts_with("//!"))
        .map(|(file, _)| format!("src/{} has no module documentation", file.display()))
        .collect();
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// Negative control: each kind of violation is caught, and what only looks like one is not.
#[test]
fn the_scanner_finds_each_kind_of_violation() {
    let caught = [
        ("batch/crc.rs", "use crate::client::Cluster;", "batch imports client"),
        ("batch/crc.rs", "use crate::wire::Api;", "batch imports wire"),
        ("batch/crc.rs", "use crate::{model::Offset, copy::Copier};", "batch imports copy"),
        ("wire/sasl/mod.rs", "fn f() { super::super::flow::go(); }", "wire imports flow"),
        ("wire/mod.rs", "use super::mirror;", "wire imports mirror"),
        ("wire/api.rs", "mod t { use super::super::super::flow; }", "wire imports flow"),
        ("policy/plan.rs", "use crate::copy::Copier;", "policy imports copy"),
        ("flow/shard.rs", "let x: crate::mirror::Rounds = y;", "flow imports mirror"),
        ("config/keys.rs", "use crate::telemetry::Log;", "config imports telemetry"),
        ("model/time.rs", "use crate::util::now;", "util stands on no floor"),
        ("util/mod.rs", "", "util stands on no floor"),
        ("copy/copier.rs", "use tokio::sync::mpsc;", "pure"),
        ("copy/copier.rs", "async fn go() {}", "pure"),
        ("copy/copier.rs", "let now = std::time::Instant::now();", "pure"),
        ("copy/copier.rs", "use std::time::Instant; fn f() { Instant::now(); }", "pure"),
        ("model/time.rs", "let now = SystemTime::now();", "pure"),
        ("wire/api.rs", "use std::{fmt, net::TcpStream};", "pure"),
        ("wire/api.rs", "let text = std::fs::read(path);", "pure"),
        ("mm2/names.rs", "let x = rand::random();", "pure"),
        ("mm2/names.rs", "#[tracing::instrument] fn f() {}", "pure"),
        ("mm2/names.rs", "let _s = tracing::info_span!(\"x\").entered();", "pure"),
    ];
    for (file, text, expected) in caught {
        let found = violations(Path::new(file), text);
        assert!(found.iter().any(|what| what.contains(expected)), "{file}: {text}: {found:?}");
    }

    let harmless = [
        ("batch/crc.rs", "// use crate::client::Cluster;\nuse crate::model::Offset;"),
        ("batch/crc.rs", "/* tokio */ const TEXT: &str = \"async \\\" crate::flow\"; "),
        ("batch/crc.rs", "const TEXT: &str = r#\"crate::flow \" tokio\"#; use super::header;"),
        ("batch/crc.rs", "use crate::batch::header::BatchHeader; let c = '\"'; let d = 'd';"),
        ("client/dial.rs", "use tokio::net::TcpStream; async fn dial() {}"),
        ("batch/crc.rs", "mod tests { use super::super::header::BatchHeader; }"),
        ("app/run.rs", "use crate::{config, flow::Flow, mirror, telemetry};"),
        ("lib.rs", "pub mod app;"),
    ];
    for (file, text) in harmless {
        assert_eq!(violations(Path::new(file), text), Vec::<String>::new(), "{file}: {text}");
    }
}

/// Files that may hold `unsafe`, each for one call that no crate wraps: an option of sockets, and a word to
/// the allocator.
const UNSAFE_IN: &[&str] = &["client/low_water.rs", "main.rs"];

/// Files of `sources` with the word `unsafe` in their code.
fn unsafe_files(sources: &[(PathBuf, String)]) -> Vec<String> {
    let holds = |text: &str| tokens(text).iter().any(|token| token == "unsafe");
    let found = sources.iter().filter(|(_, text)| holds(text));
    found.map(|(path, _)| path.display().to_string()).collect()
}

#[test]
fn unsafe_stands_only_where_it_was_agreed() {
    assert_eq!(unsafe_files(&sources()), UNSAFE_IN);
    // Negative control.
    let planted = ("a.rs".into(), "fn f() { unsafe { g() } } // \"".to_owned());
    let harmless = ("b.rs".into(), "// unsafe\nconst A: &str = \"unsafe\";".to_owned());
    assert_eq!(unsafe_files(&[planted, harmless]), ["a.rs"]);
}
