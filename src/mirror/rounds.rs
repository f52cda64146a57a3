//! Rounds: what is done again and again, one runner for all kinds.
//!
//! A kind of round (topics, configs, ACLs, groups, ...) has a [`Pace`]. Its runs never overlap;
//! each has a deadline, after which it is given up and counts as failed. Between two runs that
//! went well lies the interval, counted from start to start; a run that failed is tried again
//! sooner, after waits that grow. A reason is told when it changes, not at every run.
//!
//! ```text
//!   wait ──▶ run ──▶ done ─────────▶ wait for the interval
//!              ├──▶ failed ────────▶ wait a little, longer each time
//!              └──▶ denied, off ───▶ wait for the interval; only this feature rests
//! ```
//!
//! Every run leaves a [`RoundReport`] on the flow's [`RoundBoard`]. What a round does, the runner
//! does not know. Tests: bottom of this file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::rights::{Lacks, Missing};
use crate::client::{Backoff, Clock, Jitter, LogError, RequestCause, RequestError};
use crate::model::{FlowId, Moment, Timestamp};

/// Lines of each sort that a report keeps; the rest is counted. A target of thousands of topics
/// that refuses all of them must not fill the memory with the same sentence.
const LINES_MAX: usize = 100;

/// Rights that are told line by line when they turn out to be missing at once; of the rest only the
/// number is told.
const TOLD_MAX: usize = 20;

/// First wait after a failure.
const RETRY_FIRST: Duration = Duration::from_millis(50);

/// Bounds of the longest wait between attempts, which is a fifth of the interval: a cluster that
/// is back is found soon, and one that is gone for hours is not asked every moment.
const RETRY_MOST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// How one kind of round goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The kind, as status and log call it.
    pub kind: &'static str,
    /// From the start of one run to the start of the next; `None` for one run that goes well.
    pub interval: Option<Duration>,
    /// How long one run may take.
    pub deadline: Duration,
    /// Whether an interval passes before the first run, as MM2 does with heartbeats.
    pub rests_first: bool,
}

/// What a run that came to its end has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// What it could not do, each with its reason.
    pub undone: Lines,
    /// What it left as it is on purpose: drift, topics that are gone from the source.
    pub left: Lines,
    /// Rights that it lacked for some of what it had to do.
    pub missing: BTreeSet<Missing>,
}

/// A bounded list of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The first of them.
    pub first: Vec<String>,
    /// How many there are in all.
    pub count: usize,
}

impl Lines {
    /// Adds a line, or counts it if there are many already.
    pub fn push(&mut self, line: String) {
        self.count += 1;
        if self.first.len() < LINES_MAX {
            self.first.push(line);
        }
    }
}

impl Extend<String> for Lines {
    fn extend<T: IntoIterator<Item = String>>(&mut self, lines: T) {
        lines.into_iter().for_each(|line| self.push(line));
    }
}

/// Why a run came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Something that may pass: tried again soon.
    Failed(String),
    /// A right is missing: the feature rests until it is granted, everything else goes on.
    Denied {
        /// What cannot be done.
        what: String,
        /// The right.
        missing: Missing,
    },
    /// There is nothing to do here: a cluster without an authorizer has no ACLs.
    Off(String),
}

impl Trouble {
    /// A failure, from whatever says what happened.
    pub(super) fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(why) | Self::Off(why) => f.write_str(why),
            Self::Denied { what, missing } => {
                write!(f, "{what}; to grant the right: {}", missing.grant)
            }
        }
    }
}

impl From<RequestError> for Trouble {
    fn from(error: RequestError) -> Self {
        match &error.cause {
            // Nothing will change until somebody upgrades the brokers.
            RequestCause::NoVersion(_) => Self::Off(error.to_string()),
            // Without the number of attempts: the same reason is told once.
            cause => Self::Failed(format!("{} to {}: {cause}", error.api, error.cluster)),
        }
    }
}

impl From<LogError> for Trouble {
    fn from(error: LogError) -> Self {
        Self::failed(error)
    }
}

/// How the last run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// None has ended yet.
    #[default]
    Pending,
    /// It came to its end; see the notes for what it could not do.
    Done,
    /// It came to nothing.
    Troubled(Trouble),
}

