//! `testbed failover`: groups move to the target; how many records do they read a second time?
//!
//! One source, three topics (plain; in transactions of which every fourth was aborted; cleaned before the copy) and a
//! group at every lag on each. The real MirrorMaker 2 and Heliograph copy it, one after the other, to a fresh target each,
//! from files that differ in the target's alias only. When nothing moves any more, what each group has committed on the
//! target is held against the records that lie there: those behind it, less those that the group has not read yet.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::admin::{GroupOffset, Topic};
use crate::cluster::{Cluster, ClusterSpec};
use crate::fill::{Codec, Fill};
use crate::flow::FlowFile;
use crate::mirror::{Mirror, Program, eventually};
use crate::version::Version;

/// MM2 copies 200,000 small records in half a minute, after half a minute to its first.
const COPY_WAIT: Duration = Duration::from_secs(300);

const CLEAN_WAIT: Duration = Duration::from_secs(120);

/// Group offsets must have stood still for so long: several of the mirrors' intervals of a second.
const CALM: Duration = Duration::from_secs(20);

const CALM_WAIT: Duration = Duration::from_secs(180);

const STOP_WAIT: Duration = Duration::from_secs(60);

/// The topics, and what to call them in the table.
const TOPICS: [(&str, &str); 3] =
    [("gplain", "plain"), ("gtxn", "transactions, some aborted"), ("gclean", "compacted")];

/// How many records a group has not read yet; the last one only the first record has.
pub fn lags(records: u64) -> Vec<u64> {
    let most = records.saturating_sub(1);
    let lags = [0, 1, 10, 100, 1_000, 10_000, 50_000, 100_000];
    lags.into_iter().filter(|lag| *lag < most).chain([most]).collect()
}

/// Where a group of each lag stands on the source, if a committed reader finds records at `offsets`.
pub fn places(offsets: &[i64], lags: &[u64]) -> Result<Vec<i64>> {
    let place = |lag: &u64| {
        let lag = usize::try_from(*lag)?.min(offsets.len());
        let last = offsets.last().context("no records")?;
        Ok(offsets.get(offsets.len() - lag).copied().unwrap_or(last + 1))
    };
    lags.iter().map(place).collect()
}

/// Fills the three topics with `records` records each, as a committed reader counts; the last one loses some in the
/// middle of its batches.
pub fn fill(source: &Cluster, records: u64) -> Result<()> {
    source.create_topic(&Topic::new("gplain"))?;
    source.create_topic(&Topic::new("gtxn"))?;
    let cleaned = Topic::new("gclean")
        .config("cleanup.policy", "compact")
        .config("segment.ms", "500")
        .config("min.cleanable.dirty.ratio", "0.01")
        .config("max.compaction.lag.ms", "500");
    source.create_topic(&cleaned)?;
    source.fill(&Fill::new("gplain", records).size(10, 50))?;
    source.fill(&Fill::new("gtxn", records / 3 * 4).size(10, 50).transactions(10, 4))?;
    source.fill(&Fill::new("gclean", records).size(10, 50).codec(Codec::Lz4))?;
    // Newer records of some keys, so that older batches lose some of theirs.
    source.fill(&Fill::new("gclean", records / 2).run(2).size(10, 50).codec(Codec::Lz4))?;
    clean(source, "gclean", records + records / 2)
}

/// Rolls segments until a cleaner has been there; then the topic, and so its copy, is cleaned no more.
fn clean(source: &Cluster, topic: &str, below: u64) -> Result<()> {
    let begun = Instant::now();
    let mut rolls = 0;
    while source.drain(topic)?[0] >= below {
        ensure!(begun.elapsed() < CLEAN_WAIT, "nothing of {topic} was cleaned");
        source.fill(&Fill::new(topic, 1).first(1_000_000 + rolls))?;
        rolls += 1;
        thread::sleep(Duration::from_millis(1_200));
    }
    source.set_topic_config(topic, "cleanup.policy", "delete")?;
    thread::sleep(Duration::from_secs(1));
    Ok(())
}

