//! The folder of one run: data and logs of everything that was started.
//!
//! Each process of the test bed has one folder under the system's temporary directory, with a subfolder per cluster
//! or program. A small shell, which holds the reading end of a pipe whose other end is ours, clears it when this
//! process is gone, however it went. If something failed ([`keep_logs`], called on every panic), data is deleted and
//! logs stay.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// Name of a subfolder that goes even when logs are kept.
pub const DATA: &str = "data";

/// A file that tells the clearing shell to leave logs.
const KEEP: &str = "KEEP";

#[derive(Debug)]
struct Run {
    dir: PathBuf,
    /// Closed by the kernel when this process ends; that is the signal.
    _until_the_end: ChildStdin,
}

/// A subfolder; cleared when dropped, unless a test has failed.
#[derive(Debug)]
pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = run()?.dir.join(format!("{count:02}-{name}"));
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { dir })
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.dir.join(DATA));
        if !is_kept() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Leaves logs in place when this process ends, and says where they are.
pub fn keep_logs() {
    if let Ok(run) = run() {
        keep_logs_of(&run.dir);
    }
}

fn keep_logs_of(dir: &Path) {
    let keep = dir.join(KEEP);
    if !keep.exists() && fs::write(keep, "").is_ok() {
        eprintln!("testbed: the logs of this run are kept in {}", dir.display());
    }
}

fn is_kept() -> bool {
    run().is_ok_and(|run| run.dir.join(KEEP).exists())
}

fn run() -> Result<&'static Run> {
    static RUN: OnceLock<Result<Run, String>> = OnceLock::new();
    let run = RUN.get_or_init(|| start_run().map_err(|error| format!("{error:#}")));
    run.as_ref().map_err(|error| anyhow::anyhow!("{error}"))
}

fn start_run() -> Result<Run> {
    let dir = std::env::temp_dir().join(format!("heliograph-testbed-{}", std::process::id()));
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot clear {}", dir.display()))?;
    }
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;

    // A broker that dies with us may still write for an instant: two attempts, a second apart.
    let clear = r#"cat >/dev/null; for pause in 0.2 1; do sleep $pause
        if [ -e "$0/KEEP" ]; then find "$0" -type d -name data -prune -exec rm -rf {} +
        else rm -rf "$0"; fi; done"#;
    let mut shell = Command::new("sh")
        .args(["-c", clear])
        .arg(&dir)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start `sh`, which clears the run's folder afterwards")?;
    // Not only in `Drop`: clusters that several tests share live in statics, which are never dropped.
    let report = std::panic::take_hook();
    let of = dir.clone();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        keep_logs_of(&of);
    }));

    let until_the_end = shell.stdin.take().context("the clearing shell has no standard input")?;
    Ok(Run { dir, _until_the_end: until_the_end })
}
