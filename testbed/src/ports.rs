//! Ports for brokers, safe against clients and against other test processes.
//!
//! Ports come from *below* the range the system hands out to outgoing connections. Inside that range a broker that is
//! down can lose its port: a client that keeps dialling a dead port is sooner or later given that very port as its
//! own, connects to itself, and the restarted broker finds the address in use. What is taken is held by a file lock
//! until this process ends, so that a second test process does not take the port of a broker that is down on purpose.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

/// Where ports come from if the system does not say where its own range begins.
const DEFAULT_RANGE: Range<u16> = 15_000..32_768;

/// How many ports are tried before giving up; far more than test beds on one machine ever hold.
const TRIES: u16 = 2_000;

/// Locks are released by the kernel when the process ends, however it ends.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port on 127.0.0.1 that nobody listens on and no other test bed has taken.
pub fn take() -> Result<u16> {
    let range = range();
    let width = range.end - range.start;
    let dir = std::env::temp_dir().join("heliograph-testbed-ports");
    fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;

    // A random start keeps test beds apart; the lock decides.
    let random = RandomState::new().hash_one(std::process::id());
    let start = u16::try_from(random % u64::from(width)).unwrap_or(0);
    for step in 0..TRIES {
        let port = range.start + (start.wrapping_add(step)) % width;
        let file = File::create(dir.join(port.to_string()))?;
        if file.try_lock().is_err() || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err() {
            continue;
        }
        HELD.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(file);
        return Ok(port);
    }
    bail!(
        "no free port in {range:?} after {TRIES} tries: are brokers of earlier runs still alive (`ss -ltnp`)?"
    )
}

fn range() -> Range<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    match text.split_whitespace().next().and_then(|low| low.parse::<u16>().ok()) {
        Some(low) if low > DEFAULT_RANGE.start + 1_000 => DEFAULT_RANGE.start..low,
        _ => DEFAULT_RANGE,
    }
}
