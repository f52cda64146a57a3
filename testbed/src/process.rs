//! Child processes that never outlive this one.
//!
//! Three nets, one below the other:
//!
//! 1. `Drop` kills and reaps: the normal end and a panic.
//! 2. The kernel kills the child when its parent *thread* ends (`PR_SET_PDEATHSIG`, set by `setpriv`, so that no
//!    `unsafe` is needed here). All children are therefore started by one thread that lives as long as the process:
//!    a child started by a test's own thread would die with that thread. This covers `kill -9` of the test process.
//! 3. Between the fork and the moment the kernel knows, the parent could already be gone; a one-line shell compares
//!    `$PPID` after the fact and gives up.
//!
//! Children are leaders of their own process group: Ctrl-C reaches us only, and our end is their end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

/// How often a child is asked whether it has ended.
const POLL: Duration = Duration::from_millis(10);

/// Clock ticks per second in `/proc/PID/stat`: `USER_HZ`, 100 on every Linux architecture Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// What to start.
#[derive(Debug)]
pub struct Spawn {
    name: String,
    program: PathBuf,
    args: Vec<String>,
    envs: Vec<(String, String)>,
    dir: Option<PathBuf>,
    log: PathBuf,
    piped: bool,
}

impl Spawn {
    /// `name` is for people; standard output and standard error are appended to `log`.
    pub fn new(
        name: impl Into<String>,
        program: impl Into<PathBuf>,
        log: impl Into<PathBuf>,
    ) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            envs: Vec::new(),
            dir: None,
            log: log.into(),
            piped: false,
        }
    }

    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.envs.push((key.into(), value.into()));
        self
    }

    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Standard input and standard output become pipes; only standard error goes to the log.
    pub fn piped(mut self) -> Self {
        self.piped = true;
        self
    }

    pub fn start(self) -> Result<Child> {
        let log =
            OpenOptions::new().create(true).append(true).open(&self.log).with_context(|| {
                format!("cannot open the log {} of {}", self.log.display(), self.name)
            })?;

        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "sh", "-c"])
            .arg(r#"[ "$PPID" = "$0" ] || exit 70; exec "$@""#)
            .arg(std::process::id().to_string())
            .arg(&self.program)
            .args(&self.args)
            .envs(self.envs.iter().map(|(k, v)| (k, v)))
            .process_group(0)
            .stderr(log.try_clone()?);
        if self.piped {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(log);
        }
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }

        let inner = spawn_from_the_lasting_thread(command).with_context(|| {
            format!(
                "cannot start {} ({}): `setpriv` of util-linux must be on the PATH; `testbed/setup` checks that",
                self.name,
                self.program.display()
            )
        })?;
        Ok(Child { name: self.name, log: self.log, started: Instant::now(), inner, ended: None })
    }
}

type Order = (Command, mpsc::Sender<io::Result<std::process::Child>>);

fn spawn_from_the_lasting_thread(command: Command) -> Result<std::process::Child> {
    static ORDERS: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Order>();
        thread::spawn(move || {
            // The sender is a static: this loop, and so this thread, ends with the process.
            for (mut command, answer) in receiver {
                // Nobody waits for the answer only if the asking thread is gone; then the child goes too.
                if let Err(mpsc::SendError(Ok(mut orphan))) = answer.send(command.spawn()) {
                    let _ = orphan.kill();
                    let _ = orphan.wait();
                }
            }
        });
        sender
    });

    let (answer, child) = mpsc::channel();
    orders
        .send((command, answer))
        .map_err(|_| anyhow!("the thread that starts children is gone"))?;
    Ok(child.recv().context("the thread that starts children is gone")??)
}

/// A running (or ended) child; killed when dropped.
#[derive(Debug)]
pub struct Child {
    name: String,
    log: PathBuf,
    started: Instant,
    inner: std::process::Child,
    ended: Option<ExitStatus>,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The exit code, if it was not ended by a signal.
    pub code: Option<i32>,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// From the call that asked for the end until the end.
    pub elapsed: Duration,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// User and system time of all its threads, the ended ones too.
    pub cpu_seconds: f64,
    /// Largest resident size so far (`VmHWM`).
    pub peak_rss_bytes: u64,
}

impl Child {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> u32 {
        self.inner.id()
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Since the start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.inner.stdin.take()?, self.inner.stdout.take()?))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended =
                self.inner.try_wait().with_context(|| format!("cannot ask after {}", self.name))?;
        }
        Ok(self.ended)
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.ended(), Ok(None))
    }

    /// Fails with the end of the log if the child has ended.
    pub fn must_be_running(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => bail!(
                "{} has ended ({status}) while it was needed. Its log, {}, ends:\n{}",
                self.name,
                self.log.display(),
                tail(&self.log, 30)
            ),
        }
    }

    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} has no usable pid", self.name))?;
        kill_process(pid, signal)
            .with_context(|| format!("cannot send {signal:?} to {}", self.name))
    }

    /// Waits for the end without asking for it.
    pub fn wait(&mut self, within: Duration) -> Result<Exit> {
        let asked = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(Exit {
                    code: status.code(),
                    signal: status.signal(),
                    elapsed: asked.elapsed(),
                });
            }
            if asked.elapsed() > within {
                bail!(
                    "{} (pid {}) still runs after {within:?}. Its log, {}, ends:\n{}",
                    self.name,
                    self.pid(),
                    self.log.display(),
                    tail(&self.log, 15)
                );
            }
            thread::sleep(POLL);
        }
    }

    /// SIGTERM, and wait for the end; an error if it does not come in time (the child then still runs).
    pub fn terminate(&mut self, within: Duration) -> Result<Exit> {
        self.signal(Signal::TERM)?;
        self.wait(within)
    }

    /// SIGKILL, and reap.
    pub fn kill9(&mut self) -> Result<()> {
        if self.ended()?.is_none() {
            self.inner.kill().with_context(|| format!("cannot kill {}", self.name))?;
            self.ended = Some(self.inner.wait()?);
        }
        Ok(())
    }

    /// What it has used so far; an error once it has been reaped.
    pub fn usage(&self) -> Result<Usage> {
        usage_of(self.pid()).with_context(|| format!("cannot read what {} has used", self.name))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill9();
    }
}

/// CPU time and peak memory of a process, from `/proc`.
pub fn usage_of(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The second field is the program's name in brackets, which may itself hold blanks and brackets.
    let after_name = stat.rsplit_once(')').context("no name in /proc/PID/stat")?.1;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    // utime and stime are fields 14 and 15 of the line, so 11 and 12 after the name (0-based).
    let ticks =
        |at: usize| -> Result<f64> { Ok(fields.get(at).context("short stat")?.parse::<f64>()?) };
    let cpu_seconds = (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND;

    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let hwm = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = hwm.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    let peak_rss_bytes =
        kib.context("no VmHWM in /proc/PID/status: has the process ended?")? * 1024;
    Ok(Usage { cpu_seconds, peak_rss_bytes })
}

/// Resident size of a process now.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = rss.and_then(|text| text.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    Ok(kib.context("no VmRSS in /proc/PID/status: has the process ended?")? * 1_024)
}

/// The last lines of a file, for error messages; at most 64 KiB are read.
pub fn tail(path: &Path, lines: usize) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(64 * 1024);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_else(|error| format!("(cannot be read: {error})"));
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
