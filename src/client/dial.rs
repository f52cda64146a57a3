//! The one place where a socket is opened.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::low_water::Mark;
use super::tls::Socket;

/// A broker's address as written in the properties file or advertised by the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Name or address, IPv6 without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Why no socket could be opened.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The name has no address.
    #[error("the name {0:?} cannot be resolved: {1}")]
    Resolve(String, io::Error),
    /// Every address refused or did not answer.
    #[error("{}", attempts(.0))]
    Connect(Vec<(SocketAddr, io::Error)>),
    /// Whoever listens in memory refused.
    #[error("{}: {}", .0, plain(.1))]
    Memory(Endpoint, io::Error),
}

/// How a cluster's streams are opened.
#[derive(Clone, Default)]
pub enum Dialer {
    /// Sockets.
    #[default]
    Tcp,
    /// Whoever this calls, in this process: a broker in a test.
    Memory(Arc<Connect>),
}

/// Answers a call in memory with this side's end of a stream.
pub type Connect = dyn Fn(&Endpoint) -> io::Result<DuplexStream> + Send + Sync;

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "Tcp",
            Self::Memory(_) => "Memory",
        })
    }
}

/// What was opened. An enum and not a box: the way to a socket stays direct.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Memory(DuplexStream),
    /// Boxed: its state is large, and its work hides one step more.
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    /// Where a reader of what TLS gives leaves its wishes.
    pub(super) fn mark(&self) -> Option<Mark> {
        match self {
            Self::Tls(stream) => Some(stream.get_ref().0.reader().get_ref().mark()),
            Self::Tcp(_) | Self::Memory(_) => None,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Memory(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Memory(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Memory(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Memory(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Memory(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Memory(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}

fn attempts(tried: &[(SocketAddr, io::Error)]) -> String {
    let each: Vec<String> =
        tried.iter().map(|(address, error)| format!("{address}: {}", plain(error))).collect();
    each.join("; ")
}

/// The error without the operating system's number behind it.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::TimedOut => "no answer".into(),
        _ => error.to_string(),
    }
}

/// Opens a connection, trying every address of the name in turn (as `use_all_dns_ips`).
///
/// The name is resolved anew each time: brokers move. `patience` is for each address.
///
/// # Errors
///
/// [`DialError`] with what each address said.
pub(super) async fn dial(
    dialer: &Dialer,
    endpoint: &Endpoint,
    patience: Duration,
) -> Result<Stream, DialError> {
    match dialer {
        Dialer::Tcp => Ok(Stream::Tcp(dial_tcp(endpoint, patience).await?)),
        Dialer::Memory(connect) => match connect(endpoint) {
            Ok(stream) => Ok(Stream::Memory(stream)),
            Err(error) => Err(DialError::Memory(endpoint.clone(), error)),
        },
    }
}

async fn dial_tcp(endpoint: &Endpoint, patience: Duration) -> Result<TcpStream, DialError> {
    let resolve_error = |error| DialError::Resolve(endpoint.host.clone(), error);
    let lookup = tokio::net::lookup_host((endpoint.host.as_str(), endpoint.port));
    let addresses = match timeout(patience, lookup).await {
        Ok(found) => found.map_err(resolve_error)?,
        Err(_) => return Err(resolve_error(io::ErrorKind::TimedOut.into())),
    };
    let mut tried = Vec::new();
    for address in addresses {
        #[expect(clippy::disallowed_methods, reason = "this is the place that may open one")]
        let attempt = timeout(patience, TcpStream::connect(address)).await;
        match attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                // Requests are written whole; waiting to fill a segment only adds delay.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Err(error) => tried.push((address, error)),
        }
    }
    if tried.is_empty() {
        return Err(resolve_error(io::Error::other("it has no address")));
    }
    Err(DialError::Connect(tried))
}
