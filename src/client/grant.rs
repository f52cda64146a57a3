//! Asking an OAuth server for a bearer token: the client-credentials grant (RFC 6749, section 4.4) over
//! HTTPS.
//!
//! Keys and option names are those of Java's `OAuthBearerLoginCallbackHandler`: a key counts before the
//! option of `sasl.jaas.config` that means the same. TLS with the server has its options there alone, as
//! in Java: the cluster's own `ssl.*` are for its brokers.

use std::fmt::Write as _;
use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::certificates::{CertificateRole, SeenCertificate};
use super::clock::Clock;
use super::dial::{Dialer, Endpoint, Stream, dial};
use super::jaas::{self, LoginModule};
use super::login;
use super::security::{Provided, Store, StoreFormat, TlsSettings, TokenSettings, TokenUrl, Trust};
use super::tls::Tls;
use crate::model::{ClusterAlias, Secret};
use crate::wire::sasl::Mechanism;

/// Longest answer that is read. A token is a few kilobytes; brokers take no request of SASL that is
/// longer than 512 KiB (`sasl.server.max.receive.size`).
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// Characters of a server's own words that are shown when it refuses.
const WORDS_MAX: usize = 200;

const ID: &str = "sasl.oauthbearer.client.credentials.client.id";
const SECRET: &str = "sasl.oauthbearer.client.credentials.client.secret";

/// Options of `sasl.jaas.config` about TLS with the server that mean something here.
const TLS_OPTIONS: [&str; 11] = [
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
];

/// A token that was given, and how long from now it holds.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) token: Secret,
    pub(super) lasts: Duration,
}

/// How one cluster's tokens are asked for.
#[derive(Debug)]
pub(super) struct Grant {
    settings: TokenSettings,
    jaas: Provided,
    tls: Tls,
}

impl Grant {
    pub(super) fn new(settings: TokenSettings, jaas: Provided, alias: &ClusterAlias) -> Self {
        let tls = Tls::new(settings.tls.clone(), alias.clone(), CertificateRole::TokenServer);
        Self { settings, jaas, tls }
    }

    /// Whom it asks.
    pub(super) fn url(&self) -> &TokenUrl {
        &self.settings.endpoint
    }

    /// Certificates that the connection to the server rests on, as far as seen.
    pub(super) fn certificates(&self) -> Vec<SeenCertificate> {
        self.tls.certificates()
    }

