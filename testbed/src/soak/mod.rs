//! `testbed soak`: two clusters of three nodes, producers of every kind, and no mercy for half an hour; then every
//! record that the source acknowledged must be on the target once, in order, or inside a gap that was reported.
//!
//! A seed decides which deeds are done in which order (`chaos`); moments are those of real processes, so a seed
//! repeats the plan and not the run. Producers write down what became of each record (`journal`), the target is read
//! at the end, and the judge (`judge`) works on these two and on the mirror's log alone. Then one more start, in quiet,
//! must bring the mirror's page to say what was counted (`page`).

mod chaos;
mod journal;
mod judge;
mod page;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::{At, Topic};
use crate::agent::{Agent, Pending};
use crate::cluster::{Cluster, ClusterSpec};
use crate::flow::FlowFile;
use crate::mirror::Mirror;
use crate::ports;
use crate::scratch::{self, Scratch};
use crate::version::Version;

use chaos::{Deed, Dice, Side};
use judge::{Counts, Finding};

/// A producer ends within its delivery time-out; a transaction whose broker is away takes a little longer.
const PRODUCERS_WAIT: Duration = Duration::from_secs(180);

/// To the first record, and from the last one to the end of the copy.
const COPY_WAIT: Duration = Duration::from_secs(240);

/// The copy is over when the target's ends have not moved for so long.
const QUIET: Duration = Duration::from_secs(10);

/// Of the phase in which the page is checked.
const LAST_RECORDS: Duration = Duration::from_secs(5);

const READ_WAIT: Duration = Duration::from_secs(900);

const STOP_WAIT: Duration = Duration::from_secs(60);

/// How many findings are shown.
const SHOWN: usize = 20;

#[derive(Debug, Clone)]
pub struct Options {
    pub minutes: f64,
    pub seed: u64,
    /// For programs that serve no page yet.
    pub without_page: bool,
}

/// The topic that is deleted and made anew.
const AGAIN: &str = "again";

/// Name and partitions.
const TOPICS: [(&str, u32); 4] = [("plain", 4), ("idempotent", 4), ("transactions", 3), (AGAIN, 2)];

/// Topic, kind, codec and records per second of each producer.
const PRODUCERS: [(&str, &str, &str, u32); 6] = [
    ("plain", "plain", "none", 200),
    ("idempotent", "idempotent", "lz4", 300),
    ("transactions", "transactional", "none", 150),
    ("transactions", "transactional", "zstd", 150),
    ("transactions", "idempotent", "snappy", 50),
    (AGAIN, "idempotent", "gzip", 100),
];

/// Both clusters, the mirror, and who writes.
#[derive(Debug)]
struct Bed {
    source: Cluster,
    target: Cluster,
    mirror: Mirror,
    page: String,
    scratch: Scratch,
    producing: Vec<Producing>,
    journals: Vec<(&'static str, PathBuf)>,
    /// Of [`AGAIN`]; all others have one life.
    incarnation: u64,
}

#[derive(Debug)]
struct Producing {
    topic: &'static str,
    pending: Pending,
}

#[derive(Debug, Deserialize)]
struct Produced {
    acknowledged: u64,
    maybe: u64,
    aborted: u64,
    last_trouble: String,
}

impl Bed {
    fn start() -> Result<Self> {
        let three = || ClusterSpec::new(Version::V4_3_1).three_nodes();
        let (source, target) = ClusterSpec::start_both(three(), three())?;
        for (topic, partitions) in TOPICS {
            source.create_topic(&Topic::new(topic).partitions(partitions))?;
        }
        let page = format!("127.0.0.1:{}", ports::take()?);
        let flow = FlowFile::one_way(("s", &source), ("t", &target))
            .topics(&TOPICS.map(|(topic, _)| topic).join(", "))
            .set("heliograph.http.listen", &page);
        let mirror = Mirror::with_events(&flow)?;
        let scratch = Scratch::new("soak")?;
        Ok(Self {
            source,
            target,
            mirror,
            page,
            scratch,
            producing: Vec::new(),
            journals: Vec::new(),
            incarnation: 1,
        })
    }

