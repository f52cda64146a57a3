//! A stream for tests, whose bytes come in pieces of known sizes.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::inflow::Watermark;

/// Gives its pieces one by one, and keeps a socket's promise: no piece below the mark wakes.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) pieces: VecDeque<Vec<u8>>,
    /// Whether it has ended behind them, or has nothing for a while.
    ends: bool,
    /// Low-water marks that were set.
    pub(super) marks: Vec<usize>,
}

impl Pieces {
    /// `all` in pieces of `size`.
    pub(super) fn of(all: &[u8], size: usize, ends: bool) -> Self {
        Self { pieces: all.chunks(size).map(<[u8]>::to_vec).collect(), ends, marks: Vec::new() }
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ends = self.ends;
        let Some(piece) = self.pieces.front_mut() else {
            return if ends { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let given = piece.len().min(into.remaining());
        into.put_slice(&piece[..given]);
        piece.drain(..given);
        if piece.is_empty() {
            self.pieces.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

impl Watermark for Pieces {
    fn wake_at(&mut self, bytes: usize) {
        self.marks.push(bytes);
    }
}
