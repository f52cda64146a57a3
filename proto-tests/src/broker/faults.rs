//! What can be done to a request.

use std::fmt::Debug;
use std::time::Duration;

/// A request as a source of faults sees it.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    /// When, since the cluster was made.
    pub at: Duration,
    /// At which node.
    pub node: i32,
    /// On which connection.
    pub connection: u64,
    /// Which API.
    pub api: i16,
    /// In which version.
    pub version: i16,
    /// How many requests the cluster has seen before it.
    pub count: usize,
}

/// What is done to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is worked on and answered.
    Pass,
    /// It is not worked on; this code stands in the field where it belongs.
    Refuse(i16),
    /// It is worked on, and this code is answered all the same.
    ApplyThenRefuse(i16),
    /// It is not worked on, and the connection ends.
    Close,
    /// It is worked on, and the connection ends without an answer.
    ApplyThenClose,
    /// It is worked on; so many bytes of the answer come, and then the connection ends.
    Cut(usize),
    /// It is worked on and answered, and then the connection ends.
    AnswerThenClose,
    /// It is not worked on and never answered; the connection stays, and is stuck.
    Silence,
    /// It is worked on and never answered.
    ApplyThenSilence,
    /// A bit of this byte of the answer, counted behind its length, is flipped.
    Flip(usize),
    /// It is answered with this throttle time, milliseconds.
    Throttle(i32),
}

/// What is done to one request, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How long it lies before it is worked on.
    pub before: Duration,
    /// What is done.
    pub action: Action,
    /// How long its answer lies.
    pub after: Duration,
}

impl Plan {
    /// Nothing is done to it.
    pub const PASS: Self = Self::now(Action::Pass);

    /// At once.
    #[must_use]
    pub const fn now(action: Action) -> Self {
        Self { before: Duration::ZERO, action, after: Duration::ZERO }
    }
}

/// Where faults come from: a script, or a seeded generator.
pub trait Faults: Debug + Send {
    /// What is done to a request.
    fn plan(&mut self, request: Arrived) -> Plan;

    /// Whether a node that is up refuses a call.
    fn refuses_call(&mut self, _node: i32) -> bool {
        false
    }

    /// How long what a client left behind in a node's socket lies there when the client is gone;
    /// `None` if it is never looked at.
    fn left_behind(&mut self) -> Option<Duration> {
        Some(Duration::ZERO)
    }
}

/// No faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn plan(&mut self, _request: Arrived) -> Plan {
        Plan::PASS
    }
}

/// A rule and what it does; for scripts in tests.
pub struct Script<F>(pub F);

impl<F> Debug for Script<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl<F: FnMut(Arrived) -> Plan + Send> Faults for Script<F> {
    fn plan(&mut self, request: Arrived) -> Plan {
        self.0(request)
    }
}
