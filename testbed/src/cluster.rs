//! Clusters of one or several nodes of real Kafka, on ports of their own, with data of their own.
//!
//! A cluster is gone when its value is dropped: nodes are killed, data deleted. Settings are chosen so that things
//! happen within seconds: few partitions for internal topics, compaction and retention every half second, a killed
//! node noticed in six. Each cluster has a fresh cluster id: clusters that follow each other on one port under one id
//! talk to each other and die.

use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};

use crate::delay::Delay;
use crate::frames::Frames;
use crate::java::{self, Archive, Jvm};
use crate::node::{Node, Properties, STOP_WAIT, random_uuid};
use crate::ports;
use crate::process::Child;
use crate::scratch::{DATA, Scratch};
use crate::version::Version;

/// The name of the plain listener, which the test bed itself uses.
const PLAIN: &str = "PLAINTEXT";

/// What cluster to start.
#[derive(Debug)]
pub struct ClusterSpec {
    version: Version,
    nodes: usize,
    jvm: Jvm,
    name: String,
    properties: Properties,
    node_properties: Vec<(usize, String, String)>,
    listeners: Vec<(String, String)>,
    delayed: Vec<(String, Duration)>,
    watched: Vec<(String, Frames)>,
}

impl ClusterSpec {
    pub fn new(version: Version) -> Self {
        Self {
            version,
            nodes: 1,
            jvm: Jvm::BROKER,
            name: "kafka".into(),
            properties: Properties::new(),
            node_properties: Vec::new(),
            listeners: Vec::new(),
            delayed: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// Three nodes: every topic has three replicas, of which two must be in sync.
    pub fn three_nodes(mut self) -> Self {
        self.nodes = 3;
        self
    }

    /// Names folder and messages.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    pub fn jvm(mut self, jvm: Jvm) -> Self {
        self.jvm = jvm;
        self
    }

    /// A broker property of every node; overrides the test bed's own choice.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }

    /// A broker property of one node (counted from 1).
    pub fn set_on(mut self, node: usize, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.node_properties.push((node, key.into(), value.into()));
        self
    }

    /// Access rules are kept, and hold for everybody who is not `User:ANONYMOUS`: the plain listener may do everything.
    pub fn with_authorizer(self) -> Self {
        let class = if self.version.is_kraft() {
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        } else {
            "kafka.security.authorizer.AclAuthorizer"
        };
        self.set("authorizer.class.name", class).set("super.users", "User:ANONYMOUS")
    }

    /// One more listener, with a port of its own on every node: `listener("TLS", "SSL")`.
    pub fn listener(mut self, name: impl Into<String>, protocol: impl Into<String>) -> Self {
        self.listeners.push((name.into(), protocol.into()));
        self
    }

    /// One more plain listener that is reached, and advertised, through a link of this round trip.
    pub fn delayed_listener(mut self, name: impl Into<String>, round_trip: Duration) -> Self {
        let name = name.into();
        self.delayed.push((name.clone(), round_trip));
        self.listener(name, "PLAINTEXT")
    }

    /// One more plain listener that is reached, and advertised, through `frames`.
    pub fn watched_listener(mut self, name: impl Into<String>, frames: &Frames) -> Self {
        let name = name.into();
        self.watched.push((name.clone(), frames.clone()));
        self.listener(name, "PLAINTEXT")
    }

    /// Starts all nodes and waits until each of them sees all of them.
    pub fn start(self) -> Result<Cluster> {
        let mut cluster = self.prepare()?;
        cluster.start()?;
        Ok(cluster)
    }

    /// Starts two clusters at the same time: a source and a target.
    pub fn start_both(source: Self, target: Self) -> Result<(Cluster, Cluster)> {
        let mut source = source.named("source").prepare()?;
        let mut target = target.named("target").prepare()?;
        source.launch()?;
        target.launch()?;
        source.await_answers()?;
        target.await_answers()?;
        Ok((source, target))
    }

    fn prepare(self) -> Result<Cluster> {
        let scratch = Scratch::new(&format!("{}-{}", self.name, self.version))?;
        let cluster_id = random_uuid()?;
        let mut controllers = Vec::new();
        for _ in 0..self.nodes {
            controllers.push(ports::take()?);
        }
        let zookeeper =
            if self.version.is_kraft() { None } else { Some(ZooKeeper::prepare(&scratch)?) };

        let mut nodes = Vec::new();
        let mut listener_ports = vec![Vec::new(); self.listeners.len()];
        for (index, controller) in controllers.iter().enumerate() {
            let number = index + 1;
            let port = ports::take()?;
            let mut listeners = vec![format!("{PLAIN}://127.0.0.1:{port}")];
            let mut protocols = vec![format!("{PLAIN}:PLAINTEXT")];
            let mut advertised = listeners.clone();
            for ((name, protocol), taken) in self.listeners.iter().zip(&mut listener_ports) {
                let port = ports::take()?;
                let delayed = self.delayed.iter().find(|(delayed, _)| delayed == name);
                let watched = self.watched.iter().find(|(watched, _)| watched == name);
                let seen = match (delayed, watched) {
                    (Some((_, round_trip)), _) => Delay::start(port, *round_trip)?.port(),
                    (None, Some((_, frames))) => frames.start(port)?,
                    (None, None) => port,
                };
                taken.push(seen);
                listeners.push(format!("{name}://127.0.0.1:{port}"));
                advertised.push(format!("{name}://127.0.0.1:{seen}"));
                protocols.push(format!("{name}:{protocol}"));
            }

            let mut properties = quick(self.nodes);
            match &zookeeper {
                None => {
                    listeners.push(format!("CONTROLLER://127.0.0.1:{controller}"));
                    protocols.push("CONTROLLER:PLAINTEXT".into());
                    kraft(&mut properties, number, &controllers);
                }
                Some(zookeeper) => {
                    put(&mut properties, "broker.id", &number.to_string());
                    put(
                        &mut properties,
                        "zookeeper.connect",
                        &format!("127.0.0.1:{}", zookeeper.port),
                    );
                    put(&mut properties, "zookeeper.session.timeout.ms", "6000");
                }
            }
            put(&mut properties, "listeners", &listeners.join(","));
            if !self.delayed.is_empty() || !self.watched.is_empty() {
                put(&mut properties, "advertised.listeners", &advertised.join(","));
            }
            put(&mut properties, "listener.security.protocol.map", &protocols.join(","));
            put(&mut properties, "inter.broker.listener.name", PLAIN);
            put(&mut properties, "broker.rack", &format!("rack{number}"));
            properties.extend(self.properties.clone());
            for (node, key, value) in &self.node_properties {
                if *node == number {
                    put(&mut properties, key, value);
                }
            }
            nodes.push(Node::prepare(
                number,
                port,
                self.version,
                self.jvm,
                scratch.path(),
                &cluster_id,
                properties,
            )?);
        }

        let listeners =
            self.listeners.into_iter().map(|(name, _)| name).zip(listener_ports).collect();
        Ok(Cluster { name: self.name, version: self.version, nodes, zookeeper, listeners, scratch })
    }
}

fn put(properties: &mut Properties, key: &str, value: &str) {
    properties.insert(key.into(), value.into());
}

/// Settings of every node: small internal topics, nothing that waits for minutes.
fn quick(nodes: usize) -> Properties {
    let replicas = nodes.min(3).to_string();
    let in_sync = if nodes >= 3 { "2" } else { "1" };
    let mut all = Properties::new();
    for key in [
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
        "share.coordinator.state.topic.replication.factor",
    ] {
        put(&mut all, key, &replicas);
    }
    for key in [
        "min.insync.replicas",
        "transaction.state.log.min.isr",
        "share.coordinator.state.topic.min.isr",
    ] {
        put(&mut all, key, in_sync);
    }
    // The defaults of 50 partitions each make the first group or transaction slow.
    for key in [
        "offsets.topic.num.partitions",
        "transaction.state.log.num.partitions",
        "share.coordinator.state.topic.num.partitions",
    ] {
        put(&mut all, key, "4");
    }
    put(&mut all, "auto.create.topics.enable", "false");
    put(&mut all, "group.initial.rebalance.delay.ms", "0");
    // The default of 128 MiB is taken at the start, and would not fit a small heap.
    put(&mut all, "log.cleaner.dedupe.buffer.size", "20000000");
    // Compaction, retention and deletion within seconds.
    put(&mut all, "log.cleaner.backoff.ms", "200");
    put(&mut all, "log.retention.check.interval.ms", "500");
    put(&mut all, "log.initial.task.delay.ms", "500");
    put(&mut all, "log.segment.delete.delay.ms", "1000");
    // Records may be dated as a test likes; by default, retention would delete the old ones at once.
    put(&mut all, "log.retention.ms", "-1");
    // A transaction whose producer died is aborted within seconds of its own time-out.
    put(&mut all, "transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000");
    all
}

fn kraft(properties: &mut Properties, number: usize, controllers: &[u16]) {
    let voters: Vec<String> = controllers
        .iter()
        .enumerate()
        .map(|(index, port)| format!("{}@127.0.0.1:{port}", index + 1))
        .collect();
    put(properties, "process.roles", "broker,controller");
    put(properties, "node.id", &number.to_string());
    put(properties, "controller.listener.names", "CONTROLLER");
    put(properties, "controller.quorum.voters", &voters.join(","));
    // A killed node is noticed in Kafka's own 9 s. The quorum's time-outs are above its defaults (1 s, 2 s): every
    // append is synced to disk, and on a disk that a build has just filled a sync takes seconds. Voters that give up
    // on each other sooner than that elect for ever.
    put(properties, "broker.session.timeout.ms", "9000");
    put(properties, "broker.heartbeat.interval.ms", "1000");
    put(properties, "controller.quorum.election.timeout.ms", "1000");
    put(properties, "controller.quorum.fetch.timeout.ms", "4000");
}

/// A running cluster; gone when dropped.
#[derive(Debug)]
pub struct Cluster {
    name: String,
    version: Version,
    nodes: Vec<Node>,
    // After the nodes: a ZooKeeper broker does not end without its ZooKeeper.
    zookeeper: Option<ZooKeeper>,
    listeners: Vec<(String, Vec<u16>)>,
    scratch: Scratch,
}

impl Cluster {
    /// One node of the current version.
    pub fn single() -> Result<Self> {
        ClusterSpec::new(Version::V4_3_1).start()
    }

