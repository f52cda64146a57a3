//! Tokens of an OAuth server: `sasl.oauthbearer.*` and `sasl.login.*`.

use std::time::Duration;

use super::read::Reader;
use super::security::{Keys, URL};
use crate::client::{
    Provided, RefreshRule, TokenSettings, TokenUrl, check_token_settings, token_tls,
};

/// How long connecting to the server and its answer may take. Java waits without end where a file says
/// nothing; whoever waits for a token here holds up a flow.
const ANSWER_MS: u64 = 10_000;

/// Longest pause before asking again. Java pauses for ten seconds; after half of that there is still time
/// to log in and go on within ten seconds after a server is back.
const RETRY_MAX_MS: u64 = 5_000;

impl Keys<'_, '_, '_> {
    /// The server behind an `https:` URL.
    pub(super) fn token_server(&mut self, url: &str, jaas: &Provided) -> Option<TokenSettings> {
        let Some(endpoint) = TokenUrl::parse(url) else {
            self.error(URL, "it is no address of a server", Some("write https://HOST:PORT/PATH"));
            return None;
        };
        let tls = match token_tls(jaas) {
            Ok(tls) => tls,
            Err(why) => {
                self.error("sasl.jaas.config", why, None);
                return None;
            }
        };
        if !tls.check_host_name {
            let message = "the token server's host name is not checked: whoever has any certificate \
                           of a trusted authority can pretend to be it";
            self.warn("sasl.jaas.config", message, None);
        }
        let first = self.millis("sasl.login.retry.backoff.ms", 100);
        let settings = TokenSettings {
            endpoint,
            client_id: self.provided("sasl.oauthbearer.client.credentials.client.id"),
            client_secret: self.provided("sasl.oauthbearer.client.credentials.client.secret"),
            scope: self.text("sasl.oauthbearer.scope").map(ToOwned::to_owned),
            header_urlencode: self.flag("sasl.oauthbearer.header.urlencode"),
            tls,
            connect_timeout: self.timeout("sasl.login.connect.timeout.ms"),
            read_timeout: self.timeout("sasl.login.read.timeout.ms"),
            refresh: RefreshRule {
                window_permille: self.permille(
                    "sasl.login.refresh.window.factor",
                    (500, 1000),
                    800,
                ),
                jitter_permille: self.permille("sasl.login.refresh.window.jitter", (0, 250), 50),
                min_period: self.seconds("sasl.login.refresh.min.period.seconds", (0, 900), 60),
                buffer: self.seconds("sasl.login.refresh.buffer.seconds", (0, 3600), 300),
            },
            // Without any pause a server that is away would be asked without pause.
            retry: (
                first.max(Duration::from_millis(1)),
                self.millis("sasl.login.retry.backoff.max.ms", RETRY_MAX_MS).max(first),
            ),
        };
        match check_token_settings(&settings, jaas) {
            Ok(()) => Some(settings),
            Err(why) => {
                self.error(URL, why, None);
                None
            }
        }
    }

    fn millis(&mut self, key: &str, default: u64) -> Duration {
        let value = self.get(key).cloned();
        self.reader.millis(value.as_ref(), default)
    }

    fn timeout(&mut self, key: &str) -> Duration {
        let value = self.get(key).cloned();
        let number = self.reader.number(value.as_ref(), (1, i64::from(i32::MAX)), "ms");
        Duration::from_millis(number.map_or(ANSWER_MS, i64::unsigned_abs))
    }

    fn seconds(&mut self, key: &str, range: (i64, i64), default: u64) -> Duration {
        let value = self.get(key).cloned();
        let number = self.reader.number(value.as_ref(), range, "s");
        Duration::from_secs(number.map_or(default, i64::unsigned_abs))
    }

    fn flag(&mut self, key: &str) -> bool {
        let value = self.get(key).cloned();
        self.reader.boolean(value.as_ref(), false)
    }

    /// A part of one, in thousandths.
    fn permille(&mut self, key: &str, (least, most): (u32, u32), default: u32) -> u32 {
        let Some(text) = self.get(key).map(Reader::text) else { return default };
        match thousandths(text).filter(|part| (least..=most).contains(part)) {
            Some(part) => part,
            None => {
                let whole = |permille: u32| f64::from(permille) / 1000.0;
                let message = format!("it must be from {} to {}", whole(least), whole(most));
                self.error(key, message, None);
                default
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
fn thousandths(text: &str) -> Option<u32> {
    let part: f64 = text.parse().ok()?;
    (0.0..=1.0).contains(&part).then(|| (part * 1000.0).round() as u32)
}
