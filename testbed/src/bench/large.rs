//! A cluster as large as many are: how long from the start of a mirror until everything is there, and what does it ask
//! brokers for when nothing changes?

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kafka_protocol::messages::ApiKey;
use serde_json::{Value, json};

use super::{BROKER_JVM, Options, STOP_WAIT, Tool, as_f64, table};
use crate::admin::{GroupOffset, Rule, Topic};
use crate::cluster::{Cluster, ClusterSpec};
use crate::fill::Fill;
use crate::flow::FlowFile;
use crate::frames::Frames;
use crate::mirror::Mirror;
use crate::process::{resident_bytes, usage_of};
use crate::version::Version;

const TOPICS: u32 = 100;
/// Of each topic.
const PARTITIONS: u32 = 10;
const GROUPS: u32 = 500;
/// Of each topic; 2,000 in all.
const RULES: u32 = 20;

/// A quarter of all that, with `--quick`.
const QUICK: u32 = 4;

/// Until everything is there, at the slowest tool.
const STEADY_WAIT: Duration = Duration::from_secs(600);

/// From the steady state to the beginning of rest.
const SETTLE: Duration = Duration::from_secs(20);

const WATCHED: &str = "WATCHED";

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Size {
    topics: u32,
    groups: u32,
}

impl Size {
    fn of(options: &Options) -> Self {
        let by = if options.quick { QUICK } else { 1 };
        Self { topics: TOPICS / by, groups: GROUPS / by }
    }

    fn rules(self) -> usize {
        usize::try_from(self.topics * RULES).unwrap_or(usize::MAX)
    }
}

fn cluster(name: &str, frames: &Frames) -> Result<Cluster> {
    ClusterSpec::new(Version::V4_3_1)
        .named(name)
        .jvm(BROKER_JVM)
        .with_authorizer()
        .watched_listener(WATCHED, frames)
        .start()
}

fn fill(source: &Cluster, size: Size) -> Result<()> {
    source.create_topics(&Topic::new("large-").partitions(PARTITIONS), size.topics)?;
    for topic in 0..size.topics {
        source.fill(&Fill::new(format!("large-{topic}"), u64::from(PARTITIONS)))?;
    }
    // Each group reads one topic, all of it.
    let offsets: Vec<GroupOffset> = (0..PARTITIONS)
        .map(|partition| GroupOffset {
            topic: "large-0".into(),
            partition,
            offset: 1,
            metadata: String::new(),
        })
        .collect();
    source.commit_many("large-", size.groups, &offsets)?;
    let rules: Vec<Rule> = (0..size.topics)
        .flat_map(|topic| (0..RULES).map(move |user| (topic, user)))
        .map(|(topic, user)| {
            Rule::allow(&format!("large-{topic}"), &format!("User:u{user}"), "DESCRIBE")
        })
        .collect();
    rules.chunks(500).try_for_each(|some| source.create_acls(some))
}

/// What is missing of the steady state; nothing at last.
fn missing(target: &Cluster, size: Size) -> Result<Option<String>> {
    let topics = target.topics()?;
    let there = topics.iter().filter(|name| name.starts_with("s.large-")).count();
    if there < usize::try_from(size.topics)? {
        return Ok(Some(format!("{there} topics")));
    }
    for topic in 0..size.topics {
        let ends = target.offsets(&format!("s.large-{topic}"), crate::admin::At::Latest)?;
        if ends.iter().sum::<i64>() < i64::from(PARTITIONS) {
            return Ok(Some(format!("records of s.large-{topic}")));
        }
    }
    let groups = target.many_offsets("large-", size.groups)?;
    let at_end = |of: &&Vec<GroupOffset>| {
        of.len() == PARTITIONS as usize && of.iter().all(|one| one.offset == 1)
    };
    let whole = groups.values().filter(at_end).count();
    if whole < usize::try_from(size.groups)? {
        return Ok(Some(format!("{whole} groups")));
    }
    let rules = target.acls()?.into_iter().filter(|rule| rule.name.starts_with("s.large-")).count();
    Ok((rules < size.rules()).then(|| format!("{rules} rules")))
}

