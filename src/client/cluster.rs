//! One cluster: its brokers, its picture, and requests routed to the right node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName as WireName};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::Access;
use super::certificates::SeenCertificate;
use super::clock::Clock;
use super::connection::{ConnectError, Connection, ConnectionFault};
use super::dial::{Dialer, Endpoint};
use super::frame_budget::FrameBudget;
use super::metadata::MetadataView;
use super::principal;
use super::retry::Backoff;
use super::security::Security;
use crate::model::{ClusterAlias, Leader, NodeId, PartitionIndex, TopicName};
use crate::wire::message::{self, Call};
use crate::wire::{Api, ErrorCode, Malformed, NoVersion};

/// What a cluster needs to know about itself.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Its name in the properties file.
    pub alias: ClusterAlias,
    /// Where to begin (`bootstrap.servers`).
    pub bootstrap: Vec<Endpoint>,
    /// `client.id` on every connection.
    pub client_id: String,
    /// How long one request may take (`request.timeout.ms`).
    pub request_timeout: Duration,
    /// How long one attempt to connect may take (`socket.connection.setup.timeout.ms`).
    pub connect_timeout: Duration,
    /// How streams are opened.
    pub dialer: Dialer,
    /// How connections are secured.
    pub security: Security,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Any broker.
    Any,
    /// The controller, or the broker that forwards to it.
    Controller,
    /// This broker.
    Node(NodeId),
}

/// Why a request failed for good: who was asked, for what, how often, and what happened last.
#[derive(Debug, thiserror::Error)]
#[error("{api} to {cluster} {place} failed{}: {cause}", times(*.attempts))]
pub struct RequestError {
    /// Which cluster.
    pub cluster: ClusterAlias,
    /// Which node or address was tried last.
    pub place: String,
    /// Which request.
    pub api: Api,
    /// How often it was tried.
    pub attempts: u32,
    /// What happened the last time.
    pub cause: RequestCause,
}

fn times(attempts: u32) -> String {
    if attempts > 1 { format!(" {attempts} times") } else { String::new() }
}

