//! An offset map, driven by a list of steps beside a naive list of all records.

use std::collections::BTreeMap;

use heliograph::model::{Bend, Chunk, KeptChunk, Offset, OffsetMap, Translation};

/// What happens to a partition, and to its map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
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

/// Upstream offset of every record, and where it is on the target.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    records: BTreeMap<i64, i64>,
    up: i64,
    down: i64,
}

impl Naive {
    /// Where a reader at `upstream` goes on: at the first record that it has not seen.
    #[must_use]
    pub fn translate(&self, upstream: i64) -> i64 {
        self.records.range(upstream..).next().map_or(self.down, |(_, down)| *down)
    }
}

/// What was written, as of the last save.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Chunks by their first upstream offset, and where they lie.
    pub chunks: BTreeMap<i64, (Chunk, Offset)>,
    end: Option<(Naive, u64)>,
    next: i64,
}

/// A chunk as it is read back.
#[must_use]
pub fn kept(chunk: Chunk, at: Offset, in_memory: bool) -> KeptChunk {
    let (index, first, more) = (chunk.index, chunk.first, chunk.more);
    KeptChunk { index, first, more, chunk: in_memory.then_some(chunk), at }
}

/// A map, the list that it is compared with, and what was kept of it.
#[derive(Debug)]
pub struct Run {
    /// The map.
    pub map: OffsetMap,
    /// The list.
    pub naive: Naive,
    /// What was kept.
    pub kept: Kept,
    /// Offsets below are not asked for: the source has lost them.
    from: i64,
}

impl Run {
    /// A copy that begins here.
    #[must_use]
    pub fn new(start: Bend) -> Self {
        let naive = Naive { up: start.upstream.0, down: start.downstream.0, ..Naive::default() };
        let from = naive.up;
        Self { map: OffsetMap::new(start), naive, kept: Kept::default(), from }
    }

    /// Where the copy stands.
    #[must_use]
    pub fn place(&self) -> Bend {
        Bend::new(self.naive.up, self.naive.down)
    }

    fn part(&self, of: u8) -> i64 {
        self.from + (self.naive.up - self.from) * i64::from(of) / 256
    }

    /// Does one step to both.
    ///
    /// # Panics
    ///
    /// If what was kept is not taken.
    pub fn apply(&mut self, step: &Step) {
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

    /// Keeps what is not kept yet.
    pub fn save(&mut self) {
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

    /// What the map says.
    #[must_use]
    pub fn translate(&self, upstream: i64) -> Option<i64> {
        match self.map.translate(Offset(upstream)) {
            Translation::Exact(down) => Some(down.0),
            Translation::Before => None,
            Translation::Away { at, end } => {
                let (chunk, _) = self.kept.chunks.values().find(|(_, kept)| *kept == at)?;
                Some(chunk.translate(Offset(upstream), end).0)
            }
        }
    }

    /// Looks at every offset that may be asked for. `exact`: nobody else wrote, and nothing was cut.
    ///
    /// # Errors
    ///
    /// Where map and list differ.
    pub fn judge(&self, exact: bool) -> Result<(), String> {
        for upstream in self.from..self.naive.up + 3 {
            let (found, wanted) = (self.translate(upstream), self.naive.translate(upstream));
            // Somebody else's records may be read by who stands in a hole before them; none of
            // ours is missed.
            let right =
                if exact { found == Some(wanted) } else { found.is_some_and(|at| at <= wanted) };
            if !right {
                return Err(format!("{upstream} is at {wanted}; the map says {found:?}"));
            }
        }
        for (upstream, downstream) in self.naive.records.range(self.from..) {
            if self.translate(*upstream) != Some(*downstream) {
                return Err(format!("the record at {upstream} is not found at {downstream}"));
            }
            if self.map.reverse(Offset(*downstream)).is_some_and(|back| back != Offset(*upstream)) {
                return Err(format!("{downstream} does not lead back to {upstream}"));
            }
        }
        Ok(())
    }
}

/// Does all steps, and judges.
///
/// # Errors
///
/// Where map and list differ.
pub fn run(start: Bend, steps: &[Step]) -> Result<(), String> {
    let mut run = Run::new(start);
    for step in steps {
        run.apply(step);
        if run.map.end().upstream != Offset(run.naive.up) {
            return Err(format!("the map ends at {:?} after {step:?}", run.map.end()));
        }
    }
    run.judge(!steps.iter().any(|step| matches!(step, Step::Foreign(_) | Step::Cut(_))))
}
