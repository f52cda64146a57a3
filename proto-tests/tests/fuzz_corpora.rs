//! What fuzzing found stays found: committed inputs and seeds go through the targets' own bodies.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use proto_tests::targets::{TARGETS, seeds};

fn corpus(target: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{dir:?}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn no_committed_input_and_no_seed_breaks_a_promise() {
    for (target, body) in TARGETS {
        let files = corpus(target);
        assert!(!files.is_empty(), "{target} has a corpus");
        for path in files {
            let bytes = fs::read(&path).expect("readable");
            let ended = catch_unwind(|| body(&bytes));
            assert!(ended.is_ok(), "{target} {path:?}: run `cargo fuzz run {target} {path:?}`");
        }
        let seeds = seeds(target);
        assert!(!seeds.is_empty(), "{target} has seeds");
        seeds.iter().for_each(|seed| body(seed));
    }
}

#[test]
fn every_target_is_run_by_cargo_fuzz_under_its_name() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    let mut found: Vec<String> = fs::read_dir(&dir)
        .expect("fuzz targets")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("readable");
            assert!(text.contains(&format!("proto_tests::targets::{name}(data)")), "{name}");
            name
        })
        .collect();
    found.sort();
    assert!(found.iter().eq(TARGETS.iter().map(|(name, _)| name)), "{found:?}");
}
