//! What fuzzing found stays found: committed inputs and seeds go through the targets' own bodies.

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use peak_alloc::PeakAlloc;
use proto_tests::targets::TARGETS;

/// Targets hold memory to the size of their input. It counts for the whole process, so the tests
/// here that run targets are one.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

fn corpus(target: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let entries = fs::read_dir(&dir).unwrap_or_else(|error| panic!("{dir:?}: {error}"));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn no_committed_input_and_no_seed_breaks_a_promise() {
    for target in TARGETS {
        let files = corpus(target.name);
        assert!(!files.is_empty(), "{} has a corpus", target.name);
        for path in files {
            let bytes = fs::read(&path).expect("readable");
            let ended = catch_unwind(|| target.run(&bytes));
            assert!(ended.is_ok(), "run `cargo fuzz run {} {path:?}`", target.name);
        }
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has seeds", target.name);
        seeds.iter().for_each(|seed| target.run(seed));
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
            assert!(text.contains(&format!("heliograph_fuzz::run(\"{name}\", data)")), "{name}");
            name
        })
        .collect();
    found.sort();
    assert!(found.iter().eq(TARGETS.iter().map(|target| target.name)), "{found:?}");
}
