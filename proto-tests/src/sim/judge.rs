//! The invariants: what must be true of a run, whatever happened in it.
//!
//! | name | promise |
//! |---|---|
//! | `complete` | every wanted record is on the target, or inside a gap that was reported |
//! | `order` | records of a partition stand in the order of the source |
//! | `once` | no record stands there twice |
//! | `foreign` | nothing stands there that is not the source's, as it was, and committed |
//! | `committed` | a position that was written never passes what the target had taken |
//! | `visible` | a partition that stopped is in the log and in the status; none stops without a cause |
//! | `stalled` | no other partition stands still with one that stopped |
//! | `budget` | frames alive stay within the budget and one frame; at the end none is |
//! | `offsets` | an upstream offset is translated to the first record that lies there or behind; never further |
//! | `drain` | draining ends before its deadline, and in calm weather is complete |
//!
//! Each has a negative control in `tests/simulation`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::world::{Entry, Fate, Place, serial};
use crate::broker::batch::Record;

/// A gap that the mirror reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where.
    pub place: Place,
    /// In which topic of that name.
    pub generation: usize,
    /// First offset missing, and first one after.
    pub range: (i64, i64),
}

/// A position that the mirror wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// For which partition.
    pub place: Place,
    /// Of which topic of that name.
    pub generation: usize,
    /// Everything before it is said to be on the target.
    pub upstream: i64,
    /// Where the target's log is said to end, if it is said.
    pub downstream: Option<i64>,
    /// Where it ended.
    pub end: i64,
}

/// How one drain went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// How long it took.
    pub took: Duration,
    /// How long it may take.
    pub limit: Duration,
    /// Whether it says that everything was seen through.
    pub whole: bool,
    /// Whether nothing went wrong meanwhile, so that it must be.
    pub calm: bool,
}

/// What a run left behind.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What the source had.
    pub ledger: BTreeMap<Place, Vec<Entry>>,
    /// What the target holds, by source place.
    pub target: BTreeMap<Place, Vec<Record>>,
    /// Gaps reported.
    pub gaps: Vec<Gap>,
    /// Partitions reported as stopped, with the reason.
    pub halts: BTreeMap<Place, String>,
    /// Halted partitions in the last status.
    pub halted: usize,
    /// Partitions that the status page shows as stopped.
    pub shown_halted: BTreeSet<Place>,
    /// Where the source's log was cut off.
    pub truncated: BTreeSet<Place>,
    /// Where a batch was damaged.
    pub damaged: BTreeSet<Place>,
    /// Positions written.
    pub committed: Vec<Committed>,
    /// Where the source lost records while the mirror was away, or before it was killed: what a crash
    /// left behind the last position cannot be found again there.
    pub blurred: BTreeSet<Place>,
    /// A start said that an offset map is not whole: what it does not know, it says so.
    pub without_map: bool,
    /// Where upstream offsets of the topic of a generation are said to lie on the target.
    pub translated: BTreeMap<Place, (usize, BTreeMap<i64, Option<i64>>)>,
    /// Most bytes of frames alive, the budget, and the largest frame.
    pub budget: (usize, usize, usize),
    /// Bytes of frames alive at the end.
    pub left_alive: usize,
    /// Drains.
    pub drains: Vec<Drained>,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: &'static str,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.invariant, self.what)
    }
}

impl Evidence {
    fn excused(&self, place: &Place, entry: &Entry) -> bool {
        self.gaps.iter().any(|gap| {
            gap.place == *place
                && gap.generation == entry.generation
                && (gap.range.0..gap.range.1).contains(&entry.record.offset)
        })
    }

    /// Where each record is on the target, by its number.
    fn there(&self, place: &Place) -> BTreeMap<u64, i64> {
        let records = self.target.get(place).into_iter().flatten();
        records.filter_map(|record| Some((serial(record)?, record.offset))).collect()
    }

    /// Records that should be on the target and are not.
    #[must_use]
    pub fn missing(&self, place: &Place) -> Vec<&Entry> {
        let none = Vec::new();
        let there = self.target.get(place).unwrap_or(&none);
        let there: BTreeSet<u64> = there.iter().filter_map(serial).collect();
        let entries = self.ledger.get(place).into_iter().flatten();
        entries
            .filter(|entry| entry.fate == Fate::Wanted && !there.contains(&entry.serial))
            .filter(|entry| !self.excused(place, entry))
            .collect()
    }

    /// Whether every partition that can be is complete.
    #[must_use]
    pub fn settled(&self) -> bool {
        self.ledger
            .keys()
            .all(|place| self.halts.contains_key(place) || self.missing(place).is_empty())
    }
}

/// Every broken promise.
#[must_use]
pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    let mut out = Vec::new();
    for place in evidence.ledger.keys() {
        one_partition(evidence, place, &mut out);
    }
    halts(evidence, &mut out);
    committed(evidence, &mut out);
    translated(evidence, &mut out);
    let (most, total, frame) = evidence.budget;
    if most > total + frame {
        let what = format!("{most} bytes of frames were alive; {total} and one of {frame} may be");
        out.push(Violation { invariant: "budget", what });
    }
    if evidence.left_alive > 0 {
        let what = format!("{} bytes of frames are alive at the end", evidence.left_alive);
        out.push(Violation { invariant: "budget", what });
    }
    for drain in &evidence.drains {
        if drain.took > drain.limit {
            let what = format!("it took {:?}; {:?} are allowed", drain.took, drain.limit);
            out.push(Violation { invariant: "drain", what });
        } else if drain.calm && !drain.whole {
            let what = "nothing went wrong, and something was left undone".into();
            out.push(Violation { invariant: "drain", what });
        }
    }
    out
}

