//! One connection: a task that drives a [`Session`] over a stream.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::access::{Access, LoginError};
use super::clock::Clock;
use super::dial::{DialError, Endpoint, Stream, dial};
use super::first_words::{self, FirstWords};
use super::frame_budget::{Admission, FrameBudget};
use super::inflow::{Half, Inflow, Watermark};
use super::tls::{TlsError, explain, tls_error};
use crate::model::Moment;
use crate::wire::{
    AuthError, AuthStep, FRAME_BYTES_MAX, Fate, FrameError, HandshakeError, Malformed, OutFrame,
    PeerFault, Session, Versions, frame_length, message,
};

/// Requests that may wait to be written on one connection.
///
/// A lane's owner keeps at most five in flight; control lanes serve a few rounds at once.
const QUEUED_MAX: usize = 64;

/// Slices given to one write; Linux takes 1024 (`IOV_MAX`), and 64 already hold megabytes.
const SLICES_MAX: usize = 64;

/// How long each answer may take when a session is renewed in mid-flow: it waits behind the answers
/// to all requests before it, as long as those may (`request.timeout.ms` by default).
const RENEWAL_PATIENCE: Duration = Duration::from_secs(30);

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
         expects TLS or SASL, or that is no Kafka broker. Look at `security.protocol`"
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
    /// No TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// No login.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// A login was refused a moment ago, and the next one must wait.
    #[error("{why} (the next login is tried in {} s)", wait.as_secs() + 1)]
    Held {
        /// For how long.
        wait: Duration,
        /// The last refusal.
        why: String,
    },
}

impl From<AuthError> for ConnectError {
    fn from(error: AuthError) -> Self {
        Self::Login(error.into())
    }
}

impl From<Malformed> for ConnectError {
    fn from(error: Malformed) -> Self {
        Self::Handshake(error.into())
    }
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
    /// The session could not be renewed.
    #[error("the session was not renewed: {0}")]
    Login(#[from] LoginError),
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
    /// Dials, shakes hands, logs in, and hands the stream to a driver task on `tracker`.
    ///
    /// With a `budget` response bodies are read only when it admits them.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; the access' patience bounds each step.
    pub(super) async fn open(
        access: &Arc<Access>,
        endpoint: &Endpoint,
        budget: Option<FrameBudget>,
        clock: Clock,
        tracker: &TaskTracker,
    ) -> Result<Self, ConnectError> {
        let patience = access.patience;
        access.prepare(clock).await?;
        let leave =
            access.ask_leave(clock).map_err(|(wait, why)| ConnectError::Held { wait, why })?;
        let mut stream = match (dial(&access.dialer, endpoint, patience).await?, &access.tls) {
            (Stream::Tcp(stream), Some(tls)) => {
                Stream::Tls(tls.wrap(stream, &endpoint.host, patience, clock).await?)
            }
            (Stream::Memory(_), Some(_)) => {
                return Err(TlsError::SetUp("a stream in memory has none".into()).into());
            }
            (stream, _) => stream,
        };
        let FirstWords { versions, round_trip, renewal } =
            first_words::exchange(&mut stream, access, leave, clock).await?;
        let versions = Arc::new(versions);
        let (queue, requests) = mpsc::channel(QUEUED_MAX);
        let driver = Driver {
            session: Mutex::default(),
            sent: Notify::new(),
            drained: Notify::new(),
            clock,
            budget,
            access: Arc::clone(access),
            versions: Arc::clone(&versions),
        };
        match stream {
            // The two halves of a socket need no lock between them.
            Stream::Tcp(stream) => {
                tracker.spawn(driver.run(stream.into_split(), requests, renewal));
            }
            stream => {
                let mark = stream.mark();
                let (reader, writer) = tokio::io::split(stream);
                let halves = (Half::new(reader, mark), writer);
                tracker.spawn(driver.run(halves, requests, renewal));
            }
        }
        Ok(Self { queue, versions, round_trip })
    }

    /// The versions that this broker and we have in common.
    #[must_use]
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The way there and back, and what the broker needed for an answer that needs no work, when
    /// nothing else was under way.
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
    access: Arc<Access>,
    versions: Arc<Versions>,
}

impl Driver {
    fn session(&self) -> MutexGuard<'_, Session<oneshot::Sender<Answer>>> {
        // Never held across an await; a panic while it was held ends the process anyway.
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run<R, W>(
        self,
        (reader, writer): (R, W),
        mut requests: mpsc::Receiver<Outgoing>,
        renewal: Option<Moment>,
    ) where
        R: AsyncRead + Watermark + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        // None of the three is resumed after another has ended, so none needs cancel safety.
        let cause = tokio::select! {
            biased;
            cause = self.read(reader) => cause,
            cause = self.write(writer, &mut requests, renewal) => cause,
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
        mut renewal: Option<Moment>,
    ) -> FaultCause {
        loop {
            let next = match renewal {
                None => requests.recv().await,
                // Both arms are cancel-safe: a request stays in the queue, a moment stays.
                Some(at) => tokio::select! {
                    biased;
                    () = self.clock.sleep_until(at) => {
                        match self.renew(&mut writer).await {
                            Ok(next) => renewal = next,
                            Err(cause) => return cause,
                        }
                        continue;
                    }
                    next = requests.recv() => next,
                },
            };
            let Some(outgoing) = next else { break };
            if let Err(cause) = self.write_one(&mut writer, outgoing).await {
                return cause;
            }
        }
        // No handle is left: wait for the last answers, then hang up.
        while self.session().in_flight() > 0 {
            self.drained.notified().await;
        }
        FaultCause::Closed("it is not needed any more".into())
    }

