//! Connections: streams in memory, a line of requests each, and a worker that answers them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use heliograph::client::{Dialer, Endpoint};
use kafka_protocol::messages::ProduceRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answers::{self, Asked, api};
use super::faults::{Action, Arrived, Faults, NoFaults, Plan};
use super::fetch;
use super::release::Release;
use super::state::{Line, Node, Quirks, Seen, State};

/// Bytes that a stream holds in each direction: as much as a socket's buffers.
const SOCKET_BYTES: usize = 128 * 1024;

/// Largest request that is read (`socket.request.max.bytes`).
const REQUEST_BYTES_MAX: usize = 100 * 1024 * 1024;

/// First versions with a flexible header, by API.
fn is_flexible(key: i16, version: i16) -> bool {
    let from = match key {
        api::PRODUCE | api::METADATA => 9,
        api::FETCH => 12,
        api::LIST_OFFSETS => 6,
        api::API_VERSIONS => 3,
        api::CREATE_TOPICS => 5,
        api::OFFSET_FOR_LEADER_EPOCH | api::DESCRIBE_CONFIGS => 4,
        _ => 2,
    };
    version >= from
}

/// A cluster that a test scripts. Cheap to clone: all clones are one cluster.
#[derive(Clone, Debug)]
pub struct FakeCluster {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    clock: Mutex<(Duration, Option<Instant>)>,
    /// Something changed that a waiting fetch may wait for.
    changed: Notify,
    /// A request arrived or was answered.
    stirred: Notify,
    /// Ends every connection of a node that stops.
    nodes: Mutex<BTreeMap<i32, CancellationToken>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request, taken apart.
struct Request {
    key: i16,
    version: i16,
    correlation: i32,
    body: Bytes,
}

fn parse(frame: &Bytes) -> Option<Request> {
    let number = |at: usize| frame.get(at..at + 2)?.try_into().ok().map(i16::from_be_bytes);
    let (key, version, client) = (number(0)?, number(2)?, number(8)?);
    let correlation = i32::from_be_bytes(frame.get(4..8)?.try_into().ok()?);
    let mut at = 10 + usize::try_from(client).unwrap_or(0);
    if is_flexible(key, version) {
        // Our clients send no tagged fields in the header.
        at += 1;
    }
    (at <= frame.len()).then(|| Request { key, version, correlation, body: frame.slice(at..) })
}

impl FakeCluster {
    /// A cluster of so many nodes, named `name`; node 1 listens on port 9001, and so on.
    #[must_use]
    pub fn new(name: &str, nodes: i32, release: Release) -> Self {
        let node = |id: i32| {
            let port = u16::try_from(9000 + id).expect("few nodes");
            (id, Node { up: true, port })
        };
        let state = State {
            name: name.to_owned(),
            release,
            nodes: (1..=nodes).map(node).collect(),
            topics: BTreeMap::new(),
            faults: Box::new(NoFaults),
            quirks: Quirks::default(),
            seen: Vec::new(),
            marks: Vec::new(),
            fetched_bytes: 0,
            fetch_answer_max: 0,
            sessions_max: 1000,
            requests_max: usize::MAX,
            sessions: BTreeMap::new(),
            next_session: 0,
            next_producer: 1000,
            next_topic: 0,
            next_connection: 0,
            data_batches: 0,
            held: BTreeMap::new(),
            lines: BTreeMap::new(),
        };
        let tokens = (1..=nodes).map(|id| (id, CancellationToken::new())).collect();
        let shared = Shared {
            state: Mutex::new(state),
            clock: Mutex::new((Duration::ZERO, None)),
            changed: Notify::new(),
            stirred: Notify::new(),
            nodes: Mutex::new(tokens),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Looks at the state, or changes it; fetches that wait look again.
    pub fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        let out = look(&mut locked(&self.shared.state));
        self.shared.changed.notify_waiters();
        out
    }

    /// Says where faults come from.
    pub fn set_faults(&self, faults: impl Faults + 'static) {
        locked(&self.shared.state).faults = Box::new(faults);
    }

    /// How a client reaches it.
    #[must_use]
    pub fn dialer(&self) -> Dialer {
        let cluster = self.clone();
        Dialer::Memory(Arc::new(move |endpoint| cluster.dial(endpoint)))
    }

    /// Where a client begins.
    #[must_use]
    pub fn bootstrap(&self) -> Vec<Endpoint> {
        let state = locked(&self.shared.state);
        let endpoint = |node: &Node| Endpoint { host: state.name.clone(), port: node.port };
        state.nodes.values().map(endpoint).collect()
    }

    /// Time since the cluster was made, over all runtimes that it was attached to.
    #[must_use]
    pub fn now(&self) -> Duration {
        let (before, since) = *locked(&self.shared.clock);
        before + since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns when a request arrives or is answered.
    pub async fn stirred(&self) {
        self.shared.stirred.notified().await;
    }

    /// Says that what follows runs on the present runtime: its clock goes on where the last one
    /// stopped, and what clients of the last one left behind is worked on.
    pub fn attach(&self) {
        locked(&self.shared.clock).1 = Some(Instant::now());
        let mut state = locked(&self.shared.state);
        let left: Vec<u64> = state.lines.keys().copied().collect();
        for connection in left {
            let wait = state.faults.left_behind();
            let Some(line) = state.lines.get_mut(&connection) else { continue };
            let Some(wait) = wait.filter(|_| !line.waiting.is_empty()) else {
                state.lines.remove(&connection);
                continue;
            };
            line.orphaned = true;
            let worker = Worker::new(self, connection, line.node);
            Handle::current().spawn(async move {
                tokio::time::sleep(wait).await;
                worker.run(None).await;
            });
        }
    }

    /// Says that the present runtime is about to end: time stands still until the next one.
    pub fn detach(&self) {
        let mut clock = locked(&self.shared.clock);
        if let Some(since) = clock.1.take() {
            clock.0 += since.elapsed();
        }
    }

    /// Stops a node: its connections end.
    pub fn stop_node(&self, id: i32) {
        self.with(|state| state.stop_node(id));
        if let Some(token) = locked(&self.shared.nodes).insert(id, CancellationToken::new()) {
            token.cancel();
        }
    }

    /// Opens a stream to the node at an address.
    ///
    /// # Errors
    ///
    /// The connection is refused.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn dial(&self, endpoint: &Endpoint) -> io::Result<DuplexStream> {
        let mut state = locked(&self.shared.state);
        let found = state.nodes.iter().find(|(_, node)| node.port == endpoint.port && node.up);
        let Some(node) = found.map(|(id, _)| *id).filter(|_| endpoint.host == state.name) else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        if state.faults.refuses_call(node) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.next_connection += 1;
        let connection = state.next_connection;
        let line = Line { node, waiting: std::collections::VecDeque::new(), orphaned: false };
        state.lines.insert(connection, line);
        drop(state);
        let (ours, theirs) = tokio::io::duplex(SOCKET_BYTES);
        let (reader, writer) = tokio::io::split(ours);
        let stop = locked(&self.shared.nodes)[&node].child_token();
        let arrived = Arc::new(Notify::new());
        let reading = Reading {
            cluster: self.clone(),
            connection,
            arrived: Arc::clone(&arrived),
            stop: stop.clone(),
        };
        Handle::current().spawn(reading.run(reader));
        let mut worker = Worker::new(self, connection, node);
        (worker.arrived, worker.stop) = (arrived, stop);
        Handle::current().spawn(worker.run(Some(writer)));
        Ok(theirs)
    }
}

/// Puts a connection's requests into its line.
struct Reading {
    cluster: FakeCluster,
    connection: u64,
    arrived: Arc<Notify>,
    stop: CancellationToken,
}

impl Reading {
    async fn run(self, mut reader: ReadHalf<DuplexStream>) {
        loop {
            let frame = tokio::select! {
                biased;
                () = self.stop.cancelled() => None,
                frame = read_frame(&mut reader) => frame,
            };
            let mut state = locked(&self.cluster.shared.state);
            let Some(line) = state.lines.get_mut(&self.connection) else { return };
            match frame {
                Some(frame) => line.waiting.push_back(frame),
                None => line.orphaned = true,
            }
            let over = line.orphaned;
            drop(state);
            self.arrived.notify_one();
            self.cluster.shared.stirred.notify_waiters();
            if over {
                return;
            }
        }
    }
}

async fn read_frame(reader: &mut ReadHalf<DuplexStream>) -> Option<Bytes> {
    let length = reader.read_i32().await.ok()?;
    let length = usize::try_from(length).ok().filter(|length| *length <= REQUEST_BYTES_MAX)?;
    let mut frame = BytesMut::with_capacity(length);
    while frame.len() < length {
        let missing = length - frame.len();
        if reader.read_buf(&mut (&mut frame).limit(missing)).await.ok()? == 0 {
            return None;
        }
    }
    Some(frame.freeze())
}

/// Works on a connection's requests, one after the other.
struct Worker {
    cluster: FakeCluster,
    connection: u64,
    node: i32,
    arrived: Arc<Notify>,
    stop: CancellationToken,
}

/// What follows an answer.
#[derive(PartialEq, Eq)]
enum After {
    Next,
    End,
}

impl Worker {
    fn new(cluster: &FakeCluster, connection: u64, node: i32) -> Self {
        Self {
            cluster: cluster.clone(),
            connection,
            node,
            arrived: Arc::default(),
            stop: CancellationToken::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.cluster.shared.state)
    }

