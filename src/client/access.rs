//! What it takes to get a connection of one cluster, and how often a refused login is tried.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::certificates::{CertificateRole, SeenCertificate};
use super::clock::Clock;
use super::dial::Dialer;
use super::login;
use super::retry::Jitter;
use super::security::{SaslSettings, Security};
use super::tls::Tls;
use super::token::Tokens;
use crate::model::{ClusterAlias, Moment, Secret};
use crate::wire::Versions;
use crate::wire::{AuthError, Authentication, OutFrame};

/// Pauses after a refused login, by how many there were; the last one stays.
///
/// The first few are short, because a broker that was restarted may not have read its users yet.
/// Then one in ten seconds, for the whole cluster: directories lock an account after some failures
/// in a minute.
const REFUSED_PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Part of a session's life after which it is renewed: at the earliest, and how far that is
/// spread, so that many connections do not log in together. Java takes the same (KIP-368).
const RENEW_AT_PERCENT: (u32, u32) = (85, 10);

/// One login in so many requests is still bearable; brokers refuse more than one in a second.
const RENEW_AT_LEAST: Duration = Duration::from_secs(1);

/// A cluster's way in.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) dialer: Dialer,
    pub(super) client_id: String,
    /// For each step of connecting.
    pub(super) patience: Duration,
    pub(super) tls: Option<Tls>,
    pub(super) sasl: Option<SaslSettings>,
    /// Tokens that a server gives.
    pub(super) tokens: Option<Arc<Tokens>>,
    refusals: Mutex<Refusals>,
}

#[derive(Debug, Default)]
struct Refusals {
    count: usize,
    /// When the last one that was counted came.
    last: Option<Moment>,
    /// No login is tried before.
    until: Option<Moment>,
    why: String,
}

/// A login may be tried now; when that was said.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leave(Moment);

impl Access {
    pub(super) fn new(
        alias: &ClusterAlias,
        security: &Security,
        dialer: Dialer,
        client_id: &str,
        patience: Duration,
        clock: Clock,
    ) -> Self {
        Self {
            dialer,
            client_id: client_id.to_owned(),
            patience,
            tls: security
                .tls
                .clone()
                .map(|settings| Tls::new(settings, alias.clone(), CertificateRole::Broker)),
            tokens: security.sasl.as_ref().and_then(|sasl| {
                let settings = sasl.token_server.as_deref()?.clone();
                // Clusters of one process do not ask in step either.
                let seed = alias
                    .as_str()
                    .bytes()
                    .fold(clock.seed(), |seed, byte| seed.rotate_left(8) ^ u64::from(byte));
                Some(Arc::new(Tokens::new(settings, sasl.jaas.clone(), alias, seed)))
            }),
            sasl: security.sasl.clone(),
            refusals: Mutex::default(),
        }
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a login may be tried now; after a refusal, one at a time and with growing pauses.
    ///
    /// # Errors
    ///
    /// How long to wait, and why the last login was refused.
    pub(super) fn ask_leave(&self, clock: Clock) -> Result<Leave, (Duration, String)> {
        let now = clock.now();
        if self.sasl.is_none() {
            return Ok(Leave(now));
        }
        let mut refusals = self.refusals();
        if refusals.count == 0 {
            return Ok(Leave(now));
        }
        if let Some(until) = refusals.until.filter(|until| now < *until) {
            return Err((until.since(now), refusals.why.clone()));
        }
        // Whoever comes while this one is under way waits its turn.
        refusals.until = Some(now.after(pause(refusals.count, clock)));
        Ok(Leave(now))
    }

    /// Takes note of a refused login.
    pub(super) fn refused(&self, leave: Leave, why: String, clock: Clock) {
        let now = clock.now();
        let mut refusals = self.refusals();
        // Several that were under way together are one.
        if refusals.last.is_none_or(|last| leave.0 >= last) {
            refusals.count = refusals.count.saturating_add(1);
            refusals.last = Some(now);
            refusals.until = Some(now.after(pause(refusals.count, clock)));
        }
        refusals.why = why;
    }

    /// Takes note of a login that went well.
    pub(super) fn admitted(&self) {
        let mut refusals = self.refusals();
        if refusals.count > 0 {
            *refusals = Refusals::default();
        }
    }

    /// Certificates that connections rest on, as far as seen: brokers' and the token server's.
    pub(super) fn certificates(&self) -> Vec<SeenCertificate> {
        let mut all = self.tls.as_ref().map(Tls::certificates).unwrap_or_default();
        all.extend(self.tokens.iter().flat_map(|tokens| tokens.grant().certificates()));
        all
    }

    /// The token that a server gave, if one is held.
    pub(super) fn token(&self, clock: Clock) -> Option<Secret> {
        self.tokens.as_ref()?.now(clock).ok()
    }

    /// Sees to what a login needs from elsewhere.
    ///
    /// # Errors
    ///
    /// [`LoginError::Credentials`] if it cannot be had.
    pub(super) async fn prepare(&self, clock: Clock) -> Result<(), LoginError> {
        match &self.tokens {
            Some(tokens) => tokens.ready(clock).await.map_err(LoginError::Credentials),
            None => Ok(()),
        }
    }

    /// Begins a login; `None` if there is none to do.
    ///
    /// # Errors
    ///
    /// [`LoginError`].
    pub(super) fn log_in(
        &self,
        versions: &Versions,
        clock: Clock,
    ) -> Result<Option<(Authentication, OutFrame)>, LoginError> {
        let Some(sasl) = &self.sasl else { return Ok(None) };
        let credentials = match &self.tokens {
            Some(tokens) => tokens.now(clock).and_then(|token| login::with_token(sasl, token)),
            None => login::credentials(sasl, clock),
        };
        let credentials = credentials.map_err(LoginError::Credentials)?;
        let begun = Authentication::begin(versions, sasl.mechanism, &credentials, &self.client_id)?;
        Ok(Some(begun))
    }

    /// When a session that holds for `lifetime_ms` is renewed.
    pub(super) fn renewal(lifetime_ms: Option<u64>, clock: Clock) -> Option<Moment> {
        let lifetime = Duration::from_millis(lifetime_ms?);
        let (percent, spread) = RENEW_AT_PERCENT;
        let now = clock.now();
        // `spread` shortens by up to a fifth, of which half a life is a tenth of a life.
        let mut jitter = Jitter::new(clock.seed() ^ u64::from(now.0.subsec_nanos()));
        let half = lifetime / 2;
        let less = half - jitter.spread(half);
        let wait = lifetime * (percent + spread) / 100 - less.min(lifetime * spread / 100);
        Some(now.after(wait.max(RENEW_AT_LEAST)))
    }
}

fn pause(count: usize, clock: Clock) -> Duration {
    let at = count.clamp(1, REFUSED_PAUSES.len()) - 1;
    let seed = clock.seed() ^ u64::try_from(count).unwrap_or_default();
    Jitter::new(seed).spread(REFUSED_PAUSES[at])
}

/// Why a login did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// What is needed for it cannot be had here.
    #[error("it cannot be logged in to: {0}")]
    Credentials(String),
    /// The broker's answer.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::security::Provided;
    use crate::wire::sasl::Mechanism;

