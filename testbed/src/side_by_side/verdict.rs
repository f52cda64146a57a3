//! Which differences there are between two pictures, and which of them are meant.
//!
//! Lines must be equal but for [`MEANT`]. Checkpoints and group offsets of ours must be where the next record lies,
//! and never behind MM2's. Of offset syncs neither the number nor the places are compared but what they say: for every
//! upstream offset the nearest sync of ours must be at least as near as MM2's. And what MM2's own store ([`SyncStore`])
//! makes of ours must lead at least as far as what it makes of MM2's, or else not further back than the group lags, and
//! never beyond the next record: which syncs the store forgets is chance, and that bound is what it promises.

use std::collections::BTreeSet;

use heliograph::model::{Bend, Offset, TopicPartition};
use heliograph::policy::{BySync, SyncStore};

use super::picture::{Copied, Picture, Place};

/// Differences on purpose: whose they are (`-` MM2's, `+` ours), a part of the line, and why.
const MEANT: [(char, &str, &str); 5] = [
    ('-', "topic __consumer_offsets", "made by brokers for the group of Connect's workers"),
    ('-', "topic mm2-configs.", "Connect's own state is not kept"),
    ('-', "topic mm2-status.", "Connect's own state is not kept"),
    ('-', "source: topic mm2-offsets.", "the way back is off, and so has no progress"),
    ('+', "topic mm2-heliograph-", "internal topics of our own"),
];

const EXACT: &str = "exact by the map of all offsets; MM2 takes the nearest sync before";
const NO_SYNC: &str = "exact by the map of all offsets; MM2 has no sync to go by";

/// What one side has and the other has not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `-` MM2's, `+` ours, `!` both have it and it is not the same.
    pub sign: char,
    pub what: String,
    /// Why it is meant; `None` if it is not.
    pub reason: Option<&'static str>,
}

impl Difference {
    fn bad(sign: char, what: String) -> Self {
        Self { sign, what, reason: None }
    }
}

/// How much is equal, for people.
pub(super) fn same(theirs: &Picture, ours: &Picture) -> String {
    let lines = theirs.lines.intersection(&ours.lines).count();
    let equal = |place: &&Place| theirs.checkpoints.get(*place) == ours.checkpoints.get(*place);
    let checkpoints = theirs.checkpoints.keys().filter(equal).count();
    let equal = |place: &&Place| theirs.groups.get(*place) == ours.groups.get(*place);
    let groups = theirs.groups.keys().filter(equal).count();
    let counts = |picture: &Picture| picture.syncs.values().map(Vec::len).sum::<usize>();
    format!(
        "{lines} lines; {checkpoints} of {} checkpoints; {groups} of {} group offsets; offset syncs of {} partitions \
         ({} of MM2, {} of ours) lead to the same places or nearer ones unless told below",
        theirs.checkpoints.len(),
        theirs.groups.len(),
        theirs.syncs.len(),
        counts(theirs),
        counts(ours),
    )
}

/// Every difference; those without a reason nobody wanted.
pub fn differences(theirs: &Picture, ours: &Picture) -> Vec<Difference> {
    let mut found = lines(&theirs.lines, &ours.lines);
    let places: BTreeSet<&Place> =
        theirs.checkpoints.keys().chain(ours.checkpoints.keys()).collect();
    for place in places {
        let what = format!("checkpoint of {} on {}", place.0, place.1);
        let (one, other) = (theirs.checkpoints.get(place), ours.checkpoints.get(place));
        if let (Some(one), Some(other)) = (one, other)
            && (one.upstream, &one.metadata) != (other.upstream, &other.metadata)
        {
            found.push(Difference::bad('!', format!("{what}: {one:?}, {other:?}")));
            continue;
        }
        let upstream = one.or(other).map_or(0, |checkpoint| checkpoint.upstream.0);
        let exact = exact_place(ours, &place.1, upstream);
        let pair = (one.map(|one| one.downstream.0), other.map(|one| one.downstream.0));
        found.extend(place_differs(&format!("{what} at {upstream}"), pair, exact));
    }
    let places: BTreeSet<&Place> = theirs.groups.keys().chain(ours.groups.keys()).collect();
    for place in places {
        let pair = (theirs.groups.get(place).copied(), ours.groups.get(place).copied());
        // What the group has committed on the source is what its checkpoint says.
        let checkpoint = ours.checkpoints.get(place).or_else(|| theirs.checkpoints.get(place));
        let exact = checkpoint.and_then(|one| exact_place(ours, &place.1, one.upstream.0));
        let what = format!("offset of group {} on {}", place.0, place.1);
        found.extend(place_differs(&what, pair, exact));
    }
    for (partition, copied) in &ours.records {
        found.extend(syncs(partition, copied, theirs, ours));
    }
    found
}