    async fn write_one(
        &self,
        writer: &mut (impl AsyncWrite + Unpin),
        Outgoing { mut frame, patience, reply }: Outgoing,
    ) -> Result<(), FaultCause> {
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
                return Err(cause);
            }
        };
        frame.set_correlation(correlation);
        self.sent.notify_one();
        write_frame(writer, &frame)
            .await
            .map_err(|error| FaultCause::Closed(self.closing_words(&error)))
    }

    /// Logs in again on the same connection (KIP-368), behind the requests that are in flight;
    /// those that come meanwhile wait in the queue. When to do it the next time.
    async fn renew(
        &self,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<Option<Moment>, FaultCause> {
        let begun = self.clock.now();
        let login = self.access.log_in(&self.versions, self.clock)?;
        let Some((mut authentication, mut frame)) = login else { return Ok(None) };
        loop {
            let (reply, answer) = oneshot::channel();
            let outgoing = Outgoing { frame, patience: RENEWAL_PATIENCE, reply };
            self.write_one(writer, outgoing).await?;
            // The read loop runs beside this one and answers.
            let body = match answer.await {
                Ok(Ok(body)) => body,
                Ok(Err(fault)) => return Err(fault.cause),
                Err(_) => return Err(FaultCause::Closed("it was shut down".into())),
            };
            match authentication.on_answer(&body).map_err(LoginError::from)? {
                AuthStep::Send(next) => frame = next,
                AuthStep::Done(lifetime) => {
                    let took = self.clock.now().since(begun);
                    tracing::debug!(
                        lifetime_ms = lifetime,
                        took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                        "session renewed"
                    );
                    return Ok(Access::renewal(lifetime, self.clock));
                }
            }
        }
    }

    /// What an error of the stream means.
    fn closing_words(&self, error: &io::Error) -> String {
        match (tls_error(error), error.kind()) {
            (Some(tls), _) => explain(tls, None),
            (None, io::ErrorKind::UnexpectedEof) => "closed by the broker".into(),
            (None, _) => error.to_string(),
        }
    }

    async fn read(&self, reader: impl AsyncRead + Watermark + Unpin) -> FaultCause {
        let mut answered = false;
        let mut inflow = Inflow::new(reader);
        loop {
            let frame = match self.read_frame(&mut inflow).await {
                Ok(frame) => frame,
                // ApiVersions is answered before a login; the first real request is not.
                Err(FaultCause::Closed(why))
                    if !answered
                        && self.access.sasl.is_none()
                        && self.session().in_flight() > 0 =>
                {
                    return FaultCause::Closed(format!(
                        "{why} instead of a first answer; a listener does that which expects SASL, \
                         so look at `security.protocol`"
                    ));
                }
                Err(cause) => return cause,
            };
            answered = true;
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

    async fn read_frame(
        &self,
        inflow: &mut Inflow<impl AsyncRead + Watermark + Unpin>,
    ) -> Result<Bytes, FaultCause> {
        let closed = |error: io::Error| FaultCause::Closed(self.closing_words(&error));
        let length = frame_length(inflow.prefix().await.map_err(closed)?, FRAME_BYTES_MAX)?;
        let mut admission = match &self.budget {
            Some(budget) => budget.admit(length).await,
            None => Admission::free(length),
        };
        inflow.fill(&mut admission.buffer, length).await.map_err(closed)?;
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
