//! SCRAM (RFC 5802, RFC 7677) through the `sasl` crate, with the checks that it leaves out.
//!
//! The crate computes the messages. It does not check that the server's nonce continues ours, takes
//! any iteration count, does not escape names, and knows neither the server's error messages nor
//! SHA-512. All of that is here, before the crate sees a message. Like Kafka's own client, no
//! SASLprep is applied: name and password are used as their UTF-8 bytes.

use std::num::NonZeroU32;

use ::sasl::client::Mechanism as _;
use ::sasl::client::MechanismError;
use ::sasl::client::mechanisms::Scram as Machine;
use ::sasl::common::scram::{DeriveError, ScramProvider};
use ::sasl::common::{ChannelBinding, Password};
use hmac::digest::InvalidLength;
use ring::{digest, hmac as ring_hmac, pbkdf2};

use super::{Mechanism, SaslError, printable};
use crate::model::Secret;

/// Kafka's own least (`ScramMechanism`); fewer would make the proof cheap to guess from.
pub(super) const ITERATIONS_MIN: u64 = 4096;

/// Kafka brokers take at most 16,384 by default. This many are a few hundredths of a second; a
/// server that asks for more wants to keep us busy.
pub(super) const ITERATIONS_MAX: u64 = 100_000;

/// Longest server message that is looked at: nonce, salt and number are far below.
const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// SHA-256 for the crate.
struct Sha256;
/// SHA-512 for the crate.
struct Sha512;

macro_rules! provider {
    ($name:ident, $text:literal, $bytes:literal, $digest:expr, $hmac:expr, $pbkdf2:expr) => {
        impl ScramProvider for $name {
            type Secret = ::sasl::secret::Plain;

            fn name() -> &'static str {
                $text
            }

            fn hash(data: &[u8]) -> Vec<u8> {
                digest::digest($digest, data).as_ref().to_vec()
            }

            fn hmac(data: &[u8], key: &[u8]) -> Result<Vec<u8>, InvalidLength> {
                Ok(ring_hmac::sign(&ring_hmac::Key::new($hmac, key), data).as_ref().to_vec())
            }

            fn derive(
                password: &Password,
                salt: &[u8],
                iterations: u32,
            ) -> Result<Vec<u8>, DeriveError> {
                let Password::Plain(plain) = password else {
                    return Err(DeriveError::InvalidLength);
                };
                let rounds = NonZeroU32::new(iterations).ok_or(DeriveError::InvalidLength)?;
                let mut out = vec![0; $bytes];
                pbkdf2::derive($pbkdf2, rounds, salt, plain.as_bytes(), &mut out);
                Ok(out)
            }
        }
    };
}

provider!(
    Sha256,
    "SHA-256",
    32,
    &digest::SHA256,
    ring_hmac::HMAC_SHA256,
    pbkdf2::PBKDF2_HMAC_SHA256
);
provider!(
    Sha512,
    "SHA-512",
    64,
    &digest::SHA512,
    ring_hmac::HMAC_SHA512,
    pbkdf2::PBKDF2_HMAC_SHA512
);