    /// Asks once. Connecting, the TLS handshake and the answer each take no longer than the settings say.
    ///
    /// # Errors
    ///
    /// Why no token was given, with the key to look at; no secret stands in it.
    pub(super) async fn ask(&self, clock: Clock) -> Result<Given, String> {
        let settings = &self.settings;
        let address = &settings.endpoint.address;
        let request = self.request()?;
        let opened = dial(&Dialer::Tcp, address, settings.connect_timeout).await;
        let Stream::Tcp(stream) = opened.map_err(|error| error.to_string())? else {
            return Err("a socket is needed".into());
        };
        let wrapped = self.tls.wrap(stream, &address.host, settings.connect_timeout, clock).await;
        let stream = wrapped.map_err(|error| {
            format!("{error} (for this server the options `ssl.*` in `sasl.jaas.config` count)")
        })?;
        let answer = timeout(settings.read_timeout, exchange(stream, request)).await;
        let (status, body) = answer.map_err(|_| {
            format!(
                "it did not answer within {:?} (`sasl.login.read.timeout.ms`)",
                settings.read_timeout
            )
        })??;
        if status != 200 {
            return Err(refusal(status, &body));
        }
        read(&body, clock.wall().0)
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, String> {
        let settings = &self.settings;
        let modules = modules(&self.jaas)?;
        let module = login::choose(Mechanism::OauthBearer, &modules)?;
        let of = |key: &Option<Provided>, option: &str, name: &str| {
            let found = match key {
                Some(provided) => {
                    Some(provided.get().map_err(|error| format!("`{name}`: {error}"))?)
                }
                None => module.option(option).map(Secret::new),
            };
            found.filter(|value| !value.reveal().is_empty()).ok_or_else(|| {
                format!("`{name}` is missing, and {option} among the options of `sasl.jaas.config`")
            })
        };
        let id = of(&settings.client_id, "clientId", ID)?;
        let secret = of(&settings.client_secret, "clientSecret", SECRET)?;
        let pair = if settings.header_urlencode {
            Secret::new(format!("{}:{}", form(id.reveal()), form(secret.reveal())))
        } else {
            Secret::new(format!("{}:{}", id.reveal(), secret.reveal()))
        };
        let basic = Secret::new(format!("Basic {}", STANDARD.encode(pair.reveal())));
        let mut authorization = HeaderValue::from_str(basic.reveal())
            .map_err(|_| "client id and secret cannot be sent".to_owned())?;
        authorization.set_sensitive(true);
        let scope = settings.scope.as_deref().or_else(|| module.option("scope"));
        let mut body = String::from("grant_type=client_credentials");
        if let Some(scope) = scope.map(str::trim).filter(|scope| !scope.is_empty()) {
            let _ = write!(body, "&scope={}", form(scope));
        }
        Request::post(&settings.endpoint.path)
            .header("host", settings.endpoint.authority())
            .header("authorization", authorization)
            .header("accept", "application/json")
            .header("cache-control", "no-cache")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| format!("the request cannot be written: {error}"))
    }
}

/// Sends a request; the status of the answer, and its body.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<(u16, Bytes), String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| format!("it broke off: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut asking = pin!(async {
        let response = sender.send_request(request).await.map_err(broken)?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("its answer cannot be read: {error}"))?;
        Ok::<_, String>((status, body.to_bytes()))
    });
    tokio::select! {
        biased;
        answer = &mut asking => answer,
        ended = connection => match ended {
            // All that it sent before it closed lies there.
            Ok(()) => asking.await,
            Err(error) => Err(broken(error)),
        },
    }
}

/// The token in an answer, which came at `now_ms`, in milliseconds since 1970.
pub(super) fn read(body: &[u8], now_ms: i64) -> Result<Given, String> {
    let answer: Value =
        serde_json::from_slice(body).map_err(|_| "its answer is no JSON".to_owned())?;
    let token = answer.get("access_token").and_then(Value::as_str);
    let token = token.ok_or("its answer has no access_token")?;
    login::check_token(token).map_err(|why| format!("its access_token is of no use: {why}"))?;
    // What brokers go by is in the token itself.
    let left_ms = match claim(token, "exp") {
        Some(exp) => exp.saturating_mul(1000).saturating_sub(now_ms),
        None => answer
            .get("expires_in")
            .and_then(seconds)
            .ok_or("the token has no `exp`, and the answer no `expires_in`")?
            .saturating_mul(1000),
    };
    match u64::try_from(left_ms) {
        Ok(left_ms) if left_ms > 0 => {
            Ok(Given { token: Secret::new(token), lasts: Duration::from_millis(left_ms) })
        }
        _ => Err("the token has ended already; look at the clocks of both machines".into()),
    }
}

/// A number among a token's claims.
fn claim(token: &str, name: &str) -> Option<i64> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    seconds(claims.get(name)?)
}

/// A number of seconds, which may have a fraction (RFC 7519, `NumericDate`).
#[expect(clippy::cast_possible_truncation, reason = "a conversion that saturates")]
fn seconds(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
}

