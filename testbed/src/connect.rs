//! A real Connect worker in distributed mode, with MirrorMaker 2's source connector in it, asked over REST.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::java::{self, Archive, Jvm};
use crate::ports;
use crate::process::{Child, tail};
use crate::scratch::Scratch;
use crate::version::Version;

/// A worker answers after 13 to 22 s; a loaded machine needs more.
const START_WAIT: Duration = Duration::from_secs(180);

/// A request that changes something is answered when the workers have agreed on it.
const ANSWER_WAIT: Duration = Duration::from_secs(90);

/// For a connector and its tasks to come to the state asked for.
const STATE_WAIT: Duration = Duration::from_secs(120);

const STOP_WAIT: Duration = Duration::from_secs(60);

/// One worker; killed when dropped.
#[derive(Debug)]
pub struct Connect {
    port: u16,
    log: PathBuf,
    child: Child,
    _scratch: Scratch,
}

impl Connect {
    /// A worker whose own topics (`connect-offsets`, `-configs`, `-status`) are on `cluster`.
    pub fn start(cluster: &Cluster) -> Result<Self> {
        let scratch = Scratch::new("connect")?;
        let port = ports::take()?;
        let lines = [
            ("bootstrap.servers", cluster.bootstrap()),
            ("group.id", "connect-cluster".to_owned()),
            ("listeners", format!("http://127.0.0.1:{port}")),
            ("key.converter", "org.apache.kafka.connect.converters.ByteArrayConverter".to_owned()),
            (
                "value.converter",
                "org.apache.kafka.connect.converters.ByteArrayConverter".to_owned(),
            ),
            // Connect's own default for headers reads texts and numbers into them.
            (
                "header.converter",
                "org.apache.kafka.connect.converters.ByteArrayConverter".to_owned(),
            ),
            ("offset.storage.topic", "connect-offsets".to_owned()),
            ("offset.storage.replication.factor", "1".to_owned()),
            ("config.storage.topic", "connect-configs".to_owned()),
            ("config.storage.replication.factor", "1".to_owned()),
            ("status.storage.topic", "connect-status".to_owned()),
            ("status.storage.replication.factor", "1".to_owned()),
            ("offset.flush.interval.ms", "1000".to_owned()),
            // The class path is searched; a scan of all of it for plugins takes half a minute.
            ("plugin.discovery", "service_load".to_owned()),
        ];
        let file = scratch.join("connect.properties");
        let text: String = lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
        std::fs::write(&file, text).context("connect.properties")?;
        let log = scratch.join("connect.log");
        let class = "org.apache.kafka.connect.cli.ConnectDistributed";
        let jvm = Jvm::Functional { heap_mib: 384 };
        let command =
            java::command("a Connect worker", Version::CLIENTS, jvm, Archive::Mm2, class, &log)?;
        let child = command.arg(file.display().to_string()).dir(scratch.path()).start()?;
        let mut connect = Self { port, log, child, _scratch: scratch };
        connect
            .until("a worker", START_WAIT, |connect| Ok(connect.ask("GET", "/", None).is_ok()))?;
        Ok(connect)
    }

    /// Makes or changes MM2's source connector and waits until its task runs.
    pub fn mirror(&mut self, name: &str, settings: &[(&str, String)]) -> Result<()> {
        let mut config = json!({
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": "1",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
        });
        for (key, value) in settings {
            config[*key] = Value::String(value.clone());
        }
        self.ask("PUT", &format!("/connectors/{name}/config"), Some(&config))?;
        self.await_state(name, "RUNNING", 1)
    }

    /// Stops a connector; its tasks commit what they have written (KIP-875).
    pub fn stop(&mut self, name: &str) -> Result<()> {
        self.ask("PUT", &format!("/connectors/{name}/stop"), None)?;
        self.await_state(name, "STOPPED", 0)
    }

    /// Lets a connector go on.
    pub fn resume(&mut self, name: &str) -> Result<()> {
        self.ask("PUT", &format!("/connectors/{name}/resume"), None)?;
        self.await_state(name, "RUNNING", 1)
    }

    /// The offsets that Connect has of a connector, as it shows them.
    pub fn offsets(&self, name: &str) -> Result<Value> {
        self.ask("GET", &format!("/connectors/{name}/offsets"), None)
    }

    /// SIGTERM, and wait for the end.
    pub fn terminate(&mut self) -> Result<()> {
        self.child.terminate(STOP_WAIT).map(drop)
    }

    /// The end of the log, for messages.
    pub fn last_words(&self) -> String {
        format!("Connect's log, {}, ends:\n{}", self.log.display(), tail(&self.log, 25))
    }

    fn await_state(&mut self, name: &str, state: &str, tasks: usize) -> Result<()> {
        let path = format!("/connectors/{name}/status");
        self.until(&format!("{name} is {state}"), STATE_WAIT, |connect| {
            let Ok(status) = connect.ask("GET", &path, None) else { return Ok(false) };
            let all = status["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(failed) = all.iter().find(|task| task["state"] == "FAILED") {
                bail!("a task of {name} failed: {failed}");
            }
            let fits = all.iter().filter(|task| task["state"] == state).count();
            Ok(status["connector"]["state"] == state && all.len() == tasks && fits == tasks)
        })
    }

    fn until(
        &mut self,
        what: &str,
        within: Duration,
        mut done: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < within {
            self.child.must_be_running()?;
            if done(self)? {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(200));
        }
        bail!("{what}: not within {within:?}. {}", self.last_words())
    }

    /// One request; null for an answer without a body.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        // HTTP 1.0, so that the answer is not in chunks and ends with the connection.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no head in the answer")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        ensure!(status.starts_with('2'), "{method} {path}: {status} {body}");
        Ok(if body.is_empty() { Value::Null } else { serde_json::from_str(body)? })
    }
}
