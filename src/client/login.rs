//! Who logs in: from `sasl.jaas.config` and its like to credentials, anew for each login.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::clock::Clock;
use super::jaas::{self, LoginModule};
use super::security::SaslSettings;
use crate::model::Secret;
use crate::wire::sasl::{Credentials, Mechanism};

/// Longest token that is read; brokers take frames of 512 KiB before a login.
const TOKEN_BYTES_MAX: u64 = 256 * 1024;

/// How long an unsecured token holds unless its options say otherwise, as in Java.
const UNSECURED_LIFETIME_S: i64 = 3600;

/// Options of unsecured tokens begin with this.
const UNSECURED: &str = "unsecuredLogin";

/// What a login needs now; files are read anew, so that what was rotated there is used.
///
/// # Errors
///
/// What is missing, with the key to look at; no value is shown.
pub fn credentials(settings: &SaslSettings, clock: Clock) -> Result<Credentials, String> {
    let text = settings.jaas.get().map_err(|error| format!("`sasl.jaas.config`: {error}"))?;
    let modules = jaas::parse(text.reveal())
        .map_err(|error| format!("`sasl.jaas.config` cannot be read: {error}"))?;
    let module = choose(settings.mechanism, &modules)?;
    let missing = |name: &str| format!("`sasl.jaas.config` has no {name} for {}", module.class);
    match settings.mechanism {
        Mechanism::Plain | Mechanism::ScramSha256 | Mechanism::ScramSha512 => {
            let user = module.option("username").ok_or_else(|| missing("username"))?;
            let password = module.option("password").ok_or_else(|| missing("password"))?;
            if user.is_empty() {
                return Err("`sasl.jaas.config` has an empty username".into());
            }
            let token = module.option("tokenauth").is_some_and(|v| v.eq_ignore_ascii_case("true"));
            if settings.mechanism == Mechanism::Plain && user.contains('\0') {
                return Err("`sasl.jaas.config`: PLAIN takes no user name with a zero in it".into());
            }
            Ok(Credentials::Password { user: user.into(), password: Secret::new(password), token })
        }
        Mechanism::OauthBearer => {
            if settings.token_server.is_some() {
                return Err("its token comes from a server".into());
            }
            match &settings.token_file {
                Some(path) => Ok(bearer(module, token_from(path)?, "extension_")),
                None => Ok(bearer(module, unsecured(module, clock)?, "unsecuredLoginExtension_")),
            }
        }
    }
}

/// Whoever holds this token, which a server gave.
///
/// # Errors
///
/// What is wrong with `sasl.jaas.config`.
pub(super) fn with_token(settings: &SaslSettings, token: Secret) -> Result<Credentials, String> {
    let text = settings.jaas.get().map_err(|error| format!("`sasl.jaas.config`: {error}"))?;
    let modules = jaas::parse(text.reveal())
        .map_err(|error| format!("`sasl.jaas.config` cannot be read: {error}"))?;
    Ok(bearer(choose(settings.mechanism, &modules)?, token, "extension_"))
}

/// A token, and the options beginning with `prefix` that are sent along.
fn bearer(module: &LoginModule, token: Secret, prefix: &str) -> Credentials {
    let extensions = module.options.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix(prefix)?.to_owned(), value.reveal().to_owned()))
    });
    Credentials::Bearer { token, extensions: extensions.collect() }
}

/// The login module that a mechanism uses.
pub(super) fn choose(
    mechanism: Mechanism,
    modules: &[LoginModule],
) -> Result<&LoginModule, String> {
    const PACKAGE: &str = "org.apache.kafka.common.security.";
    let (plain, scram, bearer) =
        ("plain.PlainLoginModule", "scram.ScramLoginModule", "oauthbearer.OAuthBearerLoginModule");
    // User and password are user and password: Java takes either module for them too.
    let wanted: &[&str] = match mechanism {
        Mechanism::Plain => &[plain, scram],
        Mechanism::ScramSha256 | Mechanism::ScramSha512 => &[scram, plain],
        Mechanism::OauthBearer => &[bearer],
    };
    let named = |module: &&LoginModule, class: &str| {
        module.class.strip_suffix(class).is_some_and(|package| package.ends_with(PACKAGE))
    };
    let found = wanted.iter().find_map(|class| modules.iter().find(|module| named(module, class)));
    found.ok_or_else(|| {
        let known = [plain, scram, bearer];
        let strange = modules.iter().find(|m| !known.iter().any(|class| named(m, class)));
        match strange {
            Some(module) if module.class.ends_with("Krb5LoginModule") => {
                "`sasl.jaas.config` names Krb5LoginModule, and Kerberos (GSSAPI) is not spoken here; \
                 PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER are"
                    .into()
            }
            Some(module) => format!(
                "`sasl.jaas.config` names {}, and Java classes cannot be loaded here; for \
                 {mechanism} write {PACKAGE}{}",
                module.class, wanted[0]
            ),
            None => format!(
                "`sasl.jaas.config` names no login module for {mechanism}, which is {PACKAGE}{}",
                wanted[0]
            ),
        }
    })
}

fn token_from(path: &Path) -> Result<Secret, String> {
    let at = || format!("{} (`sasl.oauthbearer.token.endpoint.url`)", path.display());
    let length =
        fs::metadata(path).map_err(|error| format!("no token in {}: {error}", at()))?.len();
    if length > TOKEN_BYTES_MAX {
        return Err(format!("{} is no token: it has {length} bytes", at()));
    }
    let text = fs::read_to_string(path)
        .map(Zeroizing::new)
        .map_err(|error| format!("no token in {}: {error}", at()))?;
    let token = text.trim();
    check_token(token).map_err(|error| format!("{}: {error}", at()))?;
    Ok(Secret::new(token))
}

