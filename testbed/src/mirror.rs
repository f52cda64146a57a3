//! A mirror under test: Heliograph or the real MirrorMaker 2, run on the same file and measured the same way.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::flow::{FlowFile, PAGE};
use crate::install;
use crate::java::Jvm;
use crate::mm2;
use crate::process::{Child, Exit, Spawn, Usage, tail};
use crate::scratch::Scratch;

/// Between two looks at a log that is shown live.
const TEE_EVERY: Duration = Duration::from_millis(50);

/// Which program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// `heliograph run FILE`.
    Heliograph,
    /// `org.apache.kafka.connect.mirror.MirrorMaker FILE`, version 4.3.1.
    Mm2(Jvm),
}

impl Program {
    pub const MM2: Self = Self::Mm2(Jvm::Functional { heap_mib: 384 });

    /// Heliograph; or MirrorMaker 2 with `TESTBED_MIRROR=mm2`, which tells whether a test is right where both do the
    /// same.
    pub fn under_test() -> Self {
        match std::env::var("TESTBED_MIRROR").as_deref() {
            Ok("mm2") => Self::MM2,
            _ => Self::Heliograph,
        }
    }

    pub const fn name(&self) -> &'static str {
        match self {
            Self::Heliograph => "heliograph",
            Self::Mm2(_) => "mm2",
        }
    }
}

/// A mirror process and its file; killed when dropped.
#[derive(Debug)]
pub struct Mirror {
    program: Program,
    args: Vec<String>,
    file: PathBuf,
    log: PathBuf,
    child: Option<Child>,
    tee: Option<Tee>,
    scratch: Scratch,
}

impl Mirror {
    /// Starts the program under test on `flow`.
    pub fn under_test(flow: &FlowFile) -> Result<Self> {
        Self::start(Program::under_test(), flow)
    }

    /// Starts Heliograph on `flow`.
    pub fn heliograph(flow: &FlowFile) -> Result<Self> {
        Self::start(Program::Heliograph, flow)
    }

    /// Starts Heliograph on `flow` with a log that [`Mirror::events`] can read.
    pub fn with_events(flow: &FlowFile) -> Result<Self> {
        let mut mirror = Self::prepare(Program::Heliograph, flow, &["--log-format", "json"])?;
        mirror.launch()?;
        Ok(mirror)
    }

    /// Starts Heliograph on a file with this text, which may be wrong.
    pub fn heliograph_on(text: &str) -> Result<Self> {
        let mut mirror = Self::prepare(Program::Heliograph, &FlowFile::of(&[]), &[])?;
        fs::write(&mirror.file, text)
            .with_context(|| format!("cannot write {}", mirror.file.display()))?;
        mirror.launch()?;
        Ok(mirror)
    }

    /// Starts MirrorMaker 2 on `flow`.
    pub fn mm2(flow: &FlowFile) -> Result<Self> {
        Self::start(Program::MM2, flow)
    }

    pub fn start(program: Program, flow: &FlowFile) -> Result<Self> {
        let mut mirror = Self::prepare(program, flow, &[])?;
        mirror.launch()?;
        Ok(mirror)
    }

    /// Where `/status` and `/metrics` are, if its file says so.
    pub fn page(&self) -> Option<String> {
        let file = fs::read_to_string(&self.file).ok()?;
        let line = file.lines().find_map(|line| line.strip_prefix(PAGE))?;
        Some(line.trim_start_matches([' ', '=']).trim().to_owned())
    }

    /// Everything but the start. `args` follow the file: `--clusters t`.
    pub fn prepare(program: Program, flow: &FlowFile, args: &[&str]) -> Result<Self> {
        // A build that is not there yet must not count as time to the first record.
        if program == Program::Heliograph {
            heliograph_binary()?;
        }
        let scratch = Scratch::new(program.name())?;
        let file = flow.write(scratch.path(), "mm2.properties")?;
        let log = scratch.join(format!("{}.log", program.name()));
        let args = args.iter().map(ToString::to_string).collect();
        Ok(Self { program, args, file, log, child: None, tee: None, scratch })
    }