fn shown((topic, partition): &Place) -> String {
    format!("{topic}-{partition}")
}

fn one_partition(evidence: &Evidence, place: &Place, out: &mut Vec<Violation>) {
    let entries = &evidence.ledger[place];
    let by_serial: BTreeMap<u64, (usize, &Entry)> =
        entries.iter().enumerate().map(|(index, entry)| (entry.serial, (index, entry))).collect();
    let none = Vec::new();
    let name = shown(place);
    let mut seen: BTreeMap<u64, i64> = BTreeMap::new();
    let mut last: Option<(usize, u64)> = None;
    for record in evidence.target.get(place).unwrap_or(&none) {
        let at = record.offset;
        let found = serial(record).and_then(|serial| by_serial.get(&serial));
        let Some((index, entry)) = found else {
            let what = format!("{name}: downstream {at} is no record of the source");
            out.push(Violation { invariant: "foreign", what });
            continue;
        };
        let same = Record { offset: at, ..entry.record.clone() } == *record;
        let upstream = entry.record.offset;
        if !same {
            let what = format!("{name}: upstream {upstream} was changed at downstream {at}");
            out.push(Violation { invariant: "foreign", what });
        }
        if matches!(entry.fate, Fate::Aborted | Fate::Open(_)) {
            let what = format!("{name}: upstream {upstream} is not committed ({:?})", entry.fate);
            out.push(Violation { invariant: "foreign", what });
        }
        if let Some(first) = seen.insert(entry.serial, at) {
            let what = format!("{name}: upstream {upstream} stands at downstream {first} and {at}");
            out.push(Violation { invariant: "once", what });
            continue;
        }
        if let Some((before, serial)) = last
            && before > *index
        {
            let before = by_serial[&serial].1.record.offset;
            let what = format!("{name}: upstream {upstream} comes after {before} on the target");
            out.push(Violation { invariant: "order", what });
        }
        last = Some((*index, entry.serial));
    }
}

fn halts(evidence: &Evidence, out: &mut Vec<Violation>) {
    let (halts, halted) = (&evidence.halts, evidence.halted);
    for (place, reason) in halts {
        if !evidence.truncated.contains(place) && !evidence.damaged.contains(place) {
            let what = format!("{} stopped without a cause: {reason}", shown(place));
            out.push(Violation { invariant: "visible", what });
        }
    }
    if halted != halts.len() {
        let what = format!("{} partitions stopped, and the status shows {halted}", halts.len());
        out.push(Violation { invariant: "visible", what });
    }
    let told: BTreeSet<Place> = halts.keys().cloned().collect();
    if told != evidence.shown_halted {
        let what =
            format!("{told:?} stopped, and the status page shows {:?}", evidence.shown_halted);
        out.push(Violation { invariant: "visible", what });
    }
    for place in evidence.ledger.keys() {
        let missing = evidence.missing(place);
        let (Some(first), false) = (missing.first(), halts.contains_key(place)) else { continue };
        let what = format!(
            "{}: {} records are missing, the first at upstream {} (topic {})",
            shown(place),
            missing.len(),
            first.record.offset,
            first.generation,
        );
        let invariant = if evidence.truncated.contains(place) || evidence.damaged.contains(place) {
            "visible"
        } else if halts.is_empty() {
            "complete"
        } else {
            "stalled"
        };
        out.push(Violation { invariant, what });
    }
}

fn committed(evidence: &Evidence, out: &mut Vec<Violation>) {
    for one in &evidence.committed {
        let place = &one.place;
        let name = shown(place);
        if let Some(downstream) = one.downstream
            && downstream > one.end
        {
            let what =
                format!("{name}: downstream {downstream} was written, and {} is the end", one.end);
            out.push(Violation { invariant: "committed", what });
        }
        let there = evidence.there(place);
        let early = evidence.ledger.get(place).into_iter().flatten().find(|entry| {
            entry.generation == one.generation
                && entry.fate == Fate::Wanted
                && entry.record.offset < one.upstream
                && !evidence.excused(place, entry)
                && there.get(&entry.serial).is_none_or(|at| *at >= one.end)
        });
        // What a stopped partition lacks is told by its halt.
        if let Some(early) = early
            && !evidence.halts.contains_key(place)
        {
            let what = format!(
                "{name}: upstream {} was written, and {} was not on the target then",
                one.upstream, early.record.offset
            );
            out.push(Violation { invariant: "committed", what });
        }
    }
}

/// Against a list of all records: a reader at an upstream offset goes on at the first record that
/// it has not seen.
fn translated(evidence: &Evidence, out: &mut Vec<Violation>) {
    for (place, (generation, told)) in &evidence.translated {
        // What lies behind the place where it stopped is not on the target.
        if evidence.halts.contains_key(place) {
            continue;
        }
        let there = evidence.there(place);
        let entries = evidence.ledger.get(place).into_iter().flatten();
        let copied: BTreeMap<i64, i64> = entries
            .filter(|entry| entry.generation == *generation)
            .filter_map(|entry| Some((entry.record.offset, *there.get(&entry.serial)?)))
            .collect();
        let name = shown(place);
        for (upstream, said) in told {
            let Some((_, wanted)) = copied.range(upstream..).next() else { continue };
            let early = said.is_some_and(|said| said < *wanted) && evidence.blurred.contains(place);
            let unknown = said.is_none() && evidence.without_map;
            if *said != Some(*wanted) && !early && !unknown {
                let what =
                    format!("{name}: upstream {upstream} is at {said:?}, and lies at {wanted}");
                out.push(Violation { invariant: "offsets", what });
                break;
            }
        }
    }
}
