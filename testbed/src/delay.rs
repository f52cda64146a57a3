//! A link with a long way: a TCP proxy that hands bytes on after half of a round trip, in each direction.
//!
//! Only the delay is that of a long link; bandwidth is not limited and nothing is lost. For clients to take the way
//! through the proxy, brokers must advertise its address: [`crate::cluster::ClusterSpec::delayed_listener`] does that.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::ports;

/// One read. Large, so that the proxy itself costs little beside what it connects.
const CHUNK_BYTES: usize = 256 * 1_024;

/// Chunks on their way in one direction. At full size 128 MiB, which 50 ms do not fill below 2.5 GB/s; a bound only so
/// that a peer that does not read stops the other one at last, as on a real link.
const CHUNKS_UNDERWAY: usize = 512;

/// For the broker behind the proxy.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// A proxy in front of one port; it ends with the process.
#[derive(Debug)]
pub struct Delay {
    port: u16,
}

impl Delay {
    /// Listens on a port of its own and hands on to `to` of 127.0.0.1.
    pub fn start(to: u16, round_trip: Duration) -> Result<Self> {
        let port = ports::take()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("the delay proxy cannot listen on port {port}"))?;
        let one_way = round_trip / 2;
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                thread::spawn(move || {
                    // A broker that is down: the client sees its connection closed, as it would without us.
                    drop(connect(&client, to, one_way));
                });
            }
        });
        Ok(Self { port })
    }

    /// Where clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn connect(client: &TcpStream, to: u16, one_way: Duration) -> Result<()> {
    let broker = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
    let broker = TcpStream::connect_timeout(&broker, CONNECT_WAIT)?;
    for socket in [client, &broker] {
        socket.set_nodelay(true)?;
    }
    let pairs =
        [(client.try_clone()?, broker.try_clone()?), (broker.try_clone()?, client.try_clone()?)];
    for (from, onto) in pairs {
        let (sender, receiver) = mpsc::sync_channel(CHUNKS_UNDERWAY);
        thread::spawn(move || read(from, &sender, one_way));
        thread::spawn(move || write(onto, &receiver));
    }
    Ok(())
}

/// What is underway, and when it arrives.
type Underway = (Instant, Vec<u8>);

fn read(mut from: TcpStream, underway: &SyncSender<Underway>, one_way: Duration) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count) = from.read(&mut chunk) {
        // An empty chunk is the end; it takes its time too.
        let sent = underway.send((Instant::now() + one_way, chunk[..count].to_vec()));
        if count == 0 || sent.is_err() {
            return;
        }
    }
    drop(underway.send((Instant::now() + one_way, Vec::new())));
}

fn write(mut onto: TcpStream, underway: &Receiver<Underway>) {
    for (due, chunk) in underway {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if chunk.is_empty() {
            drop(onto.shutdown(Shutdown::Write));
            return;
        }
        if onto.write_all(&chunk).is_err() {
            // Whoever writes to us learns it, too.
            drop(onto.shutdown(Shutdown::Both));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(80);

    /// A peer that sends back what it gets; gives its port.
    fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut bytes = vec![0; CHUNK_BYTES];
                    while let Ok(count @ 1..) = stream.read(&mut bytes) {
                        stream.write_all(&bytes[..count]).unwrap();
                    }
                });
            }
        });
        port
    }

    #[test]
    fn an_answer_takes_a_round_trip_and_much_data_takes_hardly_longer() {
        let proxy = Delay::start(echo(), ROUND_TRIP).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        let begun = Instant::now();
        stream.write_all(b"ping").unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        let took = begun.elapsed();
        assert!(took >= ROUND_TRIP && took < ROUND_TRIP * 4, "{took:?}");

        // 16 MiB would take ten seconds if each chunk waited for the one before it to arrive.
        let sent: Vec<u8> = (0..16 << 20).map(|at: u32| at.to_be_bytes()[3]).collect();
        let (mut writer, all) = (stream.try_clone().unwrap(), sent.clone());
        let begun = Instant::now();
        thread::spawn(move || writer.write_all(&all).unwrap());
        let mut got = vec![0; sent.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == sent, "bytes changed on the way");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }

    #[test]
    fn an_end_reaches_the_other_side() {
        let proxy = Delay::start(echo(), ROUND_TRIP).unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
        stream.write_all(b"last").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"last");
    }
}
