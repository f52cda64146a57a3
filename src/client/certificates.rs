//! Certificates that a cluster's connections rest on, and when they end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustls::pki_types::CertificateDer;

use super::clock::Clock;
use crate::model::{ClusterAlias, Moment};

/// A certificate that ends within this time is worth a warning: renewing takes people days.
const ENDS_SOON_S: i64 = 14 * 24 * 60 * 60;

/// How often the same warning about a certificate is repeated.
const WARN_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Certificates that are remembered of one cluster: one a broker, and its authorities.
const SEEN_MAX: usize = 512;

/// Whose certificate it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateRole {
    /// Our own, from the key store.
    Own,
    /// One that vouches for another: in our chain, in a broker's, or in the trust store.
    Authority,
    /// A broker's.
    Broker,
    /// That of the server that gives tokens.
    TokenServer,
}

impl CertificateRole {
    /// The word in metrics and logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Authority => "authority",
            Self::Broker => "broker",
            Self::TokenServer => "token_server",
        }
    }
}

/// A certificate that is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenCertificate {
    /// Whose it is.
    pub role: CertificateRole,
    /// Its subject's distinguished name.
    pub subject: String,
    /// When it ends, in seconds since 1970.
    pub ends_s: i64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    ends_s: i64,
    warned: Option<Moment>,
}

/// The certificates of one cluster's connections.
#[derive(Debug)]
pub(super) struct Certificates {
    alias: ClusterAlias,
    seen: Mutex<BTreeMap<(CertificateRole, String), Seen>>,
}

impl Certificates {
    pub(super) fn new(alias: ClusterAlias) -> Self {
        Self { alias, seen: Mutex::default() }
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<(CertificateRole, String), Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those in use.
    pub(super) fn all(&self) -> Vec<SeenCertificate> {
        let one = |((role, subject), seen): (&(CertificateRole, String), &Seen)| SeenCertificate {
            role: *role,
            subject: subject.clone(),
            ends_s: seen.ends_s,
        };
        self.seen().iter().map(one).collect()
    }

    /// Forgets our own: others take their place.
    pub(super) fn forget_own(&self) {
        self.seen().retain(|(role, _), _| *role != CertificateRole::Own);
    }

    /// Takes note of a chain that begins with a certificate of this role, and of who among those
    /// that are `trusted` vouches for its end; says, once a day, which of them end soon.
    pub(super) fn note(
        &self,
        role: CertificateRole,
        chain: &[CertificateDer<'_>],
        trusted: &[CertificateDer<'_>],
        clock: Clock,
    ) {
        let mut met = Vec::new();
        let mut issuer = None;
        for (index, certificate) in chain.iter().enumerate() {
            let Some(parsed) = Parsed::of(certificate) else { continue };
            let role = if index == 0 { role } else { CertificateRole::Authority };
            issuer = Some(parsed.issuer);
            met.push((role, parsed.subject, parsed.ends_s));
        }
        for parsed in trusted.iter().filter_map(Parsed::of) {
            if Some(&parsed.subject) == issuer.as_ref() {
                met.push((CertificateRole::Authority, parsed.subject, parsed.ends_s));
            }
        }
        for (role, subject, ends_s) in met {
            self.note_one(role, subject, ends_s, clock);
        }
    }

    fn note_one(&self, role: CertificateRole, subject: String, ends_s: i64, clock: Clock) {
        let now = clock.now();
        let mut all = self.seen();
        let key = (role, subject);
        if !all.contains_key(&key) && all.len() >= SEEN_MAX {
            return;
        }
        let seen = all.entry(key.clone()).or_insert(Seen { ends_s, warned: None });
        if seen.ends_s != ends_s {
            *seen = Seen { ends_s, warned: None };
        }
        let left_s = ends_s - clock.wall().0 / 1000;
        let told = seen.warned.is_some_and(|before| now.since(before) <= WARN_AGAIN);
        if left_s > ENDS_SOON_S || told {
            return;
        }
        seen.warned = Some(now);
        drop(all);
        let (days_left, until) = (left_s.div_euclid(86_400), date(ends_s));
        tracing::warn!(cluster = %self.alias, role = role.word(), subject = key.1, days_left,
            %until, "a certificate ends soon");
    }
}

struct Parsed {
    subject: String,
    issuer: String,
    ends_s: i64,
}

impl Parsed {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
        Some(Self {
            subject: parsed.subject().to_string(),
            issuer: parsed.issuer().to_string(),
            ends_s: parsed.validity().not_after.timestamp(),
        })
    }
}

/// A day as people write it, from seconds since 1970 (Howard Hinnant, `civil_from_days`).
pub(super) fn date(seconds: i64) -> String {
    let days = seconds.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_dates() {
        for (seconds, expected) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_798_675_200, "2026-12-31")]
        {
            assert_eq!(date(seconds), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_that_ends_soon_is_told_once_a_day_and_a_renewed_one_is_another() {
        let clock = Clock::seeded(1);
        let certificates = Certificates::new(ClusterAlias::new("a"));
        let now_s = clock.wall().0 / 1000;
        let warned = |ends_s| {
            certificates.note_one(CertificateRole::Own, "CN=me".into(), ends_s, clock);
            certificates.seen().values().next().unwrap().warned
        };

        assert_eq!(warned(now_s + ENDS_SOON_S + 60), None);
        let first = warned(now_s + ENDS_SOON_S - 60);
        assert_eq!(first, Some(clock.now()));
        tokio::time::sleep(WARN_AGAIN / 2).await;
        assert_eq!(warned(now_s + ENDS_SOON_S - 60), first);
        tokio::time::sleep(WARN_AGAIN).await;
        assert_eq!(warned(now_s + ENDS_SOON_S - 60), Some(clock.now()));
        assert_eq!(warned(now_s + 10 * ENDS_SOON_S), None);

        assert_eq!(certificates.all().len(), 1);
        certificates.forget_own();
        assert!(certificates.all().is_empty());
    }
}
