//! The physical floor: what it costs to move the same number of bytes through one process and two sockets.
//!
//! Three processes: a source that writes from memory, a sink that reads and forgets, and between them the relay, the
//! only one that is measured: read up to 1 MiB, write it, nothing else. No mirror can be cheaper than that without
//! leaving user space out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{Child, Spawn, Usage, usage_of};
use crate::scratch::Scratch;

/// One read and one write of the relay.
const CHUNK_BYTES: usize = 1 << 20;

/// For the three processes to find each other.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// What a relay run cost.
#[derive(Debug, Clone, Copy)]
pub struct Relayed {
    pub usage: Usage,
    pub elapsed: Duration,
    /// From the start of the process to the first byte handed on.
    pub first: Duration,
}

/// Moves `bytes` through a relay process. `program` is this test bed's own binary.
pub fn measure(program: &Path, bytes: u64) -> Result<Relayed> {
    let scratch = Scratch::new("relay")?;
    let start = |name: &str,
                 args: &[String]|
     -> Result<(
        Child,
        BufReader<std::process::ChildStdout>,
        std::process::ChildStdin,
    )> {
        let log = scratch.join(format!("{name}.log"));
        let mut child =
            Spawn::new(name, program, log).arg(name).args(args.to_vec()).piped().start()?;
        let (stdin, stdout) = child.take_pipes().context("no pipes")?;
        Ok((child, BufReader::new(stdout), stdin))
    };
    let (_sink, mut sink_says, _sink_in) = start("relay-sink", &[])?;
    let sink_port = word(&mut sink_says)?;
    let (_source, mut source_says, _source_in) = start("relay-source", &[bytes.to_string()])?;
    let source_port = word(&mut source_says)?;

    let (relay, mut relay_says, _until_read) = start("relay", &[source_port, sink_port])?;
    let first = micros(&word(&mut relay_says)?)?;
    let elapsed = micros(&word(&mut relay_says)?)?;
    // The relay waits for the end of its standard input: it is still there to be looked at.
    let usage = usage_of(relay.pid())?;
    let arrived: u64 = word(&mut sink_says)?.parse().context("the sink's count")?;
    if arrived != bytes {
        bail!("the relay's sink got {arrived} of {bytes} bytes");
    }
    Ok(Relayed { usage, elapsed, first })
}

fn word(from: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        bail!("a relay process ended before it said what it should");
    }
    Ok(line.trim().to_owned())
}

fn micros(text: &str) -> Result<Duration> {
    Ok(Duration::from_micros(
        text.parse().with_context(|| format!("no number of microseconds: {text:?}"))?,
    ))
}

/// The process `relay-source BYTES`: says its port, then writes.
pub fn source(bytes: u64) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    let (mut socket, _) = listener.accept()?;
    let chunk = vec![0x5a_u8; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        socket.write_all(&chunk[..count])?;
        left -= count as u64;
    }
    Ok(())
}

/// The process `relay-sink`: says its port, reads to the end, says how much it was.
pub fn sink() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    let (mut socket, _) = listener.accept()?;
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    let mut total = 0_u64;
    loop {
        match socket.read(&mut chunk)? {
            0 => break,
            count => total += count as u64,
        }
    }
    println!("{total}");
    Ok(())
}

/// The process `relay SOURCE_PORT SINK_PORT`: moves all, says when the first byte went and when the last one did, and
/// stays until its standard input ends.
pub fn relay(source: u16, sink: u16) -> Result<()> {
    let begun = Instant::now();
    let connect =
        |port: u16| TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), CONNECT_WAIT);
    let (mut from, mut to) = (connect(source)?, connect(sink)?);
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    let mut first = None;
    loop {
        let count = from.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        to.write_all(&chunk[..count])?;
        first.get_or_insert_with(|| begun.elapsed());
    }
    drop(to);
    let elapsed = begun.elapsed();
    println!("{}\n{}", first.unwrap_or(elapsed).as_micros(), elapsed.as_micros());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