    fn access() -> Access {
        let sasl = SaslSettings {
            mechanism: Mechanism::Plain,
            jaas: Provided::fixed(""),
            token_file: None,
            token_server: None,
        };
        let security = Security { tls: None, sasl: Some(sasl) };
        let alias = ClusterAlias::new("a");
        Access::new(
            &alias,
            &security,
            Dialer::default(),
            "me",
            Duration::from_secs(1),
            Clock::start(),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn refused_logins_are_tried_one_at_a_time_and_ever_more_seldom() {
        let (access, clock) = (access(), Clock::seeded(1));
        let mut tries = 0;
        while clock.now() < Moment(Duration::from_secs(120)) {
            if let Ok(leave) = access.ask_leave(clock) {
                tries += 1;
                access.refused(leave, "no".into(), clock);
                let (wait, why) = access.ask_leave(clock).unwrap_err();
                assert!(wait <= Duration::from_secs(10) && why == "no");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!((10..=18).contains(&tries), "{tries} logins in two minutes");

        access.admitted();
        assert!(access.ask_leave(clock).is_ok() && access.ask_leave(clock).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn logins_that_are_refused_together_count_once() {
        let (access, clock) = (access(), Clock::seeded(1));
        let leaves: Vec<Leave> = (0..8).filter_map(|_| access.ask_leave(clock).ok()).collect();
        tokio::time::sleep(Duration::from_millis(5)).await;
        for leave in &leaves {
            access.refused(*leave, "no".into(), clock);
        }

        assert_eq!(leaves.len(), 8);
        assert!(access.ask_leave(clock).unwrap_err().0 <= Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_renewed_in_the_last_part_of_their_life() {
        let clock = Clock::seeded(7);
        for _ in 0..50 {
            let now = clock.now();
            let at = Access::renewal(Some(3000), clock).unwrap().since(now);
            assert!((2550..=2850).contains(&at.as_millis()), "{at:?}");
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        assert_eq!(Access::renewal(None, clock), None);
    }
}