/// Measures and prints.
pub fn run(records: u64) -> Result<ExitCode> {
    let spec = |name: &str| ClusterSpec::new(Version::V4_3_1).named(name);
    let (source, first) = ClusterSpec::start_both(spec("source"), spec("target-mm2"))?;
    fill(&source, records)?;
    let lags = lags(records);
    for (topic, _) in TOPICS {
        let offsets = source.record_offsets(topic)?.remove(0);
        for (lag, offset) in lags.iter().zip(places(&offsets, &lags)?) {
            let at = GroupOffset {
                topic: topic.to_owned(),
                partition: 0,
                offset,
                metadata: String::new(),
            };
            source.commit_offsets(&format!("{topic}-{lag}"), &[at])?;
        }
    }
    let theirs = moved(Program::MM2, "mm2", &source, &first, &lags)?;
    drop(first);
    let second = spec("target-heliograph").start()?;
    let ours = moved(Program::Heliograph, "heliograph", &source, &second, &lags)?;
    print(&lags, &theirs, &ours);
    let exact = ours.values().flatten().all(|again| *again == Some(0));
    Ok(if exact { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// By topic, for each lag: records read again; fewer than none if some are missed; `None` if the group is not there.
type Again = BTreeMap<&'static str, Vec<Option<i64>>>;

fn moved(
    program: Program,
    alias: &str,
    source: &Cluster,
    target: &Cluster,
    lags: &[u64],
) -> Result<Again> {
    let file = FlowFile::one_way(("s", source), (alias, target))
        .topics("g.*")
        .short_intervals()
        .set("sync.group.offsets.enabled", "true")
        .set("s.consumer.isolation.level", "read_committed")
        .set("emit.heartbeats.enabled", "false");
    let mut mirror = Mirror::start(program, &file)?;
    for (topic, _) in TOPICS {
        let remote = format!("s.{topic}");
        eventually(&format!("{remote} is whole"), COPY_WAIT, &mirror, || {
            Ok(target.describe_topic(&remote)?.is_some()
                && source.drain(topic)? == target.drain(&remote)?)
        })?;
    }
    let committed = || -> Result<BTreeMap<String, Option<i64>>> {
        let mut all = BTreeMap::new();
        for (topic, _) in TOPICS {
            for lag in lags {
                let group = format!("{topic}-{lag}");
                let offset = target.group_offsets(&group)?.first().map(|one| one.offset);
                all.insert(group, offset);
            }
        }
        Ok(all)
    };
    let (begun, mut since, mut last) = (Instant::now(), Instant::now(), committed()?);
    while since.elapsed() < CALM {
        if begun.elapsed() > CALM_WAIT {
            bail!("group offsets do not come to rest: {last:?}. {}", mirror.last_words());
        }
        thread::sleep(Duration::from_secs(1));
        mirror.must_be_running()?;
        let now = committed()?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    mirror.terminate(STOP_WAIT)?;
    let mut again = Again::new();
    for (topic, _) in TOPICS {
        let here = target.record_offsets(&format!("s.{topic}"))?.remove(0);
        let of = |lag: &u64| again_of(&here, last[&format!("{topic}-{lag}")], *lag);
        again.insert(topic, lags.iter().map(of).collect());
    }
    Ok(again)
}

/// Records that lie at or behind `committed`, less those that were to be read anyway.
fn again_of(offsets: &[i64], committed: Option<i64>, lag: u64) -> Option<i64> {
    let before = offsets.partition_point(|offset| *offset < committed.unwrap_or(i64::MAX));
    committed?;
    Some(i64::try_from(offsets.len() - before).ok()? - i64::try_from(lag).ok()?)
}

fn print(lags: &[u64], theirs: &Again, ours: &Again) {
    let cell = |again: &Option<i64>| match again {
        None => "not there".to_owned(),
        Some(again) if *again < 0 => format!("{} missed", -again),
        Some(again) => again.to_string(),
    };
    let heads: Vec<String> = TOPICS
        .iter()
        .flat_map(|(_, name)| [format!("{name}: MirrorMaker 2"), "Heliograph".to_owned()])
        .collect();
    println!("| records not read yet | {} |", heads.join(" | "));
    println!("|---|{}", "---|".repeat(heads.len()));
    for (at, lag) in lags.iter().enumerate() {
        let cells = TOPICS.iter().flat_map(|(topic, _)| [&theirs[topic][at], &ours[topic][at]]);
        let cells: Vec<String> = cells.map(cell).collect();
        println!("| {lag} | {} |", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_each_lag_stands_before_as_many_records() {
        let offsets: Vec<i64> = (0..20).map(|at| 3 * at).collect();

        assert_eq!(lags(20), [0, 1, 10, 19]);
        assert_eq!(places(&offsets, &lags(20)).unwrap(), [58, 57, 30, 3]);
        assert!(places(&[], &[0]).is_err());
    }

    /// Negative control: what is read again or missed is counted.
    #[test]
    fn what_is_read_again_is_counted_and_what_is_missed_too() {
        let offsets: Vec<i64> = (0..20).map(|at| 3 * at).collect();

        assert_eq!(again_of(&offsets, Some(30), 10), Some(0));
        assert_eq!(again_of(&offsets, Some(27), 10), Some(1));
        assert_eq!(again_of(&offsets, Some(31), 10), Some(-1));
        assert_eq!(again_of(&offsets, Some(58), 0), Some(0));
        assert_eq!(again_of(&offsets, None, 0), None);
    }
}
