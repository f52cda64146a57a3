//! The page about rights holds the table that the program has.

use std::fs;
use std::path::Path;

use heliograph::policy::rights_page;

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rights.md");
    fs::read_to_string(path).expect("docs/rights.md")
}

/// The lines of the one table of a page.
fn table(page: &str) -> String {
    page.lines().filter(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_page_holds_the_programs_own_table() {
    let (page, table_of_page) = (page(), table(&page()));
    assert_eq!(
        table_of_page,
        rights_page(),
        "put this table into docs/rights.md:\n{}",
        rights_page()
    );
    for note in ["1.", "2.", "3."] {
        assert!(page.lines().any(|line| line.starts_with(note)), "note {note}");
    }
}

/// Negative control: a row that is missing, or says something else, is noticed.
#[test]
fn a_row_that_differs_is_noticed() {
    let whole = rights_page();
    let without: String =
        whole.lines().take(whole.lines().count() - 1).map(|line| format!("{line}\n")).collect();
    assert_ne!(table(&without), whole);
    assert_ne!(table(&whole.replace("READ", "WRITE")), whole);
}
