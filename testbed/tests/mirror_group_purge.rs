//! Groups while both sides lose records: a soak with records purged on the source before and after they are copied,
//! purged on the target, transactions aborted, groups that jump about, and the mirror killed.
//!
//! What must hold at every moment: no group stands behind the end of the target's log, where whoever watches it would
//! see a negative lag, and none is set back. When it is quiet: who had read everything has no lag.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testbed::admin::{At, GroupOffset, Topic};
use testbed::cluster::Cluster;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const TOPICS: [&str; 2] = ["purged", "purged-txn"];

const PARTITIONS: u32 = 2;

const GROUPS: usize = 6;

/// Of each topic, a second.
const RATE: f64 = 1_500.0;

const WAIT: Duration = Duration::from_secs(90);

/// How long records are written and purged.
fn soak() -> Duration {
    let minutes = if std::env::var_os("TESTBED_FULL").is_some() { 10 } else { 1 };
    Duration::from_secs(minutes * 60)
}

/// Where each group stands, by topic and partition.
type Committed = BTreeMap<(String, String, u32), i64>;

/// What must not be seen in one look at the target, whose ends were asked for after the offsets.
fn faults(before: &Committed, now: &Committed, ends: &BTreeMap<(String, u32), i64>) -> Vec<String> {
    let mut faults = Vec::new();
    for (place @ (group, topic, partition), offset) in now {
        let end = ends[&(topic.clone(), *partition)];
        if *offset > end {
            faults.push(format!("{group} at {offset} of {topic}-{partition}, which ends at {end}"));
        }
        if let Some(earlier) = before.get(place)
            && offset < earlier
        {
            faults.push(format!(
                "{group} went back from {earlier} to {offset} of {topic}-{partition}"
            ));
        }
    }
    let lost = before.keys().filter(|place| !now.contains_key(*place));
    faults.extend(lost.map(|(group, topic, _)| format!("{group} lost its place in {topic}")));
    faults
}

/// Negative control: each kind of fault is seen, and what is right is none.
#[test]
fn a_negative_lag_a_group_set_back_and_a_lost_place_are_seen() {
    let at = |offset| Committed::from([(("g".into(), "t".into(), 0), offset)]);
    let ends = BTreeMap::from([(("t".to_owned(), 0), 10)]);

    assert_eq!(faults(&at(5), &at(10), &ends), Vec::<String>::new());
    assert_eq!(faults(&at(5), &at(11), &ends), ["g at 11 of t-0, which ends at 10"]);
    assert_eq!(faults(&at(5), &at(4), &ends), ["g went back from 5 to 4 of t-0"]);
    assert_eq!(faults(&at(5), &Committed::new(), &ends), ["g lost its place in t"]);
}

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

fn replica(topic: &str) -> String {
    format!("a.{topic}")
}

fn look(target: &Cluster) -> (Committed, BTreeMap<(String, u32), i64>) {
    let mut committed = Committed::new();
    for group in (0..GROUPS).map(|at| format!("purge-{at}")) {
        for one in target.group_offsets(&group).unwrap() {
            committed.insert((group.clone(), one.topic, one.partition), one.offset);
        }
    }
    let mut ends = BTreeMap::new();
    for topic in TOPICS.map(replica) {
        let of_topic = target.offsets(&topic, At::Latest).unwrap();
        ends.extend((0..).zip(of_topic).map(|(partition, end)| ((topic.clone(), partition), end)));
    }
    (committed, ends)
}