impl Outcome {
    /// The word in status and metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Done => "done",
            Self::Troubled(Trouble::Failed(_)) => "failed",
            Self::Troubled(Trouble::Denied { .. }) => "denied",
            Self::Troubled(Trouble::Off(_)) => "off",
        }
    }
}

/// What is known about one kind of round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundReport {
    /// Runs that ended, since the process started.
    pub runs: u64,
    /// Those of them that came to nothing.
    pub failures: u64,
    /// Wall time at which the last one that ended had started.
    pub started: Option<Timestamp>,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
    /// What the last run that came to its end had to say.
    pub notes: Notes,
}

/// The reports of one flow's rounds, and the rights that it lacks; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RoundBoard(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    reports: BTreeMap<&'static str, RoundReport>,
    lacks: Lacks,
    /// What the flow waits for before it begins to copy.
    waits_for: Option<String>,
}

impl RoundBoard {
    /// The last report of each kind.
    #[must_use]
    pub fn reports(&self) -> BTreeMap<&'static str, RoundReport> {
        self.board().reports.clone()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rights that are missing, as whoever needed them last found.
    #[must_use]
    pub fn missing(&self) -> BTreeSet<Missing> {
        self.board().lacks.all()
    }

    /// Why the flow does not copy yet, if it has said so.
    #[must_use]
    pub fn waits_for(&self) -> Option<String> {
        self.board().waits_for.clone()
    }

    pub(super) fn wait_for(&self, what: Option<String>) {
        self.board().waits_for = what;
    }

    /// Takes what `of` lacks now, and says what has changed.
    pub(super) fn lack(&self, flow: &FlowId, of: &'static str, now: BTreeSet<Missing>) {
        let (new, granted) = self.board().lacks.renew(of, now);
        for missing in new.iter().take(TOLD_MAX) {
            let features: Vec<&str> =
                missing.features().iter().map(|feature| feature.name()).collect();
            tracing::warn!(%flow, round = of, feature = features.join(", "), right = %missing,
                grant = missing.grant, "a right is missing; what needs it rests until it is granted");
        }
        if let Some(more) = new.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
            tracing::warn!(%flow, round = of, more, "more rights are missing; see /status");
        }
        for missing in granted.iter().take(TOLD_MAX) {
            tracing::info!(%flow, round = of, right = %missing, "a right is not missing any more");
        }
    }

    fn change(&self, kind: &'static str, change: impl FnOnce(&mut RoundReport)) {
        change(self.board().reports.entry(kind).or_default());
    }
}

/// When a kind of round runs next; knows no clock.
#[derive(Debug)]
struct Rhythm {
    pace: Pace,
    backoff: Backoff,
    /// Spreads the first interval only: later ones keep their length, and flows that started
    /// together stay apart.
    phase: Option<Jitter>,
}

impl Rhythm {
    fn new(pace: Pace, seed: u64) -> Self {
        let fifth = pace.interval.map_or(RETRY_MOST.0, |interval| interval / 5);
        let most = fifth.clamp(RETRY_MOST.0, RETRY_MOST.1);
        Self {
            pace,
            backoff: Backoff::between(RETRY_FIRST, most, seed),
            phase: Some(Jitter::new(seed)),
        }
    }

    fn interval(&mut self) -> Option<Duration> {
        let interval = self.pace.interval?;
        Some(self.phase.take().map_or(interval, |mut phase| phase.spread(interval)))
    }

    /// When the first run is due.
    fn first(&mut self, now: Moment) -> Moment {
        if !self.pace.rests_first {
            return now;
        }
        now.after(self.interval().unwrap_or_default())
    }

    /// When the run after one that began at `begun` and ended at `now` is due; `None` if there
    /// is to be none. Never before `now`: a run that took longer than the interval is followed
    /// by one, not by all that were missed.
    fn next(
        &mut self,
        begun: Moment,
        now: Moment,
        ended: &Result<Notes, Trouble>,
    ) -> Option<Moment> {
        match ended {
            Err(Trouble::Failed(_)) => return Some(now.after(self.backoff.fail())),
            Ok(_) | Err(Trouble::Denied { .. } | Trouble::Off(_)) => self.backoff.succeed(),
        }
        match (self.interval(), ended) {
            (Some(interval), _) => Some(begun.after(interval).max(now)),
            (None, Ok(_)) => None,
            // It is to go well once.
            (None, Err(_)) => Some(now.after(RETRY_MOST.1)),
        }
    }
}

