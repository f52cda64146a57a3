//! Who we are to a cluster's brokers, as far as that can be known on this side.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::clock::Clock;
use super::keystore::{self, Purpose};
use super::login;
use super::security::{Security, Store};
use crate::model::Secret;
use crate::wire::sasl::Credentials;

/// Where only the broker knows: its authorizer's log names the principal.
pub(super) const UNKNOWN: &str = "User:NAME";

/// The principal that brokers make of our credentials by default (`DefaultKafkaPrincipalBuilder`):
/// the user of a login, the name in a client certificate, or nobody's. A broker's
/// `ssl.principal.mapping.rules` and its own builders are not known here. `token` is the one that a
/// server gave.
pub(super) fn of(security: &Security, token: Option<&Secret>, clock: Clock) -> Option<String> {
    let user = |name: &str| Some(format!("User:{name}"));
    if let Some(token) = token {
        return user(&subject(token.reveal())?);
    }
    if let Some(sasl) = &security.sasl {
        return match login::credentials(sasl, clock).ok()? {
            // A delegation token speaks for its owner, whom it does not name.
            Credentials::Password { token: true, .. } => None,
            Credentials::Password { user: name, .. } => user(&name),
            Credentials::Bearer { token, .. } => user(&subject(token.reveal())?),
        };
    }
    match security.tls.as_ref().and_then(|tls| tls.identity.as_ref()) {
        Some(store) => user(&name_in(store)?),
        None => user("ANONYMOUS"),
    }
}

/// The `sub` of a token.
fn subject(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Some(claims.get("sub")?.as_str()?.to_owned())
}

/// The distinguished name of a store's certificate as Java writes it (RFC 2253): the last part
/// first, and nothing between parts but a comma.
fn name_in(store: &Store) -> Option<String> {
    let contents = keystore::load(store, Purpose::Key).ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(contents.certificates.first()?).ok()?;
    let written = parsed.subject().to_string();
    let mut parts: Vec<&str> = written.split(", ").collect();
    parts.reverse();
    Some(parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::security::{Provided, SaslSettings};
    use crate::wire::sasl::Mechanism;

    fn logged_in(mechanism: Mechanism, jaas: &str) -> Option<String> {
        let jaas = Provided::fixed(jaas);
        let sasl = Some(SaslSettings { mechanism, jaas, token_file: None, token_server: None });
        of(&Security { tls: None, sasl }, None, Clock::start())
    }

    #[test]
    fn a_login_says_who_we_are_and_a_delegation_token_does_not() {
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required username=mirror \
                     password=x";
        assert_eq!(
            logged_in(Mechanism::ScramSha512, &format!("{scram};")),
            Some("User:mirror".into())
        );
        assert_eq!(logged_in(Mechanism::ScramSha512, &format!("{scram} tokenauth=true;")), None);
        let bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
                      unsecuredLoginStringClaim_sub=\"uma\";";
        assert_eq!(logged_in(Mechanism::OauthBearer, bearer), Some("User:uma".into()));
        assert_eq!(of(&Security::default(), None, Clock::start()), Some("User:ANONYMOUS".into()));
    }
}
