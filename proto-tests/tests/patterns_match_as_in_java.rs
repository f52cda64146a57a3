//! A pattern matches exactly what it matches in Java, or it is refused.
//!
//! `vectors/Patterns.java` asked Java; `vectors/patterns.json` holds its answers.

use std::collections::BTreeMap;

use heliograph::policy::Pattern;
use serde_json::Value;

struct Vectors {
    names: Vec<String>,
    patterns: Vec<JavaPattern>,
}

struct JavaPattern {
    pattern: String,
    /// Indices of the names that match; `None` if Java refuses the pattern.
    matches: Option<Vec<usize>>,
}

fn text(json: &Value) -> String {
    json.as_str().expect("text").to_owned()
}

fn vectors() -> Vectors {
    read("names", "patterns")
}

fn read(names: &str, patterns: &str) -> Vectors {
    let json: Value = serde_json::from_str(include_str!("../vectors/patterns.json")).expect("JSON");
    let names = json[names].as_array().expect("names of the vectors").iter().map(text).collect();
    let patterns = json[patterns].as_array().expect("patterns");
    let patterns = patterns
        .iter()
        .map(|entry| JavaPattern {
            pattern: text(&entry["pattern"]),
            matches: entry["matches"].as_array().map(|matches| {
                let index = |index: &Value| usize::try_from(index.as_u64().expect("index"));
                matches.iter().map(|number| index(number).expect("index")).collect()
            }),
        })
        .collect();
    Vectors { names, patterns }
}

/// Names on which `pattern` and Java disagree, as one line each.
fn disagreements(vectors: &Vectors, java: &JavaPattern, pattern: &Pattern) -> Vec<String> {
    let Some(matches) = &java.matches else {
        return vec![format!("{:?}: Java refuses it, we take it", java.pattern)];
    };
    let mut found = Vec::new();
    for (index, name) in vectors.names.iter().enumerate() {
        // On the JDK that wrote the vectors letters outside ASCII count for `\b`; not since 19.
        if !name.is_ascii() && (java.pattern.contains("\\b") || java.pattern.contains("\\B")) {
            continue;
        }
        let expected = matches.contains(&index);
        match pattern.matches(name) {
            Ok(answer) if answer == expected => {}
            answer => found.push(format!(
                "{:?} on {name:?}: Java says {expected}, we say {answer:?}",
                java.pattern
            )),
        }
    }
    found
}

/// Patterns that Java takes and we refuse, because their meaning could not be kept. A pattern
/// that is here but works, or is refused but not here, fails the test.
const REFUSED: &[&str] = &[
    "$+",
    "(?:a|\\R)+",
    "(?<=a*)b",
    "(?<=a+)b",
    "(?=a)*",
    "(?=a)?a",
    "(?U)\\w",
    "(?i)(a)\\1",
    "(?iu)k",
    "(?m)^a$",
    "(?u)a",
    "(?x)a b",
    "(\\R){2}",
    "(a)\\2",
    "(a\\1)",
    "[&&a]",
    "[[a]b&&b]",
    "[\\p{L}]",
    "[a&&&&b]",
    "[a&&&b]",
    "[a&&]",
    "[a-c&&[ab]&c]",
    "[a-z&&[b-d]e]",
    "[a-z&&]]",
    "[a-z&&e[b-d]]",
    "[a[b]&&b]",
    "\\1",
    "\\1(a)",
    "\\8",
    "\\9",
    "\\G",
    "\\Ga",
    "\\N{LATIN SMALL LETTER A}",
    "\\PL",
    "\\R+",
    "\\R{2}",
    "\\X",
    "\\b+a",
    "\\b{g}",
    "\\pL",
    "\\p{InGreek}",
    "\\p{IsAlphabetic}",
    "\\p{IsLatin}",
    "\\p{Lu}",
    "\\p{L}",
    "\\p{javaLowerCase}",
    "\\uD83D",
    "^*a",
    "a\\G",
    "a\\Z?",
    "a{1}{2}",
    "{1}",
];

#[test]
fn every_pattern_means_what_it_means_in_java_or_is_refused() {
    let vectors = vectors();
    let mut wrong = Vec::new();
    let mut refused = BTreeMap::new();
    let mut compared = 0;

    for java in &vectors.patterns {
        match Pattern::new(&java.pattern) {
            Ok(pattern) => {
                wrong.extend(disagreements(&vectors, java, &pattern));
                compared += vectors.names.len();
            }
            Err(error) if java.matches.is_some() => {
                refused.insert(java.pattern.as_str(), error.to_string());
            }
            Err(_) => {}
        }
    }

    let unlisted: Vec<_> =
        refused.iter().filter(|(pattern, _)| !REFUSED.contains(pattern)).collect();
    let gone: Vec<_> = REFUSED.iter().filter(|pattern| !refused.contains_key(*pattern)).collect();
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    assert!(unlisted.is_empty(), "refused but not listed: {unlisted:#?}");
    assert!(gone.is_empty(), "listed as refused but not refused: {gone:#?}");
    assert!(compared > 30_000, "{compared} comparisons");
}

#[test]
fn no_random_pattern_means_something_else_than_in_java() {
    let vectors = read("random_names", "random_patterns");
    let mut wrong = Vec::new();
    let (mut kept, mut refused) = (0, 0);

    for java in &vectors.patterns {
        match Pattern::new(&java.pattern) {
            Ok(pattern) => {
                wrong.extend(disagreements(&vectors, java, &pattern));
                kept += 1;
            }
            Err(_) if java.matches.is_some() => refused += 1,
            Err(_) => {}
        }
    }

    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    // Random text is full of references to no group and of counts behind counts.
    assert!(kept > 2 * refused, "{kept} kept, {refused} refused");
}

/// Negative control: the matching engine alone reads some of these patterns differently, and
/// the comparison notices.
#[test]
fn the_comparison_notices_a_pattern_that_means_something_else() {
    let vectors = vectors();
    let java = vectors.patterns.iter().find(|java| java.pattern == "[[:alpha:]]").expect("listed");

    let posix = Pattern::new("[a-zA-Z]").unwrap();

    assert!(!disagreements(&vectors, java, &posix).is_empty());
}

#[test]
fn an_error_points_into_the_pattern() {
    for java in vectors().patterns {
        let Err(error) = Pattern::new(&java.pattern) else { continue };
        let length = java.pattern.chars().count();
        assert!(error.at <= length, "{:?}: {error:?}", java.pattern);
        assert!(error.length >= 1, "{:?}: {error:?}", java.pattern);
    }
}
