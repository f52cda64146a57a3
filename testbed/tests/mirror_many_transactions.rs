//! Transactions of one record each: every record has a marker behind it, so the map of offsets bends at each of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use testbed::admin::{At, GroupOffset, Topic};
use testbed::cluster::Cluster;
use testbed::failover;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};

const COPY_WAIT: Duration = Duration::from_secs(600);

const GROUPS_WAIT: Duration = Duration::from_secs(120);

/// Producers that write to the one partition at once: a broker ends one transaction in a millisecond, each of them.
const PRODUCERS: u32 = 16;

/// The map of a million bends takes 2 MiB, of which a part is kept; fetched records up to 64 MiB on a long link, 16
/// here. What is above that is the program itself.
const MEMORY_MAX: u64 = 64 << 20;

/// Transactions that are written before the next ones: a minute or two, on a loaded machine ten.
const PART: usize = 100_000;

/// A broker ends a thousand or two in a second; a million is a quarter of an hour.
fn transactions() -> u64 {
    if std::env::var_os("TESTBED_FULL").is_some() { 1_000_000 } else { 30_000 }
}

fn at(topic: &str, offset: i64) -> GroupOffset {
    GroupOffset { topic: topic.to_owned(), partition: 0, offset, metadata: String::new() }
}

/// One group per lag on the source, and where each must go on on the target.
fn commit(source: &Cluster, target: &Cluster, round: &str) -> BTreeMap<String, i64> {
    let there = source.record_offsets("one").unwrap().remove(0);
    let here = target.record_offsets("s.one").unwrap().remove(0);
    assert_eq!(there.len(), here.len());
    let mut lags = failover::lags(transactions());
    // And many places that have nothing to do with how maps are cut.
    lags.extend((1..100).map(|at| at * 7_919 * transactions() / 1_000_000 + at));
    let (theres, heres) =
        (failover::places(&there, &lags).unwrap(), failover::places(&here, &lags).unwrap());
    let mut expected = BTreeMap::new();
    for (lag, (there, here)) in lags.iter().zip(theres.into_iter().zip(heres)) {
        let group = format!("{round}-{lag}");
        source.commit_offsets(&group, &[at("one", there)]).unwrap();
        expected.insert(group, here);
    }
    expected
}

fn await_groups(target: &Cluster, expected: &BTreeMap<String, i64>, mirror: &Mirror) {
    let committed = || -> BTreeMap<String, i64> {
        let of = |group: &String| {
            let found = target.group_offsets(group).unwrap();
            (group.clone(), found.first().map_or(-1, |one| one.offset))
        };
        expected.keys().map(of).collect()
    };
    let outcome = eventually("groups", GROUPS_WAIT, mirror, || Ok(committed() == *expected));
    assert_eq!(committed(), *expected, "{outcome:?}");
}

#[test]
fn a_marker_behind_every_record_leaves_every_lag_exact_and_memory_bounded() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("one")).unwrap();
    let begun = Instant::now();
    let mut written = 0;
    for first in (0..transactions()).step_by(PART) {
        let part = u64::try_from(PART).unwrap().min(transactions() - first);
        let to = (0..PRODUCERS).map(|_| 0);
        let fill = Fill::new("one", part).first(first).size(20, 20).partitions(to);
        written += source.fill(&fill.producers(PRODUCERS).transactions(1, 0)).unwrap().records;
    }
    assert_eq!(written, transactions());
    let end = source.offsets("one", At::Latest).unwrap()[0];
    assert_eq!(end.unsigned_abs(), 2 * transactions(), "a marker behind each record");
    println!("{} transactions written in {:?}", transactions(), begun.elapsed());

    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .topics("one")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true");
    let begun = Instant::now();
    let mut mirror = Mirror::heliograph(&flow).unwrap();
    target.await_end_offsets("s.one", transactions(), COPY_WAIT).unwrap();
    println!("copied in {:?}", begun.elapsed());
    let mut expected = commit(&source, &target, "first");
    await_groups(&target, &expected, &mirror);
    let peak = mirror.usage().unwrap().peak_rss_bytes;
    println!("peak memory {:.1} MiB", peak as f64 / 1_048_576.0);
    assert!(peak < MEMORY_MAX, "{peak} bytes");

    // All of the map that a new process knows comes from its topic.
    mirror.kill9().unwrap();
    mirror.launch().unwrap();
    expected.extend(commit(&source, &target, "second"));
    await_groups(&target, &expected, &mirror);
    let peak = mirror.usage().unwrap().peak_rss_bytes;
    println!("peak memory after the restart {:.1} MiB", peak as f64 / 1_048_576.0);
    assert!(peak < MEMORY_MAX, "{peak} bytes");
}