    /// A source and a target, one node of the current version each.
    pub fn pair() -> Result<(Self, Self)> {
        ClusterSpec::start_both(
            ClusterSpec::new(Version::V4_3_1),
            ClusterSpec::new(Version::V4_3_1),
        )
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// `bootstrap.servers` of the plain listener.
    pub fn bootstrap(&self) -> String {
        self.nodes.iter().map(Node::address).collect::<Vec<_>>().join(",")
    }

    /// `bootstrap.servers` of a listener made with [`ClusterSpec::listener`], by host name or address.
    pub fn bootstrap_of(&self, listener: &str, host: &str) -> Result<String> {
        let ports =
            self.listeners.iter().find(|(name, _)| name == listener).map(|(_, ports)| ports);
        let ports =
            ports.with_context(|| format!("cluster {} has no listener {listener:?}", self.name))?;
        Ok(ports.iter().map(|port| format!("{host}:{port}")).collect::<Vec<_>>().join(","))
    }

    /// The replication factor that fits this cluster.
    pub fn replication_factor(&self) -> u16 {
        if self.nodes.len() >= 3 { 3 } else { 1 }
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node by its number, counted from 1 as `node.id` is.
    pub fn node(&self, number: usize) -> Result<&Node> {
        let found = self.nodes.iter().find(|node| node.number() == number);
        found.with_context(|| format!("cluster {} has no node {number}", self.name))
    }

    fn node_mut(&mut self, number: usize) -> Result<&mut Node> {
        let found = self.nodes.iter_mut().find(|node| node.number() == number);
        found.with_context(|| format!("cluster {} has no node {number}", self.name))
    }

    /// Starts what is not running and waits until every node sees all brokers.
    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.await_answers()
    }

    fn launch(&mut self) -> Result<()> {
        if let Some(zookeeper) = &mut self.zookeeper {
            zookeeper.start()?;
        }
        for node in &mut self.nodes {
            if !node.is_running() {
                node.launch()?;
            }
        }
        Ok(())
    }

    fn await_answers(&mut self) -> Result<()> {
        let count = self.nodes.len();
        self.nodes.iter_mut().try_for_each(|node| node.await_answer(count))
    }

    /// SIGTERM to all nodes at once, and wait. Data stays; [`Cluster::start`] continues with it.
    pub fn stop(&mut self) -> Result<()> {
        // All first: the last of three combined nodes has no quorum left and takes its whole time-out otherwise.
        for node in &mut self.nodes {
            node.signal_stop()?;
        }
        for node in &mut self.nodes {
            node.stop()?;
        }
        match &mut self.zookeeper {
            Some(zookeeper) => zookeeper.stop(),
            None => Ok(()),
        }
    }

    /// SIGTERM to one node, and wait for its end.
    pub fn stop_node(&mut self, number: usize) -> Result<()> {
        self.node_mut(number)?.stop().map(drop)
    }

    /// Ends the cluster and starts another one, with another cluster id and nothing in it, on its ports: rebuilt.
    pub fn rebuild(&mut self) -> Result<()> {
        self.stop()?;
        let cluster_id = random_uuid()?;
        for node in &mut self.nodes {
            node.wipe(&cluster_id)?;
        }
        self.start()
    }

    /// SIGKILL to one node: a crash.
    pub fn kill9(&mut self, number: usize) -> Result<()> {
        self.node_mut(number)?.kill9()
    }

    /// SIGKILL to all nodes: the site is down.
    pub fn kill9_all(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Node::kill9)
    }

