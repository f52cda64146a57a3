//! The other end of `java/testbed/Agent.java`: a long-lived JVM on Kafka's own clients, asked in lines of JSON.
//!
//! One agent serves all clusters of a process; a question costs milliseconds. Questions may overlap: each has an
//! id, a thread of its own over there, and a bound on how long its answer is waited for.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::install;
use crate::java::{self, Archive, Jvm};
use crate::process::{Child, tail};
use crate::scratch::Scratch;
use crate::version::Version;

/// For questions that one broker answers at once; the agent itself gives up a little earlier and says why.
pub const ANSWER_WAIT: Duration = Duration::from_secs(75);

/// A JVM starts in half a second; on a loaded machine in ten.
const START_WAIT: Duration = Duration::from_secs(60);

/// Comparing 8 partitions keeps 16 consumers with a look-ahead each; the rest is the producer's buffer.
const HEAP_MIB: u32 = 1_536;

/// The agent of this process.
#[derive(Debug, Clone)]
pub struct Agent {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    lines: Mutex<ChildStdin>,
    open: Arc<Mutex<Open>>,
    // Fields drop in order: first the pipe closes, then the process is killed, then its folder goes.
    child: Mutex<Child>,
    _scratch: Scratch,
}

/// Questions without an answer yet; `None` once the agent is gone.
#[derive(Debug)]
struct Open {
    next: u64,
    waiting: Option<HashMap<u64, mpsc::Sender<Result<Value, String>>>>,
}

/// A question that has been asked.
#[derive(Debug)]
pub struct Pending {
    agent: Agent,
    id: u64,
    op: &'static str,
    answer: mpsc::Receiver<Result<Value, String>>,
}

impl Agent {
    /// The one agent of this process, started when first asked for.
    pub fn shared() -> Result<Self> {
        static SHARED: OnceLock<Result<Agent, String>> = OnceLock::new();
        let shared = SHARED.get_or_init(|| Self::start().map_err(|error| format!("{error:#}")));
        shared.clone().map_err(|error| anyhow!("the Java agent could not be started: {error}"))
    }

    fn start() -> Result<Self> {
        Self::start_on(Jvm::Agent { heap_mib: HEAP_MIB })
    }

    /// Runs `work` on an agent of its own that writes its class archive at its end.
    pub(crate) fn train(work: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let agent = Self::start_on(Jvm::Training)?;
        work(&agent)?;
        agent.call::<Value>("leave", json!({}), ANSWER_WAIT)?;
        locked(&agent.inner.child).wait(ANSWER_WAIT).map(drop)
    }

    fn start_on(jvm: Jvm) -> Result<Self> {
        let jar = install::agent_jar()?;
        let scratch = Scratch::new("agent")?;
        let class_path =
            format!("{}:{}", install::kafka(Version::CLIENTS)?.class_path(), jar.display());
        let command = java::command(
            "the Java agent",
            Version::CLIENTS,
            jvm,
            Archive::Agent,
            "testbed.Agent",
            scratch.join("agent.log"),
        )?;
        let mut child = command.env("CLASSPATH", class_path).piped().start()?;
        let (lines, answers) = child.take_pipes().context("the agent has no pipes")?;
        let open = Arc::new(Mutex::new(Open { next: 1, waiting: Some(HashMap::new()) }));
        let readers = Arc::clone(&open);
        thread::spawn(move || hand_out(answers, &readers));

        let child = Mutex::new(child);
        let inner = Inner { lines: Mutex::new(lines), open, child, _scratch: scratch };
        let agent = Self { inner: Arc::new(inner) };
        agent.call::<Value>("ping", json!({}), START_WAIT)?;
        Ok(agent)
    }

    /// Asks and waits for the answer.
    pub fn call<T: DeserializeOwned>(
        &self,
        op: &'static str,
        args: impl Serialize,
        within: Duration,
    ) -> Result<T> {
        self.ask(op, args)?.answer(within)
    }

    /// Asks; the answer is waited for later.
    pub fn ask(&self, op: &'static str, args: impl Serialize) -> Result<Pending> {
        let (sender, answer) = mpsc::channel();
        let id = {
            let mut open = locked(&self.inner.open);
            let id = open.next;
            open.next += 1;
            match &mut open.waiting {
                Some(waiting) => waiting.insert(id, sender),
                None => {
                    bail!("the Java agent is gone, so {op} cannot be asked. {}", self.last_words())
                }
            };
            id
        };
        let line = format!("{}\n", json!({ "id": id, "op": op, "args": args }));
        let mut lines = locked(&self.inner.lines);
        lines
            .write_all(line.as_bytes())
            .and_then(|()| lines.flush())
            .with_context(|| format!("the Java agent does not read {op}. {}", self.last_words()))?;
        Ok(Pending { agent: self.clone(), id, op, answer })
    }

    fn last_words(&self) -> String {
        let child = locked(&self.inner.child);
        format!("Its log, {}, ends:\n{}", child.log().display(), tail(child.log(), 20))
    }

    pub fn pid(&self) -> u32 {
        locked(&self.inner.child).pid()
    }
}

impl Pending {
    /// Waits for the answer.
    pub fn answer<T: DeserializeOwned>(self, within: Duration) -> Result<T> {
        match self.answer.recv_timeout(within) {
            Ok(Ok(value)) => serde_json::from_value(value).with_context(|| {
                format!("the Java agent's answer to {} has another shape", self.op)
            }),
            Ok(Err(error)) => bail!("{} failed: {error}", self.op),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("the Java agent has not answered {} within {within:?}", self.op)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => bail!(
                "the Java agent ended before it answered {}. {}",
                self.op,
                self.agent.last_words()
            ),
        }
    }

    /// Asks a long operation to come to its end; the answer follows as usual.
    pub fn stop(&self) -> Result<()> {
        self.agent.call::<Value>("stop", json!({ "id": self.id }), ANSWER_WAIT).map(drop)
    }
}

/// Reads answers until the agent ends.
fn hand_out(answers: ChildStdout, open: &Mutex<Open>) {
    for line in BufReader::new(answers).lines() {
        let Ok(line) = line else { break };
        let Ok(mut answer) = serde_json::from_str::<Value>(&line) else {
            eprintln!("testbed: the Java agent said something that is no answer: {line}");
            continue;
        };
        let id = answer["id"].as_u64().unwrap_or(0);
        let result = match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer["ok"].take()),
        };
        let sender = locked(open).waiting.as_mut().and_then(|waiting| waiting.remove(&id));
        if let Some(sender) = sender {
            // Whoever asked may have stopped waiting.
            let _ = sender.send(result);
        }
    }
    locked(open).waiting = None;
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