    fn topics(&self) -> [(&'static str, u32); 4] {
        TOPICS
    }

    fn cluster(&self, side: Side) -> &Cluster {
        match side {
            Side::Source => &self.source,
            Side::Target => &self.target,
        }
    }

    fn cluster_mut(&mut self, side: Side) -> &mut Cluster {
        match side {
            Side::Source => &mut self.source,
            Side::Target => &mut self.target,
        }
    }

    fn topic_names(&self, side: Side) -> Vec<String> {
        let prefix = if side == Side::Target { "s." } else { "" };
        TOPICS.iter().map(|(topic, _)| format!("{prefix}{topic}")).collect()
    }

    /// Starts the producers of `wanted` topics; each gets a number of its own, so that no id comes twice.
    fn produce(&mut self, wanted: impl Fn(&str) -> bool) -> Result<()> {
        for (topic, kind, compression, rate) in PRODUCERS {
            if !wanted(topic) {
                continue;
            }
            let number = self.journals.len();
            // One byte of the id.
            if number > 0xff {
                bail!("more producers than the ids of their records have room for");
            }
            let path = self.scratch.join(format!("{number:03}-{topic}.journal"));
            let partitions = TOPICS.iter().find(|(name, _)| *name == topic).map_or(1, |one| one.1);
            let incarnation = if topic == AGAIN { self.incarnation } else { 1 };
            let args = json!({
                "bootstrap": self.source.bootstrap(), "topic": topic, "partitions": partitions,
                "kind": kind, "compression": compression, "rate": rate,
                "producer": number, "incarnation": incarnation,
                "journal": path.display().to_string(),
            });
            let pending = Agent::shared()?.ask("journal", args)?;
            self.producing.push(Producing { topic, pending });
            self.journals.push((topic, path));
        }
        Ok(())
    }

    /// Ends the producers of `wanted` topics.
    fn hush(&mut self, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let (ending, going): (Vec<_>, Vec<_>) =
            self.producing.drain(..).partition(|one| wanted(one.topic));
        self.producing = going;
        for one in &ending {
            one.pending.stop()?;
        }
        for one in ending {
            let topic = one.topic;
            let produced: Produced = one.pending.answer(PRODUCERS_WAIT)?;
            eprintln!(
                "testbed: {topic}: {} acknowledged, {} may be there, {} aborted{}",
                produced.acknowledged,
                produced.maybe,
                produced.aborted,
                match produced.last_trouble.as_str() {
                    "" => String::new(),
                    trouble => format!(
                        " (last trouble: {})",
                        trouble.chars().take(120).collect::<String>()
                    ),
                }
            );
        }
        Ok(())
    }

    /// Deletes a topic with whatever was not copied, makes it anew, and waits until the mirror has seen that.
    fn recreate(&mut self) -> Result<()> {
        self.hush(|topic| topic == AGAIN)?;
        self.source.delete_topic(AGAIN)?;
        let partitions = TOPICS.iter().find(|(name, _)| *name == AGAIN).map_or(1, |one| one.1);
        self.source.create_topic(&Topic::new(AGAIN).partitions(partitions))?;
        self.incarnation += 1;
        self.produce(|topic| topic == AGAIN)?;
        let wanted = self.incarnation - 1;
        crate::mirror::eventually("the topic made anew is seen", COPY_WAIT, &self.mirror, || {
            let told = journal::told(&self.mirror.events())?;
            Ok((0..partitions).all(|partition| {
                let name = format!("{AGAIN}-{partition}");
                told.get(&name).is_some_and(|told| told.incarnations >= wanted)
            }))
        })
    }

    fn target_ends(&self) -> Result<BTreeMap<String, Vec<i64>>> {
        let ends = TOPICS.iter().map(|(topic, _)| {
            Ok(((*topic).to_owned(), self.target.offsets(&format!("s.{topic}"), At::Latest)?))
        });
        ends.collect()
    }

    /// Waits until no transaction is open and the target's ends stand still.
    fn settle(&self) -> Result<()> {
        let begun = Instant::now();
        let (mut last, mut since) = (BTreeMap::new(), Instant::now());
        while since.elapsed() < QUIET {
            thread::sleep(Duration::from_millis(500));
            let open = |topic: &str| -> Result<bool> {
                Ok(self.source.offsets(topic, At::Stable)?
                    != self.source.offsets(topic, At::Latest)?)
            };
            let now = self.target_ends()?;
            if now != last || open("transactions")? {
                (last, since) = (now, Instant::now());
            }
            if begun.elapsed() > COPY_WAIT {
                bail!("the copy does not end within {COPY_WAIT:?}. {}", self.mirror.last_words());
            }
        }
        Ok(())
    }

    /// All faults, and what was counted.
    fn judge(&self) -> Result<(Vec<Finding>, Counts)> {
        let told = journal::told(&self.mirror.events())?;
        let (mut findings, mut counts) = (Vec::new(), Counts::default());
        for (topic, partitions) in TOPICS {
            let mut written = BTreeMap::new();
            for (_, path) in self.journals.iter().filter(|(of, _)| *of == topic) {
                journal::read_journal(path, &mut written)?;
            }
            let file = self.scratch.join(format!("{topic}.ids"));
            let args = json!({
                "bootstrap": self.target.bootstrap(), "topic": format!("s.{topic}"),
                "file": file.display().to_string(),
            });
            Agent::shared()?.call::<Value>("ids", args, READ_WAIT)?;
            let on_target = journal::read_target(&file)?;
            for partition in 0..partitions {
                let name = format!("{topic}-{partition}");
                let reported = told.get(&name).map(|told| told.gaps.as_slice()).unwrap_or_default();
                findings.extend(judge::judge(
                    &name,
                    written.entry(partition).or_default(),
                    on_target.get(&partition).map(Vec::as_slice).unwrap_or_default(),
                    reported,
                    &mut counts,
                ));
            }
        }
        Ok((findings, counts))
    }
}

/// Runs, judges and prints; the exit code says whether all was right.
pub fn run(options: &Options) -> Result<ExitCode> {
    crate::mirror::heliograph_binary()?;
    let Options { minutes, seed, without_page } = *options;
    println!("soak of {minutes} minutes, seed {seed}");
    let begun = Instant::now();
    let say = |text: &str| eprintln!("testbed: [{:6.1} s] {text}", begun.elapsed().as_secs_f64());
    let mut bed = Bed::start()?;
    bed.produce(|_| true)?;
    for (topic, _) in TOPICS {
        let copied = bed.target.await_end_offsets(&format!("s.{topic}"), 100, COPY_WAIT);
        copied.with_context(|| bed.mirror.last_words())?;
    }

    let (mut dice, mut deeds) = (Dice::new(seed), 0_u32);
    let during = Duration::from_secs_f64(minutes * 60.0);
    let chaos = Instant::now();
    // A round is begun only if there is time, and done to its end: whatever runs for how long, each deed was done.
    while deeds == 0 || chaos.elapsed() < during {
        for deed in Deed::round(&mut dice) {
            say(&format!("{deed:?}"));
            deed.perform(&mut bed, &mut dice).with_context(|| bed.mirror.last_words())?;
            deeds += 1;
            thread::sleep(Duration::from_secs(1));
        }
    }
    say("no more deeds; producers end");
    bed.hush(|_| true)?;
    bed.settle()?;

    say("one more start, in quiet");
    let exit = bed.mirror.terminate(STOP_WAIT)?;
    let before = bed.target_ends()?;
    bed.mirror.launch()?;
    bed.produce(|_| true)?;
    thread::sleep(LAST_RECORDS);
    bed.hush(|_| true)?;
    bed.settle()?;
    let told = journal::told(&bed.mirror.events())?;
    let page = page::check(&bed, &bed.page, &told, &before);
    let (findings, counts) = bed.judge()?;

    let halts: Vec<_> =
        bed.mirror.events().into_iter().filter(|e| e.message() == "partition halted").collect();
    println!(
        "{deeds} deeds; {} records acknowledged, {} doubtful, {} aborted; {} on the target, {} in reported gaps",
        counts.acknowledged, counts.maybe, counts.aborted, counts.on_target, counts.in_gaps
    );
    if counts.overstated > 0 {
        println!("{} records were reported as gone, and are there", counts.overstated);
    }
    let mut wrong = Vec::new();
    for finding in findings.iter().take(SHOWN) {
        wrong.push(finding.to_string());
    }
    if findings.len() > SHOWN {
        wrong.push(format!("... and {} more", findings.len() - SHOWN));
    }
    for halt in halts.iter().take(SHOWN) {
        wrong.push(format!(
            "halted: {} {}",
            halt.text("partition").unwrap_or_default(),
            halt.text("reason").unwrap_or_default()
        ));
    }
    if exit.code != Some(0) {
        wrong.push(format!("SIGTERM in quiet ended it with {exit:?}"));
    }
    if counts.in_gaps == 0 {
        wrong.push("no record was in a gap: nothing was overtaken, so nothing is proven".into());
    }
    match page {
        Ok(lies) => wrong.extend(lies.into_iter().map(|lie| format!("page: {lie}"))),
        Err(error) if without_page => println!("the page was not checked: {error:#}"),
        Err(error) => wrong.push(format!("page: {error:#}")),
    }
    for line in &wrong {
        println!("  {line}");
    }
    if wrong.is_empty() {
        println!("VERDICT: every record is there once and in order, or inside a reported gap");
        return Ok(ExitCode::SUCCESS);
    }
    println!("VERDICT: FAILED; again with: cargo testbed soak --minutes {minutes} --seed {seed}");
    scratch::keep_logs();
    Ok(ExitCode::FAILURE)
}
