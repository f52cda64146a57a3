//! What the brokers of this machine give at most: one process that only reads the source, one that only writes the
//! same batches to a target, both at the same time, one thread each.
//!
//! A mirror reads and writes, so the slower of the two bounds it. Whoever is ready first goes on until the other is,
//! so that both are measured under the same load. Batches are written from memory, in turn, without producer ids.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::measure::Data;
use crate::process::{Child, Spawn};
use crate::raw::{RawClient, sendable, walk};
use crate::scratch::Scratch;

/// Batches kept in memory by the process that writes; after the last one comes the first one again.
const MEMORY_BYTES_MAX: usize = 256 << 20;

/// A request is full when it holds so much; far below what a broker takes.
const REQUEST_BYTES: usize = 8 << 20;

/// As many as a broker takes from a producer with order kept.
const IN_FLIGHT: usize = 5;

/// What the two processes managed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) fetch_bytes_per_s: f64,
    pub(super) produce_bytes_per_s: f64,
    /// Of the slower one, as records of the topic.
    pub(super) records_per_s: f64,
    pub(super) seconds: f64,
}

/// Where the two processes work.
#[derive(Debug, Clone)]
pub(super) struct Ends {
    pub(super) source: String,
    pub(super) target: String,
    /// An empty topic on the target, of as many partitions as the source's.
    pub(super) target_topic: String,
}

/// Runs both. `program` is this test bed's own binary.
pub(super) fn measure(program: &Path, data: Data, ends: &Ends) -> Result<Limit> {
    let scratch = Scratch::new("limit")?;
    let partitions = data.shape.partitions().to_string();
    let bytes = data.stored_bytes.to_string();
    let mut fetch = Worker::start(
        program,
        &scratch,
        "limit-fetch",
        &[&ends.source, "bench", &partitions, &bytes],
    )?;
    let mut produce = Worker::start(
        program,
        &scratch,
        "limit-produce",
        &[&ends.source, "bench", &partitions, &bytes, &ends.target, &ends.target_topic],
    )?;
    for worker in [&mut fetch, &mut produce] {
        worker.must_say("ready")?;
    }
    for worker in [&mut fetch, &mut produce] {
        worker.stdin.write_all(b"go\n")?;
    }
    let (fetched, produced) = (fetch.result()?, produce.result()?);
    let stored = super::as_f64(data.stored_bytes);
    let rate = |(bytes, seconds): (f64, f64)| bytes / seconds.max(1e-6);
    let slower = rate(fetched).min(rate(produced));
    Ok(Limit {
        fetch_bytes_per_s: rate(fetched),
        produce_bytes_per_s: rate(produced),
        records_per_s: slower * super::as_f64(data.records) / stored,
        seconds: stored / slower,
    })
}

struct Worker {
    // Killed when dropped; the end of its standard input would end it, too.
    _child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stdin: std::process::ChildStdin,
    log: std::path::PathBuf,
}

impl Worker {
    fn start(program: &Path, scratch: &Scratch, name: &str, args: &[&str]) -> Result<Self> {
        let log = scratch.join(format!("{name}.log"));
        let mut child =
            Spawn::new(name, program, &log).arg(name).args(args.to_vec()).piped().start()?;
        let (stdin, stdout) = child.take_pipes().context("no pipes")?;
        Ok(Self { _child: child, stdout: BufReader::new(stdout), stdin, log })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            bail!("it ended early:\n{}", crate::process::tail(&self.log, 10));
        }
        Ok(line.trim().to_owned())
    }

    fn must_say(&mut self, word: &str) -> Result<()> {
        let said = self.line()?;
        if said != word {
            bail!("it said {said:?}, not {word:?}");
        }
        Ok(())
    }

    /// Bytes and seconds.
    fn result(&mut self) -> Result<(f64, f64)> {
        let said = self.line()?;
        let (bytes, micros) = said.split_once(' ').context("two numbers")?;
        let micros: u64 = micros.parse()?;
        Ok((bytes.parse()?, Duration::from_micros(micros).as_secs_f64()))
    }
}

/// Says that it is ready, waits for the word, and gives a flag that is set when nobody listens any more.
fn ready() -> Result<Arc<AtomicBool>> {
    println!("ready");
    let mut word = String::new();
    std::io::stdin().lock().read_line(&mut word)?;
    let over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&over);
    thread::spawn(move || {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        flag.store(true, Ordering::Relaxed);
    });
    Ok(over)
}

