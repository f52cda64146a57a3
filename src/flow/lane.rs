//! One connection to one node for one purpose: dialled when needed, again when lost.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::client::{Backoff, Cluster, Connection, FrameBudget, RequestCause};
use crate::model::{Moment, NodeId};

/// A broker that has a quota asks again and again to hold back; it is told of once in a while.
const THROTTLE_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

type Dialling = Pin<Box<dyn Future<Output = Result<Connection, RequestCause>> + Send>>;

enum State {
    /// Not connected; dialled when wanted, not before this moment.
    Down(Moment),
    Dialling(Dialling),
    Up(Connection),
}

/// A lane and what is known of its health.
pub(super) struct Lane {
    cluster: Cluster,
    node: NodeId,
    budget: Option<FrameBudget>,
    state: State,
    backoff: Backoff,
    /// The broker asked us to hold back until then (KIP-219).
    throttled: Option<Moment>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Down(_) => "down",
            State::Dialling(_) => "dialling",
            State::Up(_) => "up",
        };
        write!(f, "Lane({} {} {state})", self.cluster.alias(), self.node)
    }
}

impl Lane {
    pub(super) fn new(cluster: &Cluster, node: NodeId, budget: Option<FrameBudget>) -> Self {
        Self {
            cluster: cluster.clone(),
            node,
            budget,
            state: State::Down(Moment(Duration::ZERO)),
            backoff: Backoff::new(u64::from(node.0.unsigned_abs())),
            throttled: None,
        }
    }

    /// Dials if it is down and its pause is over.
    pub(super) fn want(&mut self, now: Moment) {
        if let State::Down(until) = self.state
            && until <= now
        {
            let (cluster, node, budget) = (self.cluster.clone(), self.node, self.budget.clone());
            self.state =
                State::Dialling(Box::pin(async move { cluster.open_lane(node, budget).await }));
        }
    }

    /// Ready once dialling ends, with how it ended.
    pub(super) fn poll_dialling(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RequestCause>> {
        let State::Dialling(dialling) = &mut self.state else { return Poll::Pending };
        match dialling.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(connection)) => {
                self.state = State::Up(connection);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(cause)) => {
                // The owner decides about the pause.
                self.state = State::Down(Moment(Duration::MAX));
                Poll::Ready(Err(cause))
            }
        }
    }

    /// Takes the lane down; it is dialled again after a pause that grows.
    pub(super) fn fail(&mut self, now: Moment) -> u32 {
        self.state = State::Down(now.after(self.backoff.fail()));
        self.backoff.failures()
    }

    /// An answer came: the lane is healthy. Says how often it had failed before.
    pub(super) fn succeed(&mut self) -> u32 {
        let failures = self.backoff.failures();
        self.backoff.succeed();
        failures
    }

    /// The connection, if it is up and the broker does not want us to hold back.
    pub(super) fn usable(&self, now: Moment) -> Option<&Connection> {
        match &self.state {
            State::Up(connection) if !self.is_throttled(now) => Some(connection),
            State::Up(_) | State::Dialling(_) | State::Down(_) => None,
        }
    }

    /// How long the first words of the connection took.
    pub(super) fn first_words(&self) -> Duration {
        match &self.state {
            State::Up(connection) => connection.round_trip(),
            State::Dialling(_) | State::Down(_) => Duration::ZERO,
        }
    }

    /// Whether there is a connection.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Whether it is neither up nor about to be.
    pub(super) fn is_down(&self) -> bool {
        matches!(self.state, State::Down(_))
    }

    /// Holds back for as long as the broker says. Whether that is news: it did not ask for it for
    /// a while.
    pub(super) fn throttle(&mut self, now: Moment, throttle_ms: i32) -> bool {
        if throttle_ms <= 0 {
            return false;
        }
        let until = now.after(Duration::from_millis(throttle_ms.unsigned_abs().into()));
        let before = self.throttled.replace(until);
        before.is_none_or(|before| now.since(before) >= THROTTLE_FORGOTTEN_AFTER)
    }

    /// Whether the broker wants us to hold back.
    pub(super) fn is_throttled(&self, now: Moment) -> bool {
        self.throttled.is_some_and(|until| until > now)
    }

    /// When it wants to be looked at again.
    pub(super) fn next_moment(&self, now: Moment) -> Option<Moment> {
        match &self.state {
            State::Down(until) => Some(*until),
            State::Up(_) => self.throttled.filter(|until| *until > now),
            State::Dialling(_) => None,
        }
    }
}
