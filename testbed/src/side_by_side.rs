//! `testbed side-by-side`: the same file run by the real MirrorMaker 2 and by Heliograph, each on fresh clusters with
//! the same topics, configs and access rules; then every difference of what they left behind.
//!
//! Compared are topics with their partitions and own configs on both clusters, access rules, the pairs that heartbeats
//! speak of, and what MM2's own client class says about the target. A difference that is meant is printed with its
//! reason; any other makes the exit code 3.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::admin::{Rule, Topic};
use crate::cluster::{Cluster, ClusterSpec};
use crate::fill::Fill;
use crate::flow::FlowFile;
use crate::mirror::{Mirror, Program};
use crate::version::Version;

/// MM2 takes up to 40 s to its first record, and a few intervals of two seconds after that.
const SETTLE_WAIT: Duration = Duration::from_secs(180);

/// Nothing may have changed for this long.
const CALM: Duration = Duration::from_secs(12);

/// Differences on purpose: whose they are (`-` MM2's, `+` ours), a part of the line, and why.
const MEANT: [(char, &str, &str); 5] = [
    ('-', "topic __consumer_offsets", "made by brokers for the group of Connect's workers"),
    ('-', "topic mm2-configs.", "Connect's own state is not kept"),
    ('-', "topic mm2-status.", "Connect's own state is not kept"),
    ('-', "source: topic mm2-offsets.", "the way back is off, and so has no progress"),
    ('+', "topic mm2-heliograph-", "internal topics of our own"),
];