    async fn run(self, mut writer: Option<WriteHalf<DuplexStream>>) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.serve(&mut writer) => {}
        }
        self.state().lines.remove(&self.connection);
        if let Some(mut writer) = writer {
            drop(writer.shutdown().await);
        }
    }

    async fn serve(&self, writer: &mut Option<WriteHalf<DuplexStream>>) {
        loop {
            let next = {
                let state = self.state();
                let Some(line) = state.lines.get(&self.connection) else { return };
                match (line.waiting.front(), line.orphaned) {
                    (Some(frame), _) => Some(frame.clone()),
                    (None, true) => return,
                    (None, false) => None,
                }
            };
            let Some(frame) = next else {
                self.arrived.notified().await;
                continue;
            };
            if self.one(&frame, writer).await == After::End {
                return;
            }
        }
    }

    /// Takes the request that was worked on out of the line.
    fn done(&self, state: &mut State) {
        if let Some(line) = state.lines.get_mut(&self.connection) {
            line.waiting.pop_front();
        }
    }

    async fn one(&self, frame: &Bytes, writer: &mut Option<WriteHalf<DuplexStream>>) -> After {
        let Some(request) = parse(frame) else { return After::End };
        let plan = {
            let now = self.cluster.now();
            let mut state = self.state();
            let arrived = Arrived {
                at: now,
                node: self.node,
                connection: self.connection,
                api: request.key,
                version: request.version,
                count: state.seen.len(),
            };
            let plan = state.faults.plan(arrived);
            if state.seen.len() >= state.requests_max { Plan::now(Action::Silence) } else { plan }
        };
        if !plan.before.is_zero() {
            tokio::time::sleep(plan.before).await;
        }
        let mut asked = Asked {
            node: self.node,
            version: request.version,
            refuse: None,
            applies: true,
            throttle_ms: 0,
        };
        match plan.action {
            Action::Refuse(code) => (asked.refuse, asked.applies) = (Some(code), false),
            Action::ApplyThenRefuse(code) => asked.refuse = Some(code),
            Action::Throttle(ms) => asked.throttle_ms = ms,
            Action::Close => {
                self.note(&request, frame, plan, 0);
                return After::End;
            }
            Action::Silence => {
                self.note(&request, frame, plan, 0);
                return std::future::pending().await;
            }
            Action::Pass
            | Action::ApplyThenClose
            | Action::Cut(_)
            | Action::AnswerThenClose
            | Action::ApplyThenSilence
            | Action::Flip(_) => {}
        }
        let Ok(answer) = self.answer(&request, &asked).await else {
            self.note(&request, frame, plan, 0);
            return After::End;
        };
        self.note(&request, frame, plan, answer.as_ref().map_or(0, Bytes::len));
        self.cluster.shared.changed.notify_waiters();
        self.cluster.shared.stirred.notify_waiters();
        match plan.action {
            Action::ApplyThenClose => return After::End,
            Action::ApplyThenSilence => return std::future::pending().await,
            _ => {}
        }
        if !plan.after.is_zero() {
            tokio::time::sleep(plan.after).await;
        }
        let (Some(answer), Some(writer)) = (answer, writer.as_mut()) else { return After::Next };
        self.send(&request, plan.action, answer, writer).await
    }

