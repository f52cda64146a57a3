//! A proxy that knows Kafka's frames: it counts requests by kind, and cuts connections off before an answer comes.
//!
//! For clients to take the way through it, brokers must advertise its address:
//! [`crate::cluster::ClusterSpec::watched_listener`] does that. One [`Frames`] may stand in front of many brokers.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::ports;

/// For the broker behind the proxy.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// No frame of a test is larger; what claims to be is not Kafka's protocol.
const FRAME_MAX: usize = 256 << 20;

/// `Produce`.
pub const PRODUCE: i16 = 0;
/// `Fetch`.
pub const FETCH: i16 = 1;
/// `DescribeAcls`.
pub const DESCRIBE_ACLS: i16 = 29;
/// `CreateAcls`.
pub const CREATE_ACLS: i16 = 30;
/// `DeleteAcls`.
pub const DELETE_ACLS: i16 = 31;

/// What has passed, and what is to be cut off.
#[derive(Debug, Clone, Default)]
pub struct Frames {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    counts: Mutex<BTreeMap<i16, u64>>,
    /// Of this many answers to Produce about one is lost with its connection; 0 for none.
    lose_every: AtomicU64,
    produced: AtomicU64,
    lost: AtomicU64,
}

impl Frames {
    /// Listens on a port of its own, hands on to `to` of 127.0.0.1, and gives the port; ends with the process.
    pub(crate) fn start(&self, to: u16) -> Result<u16> {
        let port = ports::take()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("the frame proxy cannot listen on port {port}"))?;
        let frames = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let frames = frames.clone();
                thread::spawn(move || drop(frames.connect(&client, to)));
            }
        });
        Ok(port)
    }

    /// Requests so far, by API key.
    pub fn counts(&self) -> BTreeMap<i16, u64> {
        self.inner.counts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests of one kind so far.
    pub fn count(&self, api_key: i16) -> u64 {
        self.counts().get(&api_key).copied().unwrap_or(0)
    }

    /// From now on one of `nth` answers to Produce is lost, with its connection; 0 for none.
    pub fn lose_produce_answers(&self, nth: u64) {
        self.inner.lose_every.store(nth, Ordering::Relaxed);
    }

    /// Answers that were lost.
    pub fn lost(&self) -> u64 {
        self.inner.lost.load(Ordering::Relaxed)
    }

    fn connect(&self, client: &TcpStream, to: u16) -> Result<()> {
        let broker = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
        let broker = TcpStream::connect_timeout(&broker, CONNECT_WAIT)?;
        for socket in [client, &broker] {
            socket.set_nodelay(true)?;
        }
        // Correlation ids of the answers to lose.
        let doomed: Arc<Mutex<Vec<i32>>> = Arc::default();
        let (frames, of_requests) = (self.clone(), Arc::clone(&doomed));
        let (from, onto) = (client.try_clone()?, broker.try_clone()?);
        thread::spawn(move || frames.requests(from, onto, &of_requests));
        let (frames, from, onto) = (self.clone(), broker, client.try_clone()?);
        thread::spawn(move || frames.answers(from, onto, &doomed));
        Ok(())
    }

    fn requests(&self, mut from: TcpStream, mut onto: TcpStream, doomed: &Mutex<Vec<i32>>) {
        while let Ok(frame) = read_frame(&mut from) {
            if let [_, _, _, _, a, b, _, _, c, d, e, f, ..] = frame[..] {
                let (api_key, correlation) =
                    (i16::from_be_bytes([a, b]), i32::from_be_bytes([c, d, e, f]));
                let mut counts = self.inner.counts.lock().unwrap_or_else(PoisonError::into_inner);
                *counts.entry(api_key).or_default() += 1;
                let every = self.inner.lose_every.load(Ordering::Relaxed);
                if api_key == PRODUCE && every > 0 {
                    let produced = self.inner.produced.fetch_add(1, Ordering::Relaxed) + 1;
                    // Scattered: with every `nth` exactly, a client that sends as many again meets
                    // the same fate at the same place for ever.
                    if produced.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < (1 << 32) / every {
                        doomed.lock().unwrap_or_else(PoisonError::into_inner).push(correlation);
                    }
                }
            }
            if onto.write_all(&frame).is_err() {
                break;
            }
        }
        drop(onto.shutdown(Shutdown::Both));
        drop(from.shutdown(Shutdown::Both));
    }

    fn answers(&self, mut from: TcpStream, mut onto: TcpStream, doomed: &Mutex<Vec<i32>>) {
        while let Ok(frame) = read_frame(&mut from) {
            if let [_, _, _, _, a, b, c, d, ..] = frame[..] {
                let correlation = i32::from_be_bytes([a, b, c, d]);
                let doomed = doomed.lock().unwrap_or_else(PoisonError::into_inner);
                if doomed.contains(&correlation) {
                    self.inner.lost.fetch_add(1, Ordering::Relaxed);
                    break;
                }
            }
            if onto.write_all(&frame).is_err() {
                break;
            }
        }
        drop(onto.shutdown(Shutdown::Both));
        drop(from.shutdown(Shutdown::Both));
    }
}

/// One frame with its length.
fn read_frame(from: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    from.read_exact(&mut frame)?;
    let length = [frame[0], frame[1], frame[2], frame[3]];
    let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME_MAX {
        return Err(std::io::Error::other("no frame of Kafka's protocol"));
    }
    frame.resize(4 + length, 0);
    from.read_exact(&mut frame[4..])?;
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A broker that answers every frame with its correlation id; gives its port.
    fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    while let Ok(frame) = read_frame(&mut stream) {
                        let answer = [&[0, 0, 0, 4][..], &frame[8..12]].concat();
                        stream.write_all(&answer).unwrap();
                    }
                });
            }
        });
        port
    }

    fn request(stream: &mut TcpStream, api_key: i16, correlation: i32) -> std::io::Result<Vec<u8>> {
        let body = [&api_key.to_be_bytes()[..], &[0, 9], &correlation.to_be_bytes()].concat();
        stream.write_all(&[&8_i32.to_be_bytes()[..], &body].concat())?;
        read_frame(stream)
    }

    #[test]
    fn requests_are_counted_by_kind_and_a_lost_answer_takes_its_connection_along() {
        let frames = Frames::default();
        let port = frames.start(echo()).unwrap();
        let dial = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let mut stream = dial();
        assert_eq!(request(&mut stream, FETCH, 7).unwrap()[4..], 7_i32.to_be_bytes());
        assert!(request(&mut stream, PRODUCE, 8).is_ok());

        frames.lose_produce_answers(1);
        assert!(request(&mut stream, PRODUCE, 9).is_err(), "each answer is lost");
        assert!(request(&mut stream, FETCH, 10).is_err(), "and so is the connection");
        assert!(request(&mut dial(), FETCH, 11).is_ok());
        assert_eq!(frames.counts(), BTreeMap::from([(PRODUCE, 2), (FETCH, 2)]));
        assert_eq!((frames.count(FETCH), frames.lost()), (2, 1));

        frames.lose_produce_answers(5);
        let lost = (0..500).filter(|number| request(&mut dial(), PRODUCE, *number).is_err());
        assert!((50..150).contains(&lost.count()));
    }
}
