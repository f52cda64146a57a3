//! `testbed setup`: everything the test bed needs, installed where that is allowed, otherwise named.
//!
//! Idempotent, and quick when nothing is missing. Packages come from the system's package manager (as root on
//! Debian and its kin), jars from Maven's registry, the musl target from rustup. At the end each Kafka version has
//! run once to leave an archive of its classes, which halves what every later start costs.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::cluster::{Cluster, ClusterSpec};
use crate::flow::FlowFile;
use crate::install;
use crate::java::{Archive, Jvm};
use crate::mirror::{Mirror, Program};
use crate::node::STOP_WAIT;
use crate::version::Version;

/// The target of the static binary.
const MUSL: &str = "x86_64-unknown-linux-musl";

/// MirrorMaker 2 takes 10 to 40 s to its first record without an archive.
const MM2_WAIT: Duration = Duration::from_secs(180);

/// A program that must be there, and the Debian package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

const NEEDS: [Need; 5] = [
    Need {
        program: "javac",
        package: "openjdk-17-jdk-headless",
        why: "runs Kafka and compiles the agent",
    },
    Need { program: "mvn", package: "maven", why: "fetches Kafka's jars" },
    Need { program: "musl-gcc", package: "musl-tools", why: "links the static binary" },
    Need { program: "openssl", package: "openssl", why: "makes certificates for tests" },
    Need { program: "setpriv", package: "util-linux", why: "ties child processes to their parent" },
];

/// Installs, fetches, compiles and archives what is missing.
pub fn run(versions: &[Version]) -> Result<()> {
    let begun = Instant::now();
    programs()?;
    musl_target()?;
    for version in versions {
        install::kafka(*version)?;
        if version.is_kraft() {
            install::bootstrap_checkpoint(*version)?;
        }
    }
    install::agent_jar()?;
    archives(versions)?;
    let names = versions.iter().map(|version| version.as_str()).collect::<Vec<_>>().join(", ");
    eprintln!(
        "testbed: ready with Kafka {names} in {} ({:.1} s)",
        install::cache().display(),
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn programs() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    let list: Vec<String> = missing
        .iter()
        .map(|need| format!("{} (package {}): {}", need.program, need.package, need.why))
        .collect();
    let by_hand = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !is_there("apt-get") || !is_root() {
        bail!(
            "missing on this machine:\n  {}\nI may not install here. On Debian or Ubuntu, as root:\n  {by_hand}",
            list.join("\n  ")
        );
    }

    eprintln!("testbed: installing {}", packages.join(" "));
    apt_get(&["update", "-q"])?;
    let mut install = vec!["install", "-q", "-y", "--no-install-recommends"];
    install.extend(&packages);
    apt_get(&install)?;
    match self::missing().first() {
        None => Ok(()),
        Some(need) => bail!("{} is still missing after `{by_hand}`", need.program),
    }
}

fn missing() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !is_there(need.program)).collect()
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn apt_get(args: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("cannot run apt-get")?;
    if !status.success() {
        bail!("`apt-get {}` failed ({status})", args.join(" "));
    }
    Ok(())
}

fn musl_target() -> Result<()> {
    if !is_there("rustup") {
        // A Rust that came another way may have the target, or may not need it for what is asked.
        eprintln!(
            "testbed: no rustup here; building the static binary needs the Rust target {MUSL}"
        );
        return Ok(());
    }
    let listed = Command::new("rustup").args(["target", "list", "--installed"]).output()?;
    if String::from_utf8_lossy(&listed.stdout).lines().any(|line| line == MUSL) {
        return Ok(());
    }
    let status = Command::new("rustup").args(["target", "add", MUSL]).status()?;
    if !status.success() {
        bail!("`rustup target add {MUSL}` failed ({status})");
    }
    Ok(())
}

/// Class archives of brokers, agent and MirrorMaker 2.
fn archives(versions: &[Version]) -> Result<()> {
    let whole = |archive: Archive, version| archive.path(version).exists();
    let clients = versions.contains(&Version::CLIENTS);
    let agent = clients && !whole(Archive::Agent, Version::CLIENTS);
    let mm2 = clients && !whole(Archive::Mm2, Version::CLIENTS);
    let mut brokers = versions.to_vec();
    // The agent is trained against the broker of its version.
    brokers.retain(|version| {
        !whole(Archive::Broker, *version) || agent && *version == Version::CLIENTS
    });
    if brokers.is_empty() && !mm2 {
        return Ok(());
    }

    let _lock = install::lock()?;
    let partial = install::partial("archives")?;
    fs::create_dir_all(install::cache().join("archives"))?;
    for version in brokers {
        eprintln!("testbed: class archive of Kafka {version}");
        let mut cluster = ClusterSpec::new(version).named("training").jvm(Jvm::Training).start()?;
        if version == Version::CLIENTS {
            Agent::train(|agent| exercise(agent, &cluster))?;
            settle(Archive::Agent, version)?;
        }
        cluster.stop()?;
        settle(Archive::Broker, version)?;
    }
    if mm2 {
        eprintln!("testbed: class archive of MirrorMaker 2");
        train_mm2()?;
        settle(Archive::Mm2, Version::CLIENTS)?;
    }
    fs::remove_dir_all(partial)?;
    Ok(())
}

fn settle(archive: Archive, version: Version) -> Result<()> {
    let partial = archive.partial_path(version);
    if !partial.exists() {
        // Not worth a failure: everything runs without, only slower.
        eprintln!("testbed: this JVM wrote no class archive ({})", partial.display());
        return Ok(());
    }
    install::settle(&partial, &archive.path(version))
}

/// A little of everything the agent does in tests.
fn exercise(agent: &Agent, cluster: &Cluster) -> Result<()> {
    let bootstrap = cluster.bootstrap();
    let ask = |op, args: Value| agent.call::<Value>(op, args, STOP_WAIT);
    for topic in ["a", "b"] {
        ask("create_topic", json!({ "bootstrap": bootstrap, "topic": topic, "partitions": 2 }))?;
        let fill = json!({
            "bootstrap": bootstrap, "topic": topic, "records": 2_000, "headers": 0.5, "compression": "lz4",
            "timestamps": "step", "timestamp_start": 1_700_000_000_000_i64,
        });
        ask("fill", fill)?;
    }
    ask("log_size", json!({ "bootstrap": bootstrap, "topic": "a" }))?;
    ask("list_offsets", json!({ "bootstrap": bootstrap, "topic": "a" }))?;
    let comparison = json!({
        "source": bootstrap, "source_topic": "a", "target": bootstrap, "target_topic": "b", "wait_ms": 5_000,
    });
    ask("compare", comparison)?;
    Ok(())
}

fn train_mm2() -> Result<()> {
    let (source, target) = (Cluster::single()?, Cluster::single()?);
    source.create_topic(&crate::admin::Topic::new("a"))?;
    source.fill(&crate::fill::Fill::new("a", 100))?;
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).short_intervals();
    let mut mirror = Mirror::start(Program::Mm2(Jvm::Training), &flow)?;
    let copied = target.await_end_offsets("s.a", 100, MM2_WAIT);
    copied.with_context(|| mirror.last_words())?;
    mirror.terminate(STOP_WAIT)?;
    Ok(())
}
