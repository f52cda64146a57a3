//! One broker: its settings, its process, and whether it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::install;
use crate::java::{self, Archive, Jvm};
use crate::metadata;
use crate::process::{Child, Exit, Usage};
use crate::scratch::DATA;
use crate::version::Version;

/// A broker answers within seconds; on a loaded two-core machine with several starting at once, within tens.
pub(crate) const START_WAIT: Duration = Duration::from_secs(90);

/// An orderly stop moves leaders and writes snapshots; what takes longer is killed.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(60);

/// A crashed broker's entry in ZooKeeper lives as long as its session (6 s, see `cluster`); a successor that comes
/// earlier finds it, and ends.
const ZOOKEEPER_FORGETS: Duration = Duration::from_millis(7_500);

/// How long a restarted node may take to show the topics whose partitions it holds, once it shows the brokers. Not an
/// error after that: they may have been deleted while it was down.
const TOPICS_WAIT: Duration = Duration::from_secs(10);

/// Between two questions to a broker that is starting.
const POLL: Duration = Duration::from_millis(50);

/// Properties of a node, by key; what a test sets overrides what the cluster chose.
pub type Properties = BTreeMap<String, String>;

/// One broker of a cluster; its number is its `node.id` and its index plus one.
#[derive(Debug)]
pub struct Node {
    number: usize,
    port: u16,
    version: Version,
    jvm: Jvm,
    dir: PathBuf,
    child: Option<Child>,
    crashed: Option<Instant>,
}

impl Node {
    /// Writes settings and storage of a new node; nothing is started yet.
    pub(crate) fn prepare(
        number: usize,
        port: u16,
        version: Version,
        jvm: Jvm,
        cluster_dir: &Path,
        cluster_id: &str,
        mut properties: Properties,
    ) -> Result<Self> {
        let dir = cluster_dir.to_path_buf();
        let data = dir.join(DATA).join(format!("node-{number}"));
        properties.entry("log.dirs".into()).or_insert_with(|| data.display().to_string());
        if version.is_kraft() {
            format(version, &data, number, cluster_id)?;
        }
        let text: String =
            properties.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        fs::write(dir.join(format!("node-{number}.properties")), text)?;
        Ok(Self { number, port, version, jvm, dir, child: None, crashed: None })
    }

    /// Forgets everything, and belongs to another cluster from its next start on (KRaft only).
    pub(crate) fn wipe(&mut self, cluster_id: &str) -> Result<()> {
        if !self.version.is_kraft() || self.is_running() {
            bail!("node {} cannot be wiped: it runs, or its cluster is not KRaft", self.number);
        }
        let data = self.dir.join(DATA).join(format!("node-{}", self.number));
        fs::remove_dir_all(&data).with_context(|| format!("cannot clear {}", data.display()))?;
        format(self.version, &data, self.number, cluster_id)
    }

    pub fn number(&self) -> usize {
        self.number
    }

