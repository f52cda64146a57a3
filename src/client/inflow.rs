//! What comes in on a connection: frames, read with as few wake-ups as their sizes allow.
//!
//! A broker sends an answer of megabytes in pieces of 64 KiB, as it reads them from its log. Woken
//! for each piece, a process that moves a gigabyte sleeps and wakes tens of thousands of times,
//! and that costs it more than moving the bytes. So a socket is told how much is still missing
//! (`SO_RCVLOWAT`), and wakes its reader when that is there, or as much as is worth a wake-up.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf, ReadHalf};
use tokio::net::tcp::OwnedReadHalf;

use super::dial::Stream;
use super::low_water::{self, Mark};

/// Bytes read ahead of what is asked for: a small answer comes whole with its length, in one call.
/// What is read ahead of a large answer is copied once more, so it is little.
const AHEAD: usize = 512;

/// Missing bytes from which on a reader wants not to be woken for less.
///
/// One segment of the loopback device, the most that comes at a time there.
const WORTH_WAITING: usize = 64 * 1024;

/// Bytes that are always worth a wake-up.
///
/// A socket takes at most half of its largest buffer (`tcp_rmem`, 6 MiB as Linux comes) as low
/// water mark. Copying one partition of 1 KiB records, a process was put to sleep 10,600 times
/// per GiB without a mark, 8,700 times with one of 256 KiB, 6,800 times with this one.
const ALWAYS_WORTH: usize = 1024 * 1024;

/// A stream that can be told how many bytes are worth waking up for.
pub(super) trait Watermark {
    /// Wakes its reader once `bytes` are there, or the stream has ended. More than what is to
    /// come would be waiting for ever.
    fn wake_at(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

impl Watermark for OwnedReadHalf {
    fn wake_at(&mut self, bytes: usize) {
        low_water::set(self.as_ref(), bytes);
    }
}

/// The reading half of any other stream. One in memory has no mark, and wakes for every write.
#[derive(Debug)]
pub(super) struct Half {
    stream: ReadHalf<Stream>,
    /// Of the socket under TLS.
    mark: Option<Mark>,
}

/// Bytes that may lie in front of the decoder of TLS and in it when nothing more can be had from
/// it: less than one record, which holds 16 KiB at most (RFC 8446, 5.1).
const UNDECODED_MAX: usize = 16 * 1024;

impl Half {
    pub(super) const fn new(stream: ReadHalf<Stream>, mark: Option<Mark>) -> Self {
        Self { stream, mark }
    }
}

impl Watermark for Half {
    /// Ciphertext is never shorter than what is in it, so of `bytes` that are missing at least so
    /// many have yet to come through the socket.
    fn wake_at(&mut self, bytes: usize) {
        if let Some(mark) = &self.mark {
            mark.wish(bytes.saturating_sub(UNDECODED_MAX));
        }
    }
}

impl AsyncRead for Half {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

/// Reads frames from a stream, a little ahead.
#[derive(Debug)]
pub(super) struct Inflow<R> {
    stream: R,
    ahead: Box<[u8; AHEAD]>,
    /// Of what was read ahead, what was not given away yet.
    from: usize,
    to: usize,
    wakes_at: usize,
}

impl<R: AsyncRead + Watermark + Unpin> Inflow<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, ahead: Box::new([0; AHEAD]), from: 0, to: 0, wakes_at: 1 }
    }

    /// The four bytes in front of a frame.
    ///
    /// # Errors
    ///
    /// The stream's, and `UnexpectedEof` if it has ended.
    pub(super) async fn prefix(&mut self) -> io::Result<[u8; 4]> {
        self.wake_at(1);
        loop {
            if let Some(prefix) = self.ahead[self.from..self.to].first_chunk() {
                let prefix = *prefix;
                self.from += prefix.len();
                return Ok(prefix);
            }
            self.ahead.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            let read = self.stream.read(&mut self.ahead[self.to..]).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.to += read;
        }
    }

    /// Fills `buffer` up to `length` bytes. Not cancel-safe.
    ///
    /// # Errors
    ///
    /// The stream's, and `ConnectionAborted` if it ends before.
    pub(super) async fn fill(&mut self, buffer: &mut Vec<u8>, length: usize) -> io::Result<()> {
        let known = (self.to - self.from).min(length - buffer.len());
        buffer.extend_from_slice(&self.ahead[self.from..self.from + known]);
        self.from += known;
        loop {
            let missing = length - buffer.len();
            if missing == 0 {
                return Ok(());
            }
            // Never more than is missing: what follows may depend on our next request.
            if missing >= WORTH_WAITING || self.wakes_at > 1 {
                self.wake_at(missing.min(ALWAYS_WORTH));
            }
            let room = &mut bytes::BufMut::limit(&mut *buffer, missing);
            if self.stream.read_buf(room).await? == 0 {
                let why = "closed by the broker inside an answer";
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, why));
            }
        }
    }

    fn wake_at(&mut self, bytes: usize) {
        if self.wakes_at != bytes {
            self.wakes_at = bytes;
            self.stream.wake_at(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::pieces::Pieces;

    fn frame(length: u32) -> Vec<u8> {
        let body = (0..length).map(|at| u8::try_from(at % 251).unwrap());
        length.to_be_bytes().into_iter().chain(body).collect()
    }

    #[tokio::test]
    async fn frames_come_out_as_they_went_in_however_they_were_cut() {
        let lengths = [4, 5, 511, 512, 513, 70_000, 4, 3_000_000, 9];
        let all: Vec<u8> = lengths.into_iter().flat_map(frame).collect();
        for cut in [1, 3, 4, 5, 512, 1000, 65_536, all.len()] {
            let mut inflow = Inflow::new(Pieces::of(&all, cut, true));
            for length in lengths {
                assert_eq!(inflow.prefix().await.unwrap(), length.to_be_bytes());
                let mut buffer = Vec::new();
                inflow.fill(&mut buffer, length as usize).await.unwrap();
                assert!(buffer == frame(length)[4..], "{length} in pieces of {cut}");
            }
            let end = inflow.prefix().await.unwrap_err();
            assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_more_than_is_missing() {
        let all = frame(3_000_000);
        let mut inflow = Inflow::new(Pieces::of(&all, 400_000, true));
        inflow.prefix().await.unwrap();
        inflow.fill(&mut Vec::with_capacity(3_000_000), 3_000_000).await.unwrap();
        assert_eq!(
            inflow.stream.marks,
            [ALWAYS_WORTH, 1_000_004, 600_004, 200_004],
            "as much as is worth it, then what is missing of the frame"
        );
        inflow.stream.pieces.push_back(frame(100));
        inflow.prefix().await.unwrap();
        assert_eq!(inflow.stream.marks.last(), Some(&1), "the next answer may be small");
        inflow.fill(&mut Vec::with_capacity(100), 100).await.unwrap();
        assert_eq!(inflow.stream.marks.last(), Some(&1), "a small one needs no mark");
    }

    #[tokio::test]
    async fn an_end_inside_a_frame_is_told_apart() {
        let mut inflow = Inflow::new(Pieces::of(&frame(100)[..50], 50, true));
        inflow.prefix().await.unwrap();
        let end = inflow.fill(&mut Vec::new(), 100).await.unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::ConnectionAborted);
    }
}
