//! One connection: a task that drives a [`Session`] over a stream.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::clock::Clock;
use super::dial::{DialError, Dialer, Endpoint, dial};
use super::frame_budget::{Admission, FrameBudget};
use crate::wire::{
    Api, FRAME_BYTES_MAX, Fate, FrameError, Handshake, HandshakeError, HandshakeStep, OutFrame,
    PeerFault, Session, UNTRUSTED_FRAME_BYTES_MAX, Versions, frame_length, message,
};

/// Requests that may wait to be written on one connection.
///
/// A lane's owner keeps at most five in flight; control lanes serve a few rounds at once.
const QUEUED_MAX: usize = 64;

/// Slices given to one write; Linux takes 1024 (`IOV_MAX`), and 64 already hold megabytes.
const SLICES_MAX: usize = 64;

/// Why a connection cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No socket.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// It speaks something else.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It closed the connection instead of answering.
    #[error(
        "it closed the connection before its first answer; this is how a listener behaves that \
         expects TLS or SASL, or that is no Kafka broker"
    )]
    ClosedEarly,
    /// The socket broke while the first words were exchanged.
    #[error("the connection broke before its first answer: {0}")]
    Broken(io::Error),
    /// It took the connection and said nothing.
    #[error("it took the connection but did not answer within {0:?}")]
    Silent(Duration),
    /// Its first answer made no sense, or was a refusal.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// Why a request got no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{cause}")]
pub struct ConnectionFault {
    /// Whether it may have been carried out.
    pub fate: Fate,
    /// What happened to the connection.
    pub cause: FaultCause,
}

/// What ended a connection.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FaultCause {
    /// The broker closed it, or it broke.
    #[error("the connection was lost ({0})")]
    Closed(String),
    /// The broker did what a correct one does not.
    #[error(transparent)]
    Peer(#[from] PeerFault),
    /// The next frame cannot be one.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Too many requests wait already.
    #[error("{QUEUED_MAX} requests wait on this connection already")]
    Busy,
}

/// An answer's body, behind the response header.
pub type Answer = Result<Bytes, ConnectionFault>;

/// An answer that will come.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<Answer>);

impl Future for Pending {
    type Output = Answer;

    /// Cancel-safe: dropping it leaves the request in flight and its answer unread.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let answer = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(answer.unwrap_or_else(|_| {
            // The driver ended without a word, which happens when the process shuts down.
            let cause = FaultCause::Closed("it was shut down".into());
            Err(ConnectionFault { fate: Fate::Unknown, cause })
        }))
    }
}

struct Outgoing {
    frame: OutFrame,
    patience: Duration,
    reply: oneshot::Sender<Answer>,
}

/// A ready connection to one broker. Dropping the last handle closes it after the last answer.
#[derive(Clone, Debug)]
pub struct Connection {
    queue: mpsc::Sender<Outgoing>,
    versions: Arc<Versions>,
    round_trip: Duration,
}

impl Connection {
    /// Dials, learns the broker's versions, and hands the stream to a driver task on `tracker`.
    ///
    /// With a `budget` response bodies are read only when it admits them.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; `patience` bounds each step.
    pub async fn open(
        dialer: &Dialer,
        endpoint: &Endpoint,
        client_id: &str,
        patience: Duration,
        budget: Option<FrameBudget>,
        clock: Clock,
        tracker: &TaskTracker,
    ) -> Result<Self, ConnectError> {
        let mut stream = dial(dialer, endpoint, patience).await?;
        let begun = clock.now();
        let versions = timeout(patience, introduce(&mut stream, client_id))
            .await
            .map_err(|_| ConnectError::Silent(patience))??;
        let round_trip = clock.now().since(begun);
        let (queue, requests) = mpsc::channel(QUEUED_MAX);
        let driver = Driver {
            session: Mutex::default(),
            sent: Notify::new(),
            drained: Notify::new(),
            clock,
            budget,
        };
        tracker.spawn(driver.run(stream, requests));
        Ok(Self { queue, versions: Arc::new(versions), round_trip })
    }

    /// The versions that this broker and we have in common.
    #[must_use]
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// How long the first words took, when nothing else was under way: the way there and back, and
    /// what the broker needed for an answer that needs no work.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Queues a request; requests of one connection are written, and answered, in this order.
    /// `patience` is how long its answer may take once it is written.
    #[must_use]
    pub fn send(&self, frame: OutFrame, patience: Duration) -> Pending {
        let (reply, answer) = oneshot::channel();
        if let Err(refused) = self.queue.try_send(Outgoing { frame, patience, reply }) {
            let (cause, outgoing) = match refused {
                mpsc::error::TrySendError::Full(outgoing) => (FaultCause::Busy, outgoing),
                mpsc::error::TrySendError::Closed(outgoing) => {
                    (FaultCause::Closed("it had ended before".into()), outgoing)
                }
            };
            drop(outgoing.reply.send(Err(ConnectionFault { fate: Fate::Unsent, cause })));
        }
        Pending(answer)
    }
}

/// Exchanges the first words.
async fn introduce<S>(stream: &mut S, client_id: &str) -> Result<Versions, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => ConnectError::ClosedEarly,
        _ => ConnectError::Broken(error),
    };
    let (mut handshake, mut next) = Handshake::new(client_id);
    loop {
        stream.write_all(&next.to_vec()).await.map_err(broken)?;
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).await.map_err(broken)?;
        let length = frame_length(prefix, UNTRUSTED_FRAME_BYTES_MAX)?;
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await.map_err(broken)?;
        let body = message::split_header(Api::ApiVersions, 0, &Bytes::from(answer))
            .map_err(HandshakeError::from)?;
        match handshake.on_answer(&body)? {
            HandshakeStep::Send(frame) => next = frame,
            HandshakeStep::Ready(versions) => return Ok(versions),
        }
    }
}