/// What one run of a kind of round does.
pub trait Round {
    /// Observes, decides, carries out. May be dropped at any await, when its deadline is over.
    ///
    /// # Errors
    ///
    /// [`Trouble`] if it came to nothing; what single topics could not get is in the notes.
    fn run(&mut self) -> impl Future<Output = Result<Notes, Trouble>> + Send;
}

/// Runs one kind of round of one flow.
#[derive(Debug)]
pub struct Rounds {
    flow: FlowId,
    clock: Clock,
    board: RoundBoard,
    rhythm: Rhythm,
    told: Option<Trouble>,
}

impl Rounds {
    /// Rounds that have not begun.
    #[must_use]
    pub fn new(flow: &FlowId, pace: Pace, clock: Clock, board: &RoundBoard) -> Self {
        // Kinds and flows must not wait in step: any number that differs between them will do.
        let names = [flow.source.as_str(), flow.target.as_str(), pace.kind];
        let bytes = names.iter().flat_map(|name| name.bytes());
        let seed = bytes
            .fold(clock.seed(), |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
        board.change(pace.kind, |_| {});
        Self {
            flow: flow.clone(),
            clock,
            board: board.clone(),
            rhythm: Rhythm::new(pace, seed),
            told: None,
        }
    }

    /// Runs `round` at its pace, and sooner when `wake` is notified. Ends when no run is to
    /// follow; dropped at any await, it leaves what the round itself left.
    pub async fn run(mut self, wake: Option<&Notify>, round: &mut impl Round) {
        let pace = self.rhythm.pace;
        let mut due = self.rhythm.first(self.clock.now());
        loop {
            let woken = async {
                match wake {
                    Some(wake) => wake.notified().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.clock.sleep_until(due) => {}
                () = woken => {}
            }
            let (begun, started) = (self.clock.now(), self.clock.wall());
            let ended =
                tokio::time::timeout(pace.deadline, round.run()).await.unwrap_or_else(|_| {
                    Err(Trouble::Failed(format!("not done within {:?}", pace.deadline)))
                });
            let now = self.clock.now();
            self.tell(&ended);
            match &ended {
                Ok(notes) => self.board.lack(&self.flow, pace.kind, notes.missing.clone()),
                Err(Trouble::Denied { missing, .. }) => {
                    self.board.lack(&self.flow, pace.kind, [missing.clone()].into());
                }
                // Nothing was learnt about rights.
                Err(Trouble::Failed(_)) => {}
                Err(Trouble::Off(_)) => self.board.lack(&self.flow, pace.kind, BTreeSet::new()),
            }
            let next = self.rhythm.next(begun, now, &ended);
            self.board.change(pace.kind, |report| {
                report.runs += 1;
                report.failures += u64::from(ended.is_err());
                (report.started, report.took) = (Some(started), now.since(begun));
                match ended {
                    Ok(notes) => (report.notes, report.outcome) = (notes, Outcome::Done),
                    Err(trouble) => report.outcome = Outcome::Troubled(trouble),
                }
            });
            match next {
                Some(next) => due = next,
                None => return,
            }
        }
    }

    /// Says what has changed.
    fn tell(&mut self, ended: &Result<Notes, Trouble>) {
        let (flow, round) = (&self.flow, self.rhythm.pace.kind);
        match ended {
            Ok(_) => {
                if self.told.take().is_some() {
                    tracing::info!(%flow, round, "round works again");
                }
            }
            Err(trouble) if self.told.as_ref() == Some(trouble) => {}
            Err(trouble) => {
                match trouble {
                    Trouble::Failed(why) => {
                        tracing::warn!(%flow, round, why, "round failed; trying again");
                    }
                    // The board tells which right, and the command that grants it.
                    Trouble::Denied { what, .. } => {
                        tracing::debug!(%flow, round, what, "round is denied");
                    }
                    Trouble::Off(why) => tracing::info!(%flow, round, why, "feature is off"),
                }
                self.told = Some(trouble.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rights::Resource;
    use super::*;
    use crate::model::{AclOperation, ClusterAlias};
    use crate::policy::Thing;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace(interval: Option<Duration>) -> Pace {
        Pace { kind: "topics", interval, deadline: 30 * SECOND, rests_first: false }
    }

    fn flow() -> FlowId {
        FlowId { source: ClusterAlias::new("a"), target: ClusterAlias::new("b") }
    }

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn failed() -> Result<Notes, Trouble> {
        Err(Trouble::Failed("no answer".into()))
    }

    #[test]
    fn only_the_first_interval_is_spread_and_missed_runs_are_not_made_up_for() {
        let mut rhythm = Rhythm::new(pace(Some(100 * SECOND)), 1);
        let first = rhythm.next(at(0), at(1), &Ok(Notes::default())).unwrap();

        assert!(at(80) <= first && first < at(100), "{first:?}");
        assert_eq!(rhythm.next(at(90), at(91), &Ok(Notes::default())), Some(at(190)));
        assert_eq!(rhythm.next(at(190), at(590), &Ok(Notes::default())), Some(at(590)));
    }

    #[test]
    fn a_failed_run_is_tried_again_soon_and_one_without_interval_until_it_goes_well() {
        let mut rhythm = Rhythm::new(pace(None), 1);

        for _ in 0..20 {
            let next = rhythm.next(at(0), at(5), &failed()).unwrap();
            assert!(at(5) < next && next <= at(6), "{next:?}");
        }
        assert_eq!(rhythm.next(at(0), at(5), &Ok(Notes::default())), None);
    }

    #[test]
    fn a_missing_right_is_looked_at_again_at_the_interval_only() {
        let mut rhythm = Rhythm::new(Pace { rests_first: true, ..pace(Some(60 * SECOND)) }, 1);
        let first = rhythm.first(at(0));
        assert!(at(48) <= first && first <= at(60), "{first:?}");

        let missing = Missing {
            cluster: ClusterAlias::new("a"),
            resource: Resource::Cluster,
            thing: Thing::SourceCluster,
            operation: AclOperation::DESCRIBE,
            grant: "kafka-acls".into(),
        };
        let denied = Err(Trouble::Denied { what: "ACLs".into(), missing });
        assert_eq!(rhythm.next(at(60), at(61), &denied), Some(at(120)));
    }

    /// Hangs some times, then takes a second and says much.
    struct Slow {
        hangs: u32,
        runs: u32,
        running: bool,
        wake: Arc<Notify>,
    }

    impl Round for Slow {
        async fn run(&mut self) -> Result<Notes, Trouble> {
            self.runs += 1;
            if self.runs <= self.hangs {
                std::future::pending::<()>().await;
            }
            assert!(!self.running, "two at a time");
            self.running = true;
            self.wake.notify_one();
            tokio::time::sleep(SECOND).await;
            self.running = false;
            let mut notes = Notes::default();
            notes.undone.extend((0..250).map(|line| line.to_string()));
            Ok(notes)
        }
    }

    fn slow(hangs: u32) -> Slow {
        Slow { hangs, runs: 0, running: false, wake: Arc::new(Notify::new()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_past_its_deadline_is_given_up_and_reported() {
        let board = RoundBoard::default();
        let rounds = Rounds::new(&flow(), pace(None), Clock::seeded(1), &board);
        assert_eq!(board.reports()["topics"].outcome, Outcome::Pending);

        rounds.run(None, &mut slow(2)).await;

        let report = &board.reports()["topics"];
        assert_eq!((report.runs, report.failures), (3, 2));
        assert_eq!(report.outcome, Outcome::Done);
        // Bounded, and nothing is left uncounted.
        assert_eq!((report.notes.undone.first.len(), report.notes.undone.count), (100, 250));
    }

    #[tokio::test(start_paused = true)]
    async fn runs_never_overlap_and_a_wake_comes_before_the_interval() {
        let board = RoundBoard::default();
        let rounds = Rounds::new(&flow(), pace(Some(600 * SECOND)), Clock::seeded(1), &board);
        let mut round = slow(0);
        let wake = Arc::clone(&round.wake);

        let all = rounds.run(Some(&wake), &mut round);
        assert!(tokio::time::timeout(Duration::from_millis(9_500), all).await.is_err());

        // Nine have ended, and the tenth was under way.
        assert_eq!(round.runs, 10);
        assert_eq!(board.reports()["topics"].runs, 9);
        assert_eq!(board.reports()["topics"].took, SECOND);
    }
}
