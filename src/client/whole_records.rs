//! What comes in under TLS, given to its decoder record by record.
//!
//! rustls decodes a record once all of it is there, and tidies its buffer after whatever it was
//! given, be it a record or a part of one: a part is then moved onto itself, which the C library
//! of the static build does byte by byte. And it lets go of its buffer whenever the last byte of
//! it is decoded. Given the whole record and the head of the next in one piece it does neither:
//! that was a seventh of the processor time of a copy under TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes read ahead: a few records, so that a call of the system brings some at a time.
const AHEAD_BYTES: usize = 64 * 1024;

/// In front of a record: its type, its version, its length (RFC 8446, 5.1).
const HEAD_BYTES: usize = 5;

/// The most that may follow the head (RFC 5246, 6.2.3; version 1.3 allows less).
const BODY_BYTES_MAX: usize = 16 * 1024 + 2048;

/// A stream of TLS records that gives them whole, as far as its reader has room.
#[derive(Debug)]
pub(super) struct WholeRecords<S> {
    stream: S,
    ahead: Box<[u8]>,
    /// Of what was read ahead, what was not given away yet.
    from: usize,
    to: usize,
    next: Next,
}

/// What is to be given next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A record, from its head on.
    Head,
    /// As much of a record, whose head was looked at.
    Rest(usize),
    /// What is no TLS, or has ended: as it comes. The decoder says what is wrong with it.
    Anything,
}

impl<S> WholeRecords<S> {
    pub(super) fn new(stream: S) -> Self {
        let ahead = vec![0; AHEAD_BYTES].into_boxed_slice();
        Self { stream, ahead, from: 0, to: 0, next: Next::Head }
    }

    pub(super) const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Bytes that may be given now, and what is to be given after them; none if a record is not
    /// yet whole.
    fn whole(&self) -> Option<(usize, Next)> {
        let known = &self.ahead[self.from..self.to];
        let (bytes, next) = match self.next {
            Next::Anything => (known.len(), Next::Anything),
            Next::Rest(rest) => (rest, Next::Head),
            Next::Head => {
                let head = known.first_chunk()?;
                match body_bytes(*head) {
                    Some(body) => (HEAD_BYTES + body, Next::Head),
                    None => (known.len(), Next::Anything),
                }
            }
        };
        let after = known.get(bytes..)?;
        match (next, after.first_chunk()) {
            (Next::Head, Some(head)) => match body_bytes(*head) {
                Some(body) => Some((bytes + HEAD_BYTES, Next::Rest(body))),
                None => Some((bytes, Next::Head)),
            },
            _ => (bytes > 0).then_some((bytes, next)),
        }
    }

    /// Gives the first `bytes`, or as many as fit.
    fn give(&mut self, (bytes, next): (usize, Next), into: &mut ReadBuf<'_>) {
        let given = bytes.min(into.remaining());
        into.put_slice(&self.ahead[self.from..self.from + given]);
        self.from += given;
        let left = bytes - given;
        self.next = match next {
            // The decoder has a buffer of one record; what does not fit comes with its next call.
            Next::Rest(body) => Next::Rest(left + body),
            Next::Head if left > 0 => Next::Rest(left),
            next => next,
        };
    }
}

/// Length of a record's body, if this is the head of one.
fn body_bytes([kind, major, _minor, high, low]: [u8; HEAD_BYTES]) -> Option<usize> {
    let length = usize::from(u16::from_be_bytes([high, low]));
    // Change of cipher, alert, handshake, application data.
    ((20..=23).contains(&kind) && major == 3 && length <= BODY_BYTES_MAX).then_some(length)
}