/// Whether a text can be a token: Java wants three parts with two dots, and anything else would be
/// refused far from here.
///
/// # Errors
///
/// That it cannot; the text is not shown.
pub(super) fn check_token(token: &str) -> Result<(), String> {
    let parts = token.split('.').count();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.=~+/".contains(c);
    if parts == 3 && token.chars().all(fits) {
        Ok(())
    } else {
        Err("it holds no JWT in its compact form".into())
    }
}

/// A token that nobody signed, for brokers that are only tested
/// (`OAuthBearerUnsecuredLoginCallbackHandler`).
fn unsecured(module: &LoginModule, clock: Clock) -> Result<Secret, String> {
    let option = |name: &str| module.option(&format!("{UNSECURED}{name}"));
    if !module.options.iter().any(|(name, _)| name.starts_with(UNSECURED)) {
        return Err(
            "there is no source of tokens; look at `sasl.oauthbearer.token.endpoint.url`, \
                    which may be a file: URL here"
                .into(),
        );
    }
    let number = |name: &str, text: &str| {
        let number: f64 = text
            .parse()
            .map_err(|_| format!("`sasl.jaas.config`: {UNSECURED}{name} is no number"))?;
        Ok::<_, String>(serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number))
    };
    let now = clock.wall().0 / 1000;
    let lifetime = match option("LifetimeSeconds") {
        Some(text) => text
            .parse::<i64>()
            .map_err(|_| format!("`sasl.jaas.config`: {UNSECURED}LifetimeSeconds is no number"))?,
        None => UNSECURED_LIFETIME_S,
    };
    let mut claims = Map::new();
    claims.insert("iat".into(), now.into());
    claims.insert("exp".into(), now.saturating_add(lifetime).into());
    for (name, value) in &module.options {
        let Some(name) = name.strip_prefix(UNSECURED) else { continue };
        let value = value.reveal();
        if let Some(claim) = name.strip_prefix("StringClaim_") {
            claims.insert(claim.into(), value.into());
        } else if let Some(claim) = name.strip_prefix("NumberClaim_") {
            claims.insert(claim.into(), number(name, value)?);
        } else if let Some(claim) = name.strip_prefix("ListClaim_") {
            // The first character separates the others, as in Java.
            let list = value.chars().next().map_or_else(Vec::new, |separator| {
                value[separator.len_utf8()..].split(separator).map(Value::from).collect()
            });
            claims.insert(claim.into(), Value::Array(list));
        }
    }
    if !claims.contains_key(option("PrincipalClaimName").unwrap_or("sub")) {
        return Err(format!(
            "`sasl.jaas.config` says nobody's name; write {UNSECURED}StringClaim_sub=\"...\""
        ));
    }
    let claims = Value::Object(claims).to_string();
    let token = format!(
        "{}.{}.",
        URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
        URL_SAFE_NO_PAD.encode(claims)
    );
    Ok(Secret::new(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::security::Provided;

    fn login(mechanism: Mechanism, jaas: &str) -> Result<Credentials, String> {
        let jaas = Provided::fixed(jaas);
        credentials(
            &SaslSettings { mechanism, jaas, token_file: None, token_server: None },
            Clock::start(),
        )
    }

    const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required \
                         username=\"mirror\" password=\"hunter2\";";

    #[test]
    fn the_module_of_the_mechanism_is_used_among_several() {
        let scram = "org.apache.kafka.common.security.scram.ScramLoginModule required \
                     username=id password=hmac tokenauth=true;";
        let both = format!("{PLAIN} {scram}");

        assert_eq!(login(Mechanism::Plain, &both).unwrap().who(), "user \"mirror\"");
        assert_eq!(login(Mechanism::ScramSha512, &both).unwrap().who(), "delegation token \"id\"");
        assert_eq!(login(Mechanism::ScramSha256, PLAIN).unwrap().who(), "user \"mirror\"");
    }

    #[test]
    fn kerberos_and_classes_of_ones_own_are_refused_with_what_is_possible() {
        let kerberos = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;";
        let error = login(Mechanism::Plain, kerberos).unwrap_err();
        assert!(error.contains("Kerberos") && error.contains("SCRAM-SHA-512"), "{error}");

        let own = "com.example.Login required password=\"hunter2\";";
        let error = login(Mechanism::OauthBearer, own).unwrap_err();
        assert!(error.contains("com.example.Login") && error.contains("OAuthBearerLoginModule"));
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn an_unsecured_token_holds_the_claims_that_were_asked_for() {
        let module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required \
                      unsecuredLoginStringClaim_sub=\"uma\" unsecuredLoginListClaim_scope=\"|a|b\" \
                      unsecuredLoginExtension_x=\"y\";";
        let Credentials::Bearer { token, extensions } =
            login(Mechanism::OauthBearer, module).unwrap()
        else {
            panic!("a token")
        };

        let mut parts = token.reveal().split('.');
        let header = URL_SAFE_NO_PAD.decode(parts.next().unwrap()).unwrap();
        let claims = URL_SAFE_NO_PAD.decode(parts.next().unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(header, br#"{"alg":"none"}"#);
        assert_eq!(parts.next(), Some(""));
        assert_eq!(claims["sub"], "uma");
        assert_eq!(claims["scope"], serde_json::json!(["a", "b"]));
        let (iat, exp) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
        assert_eq!(exp - iat, 3600);
        assert_eq!(extensions, [("x".to_owned(), "y".to_owned())]);
    }
}
