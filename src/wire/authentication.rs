//! SaslHandshake and SaslAuthenticate: at the start of a connection, and again in mid-flow.
//!
//! Handshake version 1, so that every token travels framed (KIP-152). The answer to the last token
//! tells how long the session holds (KIP-368); before that time is over the same exchange is run
//! again on the same connection, without ApiVersions in front of it.

use super::bounded::Writer;
use super::frame::OutFrame;
use super::sasl::{Credentials, Exchange, Mechanism, SaslError, Step, printable};
use super::{Api, ErrorCode, Malformed, NoVersion, Reader, Versions};

/// More tokens than any mechanism exchanges: a server must come to an end.
const TOKENS_MAX: u32 = 8;

/// More mechanisms than any broker offers.
const MECHANISMS_MAX: usize = 64;

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The answer cannot be read.
    #[error("its answer to the login cannot be read: {0}")]
    Malformed(#[from] Malformed),
    /// The broker is too old.
    #[error("it cannot be logged in to: {0}")]
    NoVersion(#[from] NoVersion),
    /// It wants another mechanism.
    #[error(
        "it does not take {mechanism}; it offers {}. Look at `sasl.mechanism`",
        offers(.offered)
    )]
    Mechanism {
        /// What we asked for.
        mechanism: Mechanism,
        /// What it offers.
        offered: Vec<String>,
    },
    /// This listener has no logins.
    #[error(
        "this listener takes no login; it looks like PLAINTEXT or SSL. Look at `security.protocol`"
    )]
    NoSasl,
    /// It said no.
    #[error("it refused {who} with {mechanism}: {said}. Look at {}", key(*.mechanism))]
    Refused {
        /// With which mechanism.
        mechanism: Mechanism,
        /// Who wanted in.
        who: String,
        /// In its own words.
        said: String,
    },
    /// It is not to be trusted, or what we have does not fit the mechanism.
    #[error("{mechanism} cannot go on: {cause}")]
    Sasl {
        /// The mechanism.
        mechanism: Mechanism,
        /// What went wrong.
        cause: SaslError,
    },
    /// An error that has nothing to do with credentials.
    #[error("it answered the login with {0}")]
    Other(ErrorCode),
}

fn offers(offered: &[String]) -> String {
    if offered.is_empty() { "none".into() } else { offered.join(", ") }
}

fn key(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => {
            "user and password in `sasl.jaas.config`, and whether the user exists for this \
             mechanism"
        }
        Mechanism::OauthBearer => {
            "the token's source (`sasl.oauthbearer.token.endpoint.url` or `sasl.jaas.config`), its \
             times, and the clocks of both machines"
        }
    }
}

/// What to do next.
#[derive(Debug)]
pub enum AuthStep {
    /// Send this and show the answer to [`Authentication::on_answer`].
    Send(OutFrame),
    /// We are logged in, for this many milliseconds; `None` for good.
    Done(Option<u64>),
}

#[derive(Debug)]
enum Awaits {
    Handshake { first: zeroize::Zeroizing<Vec<u8>> },
    Authenticate,
}

/// One login on one connection.
#[derive(Debug)]
pub struct Authentication {
    client_id: String,
    mechanism: Mechanism,
    who: String,
    /// Of SaslAuthenticate.
    version: i16,
    exchange: Exchange,
    awaits: Awaits,
    tokens: u32,
}

impl Authentication {
    /// Begins, with the handshake to send.
    ///
    /// # Errors
    ///
    /// [`AuthError`]: the broker knows no such APIs, or the credentials do not fit.
    pub fn begin(
        versions: &Versions,
        mechanism: Mechanism,
        credentials: &Credentials,
        client_id: &str,
    ) -> Result<(Self, OutFrame), AuthError> {
        let handshake = versions.choose(Api::SaslHandshake)?;
        let version = versions.choose(Api::SaslAuthenticate)?;
        let (exchange, first) = Exchange::begin(mechanism, credentials)
            .map_err(|cause| AuthError::Sasl { mechanism, cause })?;
        let mut frame = OutFrame::new(Api::SaslHandshake, handshake, client_id, 32);
        Writer::new(frame.small(), false).string(mechanism.name());
        let authentication = Self {
            client_id: client_id.to_owned(),
            mechanism,
            who: credentials.who(),
            version,
            exchange,
            awaits: Awaits::Handshake { first },
            tokens: 0,
        };
        Ok((authentication, frame.seal()))
    }

    fn token(&mut self, token: &[u8]) -> OutFrame {
        self.awaits = Awaits::Authenticate;
        self.tokens += 1;
        let (version, room) = (self.version, token.len() + 8);
        let mut frame = OutFrame::new(Api::SaslAuthenticate, version, &self.client_id, room);
        let mut writer = Writer::new(frame.small(), Api::SaslAuthenticate.is_flexible(version));
        writer.length(token.len());
        writer.raw(token);
        writer.no_tagged();
        frame.seal()
    }

    /// Takes the body of an answer, behind the response header.
    ///
    /// # Errors
    ///
    /// [`AuthError`]; the connection must be closed.
    pub fn on_answer(&mut self, body: &[u8]) -> Result<AuthStep, AuthError> {
        match &mut self.awaits {
            Awaits::Handshake { first } => {
                let first = std::mem::take(first);
                self.on_handshake(body)?;
                Ok(AuthStep::Send(self.token(&first)))
            }
            Awaits::Authenticate => self.on_token(body),
        }
    }