    /// Starts the process (again); the log goes on in the same file.
    pub fn launch(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("{} is running already", self.program.name());
        }
        let command = match &self.program {
            Program::Heliograph => {
                let binary = heliograph_binary()?;
                Spawn::new("heliograph", binary, &self.log)
                    .arg("run")
                    .arg(self.file.display().to_string())
            }
            Program::Mm2(jvm) => mm2::command(&self.file, &self.log, *jvm)?,
        };
        self.child = Some(command.args(self.args.clone()).dir(self.scratch.path()).start()?);
        Ok(())
    }

    /// From now on the log is also shown on standard error, each line with `prefix`.
    pub fn tee(&mut self, prefix: &'static str) {
        self.tee = Some(Tee::start(self.log.clone(), prefix));
    }

    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(Child::is_running)
    }

    /// Fails with the end of the log if it has ended by itself.
    pub fn must_be_running(&mut self) -> Result<()> {
        match &mut self.child {
            Some(child) => child.must_be_running(),
            None => bail!("{} has not been started", self.program.name()),
        }
    }

    /// SIGTERM, and how it ended.
    pub fn terminate(&mut self, within: Duration) -> Result<Exit> {
        let exit = self.running()?.terminate(within)?;
        self.child = None;
        Ok(exit)
    }

    /// SIGTERM without waiting, for tests of a second signal.
    pub fn signal_term(&mut self) -> Result<()> {
        self.running()?.signal(rustix::process::Signal::TERM)
    }

    /// How it ended, by itself or by a signal sent before.
    pub fn wait(&mut self, within: Duration) -> Result<Exit> {
        let exit = self.running()?.wait(within)?;
        self.child = None;
        Ok(exit)
    }

    pub fn kill9(&mut self) -> Result<()> {
        self.running()?.kill9()?;
        self.child = None;
        Ok(())
    }

    pub fn usage(&self) -> Result<Usage> {
        self.child
            .as_ref()
            .with_context(|| format!("{} is not running", self.program.name()))?
            .usage()
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::pid)
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// All that has been logged so far.
    pub fn log_text(&self) -> String {
        fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The end of the log, for messages.
    pub fn last_words(&self) -> String {
        format!(
            "The log of {}, {}, ends:\n{}",
            self.program.name(),
            self.log.display(),
            tail(&self.log, 25)
        )
    }

    fn running(&mut self) -> Result<&mut Child> {
        self.child.as_mut().with_context(|| format!("{} is not running", self.program.name()))
    }
}

/// What `heliograph check` said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `heliograph check` on `flow`; `args` follow the file.
pub fn check(flow: &FlowFile, args: &[&str]) -> Result<Checked> {
    let scratch = Scratch::new("check")?;
    let file = flow.write(scratch.path(), "mm2.properties")?;
    let output = Command::new(heliograph_binary()?)
        .arg("check")
        .arg(file)
        .args(args)
        .output()
        .context("cannot run heliograph check")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(Checked { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) })
}

/// The binary under test: `HELIOGRAPH_BIN`, or a release build of this workspace, brought up to date once per process.
pub fn heliograph_binary() -> Result<PathBuf> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| find_heliograph().map_err(|error| format!("{error:#}")));
    binary.clone().map_err(|error| anyhow!("there is no heliograph to run: {error}"))
}

fn find_heliograph() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("HELIOGRAPH_BIN").filter(|given| !given.is_empty()) {
        let path = PathBuf::from(given);
        if !path.is_file() {
            bail!("HELIOGRAPH_BIN names {}, where there is no file", path.display());
        }
        return path.canonicalize().context("HELIOGRAPH_BIN");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "heliograph", "--bin", "heliograph"])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(install::package_dir())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context(
            "cannot run cargo to build heliograph; HELIOGRAPH_BIN may name a binary instead",
        )?;
    if !output.status.success() {
        bail!(
            "`cargo build --release -p heliograph` failed; HELIOGRAPH_BIN may name a binary instead"
        );
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
        .context("cargo built heliograph but named no executable")
}

/// Follows a file and shows what is appended.
#[derive(Debug)]
struct Tee {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Tee {
    fn start(path: PathBuf, prefix: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut shown = 0;
            loop {
                // Asked before the look, so that the last look comes after the last line.
                let last = asked.load(Ordering::Relaxed);
                shown += show_from(&path, shown, prefix);
                if last {
                    break;
                }
                thread::sleep(TEE_EVERY);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Shows whole lines from `at` on; how many bytes they were.
fn show_from(path: &Path, at: u64, prefix: &str) -> u64 {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = fs::File::open(path)?;
        file.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        file.take(1 << 20).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut err = std::io::stderr().lock();
    for line in String::from_utf8_lossy(&bytes[..whole]).lines() {
        let _ = writeln!(err, "{prefix}{line}");
    }
    u64::try_from(whole).unwrap_or(0)
}

/// Repeats `done` until it says so, or fails with the mirror's last words.
pub fn eventually(
    what: &str,
    within: Duration,
    mirror: &Mirror,
    mut done: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < within {
        match done() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => last = format!(" ({error:#})"),
        }
        thread::sleep(Duration::from_millis(50));
    }
    bail!("{what}: not within {within:?}{last}. {}", mirror.last_words())
}