/// Says once, when `bytes` of `wanted` are done, how long it took.
fn tell(told: &mut bool, bytes: u64, wanted: u64, begun: Instant) {
    if !*told && bytes >= wanted {
        println!("{bytes} {}", begun.elapsed().as_micros());
        *told = true;
    }
}

/// The process `limit-fetch ADDRESS TOPIC PARTITIONS BYTES`.
pub fn fetch(address: &str, topic: &str, partitions: usize, wanted: u64) -> Result<()> {
    let mut client = RawClient::connect(address)?;
    let over = ready()?;
    let begun = Instant::now();
    let (mut positions, mut bytes, mut told) = (vec![0; partitions], 0, false);
    while !over.load(Ordering::Relaxed) {
        let before = bytes;
        let mut next = positions.clone();
        client.fetch(topic, &positions, |fetched| {
            let seen = walk(fetched.records, |batch| bytes += batch.len() as u64);
            if let Some(seen) = seen {
                next[fetched.partition] = seen;
            }
            Ok(())
        })?;
        positions = next;
        // What cleaning left at the end of a log need not add up to the size of its files.
        let done = if bytes == before { wanted } else { bytes };
        tell(&mut told, done, wanted, begun);
        if bytes == before {
            positions.fill(0);
        }
    }
    Ok(())
}

/// The process `limit-produce SOURCE TOPIC PARTITIONS BYTES TARGET TARGET_TOPIC`.
pub fn produce(
    source: &str,
    topic: &str,
    partitions: usize,
    wanted: u64,
    target: &str,
    target_topic: &str,
) -> Result<()> {
    let batches = load(source, topic, partitions)?;
    let mut client = RawClient::connect(target)?;
    let over = ready()?;
    let begun = Instant::now();
    let (mut bytes, mut acknowledged, mut told) = (0_u64, 0_u64, false);
    let mut in_flight = std::collections::VecDeque::new();
    // Partitions in turn, each with its own next batch; a request holds each partition once at most.
    let filled: Vec<(usize, &Vec<_>)> =
        batches.iter().enumerate().filter(|(_, own)| !own.is_empty()).collect();
    if filled.is_empty() {
        bail!("the source topic holds nothing that could be written");
    }
    let mut at = 0;
    while !over.load(Ordering::Relaxed) {
        let (mut request, mut size): (Vec<(usize, &[u8])>, usize) = (Vec::new(), 0);
        while request.len() < filled.len() && size < REQUEST_BYTES {
            let (partition, own) = filled[at % filled.len()];
            let (_, batch): &(i32, Vec<u8>) = &own[at / filled.len() % own.len()];
            request.push((partition, batch));
            size += batch.len();
            at += 1;
        }
        if in_flight.len() == IN_FLIGHT {
            client.produce_answer()?;
            acknowledged += in_flight.pop_front().unwrap_or(0);
            tell(&mut told, acknowledged, wanted, begun);
        }
        let size = size as u64;
        client.send_produce(target_topic, &request)?;
        bytes += size;
        in_flight.push_back(size);
        // All is sent: what is underway is waited for, so that a slow round trip counts once, as it does for a mirror.
        while bytes >= wanted && !told && !in_flight.is_empty() {
            client.produce_answer()?;
            acknowledged += in_flight.pop_front().unwrap_or(0);
            tell(&mut told, acknowledged, wanted, begun);
        }
    }
    Ok(())
}

type Loaded = Vec<Vec<(i32, Vec<u8>)>>;

/// The first batches of each partition, as many as fit.
fn load(source: &str, topic: &str, partitions: usize) -> Result<Loaded> {
    let mut client = RawClient::connect(source)?;
    let mut all: Loaded = vec![Vec::new(); partitions];
    let (mut positions, mut bytes) = (vec![0; partitions], 0);
    loop {
        let before = bytes;
        let mut next = positions.clone();
        client.fetch(topic, &positions, |fetched| {
            let own = &mut all[fetched.partition];
            let mut wrong = None;
            let seen = walk(fetched.records, |batch| {
                bytes += batch.len();
                let failed = sendable(batch, own).err();
                if wrong.is_none() {
                    wrong = failed;
                }
            });
            if let Some(seen) = seen {
                next[fetched.partition] = seen;
            }
            wrong.map_or(Ok(()), Err)
        })?;
        positions = next;
        if bytes == before || bytes >= MEMORY_BYTES_MAX {
            return Ok(all);
        }
    }
}