enum Kind {
    Sha256(Machine<Sha256>),
    Sha512(Machine<Sha512>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaits {
    First,
    Final,
    Nothing,
}

/// One exchange.
pub(super) struct Scram {
    kind: Kind,
    /// Ours, as sent.
    nonce: String,
    awaits: Awaits,
}

impl Scram {
    /// Begins, with the first message.
    pub(super) fn begin(
        mechanism: Mechanism,
        user: &str,
        password: &Secret,
        token: bool,
    ) -> Result<(Self, Vec<u8>), SaslError> {
        let name = user.replace('=', "=3D").replace(',', "=2C");
        let extensions = if token { "tokenauth=true" } else { "" };
        macro_rules! machine {
            ($provider:ty) => {
                Machine::<$provider>::new(name, password.reveal(), ChannelBinding::None)
                    .map_err(|_| SaslError::NoRandom)?
                    .with_first_extensions(extensions.into())
            };
        }
        let mut kind = match mechanism {
            Mechanism::ScramSha512 => Kind::Sha512(machine!(Sha512)),
            _ => Kind::Sha256(machine!(Sha256)),
        };
        let first = match &mut kind {
            Kind::Sha256(machine) => machine.initial(),
            Kind::Sha512(machine) => machine.initial(),
        };
        // The crate draws the nonce and keeps it to itself; the message tells it.
        let text = std::str::from_utf8(&first).unwrap_or_default();
        let nonce = text
            .split(',')
            .find_map(|part| part.strip_prefix("r="))
            .ok_or(SaslError::NoRandom)?
            .to_owned();
        Ok((Self { kind, nonce, awaits: Awaits::First }, first))
    }

    /// Takes a server message: what to send, or `None` once the server has proved itself.
    pub(super) fn step(&mut self, said: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        let text = message(said)?;
        match self.awaits {
            Awaits::First => {
                guard(text, &self.nonce)?;
                self.awaits = Awaits::Final;
                let answer = match &mut self.kind {
                    Kind::Sha256(machine) => machine.response(said),
                    Kind::Sha512(machine) => machine.response(said),
                };
                answer.map(Some).map_err(|error| words(&error))
            }
            Awaits::Final => {
                self.awaits = Awaits::Nothing;
                let verdict = match &mut self.kind {
                    Kind::Sha256(machine) => machine.success(said),
                    Kind::Sha512(machine) => machine.success(said),
                };
                verdict.map(|()| None).map_err(|error| words(&error))
            }
            Awaits::Nothing => Err(SaslError::Nonsense("nothing was left to say")),
        }
    }
}

/// A server message as text, unless it is an error.
fn message(said: &[u8]) -> Result<&str, SaslError> {
    if said.len() > MESSAGE_BYTES_MAX {
        return Err(SaslError::Nonsense("a message of more than 8 KiB"));
    }
    let text = std::str::from_utf8(said).map_err(|_| SaslError::Nonsense("not UTF-8"))?;
    match text.strip_prefix("e=") {
        Some(error) => Err(SaslError::Refused(printable(error.as_bytes()))),
        None => Ok(text),
    }
}

/// What must hold of a server's first message before the crate may see it.
fn guard(text: &str, ours: &str) -> Result<(), SaslError> {
    let mut parts = text.split(',');
    let mut part = |name: &str, missing| {
        let value = parts.next().and_then(|part| part.strip_prefix(name));
        value.ok_or(SaslError::Nonsense(missing))
    };
    let nonce = part("r=", "no nonce in its place")?;
    let salt = part("s=", "no salt in its place")?;
    let iterations = part("i=", "no iteration count in its place")?;
    // The server's own part must not be empty: it would add nothing that is fresh.
    if nonce.len() <= ours.len() || !nonce.starts_with(ours) {
        return Err(SaslError::Nonce);
    }
    if salt.is_empty() {
        return Err(SaslError::Nonsense("an empty salt"));
    }
    let iterations: u64 =
        iterations.parse().map_err(|_| SaslError::Nonsense("an iteration count that is none"))?;
    if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
        return Err(SaslError::Iterations(iterations));
    }
    // The crate reads a message into a map, where a later part would replace one checked here.
    let repeats =
        parts.any(|part| ["r=", "s=", "i=", "m="].iter().any(|name| part.starts_with(name)));
    if repeats {
        return Err(SaslError::Nonsense("a part that stands twice, or an extension we must know"));
    }
    Ok(())
}

fn words(error: &MechanismError) -> SaslError {
    match error {
        MechanismError::InvalidSignatureInSuccessResponse => SaslError::Signature,
        MechanismError::NoSignatureInSuccessResponse => SaslError::Nonsense("no signature"),
        MechanismError::NoServerSalt => SaslError::Nonsense("a salt that is no base64"),
        _ => SaslError::Nonsense("it cannot be read"),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn begun(mechanism: Mechanism) -> (Scram, String) {
        let (scram, first) = Scram::begin(mechanism, "u,s=er", &Secret::new("pencil"), false)
            .expect("random numbers");
        (scram, String::from_utf8(first).unwrap())
    }

    /// The proof and the server's signature of an exchange, from its messages.
    fn proof<P: ScramProvider>(
        password: &str,
        (salt, iterations): (&str, u32),
        messages: [&str; 3],
    ) -> (String, String) {
        let salt = STANDARD.decode(salt).unwrap();
        let salted = P::derive(&Password::Plain(password.into()), &salt, iterations).unwrap();
        let client_key = P::hmac(b"Client Key", &salted).unwrap();
        let text = messages.join(",");
        let signature = P::hmac(text.as_bytes(), &P::hash(&client_key)).unwrap();
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_key = P::hmac(b"Server Key", &salted).unwrap();
        let server = P::hmac(text.as_bytes(), &server_key).unwrap();
        (STANDARD.encode(proof), STANDARD.encode(server))
    }

    #[test]
    fn the_vector_of_rfc_7677_comes_out() {
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let first = format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        let (proof, signature) = proof::<Sha256>(
            "pencil",
            ("W22ZaJ0SNY7soEsUEjb6gQ==", 4096),
            ["n=user,r=rOprNGfwEbeRWgbNEkqO", &first, &format!("c=biws,r={nonce}")],
        );

        assert_eq!(proof, "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(guard(&first, "rOprNGfwEbeRWgbNEkqO"), Ok(()));
    }

    /// A server that knows the password, written from the RFC and not from the client.
    fn server<P: ScramProvider>(scram: &mut Scram, first: &str) -> Result<(), SaslError> {
        let bare = first.strip_prefix("n,,").unwrap();
        let nonce = format!("{}server", scram.nonce);
        let salt = STANDARD.encode(b"some salt");
        let challenge = format!("r={nonce},s={salt},i=4096");
        let last = String::from_utf8(scram.step(challenge.as_bytes())?.unwrap()).unwrap();
        let (without_proof, proof_sent) = last.rsplit_once(",p=").unwrap();
        let (proof, signature) =
            proof::<P>("pencil", (&salt, 4096), [bare, &challenge, without_proof]);
        assert_eq!(proof_sent, proof);
        assert_eq!(without_proof, format!("c=biws,r={nonce}"));
        assert_eq!(scram.step(format!("v={signature}").as_bytes())?, None);
        Ok(())
    }

    #[test]
    fn a_server_that_knows_the_password_is_believed_with_both_hashes() {
        let (mut scram, first) = begun(Mechanism::ScramSha256);
        assert!(first.starts_with("n,,n=u=2Cs=3Der,r="), "{first}");
        server::<Sha256>(&mut scram, &first).unwrap();

        let (mut scram, first) = begun(Mechanism::ScramSha512);
        server::<Sha512>(&mut scram, &first).unwrap();
    }

    #[test]
    fn a_delegation_token_says_that_it_is_one() {
        let (_, first) =
            Scram::begin(Mechanism::ScramSha256, "id", &Secret::new("hmac"), true).unwrap();
        assert!(String::from_utf8(first).unwrap().ends_with(",tokenauth=true"));
    }

    #[test]
    fn a_server_that_cheats_is_found_out_before_any_work_is_done() {
        let said = |make: fn(&str) -> String| {
            let (mut scram, _) = begun(Mechanism::ScramSha256);
            let text = make(&scram.nonce);
            scram.step(text.as_bytes()).unwrap_err()
        };

        assert_eq!(said(|_| "r=other,s=c2FsdA==,i=4096".into()), SaslError::Nonce);
        assert_eq!(said(|ours| format!("r={ours},s=c2FsdA==,i=4096")), SaslError::Nonce);
        assert_eq!(
            said(|ours| format!("r={ours}x,s=c2FsdA==,i=4095")),
            SaslError::Iterations(4095)
        );
        assert_eq!(
            said(|ours| format!("r={ours}x,s=c2FsdA==,i=4294967295")),
            SaslError::Iterations(4_294_967_295)
        );
        assert_eq!(said(|_| "e=unknown-user".into()), SaslError::Refused("unknown-user".into()));
        for strange in [
            |ours: &str| format!("r={ours}x,s=c2FsdA==,i=4096,r=y"),
            |ours: &str| format!("r={ours}x,s=c2FsdA==,i=4096,m=must"),
            |ours: &str| format!("r={ours}x,i=4096,s=c2FsdA=="),
            |ours: &str| format!("r={ours}x,s=***,i=4096"),
            |ours: &str| format!("r={ours}x,s=,i=4096"),
            |ours: &str| format!("r={ours}x,s=c2FsdA==,i=-1"),
            |_: &str| String::new(),
            |_: &str| "x".repeat(10_000),
        ] {
            assert!(matches!(said(strange), SaslError::Nonsense(_)));
        }
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_not_believed() {
        let (mut scram, _) = begun(Mechanism::ScramSha512);
        let challenge = format!("r={}x,s=c2FsdA==,i=4096", scram.nonce);
        scram.step(challenge.as_bytes()).unwrap();

        assert_eq!(scram.step(b"v=AAAA").unwrap_err(), SaslError::Signature);
        assert!(scram.step(b"v=AAAA").is_err());
    }
}
