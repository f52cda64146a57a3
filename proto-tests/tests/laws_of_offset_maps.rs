//! An offset map says what a naive list of all records says, whatever is kept, cut and dropped.

use heliograph::model::{Bend, Offset, OffsetMap, Runs, Translation};
use proptest::prelude::*;
use proto_tests::offset_map_run::{Run, Step, kept, run};

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..40_u16).prop_map(Step::Records),
        6 => (1..5_u8).prop_map(Step::Hole),
        1 => (1..3_u8).prop_map(Step::Foreign),
        1 => any::<u8>().prop_map(Step::Cut),
        2 => Just(Step::Save),
        2 => Just(Step::Evict),
        1 => any::<u8>().prop_map(Step::Forget),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_upstream_offset_is_translated_as_a_list_of_all_records_says(
        start in (0..100_i64, prop_oneof![Just(0_i64), 1..100_i64]),
        steps in prop::collection::vec(step(), 0..400),
    ) {
        if let Err(what) = run(Bend::new(start.0, start.1), &steps) {
            prop_assert!(false, "{}", what);
        }
    }
}

/// The law above would see a map that is off by one somewhere.
#[test]
fn a_map_that_forgets_a_bend_is_noticed() {
    let mut run = Run::new(Bend::new(0, 0));
    for step in [Step::Records(5), Step::Hole(1), Step::Records(5)] {
        run.apply(&step);
    }
    assert_eq!(run.translate(8), Some(run.naive.translate(8)));
    run.map = OffsetMap::new(Bend::new(0, 0));
    run.map.advance(run.place());
    assert_ne!(run.translate(8), Some(run.naive.translate(8)));
}

#[test]
fn a_map_of_which_a_chunk_is_missing_is_not_taken() {
    let mut run = Run::new(Bend::new(0, 0));
    for _ in 0..2000 {
        run.apply(&Step::Records(3));
        run.apply(&Step::Hole(1));
    }
    run.save();
    let chunks: Vec<_> = run.kept.chunks.values().cloned().collect();
    assert!(chunks.len() > 3, "{}", chunks.len());
    let (end, bends) = (run.place(), run.map.bends());
    let restored = |without: Option<usize>, bends| {
        let some = chunks.iter().enumerate().filter(|(i, _)| Some(*i) != without);
        let some = some.map(|(_, (chunk, at))| kept(chunk.clone(), *at, true));
        OffsetMap::restore(some, end, bends).is_some()
    };
    assert!(restored(None, bends));
    assert!(!restored(Some(1), bends), "a chunk in the middle");
    assert!(!restored(Some(chunks.len() - 1), bends), "the last chunk");
    assert!(!restored(None, bends + 1), "a bend that was never written");
}

#[test]
fn a_million_transactions_of_one_record_take_two_bytes_each() {
    let mut map = OffsetMap::new(Bend::new(0, 0));
    for i in 0..1_000_000 {
        map.push(Bend::new(2 * i, i));
        map.advance(Bend::new(2 * i + 2, i + 1));
    }
    assert!(map.bytes_in_all() < 3_000_000, "{}", map.bytes_in_all());
    let first: Vec<_> = map.unsaved().map(|chunk| (chunk.first.upstream, chunk.more)).collect();
    for (at, (first, more)) in (0..).zip(first) {
        map.saved(first, more, Offset(at));
    }
    map.evict(64 * 1024);
    assert!(map.bytes_in_all() < 400_000, "{}", map.bytes_in_all());
    assert_eq!(map.translate(Offset(1_999_998)), Translation::Exact(Offset(999_999)));
    assert_eq!(map.translate(Offset(1_999_999)), Translation::Exact(Offset(1_000_000)));
    assert!(matches!(map.translate(Offset(5)), Translation::Away { .. }));
}

#[test]
fn runs_of_a_merged_batch_are_those_of_its_parts() {
    let mut holes = Runs::dense();
    for (upstream, index) in [(10, 0), (11, 1), (14, 2)] {
        holes.push(Offset(upstream), index);
    }
    let mut runs = Runs::dense();
    runs.append(&Runs::dense(), Offset(5), 0);
    runs.append(&holes, Offset(10), 5);
    runs.append(&Runs::dense(), Offset(15), 8);
    let bends: Vec<Bend> = runs.bends(Offset(5), Offset(100)).collect();
    assert_eq!(bends, [Bend::new(5, 100), Bend::new(14, 107)]);
    let dense: Vec<Bend> = Runs::dense().bends(Offset(5), Offset(100)).collect();
    assert_eq!(dense, [Bend::new(5, 100)]);
}
