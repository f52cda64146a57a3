//! `testbed demo` and `testbed up`: things to look at.

use std::io::Read;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::admin::Topic;
use crate::cluster::{Cluster, ClusterSpec};
use crate::compare::Comparison;
use crate::fill::{Codec, Fill};
use crate::flow::FlowFile;
use crate::mirror::{self, Mirror, Program};
use crate::version::Version;

/// MirrorMaker 2 may take that long to its first record; Heliograph takes a second.
const COPY_WAIT: Duration = Duration::from_secs(90);

/// Records per second of the live producer.
const LIVE_RATE: f64 = 500.0;

/// How long a mirror may take to end after SIGTERM.
const STOP_WAIT: Duration = Duration::from_secs(30);

/// Two clusters, two topics filled before, records produced live, one mirror, one verdict.
pub fn run(mm2: bool, live: Duration) -> Result<ExitCode> {
    let begun = Instant::now();
    let say = |text: &str| println!("[{:5.1} s] {text}", begun.elapsed().as_secs_f64());
    let program = if mm2 {
        Program::MM2
    } else {
        // Built before the clock matters.
        mirror::heliograph_binary()?;
        Program::Heliograph
    };

    say("starting two clusters of Apache Kafka 4.3.1: east and west");
    let east = ClusterSpec::new(Version::V4_3_1).named("east").start()?;
    let west = ClusterSpec::new(Version::V4_3_1).named("west").start()?;
    say(&format!("east listens on {}, west on {}", east.bootstrap(), west.bootstrap()));

    east.create_topic(&Topic::new("orders").partitions(4))?;
    east.create_topic(&Topic::new("customers").partitions(2).config("cleanup.policy", "compact"))?;
    let orders = east.fill(&Fill::new("orders", 200_000).codec(Codec::Lz4).headers(0.2))?;
    let customers = east.fill(
        &Fill::new("customers", 5_000).codec(Codec::Zstd).distinct_keys(500).tombstones(0.1),
    )?;
    say(&format!(
        "filled east: orders with {} records (lz4, headers), customers with {} (zstd, tombstones)",
        orders.records, customers.records
    ));

    let flow = FlowFile::one_way(("east", &east), ("west", &west)).topics("orders, customers");
    let mut mirror = Mirror::prepare(program, &flow, &[])?;
    say("mm2.properties, as MirrorMaker 2 reads it:");
    for line in flow.to_string().lines() {
        println!("            {line}");
    }
    let command = if mm2 { "connect-mirror-maker.sh" } else { "heliograph run" };
    say(&format!("{command} {}", mirror.file().display()));
    mirror.launch()?;
    mirror.tee("          | ");

    let seconds = live.as_secs_f64();
    say(&format!("producing {LIVE_RATE} records a second on east for {seconds} s"));
    let count = (LIVE_RATE * seconds).to_string().parse().unwrap_or(1_000);
    let more = Fill::new("orders", count).first(200_000).codec(Codec::Lz4).rate(LIVE_RATE);
    east.fill(&more)?;
    say("no more records; comparing both topics record by record");

    let mut all_same = true;
    for topic in ["orders", "customers"] {
        let comparison =
            Comparison::new(&east, topic, &west, &format!("east.{topic}")).wait(COPY_WAIT);
        let verdict = comparison.run()?;
        say(&format!("east/{topic} and west/east.{topic}: {verdict}"));
        all_same &= verdict.same;
    }
    let usage = mirror.usage();
    let exit = mirror.terminate(STOP_WAIT);
    match (&usage, &exit) {
        (Ok(usage), Ok(exit)) => say(&format!(
            "SIGTERM: exit code {:?} after {:.1} s; it used {:.2} s of CPU and {} MiB at most",
            exit.code,
            exit.elapsed.as_secs_f64(),
            usage.cpu_seconds,
            usage.peak_rss_bytes >> 20
        )),
        _ => say(&mirror.last_words()),
    }
    let clean = matches!(exit, Ok(exit) if exit.code == Some(0) || mm2);
    let good = all_same && clean && usage.is_ok();
    say(if good {
        "VERDICT: every record arrived once, in order, byte for byte"
    } else {
        "VERDICT: FAILED, see above"
    });
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Clusters for work by hand.
pub fn up(versions: &[Version], three_nodes: bool) -> Result<()> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for version in versions {
        let spec = ClusterSpec::new(*version);
        let cluster = if three_nodes { spec.three_nodes() } else { spec }.start()?;
        println!(
            "{version} {} (logs and data in {})",
            cluster.bootstrap(),
            cluster.dir().display()
        );
        clusters.push(cluster);
    }
    eprintln!("testbed: they stay until standard input ends (Ctrl-D) or Ctrl-C");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
