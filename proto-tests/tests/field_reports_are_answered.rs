//! `docs/field-reports.md` answers every field report, and the tests that it names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Every report that is to be answered, without its `UP-`.
const IDS: [u32; 65] = [
    3, 4, 5, 9, 11, 12, 13, 15, 18, 19, 22, 23, 26, 28, 29, 30, 31, 35, 42, 44, 45, 47, 49, 50, 52,
    53, 54, 55, 56, 57, 60, 62, 63, 64, 65, 66, 67, 68, 69, 71, 72, 73, 76, 77, 79, 80, 81, 82, 83,
    85, 86, 87, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100, 101,
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Names of functions in a file.
fn functions(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
        line.split(['(', '<']).next().map(str::to_owned)
    });
    names.collect()
}

/// Functions by file, the file named as the page names it.
fn tests() -> BTreeMap<String, BTreeSet<String>> {
    let mut tests = BTreeMap::new();
    for dir in ["proto-tests/tests", "testbed/tests"] {
        for entry in fs::read_dir(root().join(dir)).expect("a folder of tests") {
            let path = entry.expect("an entry").path();
            let Some(name) = path.file_stem().and_then(|name| name.to_str()) else { continue };
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("readable tests");
                tests.insert(name.to_owned(), functions(&text));
            }
        }
    }
    tests
}

/// What is wrong with a page.
fn problems(page: &str, tests: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for row in page.lines().filter(|line| line.starts_with("| UP-")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [id, what, ours] = cells[..] else {
            problems.push(format!("not three cells: {row}"));
            continue;
        };
        *seen.entry(id.to_owned()).or_default() += 1;
        if what.is_empty() || ours.is_empty() {
            problems.push(format!("{id}: an empty cell"));
        }
        let mut answered = ["open: ", "differs: ", "does not apply: "]
            .iter()
            .any(|word| ours.to_lowercase().contains(word));
        for part in ours.split("; ") {
            let words: Vec<&str> = part.split(": ").collect();
            let Some([file, test]) = words.last_chunk::<2>() else { continue };
            let is_name = |text: &str| {
                text.contains('_') && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            if !is_name(test) {
                continue;
            }
            match tests.get(*file) {
                Some(functions) if functions.contains(*test) => answered = true,
                Some(_) => problems.push(format!("{id}: {file} has no test {test}")),
                None => problems.push(format!("{id}: there is no file {file}")),
            }
        }
        if !answered {
            problems.push(format!("{id}: neither a test nor a reason"));
        }
    }
    for id in IDS.map(|id| format!("UP-{id:03}")) {
        match seen.remove(&id) {
            Some(1) => {}
            Some(times) => problems.push(format!("{id} stands there {times} times")),
            None => problems.push(format!("{id} is missing")),
        }
    }
    problems.extend(seen.keys().map(|id| format!("{id} is no report")));
    problems
}

#[test]
fn every_report_stands_there_once_and_every_test_that_is_named_exists() {
    let page = fs::read_to_string(root().join("docs/field-reports.md")).expect("the page");
    let problems = problems(&page, &tests());
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Tests named after a report stand in its row.
#[test]
fn every_test_named_after_a_report_stands_in_its_row() {
    let page = fs::read_to_string(root().join("docs/field-reports.md")).expect("the page");
    let mut named = 0;
    for (file, functions) in tests() {
        for test in functions.iter().filter(|test| test.starts_with("up_")) {
            let id = format!("| UP-{} ", &test[3..6]);
            let row = page.lines().find(|line| line.starts_with(&id)).unwrap_or_default();
            assert!(row.contains(&format!("{file}: {test}")), "{file}: {test} in {id}");
            named += 1;
        }
    }
    assert!(named > 20, "only {named} tests are named after reports");
}

#[test]
fn a_missing_id_a_doubled_one_and_a_test_that_is_not_there_are_noticed() {
    let page = fs::read_to_string(root().join("docs/field-reports.md")).expect("the page");
    let tests = tests();
    let row = |id: &str| page.lines().find(|line| line.starts_with(id)).expect("a row").to_owned();
    let found = |page: &str| problems(page, &tests).join("\n");

    let without: String = page
        .lines()
        .filter(|line| !line.starts_with("| UP-042"))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(found(&without), "UP-042 is missing");
    let twice = format!("{page}\n{}", row("| UP-042"));
    assert_eq!(found(&twice), "UP-042 stands there 2 times");
    let renamed = page.replace("field_groups: up_012_a_group", "field_groups: up_012_a_grope");
    assert!(found(&renamed).contains("UP-012: field_groups has no test up_012_a_grope"));
    let elsewhere = page.replace("mirror_damaged: a_source_that", "mirror_gone: a_source_that");
    assert!(found(&elsewhere).contains("UP-042: there is no file mirror_gone"));
    let nothing = page.replace(&row("| UP-049"), "| UP-049 | a word | perhaps |");
    assert_eq!(found(&nothing), "UP-049: neither a test nor a reason");
}
