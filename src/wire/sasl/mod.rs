//! What is said inside SASL, one mechanism each, as pure steps.
//!
//! PLAIN and SCRAM come from the `sasl` crate. That crate trusts the server in ways that a client
//! must not, so `scram.rs` stands around it; OAUTHBEARER (RFC 7628) is one message and our own.

mod scram;

use std::fmt;

use ::sasl::client::Mechanism as _;
use ::sasl::client::mechanisms::Plain;
use zeroize::Zeroizing;

use crate::model::Secret;
use scram::Scram;

/// The mechanisms that we speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// User and password as they are (RFC 4616).
    Plain,
    /// A proof of the password (RFC 7677).
    ScramSha256,
    /// The same with SHA-512.
    ScramSha512,
    /// A token (RFC 7628, KIP-255).
    OauthBearer,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Plain, Self::ScramSha256, Self::ScramSha512, Self::OauthBearer];

    /// The name in `sasl.mechanism` and on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OauthBearer => "OAUTHBEARER",
        }
    }

    /// The mechanism with this name, in exactly these letters as in Java.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who we are, and how we prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A user.
    Password {
        /// Its name.
        user: String,
        /// Its password.
        password: Secret,
        /// Whether it is a delegation token (KIP-48): its id and its HMAC. SCRAM only.
        token: bool,
    },
    /// Whoever holds this token.
    Bearer {
        /// A JWT in its compact form.
        token: Secret,
        /// `extension_*` options, sent along (KIP-342).
        extensions: Vec<(String, String)>,
    },
}

impl Credentials {
    /// Who logs in, for messages.
    #[must_use]
    pub fn who(&self) -> String {
        match self {
            Self::Password { user, token: false, .. } => format!("user {user:?}"),
            Self::Password { user, token: true, .. } => format!("delegation token {user:?}"),
            Self::Bearer { .. } => "the holder of the token".into(),
        }
    }
}

/// Why an exchange cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    /// Credentials of another kind than the mechanism needs.
    #[error("{0} needs {1}")]
    Credentials(Mechanism, &'static str),
    /// No random bytes could be had.
    #[error("the system gives no random numbers")]
    NoRandom,
    /// What the server said is not SCRAM.
    #[error("its SCRAM answer makes no sense: {0}")]
    Nonsense(&'static str),
    /// Its nonce does not begin with ours: the answer belongs to another exchange.
    #[error("its SCRAM nonce does not continue ours; something stands between us and the broker")]
    Nonce,
    /// Too few rounds protect the password too little, too many are an attack on us.
    #[error("it asks for {0} SCRAM iterations; from {least} to {most} are done", least = scram::ITERATIONS_MIN, most = scram::ITERATIONS_MAX)]
    Iterations(u64),
    /// The server's own word for what is wrong (RFC 5802, section 7).
    #[error("it refused the SCRAM exchange: {0}")]
    Refused(String),
    /// It does not know the password that it accepted.
    #[error(
        "its SCRAM signature is wrong: it does not know the password, so it is not the broker it \
         claims to be"
    )]
    Signature,
    /// It refused the token.
    #[error("it refused the token: {0}")]
    Token(String),
    /// It goes on where nothing is left to say.
    #[error("it goes on asking after the last word of {0}")]
    Endless(Mechanism),
}

/// What to do with the answer of one step.
#[derive(Debug)]
pub enum Step {
    /// Send this.
    Send(Zeroizing<Vec<u8>>),
    /// The mechanism is through; the server is who it should be.
    Done,
}

/// One run of one mechanism.
pub struct Exchange {
    mechanism: Mechanism,
    state: State,
}

enum State {
    /// Everything is said: an empty answer, or none, means yes.
    Said,
    Scram(Box<Scram>),
    Bearer,
    /// A token was refused, and the server waits for the one byte that ends it.
    Refused(String),
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchange({})", self.mechanism)
    }
}

