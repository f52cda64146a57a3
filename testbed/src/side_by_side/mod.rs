//! `testbed side-by-side`: the same file run by the real MirrorMaker 2 and by Heliograph, each on fresh clusters with
//! the same topics, configs, access rules and groups; then every difference of what they left behind.
//!
//! | what | where |
//! |---|---|
//! | what is on two clusters, internal records decoded | `picture` |
//! | which difference is meant, and why | `verdict` |
//!
//! A difference that is meant is printed with its reason; any other makes the exit code 3. That planted differences
//! are seen is tested in `verdict` and, on real clusters, in `tests/side_by_side.rs`.

mod picture;
mod verdict;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::admin::{At, GroupOffset, Rule, Topic};
use crate::cluster::{Cluster, ClusterSpec};
use crate::fill::Fill;
use crate::flow::FlowFile;
use crate::mirror::{Mirror, Program};
use crate::version::Version;

pub use picture::{Copied, Picture};
pub use verdict::{Difference, differences};

/// MM2 takes up to 40 s to its first record, and a few intervals of two seconds after that.
const SETTLE_WAIT: Duration = Duration::from_secs(180);

/// Nothing may have changed for this long.
const CALM: Duration = Duration::from_secs(12);

const STOP_WAIT: Duration = Duration::from_secs(60);

/// Topics with records, and so with places for groups: one without holes, one in transactions of which every fourth
/// was aborted.
const DATA: [&str; 2] = ["orders", "moves"];

/// One way to run both programs.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    pub name: &'static str,
    /// What stands before the name of a replica.
    prefix: &'static str,
    lines: &'static [(&'static str, &'static str)],
}

const IDENTITY: (&str, &str) =
    ("replication.policy.class", "org.apache.kafka.connect.mirror.IdentityReplicationPolicy");
const SYNCS_ON_TARGET: (&str, &str) = ("offset-syncs.topic.location", "target");

/// Both policies with offset syncs on either side, and two more separators.
pub const VARIANTS: [Variant; 6] = [
    Variant { name: "default", prefix: "A.", lines: &[] },
    Variant { name: "default-target", prefix: "A.", lines: &[SYNCS_ON_TARGET] },
    Variant { name: "identity", prefix: "", lines: &[IDENTITY] },
    Variant {
        name: "identity-target",
        prefix: "",
        lines: &[IDENTITY, SYNCS_ON_TARGET, ("A->B.use.defaults.from", "source")],
    },
    Variant { name: "separator", prefix: "A_", lines: &[("replication.policy.separator", "_")] },
    Variant {
        name: "separator-target",
        prefix: "A--",
        lines: &[
            ("replication.policy.separator", "--"),
            ("replication.policy.internal.topic.separator.enabled", "false"),
            SYNCS_ON_TARGET,
        ],
    },
];

/// Runs both programs on each variant, or on those named.
pub fn run(variants: &[String]) -> Result<ExitCode> {
    let mut unmeant = 0;
    for name in variants {
        if VARIANTS.iter().all(|variant| variant.name != name) {
            bail!("no variant {name}: there are {}", VARIANTS.map(|one| one.name).join(", "));
        }
    }
    for variant in VARIANTS {
        if !variants.is_empty() && !variants.iter().any(|wanted| wanted == variant.name) {
            continue;
        }
        println!("{}:", variant.name);
        let theirs = Left::by(Program::MM2, &variant)?.picture;
        let ours = Left::by(Program::Heliograph, &variant)?.picture;
        println!("  the same: {}", verdict::same(&theirs, &ours));
        for Difference { sign, what, reason } in differences(&theirs, &ours) {
            unmeant += usize::from(reason.is_none());
            println!("  {sign} {what}  ({})", reason.unwrap_or("NOT MEANT"));
        }
    }
    println!("{unmeant} differences that are not meant");
    Ok(if unmeant == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Two clusters that a program has mirrored and left.
#[derive(Debug)]
pub struct Left {
    pub source: Cluster,
    pub target: Cluster,
    /// What was there once nothing changed any more.
    pub picture: Picture,
    prefix: &'static str,
}

impl Left {
    /// Runs `program` until the clusters come to rest, and ends it.
    pub fn by(program: Program, variant: &Variant) -> Result<Self> {
        let spec = || ClusterSpec::new(Version::V4_3_1).with_authorizer();
        let (source, target) = ClusterSpec::start_both(spec(), spec())?;
        prepare(&source)?;
        let file = FlowFile::one_way(("A", &source), ("B", &target)).short_intervals();
        let file = file.set("sync.topic.acls.interval.seconds", "1");
        let file = file.set("sync.group.offsets.enabled", "true");
        // MM2's own default copies aborted records, as data that never was.
        let file = file.set("A.consumer.isolation.level", "read_committed");
        let lines = variant.lines.iter();
        let file = lines.fold(file, |file, (key, value)| file.set(*key, *value));
        let begun = Instant::now();
        let mut mirror = Mirror::start(program, &file)?;
        let picture = Picture::default();
        let mut left = Self { source, target, picture, prefix: variant.prefix };
        let mut since = Instant::now();
        loop {
            thread::sleep(Duration::from_secs(1));
            mirror.must_be_running()?;
            let now = left.look();
            if let Ok(now) = now
                && now != left.picture
            {
                (left.picture, since) = (now, Instant::now());
            }
            if left.picture.is_complete() && since.elapsed() > CALM {
                break;
            }
            if begun.elapsed() > SETTLE_WAIT {
                let Picture { lines, checkpoints, groups, .. } = &left.picture;
                bail!(
                    "the clusters do not come to rest: {lines:#?} {checkpoints:?} {groups:?}. {}",
                    mirror.last_words()
                );
            }
        }
        mirror.terminate(STOP_WAIT)?;
        Ok(left)
    }

    /// What is there now.
    pub fn look(&self) -> Result<Picture> {
        let topics = DATA.map(|topic| (topic, format!("{}{topic}", self.prefix)));
        Picture::take(&self.source, &self.target, &topics)
    }
}

/// Topics of every kind of name, one with many configs, records, groups, and rules of every kind.
fn prepare(a: &Cluster) -> Result<()> {
    a.create_topic(&Topic::new("orders").partitions(2))?;
    a.fill(&Fill::new("orders", 500))?;
    a.create_topic(&Topic::new("moves"))?;
    a.fill(&Fill::new("moves", 400).transactions(10, 4))?;
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
    groups(a)?;
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

/// Groups at the beginning, in between, near the end and at the end, one on a topic without records, and one that is
/// not mirrored.
fn groups(a: &Cluster) -> Result<()> {
    let at = |topic: &str, partition: u32, offset: i64| GroupOffset {
        topic: topic.to_owned(),
        partition,
        offset,
        metadata: String::new(),
    };
    let moves = a.record_offsets("moves")?.remove(0);
    let near = *moves.iter().nth_back(6).context("too few records")?;
    let end = a.offsets("moves", At::Latest)?[0];
    a.commit_offsets("begin", &[at("orders", 0, 0), at("moves", 0, 0)])?;
    a.commit_offsets("middle", &[at("orders", 0, 170), at("orders", 1, 31), at("moves", 0, 147)])?;
    a.commit_offsets("near", &[at("orders", 0, 243), at("orders", 1, 249), at("moves", 0, near)])?;
    a.commit_offsets("end", &[at("orders", 0, 250), at("orders", 1, 250), at("moves", 0, end)])?;
    a.commit_offsets("nothing-there", &[at("a.dotted.name", 0, 0)])?;
    a.commit_offsets("console-consumer-7", &[at("orders", 0, 10)])
}
