//! How many bytes a socket waits for before it wakes its reader (`SO_RCVLOWAT`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

/// What the reader of a layer above wishes of a socket that it does not see.
///
/// Wish and socket are used by one task; the atomic is there because a socket moves with its task.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark(Arc<AtomicUsize>);

impl Mark {
    /// Wakes at `bytes`; 0 is as good as 1.
    pub(super) fn wish(&self, bytes: usize) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn wished(&self) -> usize {
        self.0.load(Ordering::Relaxed).max(1)
    }
}

/// A socket that is told what is wished of it when it begins to wait, and not for every read.
/// Bytes that are there and unread count.
#[derive(Debug)]
pub(super) struct Marked {
    stream: OwnedReadHalf,
    mark: Mark,
    set: usize,
}

impl Marked {
    pub(super) fn new(stream: OwnedReadHalf) -> Self {
        Self { stream, mark: Mark::default(), set: 1 }
    }

    /// Where its reader leaves its wishes.
    pub(super) fn mark(&self) -> Mark {
        self.mark.clone()
    }
}

impl AsyncRead for Marked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, into) {
            return Poll::Ready(read);
        }
        let wished = self.mark.wished();
        if self.set != wished {
            self.set = wished;
            // The kernel looks at what has come when the mark changes, so no wake-up is missed.
            set(self.stream.as_ref(), wished);
        }
        Poll::Pending
    }
}

/// Sets `SO_RCVLOWAT`. A system without it wakes its reader more often than needed.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no crate that we know has this option of a socket")]
pub(super) fn set(stream: &TcpStream, bytes: usize) {
    use std::os::fd::AsRawFd;

    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let size = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or_default();
    // SAFETY: the descriptor is open as long as `stream` is borrowed, and the kernel reads
    // `size` bytes from `value`, which lives until the call returns. It keeps neither.
    let _refused = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size,
        )
    };
}

/// Nothing to set here.
#[cfg(not(target_os = "linux"))]
pub(super) fn set(_: &TcpStream, _: usize) {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "what the kernel does with a socket is tested")]
    async fn a_reader_sleeps_until_its_wish_is_there_or_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        let (ours, _writer) = ours.into_split();
        let mut marked = Marked::new(ours);
        let mark = marked.mark();
        let mut buffer = vec![0; 100_000];
        let moment = Duration::from_millis(200);

        theirs.write_all(&[1; 10_000]).await.unwrap();
        assert_eq!(marked.read(&mut buffer).await.unwrap(), 10_000, "no wish: what is there");

        mark.wish(30_000);
        theirs.write_all(&[1; 10_000]).await.unwrap();
        let waiting = timeout(moment, marked.read(&mut buffer)).await;
        assert!(waiting.is_err(), "10,000 of 30,000 wake nobody");
        theirs.write_all(&[1; 20_000]).await.unwrap();
        let read = timeout(moment, marked.read(&mut buffer)).await.unwrap().unwrap();
        assert_eq!(read, 30_000, "all of it at once");

        assert!(timeout(moment, marked.read(&mut buffer)).await.is_err());
        theirs.write_all(&[1; 5_000]).await.unwrap();
        mark.wish(1);
        let read = timeout(moment, marked.read(&mut buffer)).await.unwrap().unwrap();
        assert_eq!(read, 5_000, "a smaller wish holds for what has come already");

        mark.wish(30_000);
        assert!(timeout(moment, marked.read(&mut buffer)).await.is_err());
        theirs.write_all(&[1; 5_000]).await.unwrap();
        drop(theirs);
        let mut left = Vec::new();
        let read = timeout(moment, marked.read_to_end(&mut left)).await.unwrap().unwrap();
        assert_eq!(read, 5_000, "the end wakes whatever was wished");
    }
}
