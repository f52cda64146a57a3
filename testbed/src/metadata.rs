//! One question to one broker: what brokers and topics does it know?
//!
//! Asked over a bare socket (Metadata version 1, which all versions of the test bed answer): no JVM, and no client
//! that remembers or asks another broker instead.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// For one question to a broker that may just be starting.
const ANSWER_WAIT: Duration = Duration::from_secs(2);

/// The answer for a thousand topics is some 100 KB.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a broker knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) brokers: usize,
    pub(crate) has_controller: bool,
    pub(crate) topics: BTreeSet<String>,
}

/// Asks the broker on this port of 127.0.0.1.
pub(crate) fn ask(port: u16) -> Result<Metadata> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut socket = TcpStream::connect_timeout(&address, ANSWER_WAIT)?;
    socket.set_read_timeout(Some(ANSWER_WAIT))?;
    socket.set_write_timeout(Some(ANSWER_WAIT))?;
    socket.write_all(&question())?;

    let mut length = [0_u8; 4];
    socket.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length))?;
    if length > ANSWER_BYTES_MAX {
        bail!("port {port} answers with {length} bytes: not a Kafka broker");
    }
    let mut body = vec![0_u8; length];
    socket.read_exact(&mut body)?;
    decode(&body)
}

fn question() -> Vec<u8> {
    const METADATA: i16 = 3;
    let mut request = Vec::new();
    request.extend(METADATA.to_be_bytes());
    request.extend(1_i16.to_be_bytes()); // version
    request.extend(1_i32.to_be_bytes()); // correlation id
    request.extend((-1_i16).to_be_bytes()); // client id: null
    request.extend((-1_i32).to_be_bytes()); // topics: null, which is all
    let length = [0, 0, 0, u8::try_from(request.len()).unwrap_or(u8::MAX)];
    [&length[..], &request].concat()
}

fn decode(body: &[u8]) -> Result<Metadata> {
    let mut answer = Answer { rest: body };
    answer.take(4)?; // correlation id

    let brokers = answer.count()?;
    for _ in 0..brokers {
        answer.take(4)?; // node id
        answer.string()?; // host
        answer.take(4)?; // port
        answer.string()?; // rack
    }
    let has_controller = answer.int()? != u32::MAX;

    let mut topics = BTreeSet::new();
    for _ in 0..answer.count()? {
        answer.take(2)?; // error code
        topics.insert(answer.string()?.unwrap_or_default());
        answer.take(1)?; // is internal
        for _ in 0..answer.count()? {
            answer.take(2 + 4 + 4)?; // error code, partition, leader
            for _nodes in ["replicas", "isr"] {
                let count = answer.count()?;
                answer.take(4 * count)?;
            }
        }
    }
    Ok(Metadata { brokers, has_controller, topics })
}

struct Answer<'a> {
    rest: &'a [u8],
}

impl<'a> Answer<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count).context("short metadata answer")?;
        self.rest = rest;
        Ok(head)
    }

    fn int(&mut self) -> Result<u32> {
        Ok(self.take(4)?.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)))
    }

    fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(self.int()?)?;
        if count > self.rest.len() {
            bail!("a metadata answer counts {count} things in {} bytes", self.rest.len());
        }
        Ok(count)
    }

    fn string(&mut self) -> Result<Option<String>> {
        let length = self.take(2)?.iter().fold(0_u16, |all, byte| all << 8 | u16::from(*byte));
        if length == u16::MAX {
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(self.take(usize::from(length))?).into_owned()))
    }
}