/// What a refusal says, within a bound.
pub(super) fn refusal(status: u16, body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let word = |name: &str| {
        let text = answer.get(name)?.as_str()?;
        Some(text.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect::<String>())
    };
    let hint = match status {
        400 | 401 | 403 => {
            "; look at `sasl.oauthbearer.client.credentials.*` or at clientId and clientSecret in \
             `sasl.jaas.config`, and at `sasl.oauthbearer.scope`"
        }
        300..400 | 404 | 405 => "; look at `sasl.oauthbearer.token.endpoint.url`",
        _ => "",
    };
    match (word("error"), word("error_description")) {
        (Some(error), Some(words)) => format!("it answered {status}, {error} ({words}){hint}"),
        (Some(error), None) => format!("it answered {status}, {error}{hint}"),
        _ => format!("it answered {status}{hint}"),
    }
}

/// `application/x-www-form-urlencoded`, as `java.net.URLEncoder` writes it.
fn form(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn modules(jaas: &Provided) -> Result<Vec<LoginModule>, String> {
    let text = jaas.get().map_err(|error| format!("`sasl.jaas.config`: {error}"))?;
    jaas::parse(text.reveal())
        .map_err(|error| format!("`sasl.jaas.config` cannot be read: {error}"))
}

impl TokenUrl {
    /// Takes `https://HOST[:PORT][/PATH][?QUERY]` apart; `None` if it is something else, or names a user.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uri: hyper::Uri = text.trim().parse().ok()?;
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
        if uri.scheme_str() != Some("https") || authority.host().is_empty() {
            return None;
        }
        let port = match authority.port() {
            Some(port) => port.as_str().parse().ok().filter(|port| *port > 0)?,
            // A colon with no number, or with one too large, is no port to hyper.
            None if authority.as_str() == authority.host() => 443,
            None => return None,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        // A request's path is never empty (RFC 9112, section 3.2.1).
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Some(Self { address: Endpoint { host, port }, path })
    }

    /// `HOST[:PORT]`, as the header of a request has it.
    fn authority(&self) -> String {
        let written = self.address.to_string();
        match self.address.port {
            443 => written.trim_end_matches(":443").to_owned(),
            _ => written,
        }
    }
}

/// Whether a question for a token can be put, before anybody is asked.
///
/// # Errors
///
/// What is missing, with the key to look at.
pub fn check_token_settings(settings: &TokenSettings, jaas: &Provided) -> Result<(), String> {
    Grant::new(settings.clone(), jaas.clone(), &ClusterAlias::new("")).request().map(drop)
}

/// TLS with the token server: `ssl.*` among the options of `sasl.jaas.config`, where Java looks too;
/// without them, the authorities that the system trusts.
///
/// # Errors
///
/// What is wrong with the text, or an option that means nothing here.
pub fn token_tls(jaas: &Provided) -> Result<TlsSettings, String> {
    let modules = modules(jaas)?;
    let module = login::choose(Mechanism::OauthBearer, &modules)?;
    let strange = |(name, _): &&(String, Secret)| {
        name.starts_with("ssl.") && !TLS_OPTIONS.contains(&name.as_str())
    };
    if let Some((name, _)) = module.options.iter().find(strange) {
        return Err(format!(
            "the option {name} means nothing here; known: {}",
            TLS_OPTIONS.join(", ")
        ));
    }
    let trust = store(module, "ssl.truststore", "certificates", None)?;
    let check_host_name = match module.option("ssl.endpoint.identification.algorithm") {
        None => true,
        Some(text) if text.eq_ignore_ascii_case("https") => true,
        Some("") => false,
        Some(_) => {
            return Err(
                "the option ssl.endpoint.identification.algorithm must be https, or empty \
                        to trust any name"
                    .into(),
            );
        }
    };
    Ok(TlsSettings {
        trust: trust.map_or(Trust::System, Trust::Store),
        identity: store(module, "ssl.keystore", "certificate.chain", Some("ssl.keystore.key"))?,
        v1_2: true,
        v1_3: true,
        cipher_suites: Vec::new(),
        check_host_name,
    })
}

fn store(
    module: &LoginModule,
    prefix: &str,
    inline: &str,
    key: Option<&str>,
) -> Result<Option<Store>, String> {
    let option = |name: &str| module.option(&format!("{prefix}.{name}"));
    let format = match option("type").unwrap_or("JKS").to_ascii_uppercase().as_str() {
        "PEM" => StoreFormat::Pem,
        "JKS" | "PKCS12" => StoreFormat::Java,
        _ => return Err(format!("the option {prefix}.type must be PEM, PKCS12 or JKS")),
    };
    let key_password = key.and_then(|_| module.option("ssl.key.password")).map(Provided::fixed);
    if let Some(certificates) = option(inline).map(Provided::fixed) {
        let key = key.and_then(|key| module.option(key)).map(Provided::fixed);
        return Ok(Some(Store::Inline { certificates, key, key_password }));
    }
    let password = option("password").map(Provided::fixed);
    Ok(option("location").map(|path| Store::File {
        path: path.into(),
        format,
        password,
        key_password,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::security::RefreshRule;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const MODULE: &str =
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required";

    fn settings() -> TokenSettings {
        TokenSettings {
            endpoint: TokenUrl::parse("https://idp/token?tenant=t").unwrap(),
            client_id: Some(Provided::fixed("me & co")),
            client_secret: None,
            scope: Some("kafka read".into()),
            header_urlencode: false,
            tls: token_tls(&Provided::fixed(format!("{MODULE};"))).unwrap(),
            connect_timeout: Duration::from_secs(1),
            read_timeout: Duration::from_secs(1),
            refresh: RefreshRule {
                window_permille: 800,
                jitter_permille: 50,
                min_period: Duration::from_secs(60),
                buffer: Duration::from_secs(300),
            },
            retry: (Duration::from_millis(100), Duration::from_secs(10)),
        }
    }

    fn grant(settings: TokenSettings, options: &str) -> Grant {
        let jaas = Provided::fixed(format!("{MODULE} {options};"));
        Grant::new(settings, jaas, &ClusterAlias::new("a"))
    }

    fn pair(request: &Request<Full<Bytes>>) -> String {
        let basic = request.headers()["authorization"].to_str().unwrap();
        String::from_utf8(STANDARD.decode(basic.strip_prefix("Basic ").unwrap()).unwrap()).unwrap()
    }

    async fn body(request: Request<Full<Bytes>>) -> Bytes {
        request.into_body().collect().await.unwrap().to_bytes()
    }

    fn jwt(claims: &str) -> String {
        format!("eyJhbGciOiJub25lIn0.{}.", URL_SAFE_NO_PAD.encode(claims))
    }

    #[tokio::test]
    async fn what_is_asked_is_what_java_asks_and_a_key_counts_before_an_option() {
        let options = "clientId=\"other\" clientSecret=\"s3 cret\" scope=\"other\"";
        let request = grant(settings(), options).request().unwrap();

        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri(), "/token?tenant=t");
        assert_eq!(request.headers()["host"], "idp");
        assert_eq!(pair(&request), "me & co:s3 cret");
        let shown = format!("{request:?}");
        let basic = request.headers()["authorization"].to_str().unwrap().to_owned();
        assert!(!shown.contains(&basic) && !shown.contains("s3 cret"), "{shown}");
        assert_eq!(body(request).await, "grant_type=client_credentials&scope=kafka+read");
    }

    #[tokio::test]
    async fn options_of_3_x_are_enough_and_the_header_can_be_encoded() {
        let old =
            TokenSettings { client_id: None, scope: None, header_urlencode: true, ..settings() };
        let request = grant(old.clone(), "clientId=\"me & co\" clientSecret=\"ü:/\"").request();
        let request = request.unwrap();
        assert_eq!(pair(&request), "me+%26+co:%C3%BC%3A%2F");
        assert_eq!(body(request).await, "grant_type=client_credentials");

        let scoped = grant(old, "clientId=\"a\" clientSecret=\"b\" scope=\" x \"").request();
        assert_eq!(body(scoped.unwrap()).await, "grant_type=client_credentials&scope=x");
    }

    #[test]
    fn what_is_missing_is_named_by_its_key_and_no_secret_is_shown() {
        let error = grant(settings(), "clientId=\"a\"").request().unwrap_err();
        assert!(error.contains(SECRET) && error.contains("clientSecret"), "{error}");
        let nobody = TokenSettings { client_id: None, ..settings() };
        let error = grant(nobody.clone(), "clientSecret=\"hunter2\"").request().unwrap_err();
        assert!(error.contains(ID) && error.contains("clientId"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        let shown = format!("{:?}", grant(nobody, "clientSecret=\"hunter2\""));
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn addresses_of_servers_are_taken_apart_as_java_does() {
        let parsed = |text: &str| {
            let url = TokenUrl::parse(text)?;
            Some((url.address.host.clone(), url.address.port, url.path.clone(), url.authority()))
        };
        let of = |host: &str, port, path: &str, authority: &str| {
            Some((host.to_owned(), port, path.to_owned(), authority.to_owned()))
        };
        assert_eq!(parsed("https://idp"), of("idp", 443, "/", "idp"));
        assert_eq!(parsed("HTTPS://idp:8443/a/b?c=d"), of("idp", 8443, "/a/b?c=d", "idp:8443"));
        assert_eq!(parsed("https://idp?c=d"), of("idp", 443, "/?c=d", "idp"));
        assert_eq!(parsed("https://[::1]:443/t"), of("::1", 443, "/t", "[::1]"));
        for text in [
            "http://idp/t",
            "https://",
            "https:///t",
            "https://me:pw@idp/t",
            "https://idp:99999/t",
            "https://idp:/t",
            "https://idp:0/t",
            "idp/t",
            "",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        let shown = TokenUrl::parse("https://idp:1/t?key=s3cret").unwrap().to_string();
        assert_eq!(shown, "https://idp:1/t");
    }

    #[test]
    fn how_long_a_token_lasts_is_what_it_says_itself() {
        let answer = |token: &str, rest: &str| format!(r#"{{"access_token":"{token}"{rest}}}"#);
        let lasts = |token: &str, rest: &str| {
            let given = read(answer(token, rest).as_bytes(), 1_000_250)?;
            assert_eq!(given.token.reveal(), token);
            assert!(!format!("{given:?}").contains(token));
            Ok::<_, String>(given.lasts.as_millis())
        };
        assert_eq!(lasts(&jwt(r#"{"exp":1020}"#), r#","expires_in":99"#), Ok(19_750));
        assert_eq!(lasts(&jwt(r#"{"exp":1020.9}"#), ""), Ok(19_750));
        assert_eq!(lasts(&jwt("{}"), r#","expires_in":99"#), Ok(99_000));
        assert_eq!(lasts("not.json.x", r#","expires_in":99"#), Ok(99_000));

        let ended = lasts(&jwt(r#"{"exp":1000}"#), "").unwrap_err();
        assert!(ended.contains("ended already") && ended.contains("clocks"), "{ended}");
        let least = format!(r#"{{"exp":{}}}"#, i64::MIN);
        assert!(lasts(&jwt(&least), "").unwrap_err().contains("ended already"));
        assert!(lasts(&jwt(r#"{"exp":1e300}"#), "").is_ok());
        assert!(lasts(&jwt("{}"), "").unwrap_err().contains("expires_in"));
        let opaque = lasts("hunter2", r#","expires_in":99"#).unwrap_err();
        assert!(opaque.contains("access_token") && !opaque.contains("hunter2"), "{opaque}");
        assert_eq!(read(b"<html>", 0).unwrap_err(), "its answer is no JSON");
        assert_eq!(read(b"{}", 0).unwrap_err(), "its answer has no access_token");
    }

    #[test]
    fn a_refusal_is_told_in_the_servers_words_within_a_bound() {
        let long = "x".repeat(1000);
        let body = format!(r#"{{"error":"invalid_client","error_description":"{long}\n"}}"#);
        let words = refusal(401, body.as_bytes());
        assert!(words.contains("401, invalid_client") && words.contains("client.credentials"));
        assert!(words.len() < 500 && !words.contains('\n'), "{words}");
        assert!(refusal(302, b"").contains("token.endpoint.url"));
        assert_eq!(refusal(500, b"<html>"), "it answered 500");
    }

    /// The answer of a server that sends `said` and closes.
    async fn answered(said: Vec<u8>) -> Result<(u16, Bytes), String> {
        let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
        let server = async move {
            let mut asked = [0; 4096];
            let read = theirs.read(&mut asked).await.unwrap();
            // It may hang up on us in the middle.
            let _ = theirs.write_all(&said).await;
            String::from_utf8_lossy(&asked[..read]).into_owned()
        };
        let request = grant(settings(), "clientSecret=\"b\"").request().unwrap();
        let (answer, asked) = tokio::join!(exchange(ours, request), server);
        assert!(asked.starts_with("POST /token?tenant=t HTTP/1.1\r\n"), "{asked}");
        answer
    }

    #[tokio::test]
    async fn an_answer_is_read_however_it_is_sent_and_never_more_than_its_bound() {
        let with_length = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec();
        assert_eq!(answered(with_length).await, Ok((200, Bytes::from_static(b"{}"))));
        let until_end = b"HTTP/1.1 401 No\r\n\r\nno".to_vec();
        assert_eq!(answered(until_end).await, Ok((401, Bytes::from_static(b"no"))));
        let chunked =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n";
        assert_eq!(answered(chunked.to_vec()).await, Ok((200, Bytes::from_static(b"{}"))));

        let sized = |bytes| {
            let mut said = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
            said.resize(said.len() + bytes, b' ');
            said
        };
        assert_eq!(answered(sized(ANSWER_BYTES_MAX)).await.unwrap().1.len(), ANSWER_BYTES_MAX);
        let error = answered(sized(ANSWER_BYTES_MAX + 1)).await.unwrap_err();
        assert!(error.contains("cannot be read"), "{error}");
        assert!(
            answered(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}".to_vec()).await.is_err()
        );
        assert!(answered(b"220 smtp\r\n".to_vec()).await.is_err());
        assert!(answered(Vec::new()).await.is_err());
    }

    #[test]
    fn tls_with_the_server_has_its_options_beside_the_login_and_none_is_ignored() {
        let tls = |options: &str| token_tls(&Provided::fixed(format!("{MODULE} {options};")));
        let of = tls("ssl.truststore.type=\"PEM\" ssl.truststore.location=\"/ca.pem\" \
                      ssl.keystore.location=\"/me.p12\" ssl.keystore.password=\"pw\"")
        .unwrap();
        let file = |path: &str, format, password: Option<&str>| Store::File {
            path: path.into(),
            format,
            password: password.map(Provided::fixed),
            key_password: None,
        };
        assert_eq!(of.trust, Trust::Store(file("/ca.pem", StoreFormat::Pem, None)));
        assert_eq!(of.identity, Some(file("/me.p12", StoreFormat::Java, Some("pw"))));
        assert!(of.check_host_name);
        assert_eq!(tls("").unwrap().trust, Trust::System);
        let unchecked = tls("ssl.endpoint.identification.algorithm=\"\"").unwrap();
        assert!(!unchecked.check_host_name);

        let error = tls("ssl.provider=\"Own\"").unwrap_err();
        assert!(error.contains("ssl.provider") && error.contains("ssl.truststore.location"));
        assert!(tls("ssl.truststore.type=\"BKS\"").unwrap_err().contains("ssl.truststore.type"));
    }
}
