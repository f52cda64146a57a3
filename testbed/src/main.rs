//! `cargo testbed ...`: the commands of the test bed.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use testbed::bench::{self, Bench, Tool};
use testbed::compare::Comparison;
use testbed::version::Version;
use testbed::{demo, failover, relay, scratch, setup, side_by_side, soak, tap};

/// Real Kafka clusters, the real MirrorMaker 2, and an independent judge, for Heliograph's tests.
#[derive(Debug, Parser)]
#[command(name = "testbed", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Install, fetch and compile what is missing; quick when nothing is.
    Setup {
        /// Kafka versions to fetch.
        #[arg(long, value_delimiter = ',', default_value = "4.3.1,3.9.2,2.8.2")]
        versions: Vec<Version>,
    },
    /// Two real clusters, a mirror, live records, and a verdict, in under a minute.
    Demo {
        /// Run the real MirrorMaker 2 instead of Heliograph.
        #[arg(long)]
        mm2: bool,
        /// How long records are produced live, in seconds.
        #[arg(long, default_value_t = 10)]
        live: u64,
    },
    /// Heliograph, the real MirrorMaker 2 and a bare relay on the same data, in one table.
    Bench {
        /// An eighth of the data, a quarter of the time.
        #[arg(long)]
        quick: bool,
        /// Only these: shapes of data (1k, 100b, 10k, one, many, txn, compacted, delayed, delayed-target, delayed-one,
        /// delayed-target-one), and latency, idle, topic, large.
        #[arg(long, value_delimiter = ',')]
        shape: Vec<Bench>,
        /// Only these tools: relay, limit, heliograph, mm2, and verifying, which is heliograph with
        /// `heliograph.verify.crc=always`.
        #[arg(long, value_delimiter = ',')]
        only: Vec<Tool>,
        /// Leave out the comparison of each copy, record by record.
        #[arg(long)]
        no_compare: bool,
        /// `tasks.max` in the properties file of both mirrors.
        #[arg(long, default_value_t = 2)]
        tasks: u32,
        /// Also write the results to this file, as JSON.
        #[arg(long)]
        json: Option<PathBuf>,
    },
    /// Half an hour of crashes, moved leaders, lost and new topics, and a judge at the end.
    Soak {
        /// How long deeds go on; the round that has begun is ended.
        #[arg(long, default_value_t = 30.0)]
        minutes: f64,
        /// What is done in which order; some number if none is given.
        #[arg(long)]
        seed: Option<u64>,
        /// A page that does not answer is no fault.
        #[arg(long)]
        without_page: bool,
    },
    /// Start clusters and keep them until standard input ends or Ctrl-C; prints their addresses.
    Up {
        /// Versions of the clusters, one each.
        #[arg(default_value = "4.3.1")]
        versions: Vec<Version>,
        /// Three nodes each.
        #[arg(long)]
        three_nodes: bool,
    },
    /// Judge whether a target topic is the source topic; exit code 1 if not.
    Compare {
        /// Bootstrap servers of the source.
        source: String,
        source_topic: String,
        /// Bootstrap servers of the target.
        target: String,
        target_topic: String,
        /// Seconds the target may be behind.
        #[arg(long, default_value_t = 0)]
        wait: u64,
    },
    /// Record requests and answers of real brokers for the tests of the protocol.
    Tap {
        /// Kafka versions, one node each.
        #[arg(long, value_delimiter = ',', default_value = "4.3.1,3.9.2,2.8.2")]
        versions: Vec<Version>,
        /// The folder they go to; emptied first.
        #[arg(long, default_value = "proto-tests/golden/frames")]
        out: PathBuf,
    },
    /// The same file run by the real MirrorMaker 2 and by Heliograph, and every difference of what they leave behind;
    /// exit code 3 if one is not meant.
    SideBySide {
        /// Only these: default, default-target, identity, identity-target, separator, separator-target.
        variants: Vec<String>,
    },
    /// How many records groups at every lag would read again after a failover: the real MirrorMaker 2 and Heliograph on
    /// the same data, in one table; exit code 1 if Heliograph's are not none.
    Failover {
        /// Records of each topic.
        #[arg(long, default_value_t = 200_000)]
        records: u64,
    },
    /// (part of bench) Write bytes to whoever connects.
    #[command(hide = true)]
    RelaySource { bytes: u64 },
    /// (part of bench) Read bytes from whoever connects.
    #[command(hide = true)]
    RelaySink,
    /// (part of bench) Hand bytes on.
    #[command(hide = true)]
    Relay { source: u16, sink: u16 },
    /// (part of bench) Read a topic over and over.
    #[command(hide = true)]
    LimitFetch { address: String, topic: String, partitions: usize, bytes: u64 },
    /// (part of bench) Write the batches of one topic to another one, over and over.
    #[command(hide = true)]
    LimitProduce {
        source: String,
        topic: String,
        partitions: usize,
        bytes: u64,
        target: String,
        target_topic: String,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("testbed: {error:#}");
            scratch::keep_logs();
            ExitCode::from(2)
        }
    }
}

fn run(what: What) -> Result<ExitCode> {
    match what {
        What::Setup { versions } => setup::run(&versions)?,
        What::Demo { mm2, live } => return demo::run(mm2, Duration::from_secs(live)),
        What::Bench { quick, shape, only, no_compare, tasks, json } => {
            let program = std::env::current_exe()?;
            return bench::run(&bench::Options {
                quick,
                benches: shape,
                only,
                compare: !no_compare,
                tasks,
                json,
                program,
            });
        }
        What::Soak { minutes, seed, without_page } => {
            let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
            return soak::run(&soak::Options { minutes, seed, without_page });
        }
        What::Up { versions, three_nodes } => demo::up(&versions, three_nodes)?,
        What::Compare { source, source_topic, target, target_topic, wait } => {
            let verdict = Comparison::by_address(&source, &source_topic, &target, &target_topic)
                .wait(Duration::from_secs(wait))
                .run()?;
            println!("{verdict}");
            return Ok(if verdict.same { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        What::Tap { versions, out } => tap::run(&versions, &out)?,
        What::Failover { records } => return failover::run(records),
        What::SideBySide { variants } => return side_by_side::run(&variants),
        What::RelaySource { bytes } => relay::source(bytes)?,
        What::RelaySink => relay::sink()?,
        What::Relay { source, sink } => relay::relay(source, sink)?,
        What::LimitFetch { address, topic, partitions, bytes } => {
            bench::limit_fetch(&address, &topic, partitions, bytes)?;
        }
        What::LimitProduce { source, topic, partitions, bytes, target, target_topic } => {
            bench::limit_produce(&source, &topic, partitions, bytes, &target, &target_topic)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