/// Policies and separators, by the lines that a file has for them.
const VARIANTS: [(&str, &[(&str, &str)]); 3] = [
    ("default", &[]),
    (
        "identity",
        &[
            (
                "replication.policy.class",
                "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            ),
            ("offset-syncs.topic.location", "target"),
            ("A->B.use.defaults.from", "source"),
        ],
    ),
    ("separator", &[("replication.policy.separator", "_")]),
];

/// Runs both programs on each variant, or on those named.
pub fn run(variants: &[String]) -> Result<ExitCode> {
    let mut unmeant = 0;
    for (name, lines) in VARIANTS {
        if !variants.is_empty() && !variants.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("{name}:");
        let theirs = left_behind(Program::MM2, lines)?;
        let ours = left_behind(Program::Heliograph, lines)?;
        println!("  {} lines are the same", theirs.intersection(&ours).count());
        for (sign, line, reason) in differences(&theirs, &ours) {
            unmeant += usize::from(reason.is_none());
            println!("  {sign} {line}  ({})", reason.unwrap_or("NOT MEANT"));
        }
    }
    println!("{unmeant} differences that are not meant");
    Ok(if unmeant == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Lines that only MM2's clusters have (`-`) or only ours (`+`), with the reason if they are meant.
fn differences(
    theirs: &BTreeSet<String>,
    ours: &BTreeSet<String>,
) -> Vec<(char, String, Option<&'static str>)> {
    let missing = theirs.difference(ours).map(|line| ('-', line));
    let added = ours.difference(theirs).map(|line| ('+', line));
    missing
        .chain(added)
        .map(|(sign, line)| {
            let meant = MEANT.iter().find(|(of, part, _)| *of == sign && line.contains(part));
            (sign, line.clone(), meant.map(|(_, _, reason)| *reason))
        })
        .collect()
}

fn left_behind(program: Program, lines: &[(&str, &str)]) -> Result<BTreeSet<String>> {
    let spec = || ClusterSpec::new(Version::V4_3_1).with_authorizer();
    let (a, b) = ClusterSpec::start_both(spec(), spec())?;
    prepare(&a)?;
    let file = FlowFile::one_way(("A", &a), ("B", &b)).short_intervals();
    let file = file.set("sync.topic.acls.interval.seconds", "1");
    let file = lines.iter().fold(file, |file, (key, value)| file.set(*key, *value));
    let begun = Instant::now();
    let mut mirror = Mirror::start(program, &file)?;
    let (mut last, mut since) = (BTreeSet::new(), Instant::now());
    loop {
        thread::sleep(Duration::from_secs(1));
        mirror.must_be_running()?;
        let now = picture(&a, &b)?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        let there = |part: &str| last.iter().any(|line| line.contains(part));
        // The last things that appear: heartbeats of the way back, copied, and a rule.
        let complete = there("target: heartbeats of B->A") && there("target: rule");
        if complete && since.elapsed() > CALM {
            return Ok(last);
        }
        if begun.elapsed() > SETTLE_WAIT {
            bail!("the clusters do not come to rest: {last:#?}. {}", mirror.last_words());
        }
    }
}

/// Topics of every kind of name, one with many configs, records, and rules of every kind.
fn prepare(a: &Cluster) -> Result<()> {
    a.create_topic(&Topic::new("orders").partitions(2))?;
    a.fill(&Fill::new("orders", 500))?;
    for name in [
        "orders.internal",
        "app-internal",
        "x.replica",
        "mm2-user.internal",
        "x.checkpoints.internal",
        "a.dotted.name",
        "B.looped",
        ".hidden",
        "__under",
        "team.heartbeats",
    ] {
        a.create_topic(&Topic::new(name))?;
    }
    let many = Topic::new("many").config("cleanup.policy", "compact,delete");
    let many = many.config("retention.ms", "864000000").config("compression.type", "gzip");
    let many = many.config("min.insync.replicas", "1").config("flush.ms", "6000");
    let many = many.config("message.timestamp.type", "LogAppendTime");
    let many = many.config("message.timestamp.before.max.ms", "8640000000");
    a.create_topic(&many.config("follower.replication.throttled.replicas", "0:1"))?;
    let deny = |rule: Rule| Rule { permission: "DENY".into(), ..rule };
    let prefixed = |rule: Rule| Rule { pattern: "PREFIXED".into(), ..rule };
    a.create_acls(&[
        Rule::allow("orders", "User:alice", "READ"),
        Rule::allow("orders", "User:alice", "WRITE"),
        Rule::allow("orders", "User:bob", "ALL"),
        deny(Rule::allow("orders", "User:carol", "WRITE")),
        deny(Rule::allow("orders", "User:dave", "ALL")),
        Rule::allow("*", "User:gina", "READ"),
        Rule::allow("not-there", "User:jane", "DESCRIBE"),
        Rule::allow("x.replica", "User:ivan", "READ"),
        prefixed(Rule::allow("ord", "User:fred", "READ")),
    ])
}

fn picture(a: &Cluster, b: &Cluster) -> Result<BTreeSet<String>> {
    let mut lines = BTreeSet::new();
    for (side, cluster) in [("source", a), ("target", b)] {
        for topic in cluster.topics()? {
            // A topic may go, or not have come to every broker yet; the next look will tell.
            let Some(described) = cluster.describe_topic(&topic)? else { continue };
            let partitions = described.partitions.len();
            let configs = cluster.own_configs(&topic)?;
            lines.insert(format!("{side}: topic {topic} partitions={partitions} {configs:?}"));
            if topic.ends_with("heartbeats") && topic != "team.heartbeats" {
                for record in cluster.read(&topic, 5)? {
                    let pair = record.key.as_deref().map_or_else(String::new, pair);
                    lines.insert(format!("{side}: heartbeats of {pair} in {topic}"));
                }
            }
        }
        for rule in cluster.acls()? {
            lines.insert(format!("{side}: rule {rule:?}"));
        }
    }
    let said = b.mirror_client("A", &[])?;
    lines.insert(format!("target: MirrorClient says {said:?}"));
    Ok(lines)
}

/// `A->B` from the hexadecimal key of a heartbeat whose aliases have one letter.
fn pair(key: &str) -> String {
    let letter = |at: usize| {
        let byte = key.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        byte.map_or('?', char::from)
    };
    format!("{}->{}", letter(4), letter(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Negative control: what nobody meant is told, and what is meant on one side only counts for that side.
    #[test]
    fn a_difference_that_is_not_meant_has_no_reason() {
        let set = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
        let theirs = set(&["same", "target: topic mm2-status.A.internal", "target: rule x"]);
        let ours = set(&["same", "target: topic mm2-heliograph-positions.A.internal"]);

        let found = differences(&theirs, &ours);
        let meant: Vec<(char, bool)> = found.iter().map(|one| (one.0, one.2.is_some())).collect();
        assert_eq!(meant, [('-', false), ('-', true), ('+', true)]);
        assert!(differences(&ours, &theirs).iter().all(|one| one.2.is_none()));
    }

    #[test]
    fn a_heartbeats_key_names_its_pair() {
        assert_eq!(pair("000141000142"), "A->B");
        assert_eq!(pair("0001"), "?->?");
    }
}