    /// Of the plain listener; the same after every restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join(format!("node-{}.log", self.number))
    }

    /// The folder of a partition's segments, for tools that read files.
    pub fn partition_dir(&self, topic: &str, partition: u32) -> PathBuf {
        self.dir
            .join(DATA)
            .join(format!("node-{}", self.number))
            .join(format!("{topic}-{partition}"))
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(Child::is_running)
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }

    pub fn usage(&self) -> Result<Usage> {
        self.child.as_ref().with_context(|| format!("node {} is not running", self.number))?.usage()
    }

    /// Starts the process; [`Node::await_answer`] waits until it is of use.
    pub(crate) fn launch(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("node {} is running already (pid {:?})", self.number, self.pid());
        }
        if let Some(crashed) = self.crashed.take()
            && !self.version.is_kraft()
        {
            thread::sleep(ZOOKEEPER_FORGETS.saturating_sub(crashed.elapsed()));
        }
        let name = format!("node {} of {}", self.number, self.dir.display());
        let properties = self.dir.join(format!("node-{}.properties", self.number));
        let command = java::command(
            name,
            self.version,
            self.jvm,
            Archive::Broker,
            "kafka.Kafka",
            self.log(),
        )?;
        self.child = Some(command.arg(properties.display().to_string()).dir(&self.dir).start()?);
        Ok(())
    }

    /// Waits until this node's own metadata answer shows `brokers` brokers, a controller, and the topics whose
    /// partitions it holds.
    pub(crate) fn await_answer(&mut self, brokers: usize) -> Result<()> {
        let held = self.topics_held()?;
        let begun = Instant::now();
        let mut complete_but_topics: Option<Instant> = None;
        let mut last = String::from("no attempt was made");
        while begun.elapsed() < START_WAIT {
            match &mut self.child {
                Some(child) => child.must_be_running()?,
                None => bail!("node {} has not been started", self.number),
            }
            match metadata::ask(self.port) {
                Ok(seen) if seen.brokers >= brokers && seen.has_controller => {
                    let since = complete_but_topics.get_or_insert_with(Instant::now);
                    if held.is_subset(&seen.topics) || since.elapsed() > TOPICS_WAIT {
                        return Ok(());
                    }
                }
                Ok(seen) => last = format!("its metadata shows {seen:?}, wanted {brokers} brokers"),
                Err(error) => last = format!("{error:#}"),
            }
            thread::sleep(POLL);
        }
        bail!(
            "node {} at {} is of no use {START_WAIT:?} after its start: {last}. Its log, {}, ends:\n{}",
            self.number,
            self.address(),
            self.log().display(),
            crate::process::tail(&self.log(), 30)
        )
    }

    /// Topics with a partition folder on this node's disk.
    fn topics_held(&self) -> Result<BTreeSet<String>> {
        let data = self.dir.join(DATA).join(format!("node-{}", self.number));
        let mut topics = BTreeSet::new();
        // A new ZooKeeper node has no folder yet.
        for entry in fs::read_dir(&data).into_iter().flatten() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if let Some((topic, partition)) = name.rsplit_once('-')
                && partition.parse::<u32>().is_ok()
                && topic != "__cluster_metadata"
            {
                topics.insert(topic.to_owned());
            }
        }
        Ok(topics)
    }

    /// SIGTERM; if that does not end it in [`STOP_WAIT`], an error, and SIGKILL.
    pub(crate) fn stop(&mut self) -> Result<Option<Exit>> {
        let Some(mut child) = self.child.take() else { return Ok(None) };
        let exit = child.terminate(STOP_WAIT);
        child.kill9()?;
        exit.map(Some)
    }

    pub(crate) fn signal_stop(&mut self) -> Result<()> {
        match &mut self.child {
            Some(child) => child.signal(rustix::process::Signal::TERM),
            None => Ok(()),
        }
    }

    /// SIGKILL, as a crash.
    pub(crate) fn kill9(&mut self) -> Result<()> {
        match self.child.take() {
            Some(mut child) => {
                self.crashed = Some(Instant::now());
                child.kill9()
            }
            None => Ok(()),
        }
    }
}

/// What `StorageTool format` does, without a JVM.
fn format(version: Version, data: &Path, number: usize, cluster_id: &str) -> Result<()> {
    fs::create_dir_all(data).with_context(|| format!("cannot make {}", data.display()))?;
    let directory_id = random_uuid()?;
    fs::write(
        data.join("meta.properties"),
        format!(
            "version=1\ncluster.id={cluster_id}\nnode.id={number}\ndirectory.id={directory_id}\n"
        ),
    )?;
    let checkpoint = install::bootstrap_checkpoint(version)?;
    fs::copy(&checkpoint, data.join("bootstrap.checkpoint"))
        .with_context(|| format!("cannot copy {}", checkpoint.display()))?;
    Ok(())
}

/// A random UUID in Kafka's text form: 22 characters of URL-safe base64, not starting with a dash.
pub(crate) fn random_uuid() -> Result<String> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut bytes = [0_u8; 21];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    // 16 bytes are 22 letters, of which the last carries 2 bits: one of A, Q, g, w. The first stays a letter.
    let mut text = String::from("A");
    for (at, byte) in bytes.iter().enumerate() {
        let letter = if at == 20 { (byte & 0b11) << 4 } else { byte & 0b11_1111 };
        text.push(char::from(LETTERS[usize::from(letter)]));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_uuid_has_kafkas_shape() {
        let one = random_uuid().unwrap();

        assert_eq!(one.len(), 22);
        assert!(one.starts_with('A'));
        assert!("AQgw".contains(one.chars().last().unwrap()));
        assert_ne!(one, random_uuid().unwrap());
    }
}