    /// Starts a node again on its port and data, and waits until it sees all brokers that run.
    pub fn restart(&mut self, number: usize) -> Result<()> {
        let node = self.node_mut(number)?;
        if node.is_running() {
            node.stop()?;
        }
        node.launch()?;
        let running = self.nodes.iter_mut().filter_map(|n| n.is_running().then_some(())).count();
        self.node_mut(number)?.await_answer(running)
    }

    /// Where settings, logs and data of this cluster lie.
    pub fn dir(&self) -> &std::path::Path {
        self.scratch.path()
    }
}

#[derive(Debug)]
struct ZooKeeper {
    port: u16,
    dir: std::path::PathBuf,
    child: Option<Child>,
}

impl ZooKeeper {
    fn prepare(scratch: &Scratch) -> Result<Self> {
        let port = ports::take()?;
        let dir = scratch.path().to_path_buf();
        let data = dir.join(DATA).join("zookeeper");
        fs::create_dir_all(&data)?;
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
             admin.enableServer=false\ntickTime=500\n",
            data.display()
        );
        fs::write(dir.join("zookeeper.properties"), text)?;
        Ok(Self { port, dir, child: None })
    }

    fn start(&mut self) -> Result<()> {
        if self.child.as_mut().is_some_and(Child::is_running) {
            return Ok(());
        }
        let class = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
        let log = self.dir.join("zookeeper.log");
        let jvm = Jvm::Functional { heap_mib: 64 };
        let command =
            java::command("ZooKeeper", Version::V2_8_2, jvm, Archive::Broker, class, log)?;
        let properties = self.dir.join("zookeeper.properties");
        let mut child = command.arg(properties.display().to_string()).start()?;

        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            child.must_be_running()?;
            if begun.elapsed() > STOP_WAIT {
                bail!("ZooKeeper's port {} stays shut; see {}", self.port, child.log().display());
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.child = Some(child);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        match self.child.take() {
            Some(mut child) => child.terminate(STOP_WAIT).map(drop),
            None => Ok(()),
        }
    }
}