pub(super) fn run(tools: &[Tool], options: &Options) -> Result<Vec<Value>> {
    let size = Size::of(options);
    let rest = Duration::from_secs(if options.quick { 30 } else { 60 });
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for tool in tools {
        let program = tool.program().context("no mirror")?;
        let frames = Frames::default();
        let (source, target) = (cluster("source", &frames)?, cluster("target", &frames)?);
        fill(&source, size)?;
        eprintln!("testbed: starting {}", tool.name());
        let flow = FlowFile::of(&[])
            .cluster("s", &source.bootstrap_of(WATCHED, "127.0.0.1")?)
            .cluster("t", &target.bootstrap_of(WATCHED, "127.0.0.1")?)
            .flow("s", "t")
            .topics("large-.*")
            .set("groups", "large-.*")
            .set("sync.group.offsets.enabled", "true")
            .set("tasks.max", options.tasks.to_string());
        let begun = Instant::now();
        let mut mirror = Mirror::start(program, &flow)?;
        let steady = loop {
            let last = match missing(&target, size) {
                Ok(None) => break begun.elapsed(),
                Ok(Some(what)) => what,
                Err(error) => format!("{error:#}"),
            };
            if begun.elapsed() > STEADY_WAIT {
                bail!("not steady after {STEADY_WAIT:?}: {last}. {}", mirror.last_words());
            }
            thread::sleep(Duration::from_millis(500));
        };
        let asked: u64 = frames.counts().values().sum();
        thread::sleep(SETTLE);
        let pid = mirror.pid().context("the mirror has no pid")?;
        let (usage, before) = (usage_of(pid)?, frames.counts());
        thread::sleep(rest);
        let (after, counts) = (usage_of(pid)?, frames.counts());
        let resident = resident_bytes(pid)?;
        mirror.terminate(STOP_WAIT)?;
        let per_minute: BTreeMap<String, f64> = counts
            .iter()
            .map(|(key, count)| {
                let more = count - before.get(key).copied().unwrap_or(0);
                (api(*key), as_f64(more) * 60.0 / rest.as_secs_f64())
            })
            .filter(|(_, rate)| *rate > 0.0)
            .collect();
        let all: f64 = per_minute.values().sum();
        let cpu = 100.0 * (after.cpu_seconds - usage.cpu_seconds) / rest.as_secs_f64();
        let mib = |bytes| format!("{:.0}", as_f64(bytes) / 1_048_576.0);
        rows.push([
            tool.name().to_owned(),
            format!("{:.1}", steady.as_secs_f64()),
            asked.to_string(),
            format!("{all:.0}"),
            format!("{cpu:.2}"),
            mib(resident),
            mib(after.peak_rss_bytes),
        ]);
        let mut most: Vec<_> = per_minute.iter().collect();
        most.sort_by(|one, other| other.1.total_cmp(one.1));
        let most: Vec<_> = most.iter().map(|(api, rate)| format!("{api} {rate:.0}")).collect();
        eprintln!("testbed: {} asks in a minute at rest: {}", tool.name(), most.join(", "));
        results.push(json!({
            "bench": "large", "tool": tool.name(), "topics": size.topics, "partitions": PARTITIONS,
            "groups": size.groups, "rules": size.rules(), "steady_seconds": steady.as_secs_f64(),
            "requests_until_steady": asked, "requests_per_minute": all,
            "requests_per_minute_by_api": per_minute, "cpu_percent_of_one_core": cpu,
            "resident_bytes": resident, "peak_rss_bytes": after.peak_rss_bytes,
        }));
    }
    table::print(
        [
            "tool",
            "steady s",
            "requests until then",
            "requests/min at rest",
            "% of one core",
            "resident MiB",
            "peak MiB",
        ],
        &rows,
    );
    println!(
        "{} topics of {PARTITIONS} partitions with a record each, {} groups on all partitions of one, {} rules; all \
         intervals as each program has them by default; rest of {} s.",
        size.topics,
        size.groups,
        size.rules(),
        rest.as_secs()
    );
    Ok(results)
}

/// The name of a kind of request.
fn api(key: i16) -> String {
    ApiKey::try_from(key).map_or_else(|_| format!("api {key}"), |api| format!("{api:?}"))
}
