//! Bearer tokens that a server gives, from one to the next.
//!
//! One token serves all connections of a cluster. It is asked for when the first connection needs one,
//! and refreshed by a task of its own, a little before it ends, at a time that differs from process to
//! process; while the server does not answer, the token that there is stays in use until its end.
//! When a token is refreshed, Java's `ExpiringCredentialRefreshingLogin` says.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::Clock;
use super::grant::{Given, Grant};
use super::retry::{Backoff, Jitter};
use super::security::{Provided, RefreshRule, TokenSettings};
use crate::model::{ClusterAlias, Moment, Secret};

/// A token is refreshed once a year, however long it lasts: what a server says cannot carry a moment
/// out of what a clock can tell.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A token and its life.
#[derive(Debug)]
struct Held {
    token: Secret,
    ends: Moment,
    refresh_at: Moment,
}

/// Why a question failed, and when the next may be put.
#[derive(Debug)]
struct Failure {
    why: String,
    until: Moment,
}

/// What is known of one cluster's token.
#[derive(Debug)]
struct Life {
    rule: RefreshRule,
    held: Option<Held>,
    failed: Option<Failure>,
    pauses: Backoff,
    jitter: Jitter,
}

impl Life {
    fn new(rule: RefreshRule, pauses: (Duration, Duration), seed: u64) -> Self {
        let pauses = Backoff::between(pauses.0, pauses.1, seed);
        Self { rule, held: None, failed: None, pauses, jitter: Jitter::new(seed) }
    }

    /// The token, until its end.
    ///
    /// # Errors
    ///
    /// Why there is none.
    fn token(&self, now: Moment) -> Result<Secret, String> {
        match (&self.held, &self.failed) {
            (Some(held), _) if now < held.ends => Ok(held.token.clone()),
            (_, Some(failure)) => Err(failure.why.clone()),
            (Some(_), None) => Err("the token has ended".into()),
            (None, None) => Err("there is no token yet".into()),
        }
    }

    /// Whether somebody who has no token may ask for one.
    ///
    /// # Errors
    ///
    /// Why the last question failed, while the pause after it lasts.
    fn may_ask(&self, now: Moment) -> Result<(), String> {
        match &self.failed {
            Some(failure) if now < failure.until => Err(failure.why.clone()),
            _ => Ok(()),
        }
    }

    /// When the token is to be refreshed; `None` before the first has come, which connections ask for.
    fn refresh_at(&self) -> Option<Moment> {
        let held = self.held.as_ref()?;
        Some(self.failed.as_ref().map_or(held.refresh_at, |failure| failure.until))
    }

    /// A token has come, which lasts so long. Whether it is the first, and how many questions had failed.
    fn came(&mut self, given: Given, now: Moment) -> (bool, u32) {
        let lasts = given.lasts.min(LIFETIME_MAX);
        let refresh_at = now.after(refresh_after(self.rule, lasts, &mut self.jitter));
        let held = Held { token: given.token, ends: now.after(lasts), refresh_at };
        let first = self.held.replace(held).is_none();
        let failures = self.pauses.failures();
        self.pauses.succeed();
        self.failed = None;
        (first, failures)
    }

    /// None has come. How many questions in a row have failed.
    fn failed(&mut self, why: String, now: Moment) -> u32 {
        self.failed = Some(Failure { why, until: now.after(self.pauses.fail()) });
        self.pauses.failures()
    }
}

/// How long after it came a token that lasts so long is refreshed
/// (`ExpiringCredentialRefreshingLogin.refreshMs`).
fn refresh_after(rule: RefreshRule, lasts: Duration, jitter: &mut Jitter) -> Duration {
    // `spread` takes away up to a fifth of what it is given.
    let later = Duration::from_secs(1) - jitter.spread(Duration::from_secs(1));
    let later = later.as_secs_f64() * 5.0 * f64::from(rule.jitter_permille);
    let part = (f64::from(rule.window_permille) + later) / 1000.0;
    let wanted = lasts.mul_f64(part.clamp(0.0, 1.0));
    if rule.min_period.saturating_add(rule.buffer) > lasts {
        return wanted;
    }
    wanted.min(lasts - rule.buffer).max(rule.min_period)
}

/// The tokens of one cluster.
#[derive(Debug)]
pub(super) struct Tokens {
    grant: Grant,
    alias: ClusterAlias,
    life: Mutex<Life>,
    /// Held while a question is under way: whoever comes meanwhile waits for its answer.
    asking: tokio::sync::Mutex<()>,
    /// The first token has come.
    came: Notify,
}