/// What happened to a request.
#[derive(Debug, thiserror::Error)]
pub enum RequestCause {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No answer.
    #[error(transparent)]
    Fault(#[from] ConnectionFault),
    /// No common version.
    #[error(transparent)]
    NoVersion(#[from] NoVersion),
    /// An answer that makes no sense.
    #[error("its answer is malformed {0}")]
    Malformed(#[from] Malformed),
    /// The request cannot be written in this version.
    #[error("the request cannot be written: {0}")]
    Encode(String),
    /// The answer as a whole is an error.
    #[error("it answered {0}")]
    Refused(ErrorCode),
    /// Nobody is known to go to.
    #[error("no broker is known for it")]
    NoNode,
}

impl RequestCause {
    /// Whether another attempt may go better.
    fn passes(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Fault(_) | Self::NoNode => true,
            Self::NoVersion(_) | Self::Malformed(_) | Self::Encode(_) | Self::Refused(_) => false,
        }
    }
}

/// A handle to one cluster; cheap to clone.
#[derive(Clone, Debug)]
pub struct Cluster {
    inner: Arc<Inner>,
}

/// What a control connection is for.
///
/// A broker with a quota for bytes stops reading from a connection whose records were too many
/// (KIP-219), for half a minute and more. What is asked meanwhile must not wait behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// Records of internal topics.
    Records,
    /// All else.
    Talk,
}

impl Purpose {
    const fn of(api: Api) -> Self {
        match api {
            Api::Produce | Api::Fetch => Self::Records,
            _ => Self::Talk,
        }
    }
}

#[derive(Debug)]
struct Inner {
    settings: ClusterSettings,
    access: Arc<Access>,
    clock: Clock,
    tracker: TaskTracker,
    view: ArcSwap<MetadataView>,
    changed: watch::Sender<u64>,
    control: Mutex<BTreeMap<(Option<NodeId>, Purpose), Connection>>,
    stale: Mutex<BTreeSet<TopicName>>,
    stale_hint: Notify,
    principal: OnceLock<String>,
}

impl Cluster {
    /// A cluster that nobody has spoken to yet. Its refresher runs until `shutdown`.
    #[must_use]
    pub fn new(
        settings: ClusterSettings,
        clock: Clock,
        tracker: &TaskTracker,
        shutdown: CancellationToken,
    ) -> Self {
        let access = Access::new(
            &settings.alias,
            &settings.security,
            settings.dialer.clone(),
            &settings.client_id,
            settings.connect_timeout,
            clock,
        );
        let inner = Inner {
            settings,
            access: Arc::new(access),
            clock,
            tracker: tracker.clone(),
            view: ArcSwap::default(),
            changed: watch::Sender::new(0),
            control: Mutex::default(),
            stale: Mutex::default(),
            stale_hint: Notify::new(),
            principal: OnceLock::new(),
        };
        let cluster = Self { inner: Arc::new(inner) };
        if let Some(tokens) = cluster.inner.access.tokens.clone() {
            let shutdown = shutdown.clone();
            tracker.spawn(async move {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => {}
                    () = tokens.refresh(clock) => {}
                }
            });
        }
        let refresher = cluster.clone();
        tracker.spawn(async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = refresher.refresh_when_stale() => {}
            }
        });
        cluster
    }

    /// The cluster's alias.
    #[must_use]
    pub fn alias(&self) -> &ClusterAlias {
        &self.inner.settings.alias
    }

    /// The cluster's settings.
    #[must_use]
    pub fn settings(&self) -> &ClusterSettings {
        &self.inner.settings
    }

    /// Who we are to its brokers, as `kafka-acls --allow-principal` takes it: `User:mirror`.
    /// `User:NAME` where only the broker knows.
    #[must_use]
    pub fn principal(&self) -> &str {
        let Inner { settings: ClusterSettings { security, .. }, access, clock, .. } = &*self.inner;
        match self.inner.principal.get() {
            Some(name) => name,
            // What cannot be read now may be later.
            None => match principal::of(security, access.token(*clock).as_ref(), *clock) {
                Some(name) => self.inner.principal.get_or_init(|| name),
                None => principal::UNKNOWN,
            },
        }
    }

    /// Certificates that its connections rest on, as far as seen.
    #[must_use]
    pub fn certificates(&self) -> Vec<SeenCertificate> {
        self.inner.access.certificates()
    }

    /// The clock that all of this runs on.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// The picture as it is known now.
    #[must_use]
    pub fn view(&self) -> Arc<MetadataView> {
        self.inner.view.load_full()
    }

    /// Changes whenever the picture does.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    fn publish(&self, next: MetadataView) {
        if **self.inner.view.load() != next {
            self.inner.view.store(Arc::new(next));
            self.inner.changed.send_modify(|count| *count += 1);
        }
    }

    /// Says that what is known about `topic`'s leaders is not true any more. The refresher asks
    /// for it, and a flood of hints is one question.
    pub fn hint_stale(&self, topic: &TopicName) {
        let mut stale = self.inner.stale.lock().unwrap_or_else(PoisonError::into_inner);
        if stale.insert(topic.clone()) {
            self.inner.stale_hint.notify_one();
        }
    }

    /// Takes note of a leader that a broker named beside an error.
    pub fn hint_leader(&self, topic: &TopicName, partition: PartitionIndex, leader: Leader) {
        let next = self.inner.view.load().with_leader(topic, partition, leader);
        self.publish(next);
    }

    async fn refresh_when_stale(&self) {
        let mut backoff = Backoff::new(self.inner.settings.bootstrap.len() as u64);
        loop {
            self.inner.stale_hint.notified().await;
            loop {
                // A pause first: hints come in crowds, and an election takes a moment.
                tokio::time::sleep(backoff.fail()).await;
                let topics: Vec<TopicName> = {
                    let mut stale = self.inner.stale.lock().unwrap_or_else(PoisonError::into_inner);
                    std::mem::take(&mut *stale).into_iter().collect()
                };
                if topics.is_empty() {
                    backoff.succeed();
                    break;
                }
                match self.refresh(Some(&topics)).await {
                    Ok(()) => {
                        let view = self.view();
                        let settled = topics.iter().all(|topic| {
                            view.topics.get(topic).is_none_or(|topic| {
                                topic.partitions.values().all(|one| one.leader.is_some())
                            })
                        });
                        if settled {
                            backoff.succeed();
                            break;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(cluster = %self.alias(), %error, "metadata not refreshed");
                    }
                }
                // Leaderless topics, or no answer: these stay stale.
                let mut stale = self.inner.stale.lock().unwrap_or_else(PoisonError::into_inner);
                stale.extend(topics);
            }
        }
    }

    /// Asks for the picture of some topics, or of all.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if no broker answers within the request timeout.
    pub async fn refresh(&self, topics: Option<&[TopicName]>) -> Result<(), RequestError> {
        self.refresh_within(topics, self.inner.settings.request_timeout).await
    }

    /// Asks any broker for a sign of life; at least one attempt is made to its end.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if none answers within `patience`.
    pub async fn greet(&self, patience: Duration) -> Result<(), RequestError> {
        self.refresh_within(Some(&[]), patience).await
    }

    async fn refresh_within(
        &self,
        topics: Option<&[TopicName]>,
        patience: Duration,
    ) -> Result<(), RequestError> {
        let answer = self.ask_metadata(topics, patience).await?;
        let before = self.view();
        let mut next = before.updated(&answer, topics);
        let vanished = if topics.is_none() { next.vanished_since(&before) } else { Vec::new() };
        if !vanished.is_empty() {
            // Where all topics are asked for, one that may not be described is left out like one
            // that is gone.
            let about = self.ask_metadata(Some(&vanished), patience).await?;
            let before = self.view();
            next = before.updated(&answer, topics).with_denied(&about, &vanished, &before);
        }
        self.publish(next);
        Ok(())
    }

    async fn ask_metadata(
        &self,
        topics: Option<&[TopicName]>,
        patience: Duration,
    ) -> Result<MetadataResponse, RequestError> {
        let wanted = topics.map(|topics| {
            let topic = |name: &TopicName| {
                let name = StrBytes::from_string(name.as_str().to_owned());
                MetadataRequestTopic::default().with_name(Some(WireName(name)))
            };
            topics.iter().map(topic).collect()
        });
        let request = MetadataRequest::default()
            .with_topics(wanted)
            // A mirror that asks must not make topics.
            .with_allow_auto_topic_creation(false);
        let answer: MetadataResponse = self.request_within(Route::Any, &request, patience).await?;
        if answer.error_code != 0 {
            let place = "(any broker)".to_owned();
            let cause = RequestCause::Refused(ErrorCode(answer.error_code));
            let cluster = self.alias().clone();
            return Err(RequestError { cluster, place, api: Api::Metadata, attempts: 1, cause });
        }
        Ok(answer)
    }

    /// The address of a node, or all bootstrap addresses.
    fn endpoints(&self, node: Option<NodeId>) -> Vec<Endpoint> {
        match node {
            Some(node) => {
                let view = self.inner.view.load();
                view.brokers.get(&node).map(|broker| broker.endpoint.clone()).into_iter().collect()
            }
            None => self.inner.settings.bootstrap.clone(),
        }
    }

    /// Opens a lane of its own to `node`, with a budget for what it reads if it is to fetch.
    ///
    /// # Errors
    ///
    /// [`RequestCause`]: the node is unknown, or does not take the connection.
    pub async fn open_lane(
        &self,
        node: NodeId,
        budget: Option<FrameBudget>,
    ) -> Result<Connection, RequestCause> {
        let endpoint = self.endpoints(Some(node)).pop().ok_or(RequestCause::NoNode)?;
        Ok(self.open(&endpoint, budget).await?)
    }

    async fn open(
        &self,
        endpoint: &Endpoint,
        budget: Option<FrameBudget>,
    ) -> Result<Connection, ConnectError> {
        let (clock, tracker) = (self.inner.clock, &self.inner.tracker);
        Connection::open(&self.inner.access, endpoint, budget, clock, tracker).await
    }

    /// The control connection to a node (`None`: whoever answers at a bootstrap address) for `api`,
    /// made when there is none. Also tells the place in words, for errors.
    pub(super) async fn control(
        &self,
        node: Option<NodeId>,
        api: Api,
    ) -> (String, Result<Connection, RequestCause>) {
        let of = (node, Purpose::of(api));
        {
            let mut control = self.inner.control.lock().unwrap_or_else(PoisonError::into_inner);
            control.retain(|_, connection| !connection.is_closed());
            if let Some(connection) = control.get(&of) {
                let place = node.map_or_else(|| "(any broker)".into(), |n| format!("node {n}"));
                return (place, Ok(connection.clone()));
            }
        }
        let mut outcome = (String::from("(any broker)"), Err(RequestCause::NoNode));
        for endpoint in self.endpoints(node) {
            let place = format!("at {endpoint}");
            match self.open(&endpoint, None).await {
                Ok(connection) => {
                    let mut control =
                        self.inner.control.lock().unwrap_or_else(PoisonError::into_inner);
                    control.insert(of, connection.clone());
                    return (place, Ok(connection));
                }
                Err(error) => outcome = (place, Err(error.into())),
            }
        }
        outcome
    }

    /// A node to ask when any will do: one that is already connected, else one that metadata
    /// knows, else a bootstrap address. Attempts after a failure walk through all of them.
    pub(super) fn any_node(&self, attempt: u32) -> Option<NodeId> {
        let view = self.inner.view.load();
        if view.brokers.is_empty() {
            return None;
        }
        if attempt == 0 {
            let control = self.inner.control.lock().unwrap_or_else(PoisonError::into_inner);
            let alive = |node: &NodeId| view.brokers.contains_key(node);
            let connected = control.iter().filter(|(_, connection)| !connection.is_closed());
            if let Some(node) = connected.filter_map(|((node, _), _)| *node).find(alive) {
                return Some(node);
            }
        }
        // One turn in each round goes to a bootstrap address: all brokers may have moved.
        view.brokers.keys().nth(attempt as usize % (view.brokers.len() + 1)).copied()
    }

    /// Sends a request and reads its answer, trying again until the request timeout is over.
    ///
    /// A request that got no answer is sent again, so it must be one that may be carried out
    /// twice.
    ///
    /// # Errors
    ///
    /// [`RequestError`] with the last cause.
    pub async fn request<C: Call>(
        &self,
        route: Route,
        request: &C,
    ) -> Result<C::Answer, RequestError> {
        self.request_within(route, request, self.inner.settings.request_timeout).await
    }

    /// [`Cluster::request`] with another bound on the whole than the request timeout.
    pub(super) async fn request_within<C: Call>(
        &self,
        route: Route,
        request: &C,
        patience: Duration,
    ) -> Result<C::Answer, RequestError> {
        self.request_at_most(route, request, patience, i16::MAX).await
    }

    /// [`Cluster::request_within`] in a version that is not above `version_max`: some fields were
    /// taken out of later ones.
    pub(super) async fn request_at_most<C: Call>(
        &self,
        route: Route,
        request: &C,
        patience: Duration,
        version_max: i16,
    ) -> Result<C::Answer, RequestError> {
        let clock = self.inner.clock;
        let deadline = clock.now().after(patience);
        let mut backoff = Backoff::new(u64::from(C::API.key().unsigned_abs()));
        loop {
            let node = match route {
                Route::Any => self.any_node(backoff.failures()),
                Route::Controller => {
                    self.view().controller.or_else(|| self.any_node(backoff.failures()))
                }
                Route::Node(node) => Some(node),
            };
            let (place, connection) = self.control(node, C::API).await;
            let outcome = match connection {
                Ok(connection) => self.ask(&connection, request, patience, version_max).await,
                Err(cause) => Err(cause),
            };
            let cause = match outcome {
                Ok(answer) => return Ok(answer),
                Err(cause) => cause,
            };
            let wait = backoff.fail();
            if !cause.passes() || clock.now().after(wait) >= deadline {
                let (cluster, attempts) = (self.alias().clone(), backoff.failures());
                return Err(RequestError { cluster, place, api: C::API, attempts, cause });
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// The version of `api` that the broker behind `route` is spoken to in.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if it cannot be reached, or does not speak it.
    pub(super) async fn version(&self, route: Route, api: Api) -> Result<i16, RequestError> {
        self.version_within(route, api, self.inner.settings.request_timeout).await
    }

    /// [`Cluster::version`] with another bound on the whole than the request timeout.
    pub(super) async fn version_within(
        &self,
        route: Route,
        api: Api,
        patience: Duration,
    ) -> Result<i16, RequestError> {
        let mut backoff = Backoff::new(3);
        let deadline = self.inner.clock.now().after(patience);
        loop {
            let node = match route {
                Route::Any | Route::Controller => self.any_node(backoff.failures()),
                Route::Node(node) => Some(node),
            };
            let (place, connection) = self.control(node, api).await;
            let chosen = match connection {
                Ok(connection) => connection.versions().choose(api).map_err(RequestCause::from),
                Err(cause) => Err(cause),
            };
            let cause = match chosen {
                Ok(version) => return Ok(version),
                Err(cause) => cause,
            };
            let wait = backoff.fail();
            if !cause.passes() || self.inner.clock.now().after(wait) >= deadline {
                let (cluster, attempts) = (self.alias().clone(), backoff.failures());
                return Err(RequestError { cluster, place, api, attempts, cause });
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn ask<C: Call>(
        &self,
        connection: &Connection,
        request: &C,
        patience: Duration,
        version_max: i16,
    ) -> Result<C::Answer, RequestCause> {
        let version = connection.versions().choose_at_most(C::API, version_max)?;
        let settings = &self.inner.settings;
        let frame =
            message::encode(version, &settings.client_id, request).map_err(RequestCause::Encode)?;
        let body = connection.send(frame, patience).await?;
        Ok(message::decode(C::API, version, &body)?)
    }
}
