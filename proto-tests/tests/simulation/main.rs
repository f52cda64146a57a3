//! Whole flows between two scripted clusters, under seeded faults, judged by the invariants of
//! [`proto_tests::sim::judge`].
//!
//! * `SIM_SEED=4711 cargo test -p proto-tests --test simulation -- one_seed --nocapture` runs one
//!   seed; `SIM_TRACE=1` shows what happened in it.
//! * `SIM_SEEDS=10000 cargo test -p proto-tests --test simulation -- many_seeds --nocapture` runs
//!   many; `SIM_FROM` says from which on.

mod controls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proto_tests::sim::{Options, Outcome, judge, run};

/// Seeds that every run of the tests goes through.
const SEEDS: u64 = 300;

/// A seed takes some hundredths of a second.
const SEED_SECONDS_MAX: u64 = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Ends the process if one seed takes longer than any should: the clock does not get on, because
/// something is busy without end.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn over(seed: u64) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&done);
        std::thread::spawn(move || {
            for _ in 0..SEED_SECONDS_MAX * 10 {
                std::thread::sleep(Duration::from_millis(100));
                if watched.load(Ordering::Relaxed) {
                    return;
                }
            }
            eprintln!(
                "seed {seed}: [alive] it is busy without end; SIM_SEED={seed} shows it again"
            );
            std::process::exit(101);
        });
        Self(done)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a seed breaks, in words that say how to see it again.
fn complaints(seed: u64, outcome: &Outcome) -> Vec<String> {
    let mut out: Vec<String> =
        judge(&outcome.evidence).iter().map(|one| format!("seed {seed}: {one}")).collect();
    if let Some(broken) = &outcome.broken {
        out.push(format!("seed {seed}: [alive] {broken}"));
    }
    if !out.is_empty() {
        out.truncate(6);
        out.push(format!(
            "  replay: SIM_SEED={seed} cargo test -p proto-tests --test simulation -- one_seed \
             --nocapture\n  trace:  add SIM_TRACE=1"
        ));
    }
    out
}

#[test]
fn one_seed() {
    let seed = number("SIM_SEED").unwrap_or(1);
    let trace = std::env::var("SIM_TRACE").is_ok();
    let _watched = Watchdog::over(seed);
    let outcome = run(seed, &Options { trace, ..Options::default() });
    outcome.trace.iter().for_each(|line| println!("{line}"));
    let complaints = complaints(seed, &outcome);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn many_seeds() {
    let from = number("SIM_FROM").unwrap_or(1);
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS);
    let begun = Instant::now();
    let threads = 2;
    let (mut failed, mut requests) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let worker = |thread: u64| {
            move || {
                let (mut failed, mut requests) = (Vec::new(), 0);
                for seed in (from + thread..from + seeds).step_by(2) {
                    let _watched = Watchdog::over(seed);
                    let outcome = run(seed, &Options::default());
                    requests += outcome.requests;
                    let complaints = complaints(seed, &outcome);
                    if !complaints.is_empty() {
                        failed.push(complaints.join("\n"));
                    }
                }
                (failed, requests)
            }
        };
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(worker(thread))).collect();
        for one in running {
            let (more, count) = one.join().unwrap();
            failed.extend(more);
            requests += count;
        }
    });
    println!("{seeds} seeds, {requests} requests, {:.1?}", begun.elapsed());
    let shown: Vec<_> = failed.iter().take(20).cloned().collect();
    assert!(failed.is_empty(), "{} of {seeds} seeds failed\n{}", failed.len(), shown.join("\n"));
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 1..=25 {
        let (first, second) = (run(seed, &Options::default()), run(seed, &Options::default()));
        assert_eq!(first.requests, second.requests, "seed {seed}");
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed}");
    }
}
