//! What the test bed needs on disk: Kafka's jars, the compiled agent, formatted storage.
//!
//! Everything lands in one cache folder, each piece first in a `partial-` folder and then renamed: an interrupted
//! download leaves nothing that looks whole. One file lock makes two runs at once wait for each other. What is there
//! is used without a lock and without a question to any registry.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{Exit, Spawn, tail};
use crate::version::Version;

/// Jars of one version are 55 MB; on a slow line that is minutes, more means that something hangs.
const DOWNLOAD_WAIT: Duration = Duration::from_secs(900);

/// `javac`, `jar` and `StorageTool` take a second or two; a loaded machine more.
const TOOL_WAIT: Duration = Duration::from_secs(120);

/// The jars of one Kafka version.
#[derive(Debug, Clone)]
pub struct Kafka {
    jars: Vec<PathBuf>,
}

impl Kafka {
    /// Always the same string for the same jars: class archives depend on it.
    pub fn class_path(&self) -> String {
        self.jars.iter().map(|jar| jar.display().to_string()).collect::<Vec<_>>().join(":")
    }
}

/// The cache folder: `TESTBED_CACHE`, or `.cache` beside this package.
pub fn cache() -> PathBuf {
    match std::env::var_os("TESTBED_CACHE") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => package_dir().join(".cache"),
    }
}

pub(crate) fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the Java sources and logging settings lie.
pub(crate) fn java_dir() -> PathBuf {
    package_dir().join("java")
}

/// The jars of `version`, fetched first if they are not there.
pub fn kafka(version: Version) -> Result<Kafka> {
    let dir = cache().join("jars").join(version.as_str());
    if !dir.exists() {
        let _lock = lock()?;
        if !dir.exists() {
            fetch(version, &dir)?;
        }
    }
    let mut jars = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "jar") {
            jars.push(path);
        }
    }
    jars.sort();
    Ok(Kafka { jars })
}

fn fetch(version: Version, dir: &Path) -> Result<()> {
    let partial = partial(&format!("jars-{version}"))?;
    let log = cache().join(format!("maven-{version}.log"));
    let pom = package_dir().join("pom.xml");
    eprintln!("testbed: fetching the jars of Kafka {version}");
    let exit = Spawn::new("Maven", "mvn", &log)
        .args(["-q", "-B", "dependency:copy-dependencies", "-f"])
        .arg(pom.display().to_string())
        .arg(format!("-Dkafka.version={version}"))
        .arg(format!("-DoutputDirectory={}", partial.display()))
        .start()?
        .wait(DOWNLOAD_WAIT)?;
    must_be_zero(exit, &format!("fetching the jars of Kafka {version} with Maven"), &log)?;
    settle(&partial, dir)
}

/// The agent's jar, compiled from the sources as they are now.
pub fn agent_jar() -> Result<PathBuf> {
    let dir = agent_dir()?;
    if !dir.exists() {
        let kafka = kafka(Version::CLIENTS)?;
        let _lock = lock()?;
        if !dir.exists() {
            compile_agent(&kafka, &agent_sources()?, &dir)?;
        }
    }
    Ok(dir.join("agent.jar"))
}

/// The folder of the agent that belongs to the sources as they are now.
pub(crate) fn agent_dir() -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    for source in agent_sources()? {
        fs::read(source)?.hash(&mut hasher);
    }
    Ok(cache().join("agent").join(format!("{:016x}", hasher.finish())))
}

fn agent_sources() -> Result<Vec<PathBuf>> {
    let dir = java_dir().join("testbed");
    let mut sources = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))? {
        sources.push(entry?.path());
    }
    sources.sort();
    Ok(sources)
}

fn compile_agent(kafka: &Kafka, sources: &[PathBuf], dir: &Path) -> Result<()> {
    let partial = partial("agent")?;
    let classes = partial.join("classes");
    fs::create_dir_all(&classes)?;
    let log = cache().join("agent-build.log");

    let exit = Spawn::new("javac", "javac", &log)
        .env("CLASSPATH", kafka.class_path())
        .args([
            "-Xlint:all,-classfile,-processing,-serial,-try",
            "-Werror",
            "--release",
            "17",
            "-d",
        ])
        .arg(classes.display().to_string())
        .args(sources.iter().map(|source| source.display().to_string()))
        .start()?
        .wait(TOOL_WAIT)?;
    must_be_zero(exit, "compiling the test bed's Java agent", &log)?;

    // A jar, because class archives do not take folders.
    let exit = Spawn::new("jar", "jar", &log)
        .args(["--create", "--file"])
        .arg(partial.join("agent.jar").display().to_string())
        .arg("-C")
        .arg(classes.display().to_string())
        .arg(".")
        .start()?
        .wait(TOOL_WAIT)?;
    must_be_zero(exit, "packing the test bed's Java agent", &log)?;
    settle(&partial, dir)
}

/// The `bootstrap.checkpoint` that `StorageTool format` writes for `version`: the feature levels of a new cluster.
///
/// Nothing in it depends on the cluster, so nodes get a copy instead of a JVM run each.
pub(crate) fn bootstrap_checkpoint(version: Version) -> Result<PathBuf> {
    let dir = cache().join("format").join(version.as_str());
    if !dir.exists() {
        let kafka = kafka(version)?;
        let _lock = lock()?;
        if !dir.exists() {
            format_storage(version, &kafka, &dir)?;
        }
    }
    Ok(dir.join("storage").join("bootstrap.checkpoint"))
}

fn format_storage(version: Version, kafka: &Kafka, dir: &Path) -> Result<()> {
    let partial = partial("format")?;
    let properties = partial.join("node.properties");
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:1\n\
         listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1\n\
         controller.listener.names=CONTROLLER\n\
         listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
         log.dirs={}\n",
        partial.join("storage").display()
    );
    fs::write(&properties, text)?;
    let log = cache().join(format!("format-{version}.log"));
    let exit = Spawn::new("StorageTool", "java", &log)
        .env("CLASSPATH", kafka.class_path())
        .args(["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c"])
        .arg(properties.display().to_string())
        .start()?
        .wait(TOOL_WAIT)?;
    must_be_zero(exit, &format!("formatting storage of Kafka {version}"), &log)?;
    settle(&partial, dir)
}

/// Held until dropped; others wait.
pub(crate) fn lock() -> Result<File> {
    let cache = cache();
    fs::create_dir_all(&cache).with_context(|| {
        format!("cannot make the cache folder {}; TESTBED_CACHE names another one", cache.display())
    })?;
    let file = File::create(cache.join("lock"))?;
    if file.try_lock().is_err() {
        eprintln!("testbed: waiting for another run to finish its set-up");
        file.lock().context("cannot lock the cache folder")?;
    }
    // We hold the lock: what others left half done is nobody's.
    for entry in fs::read_dir(&cache)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("partial-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(file)
}

/// A folder in the cache for something not yet whole; the caller holds the lock.
pub(crate) fn partial(name: &str) -> Result<PathBuf> {
    let dir = cache().join(format!("partial-{name}"));
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Gives what is now whole its name.
pub(crate) fn settle(partial: &Path, whole: &Path) -> Result<()> {
    if let Some(parent) = whole.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(partial, whole)
        .with_context(|| format!("cannot move {} to {}", partial.display(), whole.display()))
}

fn must_be_zero(exit: Exit, what: &str, log: &Path) -> Result<()> {
    if exit.code != Some(0) {
        bail!(
            "{what} failed ({exit:?}). {} ends:\n{}\n`testbed/setup` says what is missing on this machine.",
            log.display(),
            tail(log, 20)
        );
    }
    Ok(())
}