    async fn answer(&self, request: &Request, asked: &Asked) -> Result<Option<Bytes>, String> {
        let Request { key, version, body, .. } = request;
        if *key == api::API_VERSIONS {
            let mut state = self.state();
            self.done(&mut state);
            return Ok(Some(answers::api_versions(&state, asked)));
        }
        if !self.state().release.offers(*key, *version) {
            return Err(format!("API {key} version {version} is not on offer"));
        }
        if *key == api::FETCH {
            return self.fetch(asked, body).await.map(Some);
        }
        let mute = self.state().quirks.mute_for.clone();
        if let Some(mute) = mute.filter(|_| *key == api::PRODUCE)
            // By the topics' names: what records say is no matter of the broker's.
            && answers::decode::<ProduceRequest>(body, asked.version)?
                .topic_data
                .iter()
                .any(|topic| topic.name.ends_with(&mute))
        {
            return std::future::pending().await;
        }
        let mut state = self.state();
        self.done(&mut state);
        answers::answer(&mut state, *key, asked, body)
    }

    async fn fetch(&self, asked: &Asked, body: &Bytes) -> Result<Bytes, String> {
        let request = answers::decode(body, asked.version)?;
        let about_session = asked.refuse.filter(|code| matches!(code, 70 | 71 | 106));
        let begun = {
            let mut state = self.state();
            self.done(&mut state);
            match about_session {
                Some(code) => Err(code),
                None => fetch::begin(&mut state, asked, &request),
            }
        };
        let fetching = match begun {
            Ok(fetching) => fetching,
            Err(code) => {
                return Ok(answers::encode(&fetch::session_error(asked, code), asked.version));
            }
        };
        let deadline = Instant::now() + Duration::from_millis(fetching.wait_ms);
        loop {
            let changed = self.cluster.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let due = fetching.wait_ms == 0 || Instant::now() >= deadline;
            let answer = fetch::attempt(&mut self.state(), asked, &fetching, due);
            if let Some(answer) = answer {
                return Ok(answers::encode(&answer, asked.version));
            }
            tokio::select! {
                biased;
                () = &mut changed => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    fn note(&self, request: &Request, frame: &Bytes, plan: Plan, answered: usize) {
        let at = self.cluster.now();
        let mut state = self.state();
        let fault = if plan == Plan::PASS { String::new() } else { format!("{:?}", plan.action) };
        if request.key == api::FETCH {
            state.fetch_answer_max = state.fetch_answer_max.max(answered);
        }
        state.seen.push(Seen {
            at,
            node: self.node,
            connection: self.connection,
            api: (request.key, request.version),
            bytes: (frame.len(), answered),
            fault,
            note: String::new(),
        });
    }

    async fn send(
        &self,
        request: &Request,
        action: Action,
        answer: Bytes,
        writer: &mut WriteHalf<DuplexStream>,
    ) -> After {
        let flexible =
            request.key != api::API_VERSIONS && is_flexible(request.key, request.version);
        let header = 4 + usize::from(flexible);
        let mut out = BytesMut::with_capacity(4 + header + answer.len());
        out.put_i32(i32::try_from(header + answer.len()).expect("answers are small"));
        out.put_i32(request.correlation);
        if flexible {
            out.put_u8(0);
        }
        out.extend_from_slice(&answer);
        match action {
            Action::Cut(at) => {
                out.truncate(at.min(out.len() - 1));
                drop(writer.write_all(&out).await);
                return After::End;
            }
            Action::Flip(at) => {
                let length = out.len() - 4;
                out[4 + at % length] ^= 0x10;
            }
            _ => {}
        }
        let fetch = request.key == api::FETCH;
        // In pieces, so that what a client has not read yet is known.
        for piece in out.chunks(16 * 1024) {
            if writer.write_all(piece).await.is_err() {
                return After::End;
            }
            if fetch {
                self.state().fetched_bytes += piece.len() as u64;
            }
        }
        if action == Action::AnswerThenClose { After::End } else { After::Next }
    }
}