impl Tokens {
    pub(super) fn new(
        settings: TokenSettings,
        jaas: Provided,
        alias: &ClusterAlias,
        seed: u64,
    ) -> Self {
        Self {
            life: Mutex::new(Life::new(settings.refresh, settings.retry, seed)),
            grant: Grant::new(settings, jaas, alias),
            alias: alias.clone(),
            asking: tokio::sync::Mutex::new(()),
            came: Notify::new(),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What gives the tokens.
    pub(super) fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The token that is held now.
    ///
    /// # Errors
    ///
    /// That there is none, and why.
    pub(super) fn now(&self, clock: Clock) -> Result<Secret, String> {
        self.life().token(clock.now())
    }

    /// Sees to it that a token is held; takes no longer than the timeouts of the settings say.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub(super) async fn ready(&self, clock: Clock) -> Result<(), String> {
        if self.now(clock).is_ok() {
            return Ok(());
        }
        let _asking = self.asking.lock().await;
        if self.now(clock).is_ok() {
            return Ok(());
        }
        self.life().may_ask(clock.now())?;
        self.ask(clock).await
    }

    /// Refreshes the token without end, once there is one.
    pub(super) async fn refresh(&self, clock: Clock) {
        loop {
            let next = self.life().refresh_at();
            let Some(at) = next else {
                self.came.notified().await;
                continue;
            };
            clock.sleep_until(at).await;
            let _asking = self.asking.lock().await;
            // A connection that had none may have asked meanwhile.
            let due = self.life().refresh_at().is_some_and(|at| at <= clock.now());
            if due {
                // What failed is told in there, and the next pause is known.
                let _failed = self.ask(clock).await.is_err();
            }
        }
    }

    async fn ask(&self, clock: Clock) -> Result<(), String> {
        match self.grant.ask(clock).await {
            Ok(given) => {
                let lasts = given.lasts;
                let (first, failures) = self.life().came(given, clock.now());
                if first {
                    self.came.notify_one();
                }
                if failures > 0 {
                    tracing::info!(cluster = %self.alias, failures, ?lasts, "a token came at last");
                } else {
                    tracing::debug!(cluster = %self.alias, ?lasts, "a token came");
                }
                Ok(())
            }
            Err(why) => {
                let why = format!("no token from {}: {why}", self.grant.url());
                let now = clock.now();
                let mut life = self.life();
                let in_use = life.token(now).is_ok();
                let failures = life.failed(why.clone(), now);
                drop(life);
                // Once for each time that the server is away; without a token, connections say so.
                if failures == 1 && in_use {
                    tracing::warn!(cluster = %self.alias, why,
                        "token not refreshed; the one before stays in use until its end");
                } else {
                    tracing::debug!(cluster = %self.alias, why, failures, "no token came");
                }
                Err(why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: RefreshRule = RefreshRule {
        window_permille: 800,
        jitter_permille: 50,
        min_period: Duration::from_secs(60),
        buffer: Duration::from_secs(300),
    };
    const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

    fn at(seconds: f64) -> Moment {
        Moment(Duration::from_secs_f64(seconds))
    }

    fn given(token: &str, seconds: u64) -> Given {
        Given { token: Secret::new(token), lasts: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_token_is_refreshed_in_its_last_fifth_and_a_long_one_before_the_buffer() {
        let mut jitter = Jitter::new(7);
        let mut after = |seconds| {
            let after = refresh_after(RULE, Duration::from_secs(seconds), &mut jitter);
            after.as_secs_f64()
        };
        let short: Vec<f64> = (0..200).map(|_| after(20)).collect();
        assert!(short.iter().all(|wait| (16.0..=17.0).contains(wait)), "{short:?}");
        // Spread over all of the jitter's width, not at one place in it.
        assert!(short.iter().any(|wait| *wait < 16.2) && short.iter().any(|wait| *wait > 16.8));
        for _ in 0..50 {
            assert!((2880.0..=3060.0).contains(&after(3600)));
            // 80 % of it would lie in its last five minutes.
            assert!((after(600) - 300.0).abs() < 1e-6);
        }
    }

    #[test]
    fn processes_with_other_seeds_refresh_at_other_times() {
        let first = |seed| {
            let mut life = Life::new(RULE, PAUSES, seed);
            life.came(given("a.b.c", 3600), at(0.0));
            life.refresh_at().unwrap()
        };
        let mut times: Vec<_> = (0..20).map(first).collect();
        times.sort_unstable();
        times.dedup();
        assert!(times.len() > 10, "{times:?}");
    }

    #[test]
    fn a_token_that_is_not_refreshed_stays_in_use_until_its_end_and_not_longer() {
        let mut life = Life::new(RULE, PAUSES, 1);
        assert_eq!(life.token(at(0.0)).unwrap_err(), "there is no token yet");
        assert_eq!(life.came(given("old.t.t", 20), at(0.0)), (true, 0));
        let refresh = life.refresh_at().unwrap();
        assert!(refresh >= at(16.0) && refresh <= at(17.0));

        assert_eq!(life.failed("away".into(), at(17.0)), 1);
        let again = life.refresh_at().unwrap();
        assert!(again > at(17.0) && again <= at(17.1), "{again:?}");
        assert_eq!(life.failed("still away".into(), again), 2);
        assert_eq!(life.token(at(19.9)).unwrap().reveal(), "old.t.t");
        assert_eq!(life.token(at(20.0)).unwrap_err(), "still away");

        assert_eq!(life.came(given("new.t.t", 20), at(30.0)), (false, 2));
        assert_eq!(life.token(at(30.0)).unwrap().reveal(), "new.t.t");
        assert_eq!(life.token(at(50.0)).unwrap_err(), "the token has ended");
        assert!(life.refresh_at().unwrap() >= at(46.0));
    }

    #[test]
    fn questions_that_fail_are_put_ever_more_rarely_by_everybody_together() {
        let mut life = Life::new(RULE, PAUSES, 1);
        let mut now = at(0.0);
        let mut waits = Vec::new();
        for _ in 0..12 {
            assert_eq!(life.may_ask(now), Ok(()));
            life.failed("away".into(), now);
            assert_eq!(life.may_ask(now), Err("away".into()));
            // Nobody refreshes what there is not.
            assert_eq!(life.refresh_at(), None);
            let until = life.failed.as_ref().unwrap().until;
            waits.push(until.since(now));
            now = until;
        }
        assert!(waits[0] <= PAUSES.0 && waits[11] >= PAUSES.1 * 4 / 5 && waits[11] <= PAUSES.1);
    }

    #[test]
    fn a_life_beyond_all_clocks_is_bounded() {
        let mut life = Life::new(RULE, PAUSES, 1);
        life.came(Given { token: Secret::new("a.b.c"), lasts: Duration::MAX }, at(5.0));
        assert!(life.refresh_at().unwrap() <= at(5.0).after(LIFETIME_MAX));
        assert!(!format!("{life:?}").contains("a.b.c"));
    }
}