    fn on_handshake(&self, body: &[u8]) -> Result<(), AuthError> {
        let mut reader = Reader::new(body, false);
        let code = ErrorCode(reader.i16()?);
        let count = reader.count(2)?;
        if count > MECHANISMS_MAX {
            return Err(reader.malformed("at most 64 mechanisms", count).into());
        }
        let mut offered = Vec::with_capacity(count);
        for _ in 0..count {
            offered.push(printable(reader.string()?.as_bytes()));
        }
        reader.finish()?;
        match code.0 {
            0 => Ok(()),
            33 => Err(AuthError::Mechanism { mechanism: self.mechanism, offered }),
            34 => Err(AuthError::NoSasl),
            _ => Err(AuthError::Other(code)),
        }
    }

    fn on_token(&mut self, body: &[u8]) -> Result<AuthStep, AuthError> {
        let flexible = Api::SaslAuthenticate.is_flexible(self.version);
        let mut reader = Reader::new(body, flexible);
        let code = ErrorCode(reader.i16()?);
        let message = reader.nullable_string()?.map(|text| printable(text.as_bytes()));
        let said = reader.nullable_bytes()?.map_or(&[][..], |range| &body[range]);
        let lifetime = if self.version >= 1 { reader.i64()? } else { 0 };
        reader.skip_tagged()?;
        reader.finish()?;
        let mechanism = self.mechanism;
        match code.0 {
            0 => {}
            34 => return Err(AuthError::NoSasl),
            58 => {
                // What it said about a token before is more than the closing word.
                let said = match (self.exchange.refusal(), message) {
                    (Some(refusal), _) => refusal.to_owned(),
                    (None, Some(message)) => message,
                    (None, None) => code.to_string(),
                };
                let said = said.trim_end_matches('.').to_owned();
                return Err(AuthError::Refused { mechanism, who: self.who.clone(), said });
            }
            _ => return Err(AuthError::Other(code)),
        }
        let sasl = |cause| match cause {
            // A refusal inside the mechanism is one like any other.
            SaslError::Refused(said) | SaslError::Token(said) => {
                AuthError::Refused { mechanism, who: self.who.clone(), said }
            }
            cause => AuthError::Sasl { mechanism, cause },
        };
        match self.exchange.step(said).map_err(sasl)? {
            Step::Send(_) if self.tokens >= TOKENS_MAX => {
                Err(AuthError::Sasl { mechanism, cause: SaslError::Endless(mechanism) })
            }
            Step::Send(token) => Ok(AuthStep::Send(self.token(&token))),
            Step::Done => Ok(AuthStep::Done(u64::try_from(lifetime).ok().filter(|ms| *ms > 0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Secret;

    fn begun(newest: i16) -> Authentication {
        let versions = Versions::new(BTreeMap::from([(17, (0, 1)), (36, (0, newest))]));
        let credentials = Credentials::Password {
            user: "mirror".into(),
            password: Secret::new("hunter2"),
            token: false,
        };
        let (authentication, first) =
            Authentication::begin(&versions, Mechanism::Plain, &credentials, "me").unwrap();
        assert!(first.to_vec().ends_with(b"\0\x05PLAIN"));
        authentication
    }

    const TAKEN: &[u8] = b"\0\0\0\0\0\x01\0\x05PLAIN";

    #[test]
    fn a_login_in_every_version_ends_with_the_time_it_holds() {
        let answers: [(&[u8], Option<u64>); 3] = [
            (b"\0\0\xff\xff\0\0\0\0", None),
            (b"\0\0\xff\xff\0\0\0\0\0\0\0\0\0\0\x0b\xb8", Some(3000)),
            (b"\0\0\0\x01\0\0\0\0\0\0\x0b\xb8\0", Some(3000)),
        ];
        for (version, (answer, lifetime)) in (0..).zip(answers) {
            let mut authentication = begun(version);
            let Ok(AuthStep::Send(frame)) = authentication.on_answer(TAKEN) else {
                panic!("a token follows")
            };
            assert!(frame.to_vec().windows(15).any(|bytes| bytes == b"\0mirror\0hunter2"));
            let Ok(AuthStep::Done(found)) = authentication.on_answer(answer) else {
                panic!("version {version}")
            };
            assert_eq!(found, lifetime, "version {version}");
        }
    }

    #[test]
    fn refusals_name_the_key_to_look_at_and_never_the_password() {
        let wrong = begun(1).on_answer(b"\0\x21\0\0\0\x01\0\x06GSSAPI").unwrap_err().to_string();
        assert_eq!(wrong, "it does not take PLAIN; it offers GSSAPI. Look at `sasl.mechanism`");

        let mut authentication = begun(1);
        authentication.on_answer(TAKEN).unwrap();
        let refused = authentication
            .on_answer(b"\0\x3a\0\x04 no.\0\0\0\0\0\0\0\0\0\0\0\0")
            .unwrap_err()
            .to_string();
        assert!(refused.contains("user \"mirror\"") && refused.contains("sasl.jaas.config"));
        assert!(!refused.contains("hunter2") && !format!("{authentication:?}").contains("hunter2"));

        let none = begun(1).on_answer(b"\0\x22\0\0\0\0").unwrap_err();
        assert_eq!(none, AuthError::NoSasl);
    }

    #[test]
    fn cut_off_and_endless_answers_are_errors() {
        for cut in 0..TAKEN.len() {
            assert!(begun(2).on_answer(&TAKEN[..cut]).is_err(), "{cut}");
        }
        let mut authentication = begun(0);
        authentication.on_answer(TAKEN).unwrap();
        assert!(authentication.on_answer(b"\0\0\xff\xff\0\0\0\x01x").is_err());
    }
}
