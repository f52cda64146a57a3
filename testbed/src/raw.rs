//! Clients of bare frames: what one thread can at most read from a broker, or write to it.
//!
//! One node, one connection, fixed versions that all brokers of the bench answer, and no answer to any trouble but an
//! error. They are the yardstick of `bench`, not a client: Fetch 10 and Produce 7 because these are the lowest that
//! carry zstd.

use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use heliograph::batch::{BatchHeader, HEADER_BYTES, Oversize, RawBatch, amend, rebuild};
use heliograph::model::Offset;

/// For one answer of a broker that is busy, behind a delay.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

const FRAME_BYTES_MAX: usize = 1 << 30;

const FETCH_BYTES: i32 = 1 << 20;

/// A connection to the leader of everything that is asked for.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    frame: Vec<u8>,
}

/// What one Fetch answer held of one partition.
#[derive(Debug)]
pub struct Fetched<'a> {
    pub partition: usize,
    pub high_watermark: i64,
    pub records: &'a [u8],
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(i16::try_from(text.len()).unwrap_or(0).to_be_bytes());
    out.extend(text.as_bytes());
}

fn int(out: &mut Vec<u8>, value: i32) {
    out.extend(value.to_be_bytes());
}

fn count(of: usize) -> i32 {
    i32::try_from(of).unwrap_or(i32::MAX)
}

fn head(api: i16, version: i16) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend(api.to_be_bytes());
    out.extend(version.to_be_bytes());
    int(&mut out, 0);
    text(&mut out, "testbed-raw");
    out
}