impl Exchange {
    /// Begins, with the first message to send.
    ///
    /// # Errors
    ///
    /// [`SaslError::Credentials`] or [`SaslError::NoRandom`].
    pub fn begin(
        mechanism: Mechanism,
        credentials: &Credentials,
    ) -> Result<(Self, Zeroizing<Vec<u8>>), SaslError> {
        let (state, first) = match (mechanism, credentials) {
            (Mechanism::Plain, Credentials::Password { user, password, .. }) => {
                let first = Plain::new(user.as_str(), password.reveal()).initial();
                (State::Said, Zeroizing::new(first))
            }
            (
                Mechanism::ScramSha256 | Mechanism::ScramSha512,
                Credentials::Password { user, password, token },
            ) => {
                let (scram, first) = Scram::begin(mechanism, user, password, *token)?;
                (State::Scram(Box::new(scram)), Zeroizing::new(first))
            }
            (Mechanism::OauthBearer, Credentials::Bearer { token, extensions }) => {
                (State::Bearer, bearer(token, extensions))
            }
            (Mechanism::OauthBearer, Credentials::Password { .. }) => {
                return Err(SaslError::Credentials(mechanism, "a token"));
            }
            (_, Credentials::Bearer { .. }) => {
                return Err(SaslError::Credentials(mechanism, "a user and a password"));
            }
        };
        Ok((Self { mechanism, state }, first))
    }

    /// Takes what the server said.
    ///
    /// # Errors
    ///
    /// [`SaslError`]; the connection must be closed.
    pub fn step(&mut self, said: &[u8]) -> Result<Step, SaslError> {
        let endless = SaslError::Endless(self.mechanism);
        match &mut self.state {
            State::Said if said.is_empty() => Ok(Step::Done),
            State::Said => Err(endless),
            State::Scram(scram) => match scram.step(said)? {
                Some(message) => Ok(Step::Send(Zeroizing::new(message))),
                None => {
                    self.state = State::Said;
                    Ok(Step::Done)
                }
            },
            State::Bearer if said.is_empty() => {
                self.state = State::Said;
                Ok(Step::Done)
            }
            State::Bearer => {
                self.state = State::Refused(printable(said));
                Ok(Step::Send(Zeroizing::new(vec![1])))
            }
            State::Refused(why) => Err(SaslError::Token(std::mem::take(why))),
        }
    }

    /// What the server said about a token before it refused it.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match &self.state {
            State::Refused(why) => Some(why),
            State::Said | State::Scram(_) | State::Bearer => None,
        }
    }
}

/// The one message of OAUTHBEARER.
fn bearer(token: &Secret, extensions: &[(String, String)]) -> Zeroizing<Vec<u8>> {
    let mut message = Zeroizing::new(Vec::with_capacity(token.reveal().len() + 64));
    message.extend_from_slice(b"n,,\x01auth=Bearer ");
    message.extend_from_slice(token.reveal().as_bytes());
    for (name, value) in extensions {
        message.extend_from_slice(format!("\x01{name}={value}").as_bytes());
    }
    message.extend_from_slice(b"\x01\x01");
    message
}

/// A server's words, short and without anything that a terminal would obey.
pub(super) fn printable(said: &[u8]) -> String {
    const SHOWN_MAX: usize = 300;
    let text = String::from_utf8_lossy(&said[..said.len().min(SHOWN_MAX)]);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password() -> Credentials {
        Credentials::Password { user: "u".into(), password: Secret::new("p"), token: false }
    }

    #[test]
    fn plain_is_one_message_and_an_empty_answer() {
        let (mut exchange, first) = Exchange::begin(Mechanism::Plain, &password()).unwrap();

        assert_eq!(first.as_slice(), b"\0u\0p");
        assert!(matches!(exchange.step(b""), Ok(Step::Done)));
        assert_eq!(exchange.step(b"more").unwrap_err(), SaslError::Endless(Mechanism::Plain));
    }

    #[test]
    fn a_token_is_sent_with_its_extensions_and_a_refusal_is_told_in_the_servers_words() {
        let credentials = Credentials::Bearer {
            token: Secret::new("a.b.c"),
            extensions: vec![("logicalCluster".into(), "lkc-1".into())],
        };
        let (mut exchange, first) = Exchange::begin(Mechanism::OauthBearer, &credentials).unwrap();
        assert_eq!(first.as_slice(), b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01\x01");

        let Step::Send(end) = exchange.step(b"{\"status\":\"invalid_token\"}").unwrap() else {
            panic!("the error is acknowledged")
        };
        assert_eq!(end.as_slice(), [1]);
        assert_eq!(exchange.refusal(), Some("{\"status\":\"invalid_token\"}"));
        assert!(
            matches!(exchange.step(b""), Err(SaslError::Token(why)) if why.contains("invalid"))
        );
    }

    #[test]
    fn credentials_of_the_wrong_kind_are_refused_before_anything_is_sent() {
        let refused = Exchange::begin(Mechanism::OauthBearer, &password()).unwrap_err();
        assert_eq!(refused.to_string(), "OAUTHBEARER needs a token");
    }
}