/// The task behind a connection.
///
/// Three loops share the session inside one task: one writes, one reads, one watches the
/// deadlines. The first to end ends the connection, and every request without an answer learns
/// its fate.
struct Driver {
    session: Mutex<Session<oneshot::Sender<Answer>>>,
    /// Wakes the deadline loop when the first request of a quiet connection goes out.
    sent: Notify,
    /// Wakes the write loop, once no handle is left, when the last answer is there.
    drained: Notify,
    clock: Clock,
    budget: Option<FrameBudget>,
}

impl Driver {
    fn session(&self) -> MutexGuard<'_, Session<oneshot::Sender<Answer>>> {
        // Never held across an await; a panic while it was held ends the process anyway.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run<S>(self, stream: S, mut requests: mpsc::Receiver<Outgoing>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (reader, writer) = tokio::io::split(stream);
        // None of the three is resumed after another has ended, so none needs cancel safety.
        let cause = tokio::select! {
            biased;
            cause = self.read(reader) => cause,
            cause = self.write(writer, &mut requests) => cause,
            cause = self.watch() => cause,
        };
        requests.close();
        let fault = match &cause {
            FaultCause::Peer(fault) => fault.clone(),
            // The session wants a fault of the peer's; who waits is told the real cause below.
            _ => PeerFault::Unsolicited(-1),
        };
        let waiting: VecDeque<_> = self.session().close(fault).collect();
        for ticket in waiting {
            let fault = ConnectionFault { fate: Fate::Unknown, cause: cause.clone() };
            drop(ticket.waiter.send(Err(fault)));
        }
        while let Some(outgoing) = requests.recv().await {
            let fault = ConnectionFault { fate: Fate::Unsent, cause: cause.clone() };
            drop(outgoing.reply.send(Err(fault)));
        }
    }

    async fn write(
        &self,
        mut writer: impl AsyncWrite + Unpin,
        requests: &mut mpsc::Receiver<Outgoing>,
    ) -> FaultCause {
        while let Some(Outgoing { mut frame, patience, reply }) = requests.recv().await {
            let sent = {
                let mut session = self.session();
                let what = (frame.api, frame.version);
                session.send(what, reply, self.clock.now(), patience)
            };
            let correlation = match sent {
                Ok(correlation) => correlation,
                Err((reply, fault)) => {
                    let cause = FaultCause::from(fault);
                    let fault = ConnectionFault { fate: Fate::Unsent, cause: cause.clone() };
                    drop(reply.send(Err(fault)));
                    return cause;
                }
            };
            frame.set_correlation(correlation);
            self.sent.notify_one();
            if let Err(error) = write_frame(&mut writer, &frame).await {
                return FaultCause::Closed(error.to_string());
            }
        }
        // No handle is left: wait for the last answers, then hang up.
        while self.session().in_flight() > 0 {
            self.drained.notified().await;
        }
        FaultCause::Closed("it is not needed any more".into())
    }

    async fn read(&self, mut reader: impl AsyncRead + Unpin) -> FaultCause {
        loop {
            let frame = match self.read_frame(&mut reader).await {
                Ok(frame) => frame,
                Err(cause) => return cause,
            };
            let correlation = i32::from_be_bytes(*frame.first_chunk().expect("length is >= 4"));
            let (ticket, idle) = {
                let mut session = self.session();
                match session.on_answer(correlation) {
                    Ok(ticket) => (ticket, session.in_flight() == 0),
                    Err(fault) => return fault.into(),
                }
            };
            if idle {
                self.drained.notify_one();
            }
            match message::split_header(ticket.api, ticket.version, &frame) {
                Ok(body) => drop(ticket.waiter.send(Ok(body))),
                Err(short) => {
                    let cause = FaultCause::Peer(PeerFault::Short(short));
                    let fault = ConnectionFault { fate: Fate::Unknown, cause: cause.clone() };
                    drop(ticket.waiter.send(Err(fault)));
                    return cause;
                }
            }
        }
    }

    async fn read_frame(&self, reader: &mut (impl AsyncRead + Unpin)) -> Result<Bytes, FaultCause> {
        let closed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => FaultCause::Closed("closed by the broker".into()),
            _ => FaultCause::Closed(error.to_string()),
        };
        let mut prefix = [0; 4];
        reader.read_exact(&mut prefix).await.map_err(closed)?;
        let length = frame_length(prefix, FRAME_BYTES_MAX)?;
        let mut admission = match &self.budget {
            Some(budget) => budget.admit(length).await,
            None => Admission::free(length),
        };
        while admission.buffer.len() < length {
            let missing = length - admission.buffer.len();
            let read = reader.read_buf(&mut (&mut admission.buffer).limit(missing)).await;
            if read.map_err(closed)? == 0 {
                return Err(FaultCause::Closed("closed by the broker inside an answer".into()));
            }
        }
        Ok(admission.seal())
    }

    async fn watch(&self) -> FaultCause {
        loop {
            let next = self.session().next_deadline();
            match next {
                None => self.sent.notified().await,
                Some(deadline) => {
                    self.clock.sleep_until(deadline).await;
                    let fault = self.session().on_deadline(self.clock.now());
                    if let Some(fault) = fault {
                        return fault.into();
                    }
                }
            }
        }
    }
}

/// Writes a frame segment by segment, without gluing them together.
async fn write_frame(writer: &mut (impl AsyncWrite + Unpin), frame: &OutFrame) -> io::Result<()> {
    let total = frame.total_bytes();
    let mut written = 0;
    while written < total {
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(SLICES_MAX);
        frame.slices(written, SLICES_MAX, &mut slices);
        match writer.write_vectored(&slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => written += n,
        }
    }
    writer.flush().await
}