impl RawClient {
    pub fn connect(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WAIT))?;
        Ok(Self { stream, frame: Vec::new() })
    }

    fn read_frame(&mut self) -> Result<&[u8]> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length))?;
        ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
        if self.frame.len() < length {
            self.frame.resize(length, 0);
        }
        self.stream.read_exact(&mut self.frame[..length])?;
        Ok(&self.frame[..length])
    }

    /// One Fetch of all partitions from `positions`, read uncommitted, and its answer.
    pub fn fetch(
        &mut self,
        topic: &str,
        positions: &[i64],
        show: impl FnMut(Fetched<'_>) -> Result<()>,
    ) -> Result<()> {
        let wanted: Vec<_> = positions.iter().copied().enumerate().collect();
        self.fetch_from(topic, &wanted, show)
    }

    /// The same of one partition.
    pub fn fetch_one(
        &mut self,
        topic: &str,
        partition: usize,
        position: i64,
        show: impl FnMut(Fetched<'_>) -> Result<()>,
    ) -> Result<()> {
        self.fetch_from(topic, &[(partition, position)], show)
    }

    fn fetch_from(
        &mut self,
        topic: &str,
        positions: &[(usize, i64)],
        mut show: impl FnMut(Fetched<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut request = head(1, 10);
        int(&mut request, -1); // replica
        int(&mut request, 500); // wait at most, ms
        int(&mut request, 1); // bytes at least
        int(&mut request, FETCH_BYTES.saturating_mul(count(positions.len())).min(64 << 20));
        request.push(0); // read uncommitted
        int(&mut request, 0); // session id and epoch: none
        int(&mut request, -1);
        int(&mut request, 1);
        text(&mut request, topic);
        int(&mut request, count(positions.len()));
        for (partition, position) in positions {
            int(&mut request, count(*partition));
            int(&mut request, -1); // leader epoch
            request.extend(position.to_be_bytes());
            request.extend((-1_i64).to_be_bytes()); // log start
            int(&mut request, FETCH_BYTES);
        }
        int(&mut request, 0); // forgotten topics
        let length = count(request.len() - 4);
        request[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&request)?;

        let mut answer = Answer { rest: self.read_frame()? };
        answer.take(4 + 4)?; // correlation id, throttle time
        answer.must_be_fine("Fetch")?;
        answer.take(4)?; // session id
        for _ in 0..answer.int()? {
            answer.text()?;
            for _ in 0..answer.int()? {
                let partition = usize::try_from(answer.int()?)?;
                answer.must_be_fine("Fetch of a partition")?;
                let high_watermark = answer.long()?;
                answer.take(8 + 8)?; // last stable offset, log start
                let aborted = usize::try_from(answer.int()?.max(0))?;
                answer.take(16 * aborted)?;
                let length = usize::try_from(answer.int()?.max(0))?;
                show(Fetched { partition, high_watermark, records: answer.take(length)? })?;
            }
        }
        Ok(())
    }

    /// Sends one Produce request with one batch for each partition named; acks from all.
    pub fn send_produce(&mut self, topic: &str, batches: &[(usize, &[u8])]) -> Result<()> {
        let mut start = head(0, 7);
        start.extend((-1_i16).to_be_bytes()); // no transaction
        start.extend((-1_i16).to_be_bytes());
        int(&mut start, 30_000);
        int(&mut start, 1);
        text(&mut start, topic);
        int(&mut start, count(batches.len()));
        let mut heads = Vec::with_capacity(batches.len());
        for (partition, batch) in batches {
            let mut head = [0; 8];
            head[..4].copy_from_slice(&count(*partition).to_be_bytes());
            head[4..].copy_from_slice(&count(batch.len()).to_be_bytes());
            heads.push(head);
        }
        let bytes: usize = batches.iter().map(|(_, batch)| batch.len() + 8).sum();
        let length = count(start.len() - 4 + bytes);
        start[..4].copy_from_slice(&length.to_be_bytes());

        let mut slices = vec![IoSlice::new(&start)];
        for (head, (_, batch)) in heads.iter().zip(batches) {
            slices.push(IoSlice::new(head));
            slices.push(IoSlice::new(batch));
        }
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            // No more slices in one call than the kernel takes.
            let upto = rest.len().min(1_024);
            let written = self.stream.write_vectored(&rest[..upto])?;
            ensure!(written > 0, "the broker takes no bytes");
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    /// Waits for the answer to the oldest Produce request without one.
    pub fn produce_answer(&mut self) -> Result<()> {
        let mut answer = Answer { rest: self.read_frame()? };
        answer.take(4)?; // correlation id
        for _ in 0..answer.int()? {
            answer.text()?;
            for _ in 0..answer.int()? {
                answer.take(4)?; // partition
                answer.must_be_fine("Produce")?;
                answer.take(8 + 8 + 8)?; // base offset, append time, log start
            }
        }
        Ok(())
    }
}

/// Headers of the batches that a partition's log holds from `from` on, as they are stored.
pub fn headers(
    address: &str,
    topic: &str,
    partition: usize,
    from: i64,
) -> Result<Vec<BatchHeader>> {
    let mut client = RawClient::connect(address)?;
    // Only one partition is asked for: the others would stand at an offset that may be gone.
    let (mut position, mut end, mut all) = (from, i64::MAX, Vec::new());
    while position < end {
        client.fetch_one(topic, partition, position, |fetched| {
            end = fetched.high_watermark;
            let next = walk(fetched.records, |batch| {
                all.extend(batch.first_chunk().map(BatchHeader::parse));
            });
            position = next.unwrap_or(end);
            Ok(())
        })?;
    }
    all.into_iter().map(|header| header.map_err(Into::into)).collect()
}

/// Offset behind the last whole batch of a record set, and how many bytes and records these are.
pub fn walk(records: &[u8], mut batch: impl FnMut(&[u8])) -> Option<i64> {
    let (mut rest, mut next) = (records, None);
    while let Some(header) = rest.first_chunk::<HEADER_BYTES>() {
        let field = |at: usize| {
            i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let length = usize::try_from(field(8)).unwrap_or(usize::MAX).saturating_add(12);
        if length > rest.len() || length < HEADER_BYTES {
            break;
        }
        let base = header.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes));
        next = Some(base + i64::from(field(23)) + 1);
        batch(&rest[..length]);
        rest = &rest[length..];
    }
    next
}

/// A fetched batch as a producer without an identity may send it: none if it holds no data, several if it was too
/// large. Aborted data is data here.
pub fn sendable(bytes: &[u8], out: &mut Vec<(i32, Vec<u8>)>) -> Result<()> {
    let batch = RawBatch::new(Bytes::copy_from_slice(bytes))?;
    let header = batch.header();
    if header.attributes.is_control() || header.count == 0 {
        return Ok(());
    }
    let (base, count, dense) =
        (header.base_offset, header.count, header.count == header.last_offset_delta + 1);
    if dense {
        out.push((count, anonymous(&batch)));
        return Ok(());
    }
    for piece in rebuild(&batch, Offset(base.0), 1 << 20, Oversize::Refuse)?.pieces {
        out.push((piece.batch.header().count, anonymous(&piece.batch)));
    }
    Ok(())
}

/// Base offset 0, no producer, no transaction, no times of the broker; the checksum goes with it.
fn anonymous(batch: &RawBatch) -> Vec<u8> {
    let mut bytes = batch.bytes().to_vec();
    let mut header = *batch.header_bytes();
    header[..8].fill(0);
    header[21] = 0;
    header[22] &= 0b111;
    header[43..57].fill(0xff);
    let crc = amend(batch.header().crc, batch.header_bytes(), &header, bytes.len() - HEADER_BYTES);
    header[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    bytes
}

struct Answer<'a> {
    rest: &'a [u8],
}

impl<'a> Answer<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count).context("short answer")?;
        self.rest = rest;
        Ok(head)
    }

    fn int(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into()?))
    }

    fn long(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take(8)?.try_into()?))
    }

    fn text(&mut self) -> Result<()> {
        let length = i16::from_be_bytes(self.take(2)?.try_into()?);
        self.take(usize::try_from(length)?).map(drop)
    }

    fn must_be_fine(&mut self, what: &str) -> Result<()> {
        let code = i16::from_be_bytes(self.take(2)?.try_into()?);
        if code != 0 {
            bail!("{what} is answered with error {code}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use heliograph::batch::{BatchBuilder, Codec, verify};
    use heliograph::model::Timestamp;

    use super::*;

    fn batch(base: i64) -> RawBatch {
        let mut builder = BatchBuilder::new(Codec::Lz4);
        for key in [b"a", b"b", b"c"] {
            builder.push(Timestamp(1_000), Some(key), Some(b"value"));
        }
        builder.finish(Offset(base)).unwrap()
    }

    #[test]
    fn a_walk_ends_before_a_batch_that_is_cut_off() {
        let mut set = [batch(5).bytes().as_ref(), batch(8).bytes()].concat();
        let mut seen = 0;
        assert_eq!(walk(&set, |_| seen += 1), Some(11));
        set.pop();
        assert_eq!(walk(&set, |_| seen += 1), Some(8));
        assert_eq!(seen, 3);
        assert_eq!(walk(&[], |_| {}), None);
    }

    #[test]
    fn what_may_be_sent_has_no_identity_and_a_right_checksum() {
        let mut out = Vec::new();
        sendable(batch(5).bytes(), &mut out).unwrap();
        let (records, bytes) = out.remove(0);
        let sent = RawBatch::new(bytes.into()).unwrap();
        assert_eq!(records, 3);
        assert_eq!((sent.header().base_offset, sent.header().producer_id), (Offset(0), -1));
        assert!(verify(&sent));
    }
}
