//! An offset map says what a naive list of all records says, whatever is kept, cut and dropped.

use std::collections::BTreeMap;

use heliograph::model::{Bend, Chunk, KeptChunk, Offset, OffsetMap, Runs, Translation};
use proptest::prelude::*;

/// What happens to a partition, and to its map.
#[derive(Clone, Debug)]
enum Step {
    /// So many records follow one another.
    Records(u16),
    /// So many upstream offsets have no record.
    Hole(u8),
    /// Somebody else writes so many records to the target.
    Foreign(u8),
    /// The copy goes on from this part of what was copied, with other records.
    Cut(u8),
    /// All chunks are written.
    Save,
    /// Chunks are let go of.
    Evict,
    /// The source's log begins at this part of what was copied.
    Forget(u8),
    /// The process is killed, and a new one reads what was written, up to the last save.
    Restart,
}

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

/// Upstream offset of every record, and where it is on the target.
#[derive(Clone, Default)]
struct Naive {
    records: BTreeMap<i64, i64>,
    up: i64,
    down: i64,
}

impl Naive {
    /// Where a reader at `upstream` goes on: at the first record that it has not seen.
    fn translate(&self, upstream: i64) -> i64 {
        self.records.range(upstream..).next().map_or(self.down, |(_, down)| *down)
    }
}

/// What was written, as of the last save.
#[derive(Clone, Default)]
struct Kept {
    chunks: BTreeMap<i64, (Chunk, Offset)>,
    end: Option<(Naive, u64)>,
    next: i64,
}

fn kept(chunk: Chunk, at: Offset, in_memory: bool) -> KeptChunk {
    let (index, first, more) = (chunk.index, chunk.first, chunk.more);
    KeptChunk { index, first, more, chunk: in_memory.then_some(chunk), at }
}

struct Run {
    map: OffsetMap,
    naive: Naive,
    kept: Kept,
    /// Offsets below are not asked for: the source has lost them.
    from: i64,
}

impl Run {
    fn new(start: Bend) -> Self {
        let naive = Naive { up: start.upstream.0, down: start.downstream.0, ..Naive::default() };
        let from = naive.up;
        Self { map: OffsetMap::new(start), naive, kept: Kept::default(), from }
    }

    fn place(&self) -> Bend {
        Bend::new(self.naive.up, self.naive.down)
    }

    fn part(&self, of: u8) -> i64 {
        self.from + (self.naive.up - self.from) * i64::from(of) / 256
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Records(count) => {
                self.map.push(self.place());
                for _ in 0..*count {
                    self.naive.records.insert(self.naive.up, self.naive.down);
                    self.naive.up += 1;
                    self.naive.down += 1;
                }
                self.map.advance(self.place());
            }
            Step::Hole(count) => {
                self.naive.up += i64::from(*count);
                self.map.advance(self.place());
            }
            Step::Foreign(count) => self.naive.down += i64::from(*count),
            Step::Cut(of) => {
                self.naive.up = self.part(*of);
                self.naive.records.split_off(&self.naive.up);
                self.map.cut(self.place());
                if !self.map.is_open() {
                    // As after a restart without a map.
                    *self = Self::new(self.place());
                }
            }
            Step::Save => self.save(),
            Step::Evict => self.map.evict(0),
            Step::Forget(of) => {
                self.from = self.part(*of);
                self.map.forget_before(Offset(self.from));
            }
            Step::Restart => self.restart(),
        }
    }

    fn save(&mut self) {
        for first in self.map.take_dropped() {
            self.kept.chunks.remove(&first.0);
        }
        let unsaved: Vec<Chunk> = self.map.unsaved().cloned().collect();
        for chunk in unsaved {
            let at = Offset(self.kept.next);
            self.kept.next += 1;
            self.map.saved(chunk.first.upstream, chunk.more, at);
            self.kept.chunks.insert(chunk.first.upstream.0, (chunk, at));
        }
        self.kept.end = Some((self.naive.clone(), self.map.bends()));
    }

    fn restart(&mut self) {
        let Some((naive, bends)) = self.kept.end.clone() else { return };
        let end = Bend::new(naive.up, naive.down);
        let chunks: Vec<_> = self.kept.chunks.values().cloned().collect();
        let all = chunks.len();
        let chunks =
            chunks.into_iter().enumerate().map(|(i, (chunk, at))| kept(chunk, at, i + 3 >= all));
        self.map = OffsetMap::restore(chunks, end, bends).expect("all of it is there");
        self.naive = naive;
        self.from = self.from.min(self.naive.up);
    }

    fn translate(&self, upstream: i64) -> Option<i64> {
        match self.map.translate(Offset(upstream)) {
            Translation::Exact(down) => Some(down.0),
            Translation::Before => None,
            Translation::Away { at, end } => {
                let (chunk, _) = self.kept.chunks.values().find(|(_, kept)| *kept == at)?;
                Some(chunk.translate(Offset(upstream), end).0)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_upstream_offset_is_translated_as_a_list_of_all_records_says(
        start in (0..100_i64, prop_oneof![Just(0_i64), 1..100_i64]),
        steps in prop::collection::vec(step(), 0..400),
    ) {
        let mut run = Run::new(Bend::new(start.0, start.1));
        for step in &steps {
            run.apply(step);
            prop_assert_eq!(run.map.end().upstream, Offset(run.naive.up));
        }
        for upstream in run.from..run.naive.up + 3 {
            let found = run.translate(upstream);
            let wanted = run.naive.translate(upstream);
            // Somebody else's records may be read by who stands in a hole before them; none of
            // ours is missed.
            prop_assert!(found.is_some_and(|found| found <= wanted), "{upstream}: {found:?} {wanted}");
            let foreign = steps.iter().any(|step| matches!(step, Step::Foreign(_) | Step::Cut(_)));
            prop_assert!(foreign || found == Some(wanted), "{upstream}: {found:?} {wanted}");
        }
        for (upstream, downstream) in run.naive.records.range(run.from..) {
            prop_assert_eq!(run.translate(*upstream), Some(*downstream));
            if let Some(back) = run.map.reverse(Offset(*downstream)) {
                prop_assert_eq!(back, Offset(*upstream));
            }
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