fn lines(theirs: &BTreeSet<String>, ours: &BTreeSet<String>) -> Vec<Difference> {
    let missing = theirs.difference(ours).map(|line| ('-', line));
    let added = ours.difference(theirs).map(|line| ('+', line));
    missing
        .chain(added)
        .map(|(sign, line)| {
            let meant = MEANT.iter().find(|(of, part, _)| *of == sign && line.contains(part));
            Difference { sign, what: line.clone(), reason: meant.map(|(_, _, reason)| *reason) }
        })
        .collect()
}

/// Where the next record lies; the start of a partition that holds none.
fn exact_place(picture: &Picture, on_target: &TopicPartition, upstream: i64) -> Option<i64> {
    let copied = picture.records.values().find(|one| one.to.as_ref() == Some(on_target));
    match copied {
        Some(copied) => copied.place(upstream),
        None => (upstream == 0).then_some(0),
    }
}

fn place_differs(
    what: &str,
    (theirs, ours): (Option<i64>, Option<i64>),
    exact: Option<i64>,
) -> Option<Difference> {
    let meant = |sign, what, reason| Some(Difference { sign, what, reason: Some(reason) });
    match (theirs, ours) {
        (Some(theirs), None) => Some(Difference::bad('-', format!("{what}: {theirs}"))),
        (_, Some(ours)) if exact != Some(ours) => {
            let what = format!("{what}: ours {ours}, MM2's {theirs:?}, exact {exact:?}");
            Some(Difference::bad('!', what))
        }
        (None, Some(ours)) => meant('+', format!("{what}: {ours}"), NO_SYNC),
        (Some(theirs), Some(ours)) if theirs < ours => {
            meant('!', format!("{what}: MM2 {theirs}, ours {ours}"), EXACT)
        }
        (Some(theirs), Some(ours)) if theirs > ours => {
            let what = format!("{what}: MM2 {theirs} is beyond the next record at {ours}");
            Some(Difference::bad('!', what))
        }
        _ => None,
    }
}