#[test]
fn no_group_ever_has_a_negative_lag_or_goes_back_while_topics_are_purged() {
    let (source, target) = Cluster::pair().unwrap();
    for topic in TOPICS {
        source.create_topic(&Topic::new(topic).partitions(PARTITIONS)).unwrap();
        source.fill(&Fill::new(topic, 100)).unwrap();
    }
    let flow = FlowFile::one_way(("a", &source), ("b", &target))
        .topics("purged.*")
        .set("groups", "purge-.*")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true");
    let mut mirror = Mirror::heliograph(&flow).unwrap();
    for topic in TOPICS {
        target.await_end_offsets(&replica(topic), 100, WAIT).unwrap();
    }
    let endless = 1_000_000;
    let plain = Fill::new(TOPICS[0], endless).first(100).rate(RATE).batches(4_096, 5);
    let txn = Fill::new(TOPICS[1], endless).first(100).rate(RATE).transactions(20, 4);
    let writers = [plain, txn].map(|fill| source.fill_in_background(&fill).unwrap());

    let (mut dice, mut before, mut looks, mut seen) = (Dice(11), Committed::new(), 0, 0);
    let begun = Instant::now();
    let mut kill_at = soak() / 3;
    while begun.elapsed() < soak() {
        for topic in TOPICS {
            let starts = source.offsets(topic, At::Earliest).unwrap();
            let ends = source.offsets(topic, At::Latest).unwrap();
            for (partition, (start, end)) in (0..).zip(starts.into_iter().zip(ends)) {
                // Anywhere, also below what is left; some read to the very end.
                let anywhere = (start - 500).max(0) + dice.below(end - start + 500);
                let group = format!("purge-{}", dice.below(6));
                let offset = if dice.below(3) == 0 { end } else { anywhere.min(end) };
                let at =
                    GroupOffset { topic: topic.into(), partition, offset, metadata: String::new() };
                source.commit_offsets(&group, &[at]).unwrap();
                match dice.below(8) {
                    // Up to the end: also what was not copied yet.
                    0 => source.delete_records(topic, partition, end).unwrap(),
                    1 => source
                        .delete_records(topic, partition, start + dice.below(end - start))
                        .unwrap(),
                    2 => {
                        let there = target.offsets(&replica(topic), At::Latest).unwrap();
                        let all = there[usize::try_from(partition).unwrap()];
                        target.delete_records(&replica(topic), partition, all).unwrap();
                    }
                    _ => {}
                }
            }
        }
        let (now, ends) = look(&target);
        let found = faults(&before, &now, &ends);
        assert!(
            found.is_empty(),
            "after {:?}: {found:#?}\n{}",
            begun.elapsed(),
            mirror.last_words()
        );
        (looks, seen) = (looks + 1, seen.max(now.len()));
        before = now;
        if begun.elapsed() > kill_at {
            mirror.kill9().unwrap();
            mirror.launch().unwrap();
            kill_at += soak() / 3;
        }
    }
    for writer in writers {
        writer.stop().unwrap();
    }
    let places = GROUPS * TOPICS.len() * usize::try_from(PARTITIONS).unwrap();
    eprintln!("{looks} looks at up to {seen} of {places} places in {:?}", begun.elapsed());
    assert!(looks > 10 && seen > places / 2, "{looks} looks saw {seen} places");

    // Everything read: nothing is behind, however much of it is gone.
    let everything: Vec<GroupOffset> = TOPICS
        .into_iter()
        .flat_map(|topic| {
            let ends = source.offsets(topic, At::Latest).unwrap();
            let at = |(partition, offset)| GroupOffset {
                topic: topic.into(),
                partition,
                offset,
                metadata: String::new(),
            };
            (0..).zip(ends).map(at).collect::<Vec<_>>()
        })
        .collect();
    source.commit_offsets("purge-0", &everything).unwrap();
    eventually("no lag for who has read everything", WAIT, &mirror, || {
        let (now, ends) = look(&target);
        let lags = ends.iter().map(|((topic, partition), end)| {
            let place = ("purge-0".to_owned(), topic.clone(), *partition);
            now.get(&place).map(|offset| end - offset)
        });
        Ok(lags.into_iter().all(|lag| lag == Some(0)))
    })
    .unwrap_or_else(|error| panic!("{:?}: {error:#}\n{}", look(&target), mirror.last_words()));
}
