//! `docs/mm2-checklist.md` answers every test of MirrorMaker 2's, and the tests of ours that it names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Beginnings of an answer that is no test.
const REASONS: [&str; 5] =
    ["does not apply", "differs", "refused in this version", "the same test", "`FlowId` compares"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Names of functions by file, the file named as the page names it: `mirror_acls`, `src/policy/naming`.
fn functions() -> BTreeMap<String, BTreeSet<String>> {
    fn collect(dir: &Path, name: &str, out: &mut BTreeMap<String, BTreeSet<String>>) {
        for entry in fs::read_dir(dir).expect("a folder") {
            let path = entry.expect("an entry").path();
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let inside = if name.is_empty() { stem.to_owned() } else { format!("{name}/{stem}") };
            if path.is_dir() {
                collect(&path, &inside, out);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("readable sources");
                let names = text.lines().filter_map(|line| {
                    let line = line.trim_start();
                    let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
                    line.split(['(', '<']).next().map(str::to_owned)
                });
                let module = inside.strip_suffix("/mod").unwrap_or(&inside).to_owned();
                out.entry(module).or_default().extend(names);
            }
        }
    }
    let mut out = BTreeMap::new();
    collect(&root().join("proto-tests/tests"), "", &mut out);
    collect(&root().join("testbed/tests"), "", &mut out);
    collect(&root().join("src"), "src", &mut out);
    out
}

/// Rows of the page, and tests that an answer names.
fn look(page: &str, known: &BTreeMap<String, BTreeSet<String>>) -> (usize, usize, Vec<String>) {
    let (mut rows, mut named, mut problems) = (0, 0, Vec::new());
    let head = |line: &str| line.starts_with("| MM2's test") || line.starts_with("|---");
    for row in page.lines().filter(|line| line.starts_with("| ") && !head(line)) {
        rows += 1;
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [theirs, ours] = cells[..] else {
            problems.push(format!("not two cells: {row}"));
            continue;
        };
        let mut answered = REASONS.iter().any(|reason| ours.starts_with(reason));
        for part in ours.split("; ").flat_map(|part| part.split(". ")) {
            let words: Vec<&str> = part.split(": ").map(str::trim).collect();
            for pair in words.windows(2) {
                let file = pair[0].rsplit(' ').next().unwrap_or_default();
                let is_name = |word: &&str| {
                    word.contains('_')
                        && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                };
                for test in pair[1].split(", ").take_while(is_name) {
                    // `...: mirror_acls: a_test`, or a whole file behind a colon.
                    if known.contains_key(test) {
                        answered = true;
                        continue;
                    }
                    named += 1;
                    match known.get(file) {
                        Some(functions) if functions.contains(test) => answered = true,
                        Some(_) => problems.push(format!("{theirs}: {file} has no test {test}")),
                        None => problems.push(format!("{theirs}: there is no file {file}")),
                    }
                }
            }
            // A whole file.
            answered |= part.split([' ', ',', ':']).any(|word| known.contains_key(word));
        }
        if !answered {
            problems.push(format!("{theirs}: neither a test nor a reason"));
        }
    }
    (rows, named, problems)
}

fn page() -> String {
    fs::read_to_string(root().join("docs/mm2-checklist.md")).expect("the page")
}

#[test]
fn every_row_has_a_test_that_exists_or_a_reason() {
    let (rows, named, problems) = look(&page(), &functions());
    assert!(problems.is_empty(), "{problems:#?}");
    assert!(rows > 50 && named > 40, "{rows} rows name {named} tests");
}

#[test]
fn a_test_that_is_not_there_and_an_empty_answer_are_noticed() {
    let known = functions();
    let found = |from: &str, to: &str| look(&page().replace(from, to), &known).2.join("\n");

    let gone = found("a_topic_that_passed_through_the_target_is_a_cycle", "a_topic_that_is_gone");
    assert!(gone.contains("src/policy/naming has no test a_topic_that_is_gone"), "{gone}");
    let elsewhere = found("src/policy/naming: a_topic_that", "src/policy/gone: a_topic_that");
    assert!(elsewhere.contains("there is no file src/policy/gone"), "{elsewhere}");
    let open = found("| testNoCycles |", "| testNothing | open |\n| testNoCycles |");
    assert_eq!(open, "testNothing: neither a test nor a reason");
}