/// What is wrong with our syncs of one partition.
fn syncs(
    partition: &TopicPartition,
    copied: &Copied,
    theirs: &Picture,
    ours: &Picture,
) -> Vec<Difference> {
    let none = Vec::new();
    let (theirs, ours) =
        (theirs.syncs.get(partition).unwrap_or(&none), ours.syncs.get(partition).unwrap_or(&none));
    let mut found = Vec::new();
    let is_true = |sync: &&Bend| {
        let at = copied.upstream.iter().position(|offset| *offset == sync.upstream.0);
        at.and_then(|at| copied.downstream.get(at)) == Some(&sync.downstream.0)
    };
    if let Some(wrong) = ours.iter().find(|sync| !is_true(sync)) {
        found.push(Difference::bad(
            '!',
            format!("offset sync of {partition}: {wrong:?} is no pair"),
        ));
    }
    let stores = [theirs, ours].map(|syncs| {
        let mut store = SyncStore::default();
        syncs.iter().for_each(|sync| store.take(partition, *sync));
        store
    });
    let last = copied.upstream.last().copied().unwrap_or(-1);
    let by_store = |store: &SyncStore, upstream| match store.translate(partition, Offset(upstream))
    {
        BySync::At(place) => Some(place.0),
        BySync::TooOld | BySync::Nothing => None,
    };
    let (mut further, mut worse) = (Vec::new(), Vec::new());
    for upstream in 0..=last + 1 {
        let near = |syncs: &[Bend]| {
            syncs
                .iter()
                .filter(|sync| sync.upstream.0 <= upstream)
                .map(|sync| sync.upstream.0)
                .max()
        };
        let (one, other) = (near(theirs), near(ours));
        if one > other {
            further.push((upstream, one, other));
        }
        let (one, other) = (by_store(&stores[0], upstream), by_store(&stores[1], upstream));
        let Some(exact) = copied.place(upstream) else { continue };
        let within = other.is_some_and(|place| exact - place <= last + 1 - upstream);
        if other.is_some_and(|place| place > exact) || (one > other && !within) {
            worse.push((upstream, one, other));
        }
    }
    for (all, what) in
        [(further, "are further away than MM2's"), (worse, "translate worse than MM2's")]
    {
        if let Some((upstream, one, other)) = all.first() {
            let (count, of) = (all.len(), last + 2);
            let what = format!("offset syncs of {partition} {what} at {count} of {of} offsets");
            let what = format!("{what}: at {upstream} MM2 {one:?}, ours {other:?}");
            found.push(Difference::bad('!', what));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use heliograph::mm2::Checkpoint;

    use super::*;

    /// One fault.
    type Plant = fn(&mut Picture);

    fn set(lines: &[&str]) -> BTreeSet<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    fn place(group: &str) -> Place {
        (group.to_owned(), TopicPartition::new("A.t", 0))
    }

    /// Ten records, every second upstream offset is a hole; a group at the sixth.
    fn picture() -> Picture {
        let records = Copied {
            to: Some(place("g").1),
            upstream: (0..10).map(|at| 2 * at).collect(),
            downstream: (0..10).collect(),
        };
        let checkpoint = Checkpoint {
            group: "g".to_owned(),
            partition: place("g").1,
            upstream: Offset(11),
            downstream: Offset(6),
            metadata: String::new(),
        };
        let sync = |at| Bend { upstream: Offset(2 * at), downstream: Offset(at) };
        Picture {
            lines: set(&["target: topic A.t"]),
            checkpoints: [(place("g"), checkpoint)].into(),
            groups: [(place("g"), 6)].into(),
            syncs: [(TopicPartition::new("t", 0), vec![sync(0), sync(5), sync(9)])].into(),
            records: [(TopicPartition::new("t", 0), records)].into(),
        }
    }

    fn unmeant(theirs: &Picture, ours: &Picture) -> Vec<String> {
        let all = differences(theirs, ours).into_iter();
        all.filter(|one| one.reason.is_none()).map(|one| one.what).collect()
    }

    /// Negative control: what nobody meant is told, and what is meant on one side only counts for that side.
    #[test]
    fn a_line_that_is_not_meant_has_no_reason() {
        let theirs = set(&["same", "target: topic mm2-status.A.internal", "target: rule x"]);
        let ours = set(&["same", "target: topic mm2-heliograph-positions.A.internal"]);

        let found = lines(&theirs, &ours);
        let meant: Vec<(char, bool)> =
            found.iter().map(|one| (one.sign, one.reason.is_some())).collect();
        assert_eq!(meant, [('-', false), ('-', true), ('+', true)]);
        assert!(lines(&ours, &theirs).iter().all(|one| one.reason.is_none()));
    }

    #[test]
    fn what_is_equal_is_no_difference_and_what_is_nearer_is_meant() {
        assert_eq!(differences(&picture(), &picture()), []);
        let mut theirs = picture();
        theirs.checkpoints.get_mut(&place("g")).unwrap().downstream = Offset(1);
        theirs.groups.insert(place("g"), 1);
        theirs.syncs.values_mut().for_each(|syncs| {
            syncs.remove(1);
        });
        let found = differences(&theirs, &picture());
        let reasons: Vec<_> = found.iter().map(|one| one.reason).collect();
        assert_eq!(reasons, [Some(EXACT), Some(EXACT)]);
    }

    /// Negative control: one planted fault each, and it is seen.
    #[test]
    fn every_planted_fault_is_seen() {
        let theirs = picture();
        let planted: [(&str, Plant); 11] = [
            ("checkpoint of g", |ours| ours.checkpoints.clear()),
            ("ours 5", |ours| {
                ours.checkpoints.get_mut(&place("g")).unwrap().downstream = Offset(5);
            }),
            ("ours 7", |ours| {
                ours.checkpoints.get_mut(&place("g")).unwrap().downstream = Offset(7);
            }),
            ("Offset(12)", |ours| {
                ours.checkpoints.get_mut(&place("g")).unwrap().upstream = Offset(12);
            }),
            ("offset of group g", |ours| ours.groups.clear()),
            ("offset of group h", |ours| {
                ours.groups.insert(place("h"), 3);
            }),
            ("offset of group g", |ours| {
                ours.groups.insert(place("g"), 9);
            }),
            ("offset syncs of t-0", |ours| ours.syncs.clear()),
            ("further away", |ours| {
                ours.syncs.values_mut().for_each(|all| all.truncate(2));
            }),
            ("translate worse", |ours| {
                // As near as MM2's, but a pair before the last one leads beyond the next record.
                let wrong = Bend { upstream: Offset(16), downstream: Offset(9) };
                ours.syncs.values_mut().for_each(|all| all.insert(2, wrong));
            }),
            ("is no pair", |ours| {
                let wrong = Bend { upstream: Offset(18), downstream: Offset(8) };
                ours.syncs.values_mut().for_each(|all| all.push(wrong));
            }),
        ];
        for (words, plant) in planted {
            let mut ours = picture();
            plant(&mut ours);
            let told = unmeant(&theirs, &ours);
            assert!(told.iter().any(|what| what.contains(words)), "{words}: {told:?}");
        }
    }

    #[test]
    fn an_offset_of_mm2_beyond_the_next_record_would_be_told() {
        let mut theirs = picture();
        theirs.groups.insert(place("g"), 8);
        assert!(unmeant(&theirs, &picture())[0].contains("beyond the next record"));
    }
}