impl<S: AsyncRead + Unpin> AsyncRead for WholeRecords<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if let Some(whole) = this.whole() {
                this.give(whole, into);
                return Poll::Ready(Ok(()));
            }
            // Less than one record, which fits in many times.
            this.ahead.copy_within(this.from..this.to, 0);
            (this.from, this.to) = (0, this.to - this.from);
            let mut room = ReadBuf::new(&mut this.ahead[this.to..]);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut room))?;
            let read = room.filled().len();
            this.to += read;
            if read == 0 {
                // The end: what is left of a record is given, and then nothing, which says so.
                this.next = Next::Anything;
                if this.from == this.to {
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::client::pieces::Pieces;

    fn record(body: usize) -> Vec<u8> {
        let [high, low] = u16::try_from(body).unwrap().to_be_bytes();
        let filling = (0..body).map(|at| u8::try_from(at % 251).unwrap());
        [23, 3, 3, high, low].into_iter().chain(filling).collect()
    }

    fn reader(all: &[u8], cut: usize, ends: bool) -> WholeRecords<Pieces> {
        WholeRecords::new(Pieces::of(all, cut, ends))
    }

    /// What single reads give, each with `room`, until nothing comes.
    async fn pieces(reader: &mut WholeRecords<Pieces>, room: usize) -> Vec<Vec<u8>> {
        let mut given = Vec::new();
        let mut buffer = vec![0; room];
        loop {
            let read = tokio::select! {
                biased;
                read = reader.read(&mut buffer) => read.unwrap(),
                () = std::future::ready(()) => 0,
            };
            match read {
                0 => return given,
                read => given.push(buffer[..read].to_vec()),
            }
        }
    }

    fn lengths(pieces: &[Vec<u8>]) -> Vec<usize> {
        pieces.iter().map(Vec::len).collect()
    }

    #[tokio::test]
    async fn bytes_come_out_as_they_went_in_however_they_were_cut() {
        let bodies = [1, 0, 16_401, 3, BODY_BYTES_MAX, 16_401, 16_401, 100, BODY_BYTES_MAX];
        let all: Vec<u8> = bodies.into_iter().flat_map(record).collect();
        for cut in [1, 4, 5, 6, 1000, 16_406, AHEAD_BYTES, all.len()] {
            for room in [1, 3, 5, 4096, 18_437, 200_000] {
                let mut reader = reader(&all, cut, false);
                let given = pieces(&mut reader, room).await;
                assert!(given.concat() == all, "cut {cut}, room {room}");
            }
        }
    }

    #[tokio::test]
    async fn a_record_comes_whole_with_the_head_of_the_next() {
        let all: Vec<u8> = [100, 16_401, 50, 7].into_iter().flat_map(record).collect();
        for cut in [1, 7, 1000, 200_000] {
            let given = pieces(&mut reader(&all, cut, false), 18_437).await;
            // Cut in single bytes, no head is there when the record before it is whole.
            if cut == 1 {
                assert_eq!(lengths(&given), [105, 16_406, 55, 12]);
            } else if cut == 200_000 {
                assert_eq!(lengths(&given), [110, 16_406, 55, 7], "heads come early");
            }
            let starts: Vec<usize> = given
                .iter()
                .scan(0, |at, piece| {
                    *at += piece.len();
                    Some(*at)
                })
                .collect();
            for end in starts {
                let ends = [105, 16_511, 16_566, 16_578];
                assert!(ends.contains(&end) || ends.contains(&(end - 5)), "cut {cut}: {end}");
            }
        }
    }

    #[tokio::test]
    async fn a_part_of_a_record_waits_for_the_rest_and_is_given_at_the_end() {
        let all = record(1000);
        let given = pieces(&mut reader(&all[..900], 300, false), 18_437).await;
        assert!(given.is_empty(), "{:?}", lengths(&given));
        let given = pieces(&mut reader(&all[..900], 300, true), 18_437).await;
        assert!(given.concat() == all[..900], "a stream that breaks off shows what it had");
        let given = pieces(&mut reader(&all[..3], 300, true), 18_437).await;
        assert!(given.concat() == all[..3]);
    }

    #[tokio::test]
    async fn what_is_no_tls_is_given_as_it_comes() {
        for no_tls in [&b"HTTP/1.1 400 Bad Request\r\n"[..], &[23, 3, 3, 0xff, 0xff, 1], &[0; 9]] {
            let given = pieces(&mut reader(no_tls, 200_000, false), 18_437).await;
            assert_eq!(given, [no_tls.to_vec()]);
        }
        let mut late = record(10);
        late.extend(b"HTTP/1.1 400");
        let given = pieces(&mut reader(&late, 200_000, false), 18_437).await;
        assert_eq!(lengths(&given), [15, 12], "the record before it is not held up");
    }
}
