//! TLS through rustls: from settings to a stream, and its errors in words.
//!
//! All set-up of rustls is here. Stores are read again when their files have changed, at the next
//! connection; if the new content cannot be used, the old one stays in use and a warning says so.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
#[cfg(feature = "aws-lc-rs")]
use rustls::crypto::aws_lc_rs as provider;
#[cfg(not(feature = "aws-lc-rs"))]
use rustls::crypto::ring as provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore,
    SignatureScheme, SupportedProtocolVersion, version,
};
use tokio::io::{Join, join};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificates::{CertificateRole, Certificates, SeenCertificate, date};
use super::clock::Clock;
use super::keystore::{self, Contents, Purpose, Stamp};
use super::low_water::Marked;
use super::security::{Store, TlsSettings, Trust};
use super::whole_records::WholeRecords;
use crate::model::ClusterAlias;

/// The socket under TLS.
pub(super) type Socket = Join<WholeRecords<Marked>, OwnedWriteHalf>;

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// What we need for it cannot be had.
    #[error("TLS cannot be set up: {0}")]
    SetUp(String),
    /// The handshake failed.
    #[error("TLS with it failed: {0}")]
    Handshake(String),
    /// The handshake did not end in time.
    #[error("its side of the TLS handshake did not come within {0:?}")]
    Silent(Duration),
}

/// TLS names of the suites that may stand in `ssl.cipher.suites`.
pub fn cipher_suites() -> impl Iterator<Item = String> {
    provider::ALL_CIPHER_SUITES.iter().map(|suite| iana(suite.suite()))
}

/// The IANA name of a suite, which is what Java writes.
fn iana(suite: rustls::CipherSuite) -> String {
    suite.as_str().unwrap_or_default().replacen("TLS13_", "TLS_", 1)
}

/// TLS of one cluster: its settings, and the state that is made of them.
#[derive(Debug)]
pub(super) struct Tls {
    settings: TlsSettings,
    alias: ClusterAlias,
    /// Whose certificate the other side shows.
    peer: CertificateRole,
    made: Mutex<Option<Made>>,
    certificates: Certificates,
}

#[derive(Debug)]
struct Made {
    stamps: [Stamp; 2],
    config: Arc<ClientConfig>,
    /// Our own certificate, and those that vouch for it.
    own: Vec<CertificateDer<'static>>,
    /// Those of the trust store.
    trusted: Arc<Vec<CertificateDer<'static>>>,
    /// Stamps whose content could not be used, told once.
    refused: Option<[Stamp; 2]>,
}

impl Tls {
    pub(super) fn new(settings: TlsSettings, alias: ClusterAlias, peer: CertificateRole) -> Self {
        let certificates = Certificates::new(alias.clone());
        Self { settings, alias, peer, made: Mutex::default(), certificates }
    }

    /// Shakes hands over `stream`, within `patience`.
    pub(super) async fn wrap(
        &self,
        stream: TcpStream,
        host: &str,
        patience: Duration,
        clock: Clock,
    ) -> Result<Box<TlsStream<Socket>>, TlsError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            TlsError::SetUp(format!("{host:?} is no name that a certificate could be for"))
        })?;
        let (config, trusted) = self.config(clock)?;
        let connector = TlsConnector::from(config);
        let (reader, writer) = stream.into_split();
        let socket = join(WholeRecords::new(Marked::new(reader)), writer);
        let stream = timeout(patience, connector.connect(name, socket))
            .await
            .map_err(|_| TlsError::Silent(patience))?
            .map_err(|error| TlsError::Handshake(words(&error, host)))?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        self.certificates.note(self.peer, chain, &trusted, clock);
        Ok(Box::new(stream))
    }

    /// What rustls needs, made anew if a store's file has changed.
    fn config(&self, clock: Clock) -> Result<InUse, TlsError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let trust = match &self.settings.trust {
            Trust::System => Stamp::default(),
            Trust::Store(store) => keystore::stamp(store),
        };
        let key = self.settings.identity.as_ref().map_or_else(Stamp::default, keystore::stamp);
        let stamps = [trust, key];
        if let Some(made) = made.as_ref()
            && (made.stamps == stamps || made.refused == Some(stamps))
        {
            self.note_own(made, clock);
            return Ok(made.in_use());
        }
        match (self.make(), made.as_mut()) {
            (Ok((config, own, trusted)), before) => {
                if before.is_some() {
                    tracing::info!(cluster = %self.alias, "certificates were read again");
                }
                let (config, trusted) = (Arc::new(config), Arc::new(trusted));
                self.certificates.forget_own();
                let new = made.insert(Made { stamps, config, own, trusted, refused: None });
                self.note_own(new, clock);
                Ok(new.in_use())
            }
            (Err(why), Some(before)) => {
                tracing::warn!(cluster = %self.alias, why,
                    "changed certificates cannot be used; the ones before stay in use");
                before.refused = Some(stamps);
                Ok(before.in_use())
            }
            (Err(why), None) => Err(TlsError::SetUp(why)),
        }
    }

    fn note_own(&self, made: &Made, clock: Clock) {
        self.certificates.note(CertificateRole::Own, &made.own, &made.trusted, clock);
    }

    /// Certificates that its connections rest on, as far as seen.
    pub(super) fn certificates(&self) -> Vec<SeenCertificate> {
        self.certificates.all()
    }

    fn make(&self) -> Result<NewlyMade, String> {
        let settings = &self.settings;
        let mut crypto = provider::default_provider();
        if !settings.cipher_suites.is_empty() {
            crypto.cipher_suites.retain(|suite| {
                settings.cipher_suites.iter().any(|name| *name == iana(suite.suite()))
            });
        }
        let crypto = Arc::new(crypto);
        let versions: Vec<&'static SupportedProtocolVersion> =
            [(settings.v1_2, &version::TLS12), (settings.v1_3, &version::TLS13)]
                .into_iter()
                .filter_map(|(on, version)| on.then_some(version))
                .collect();
        let (roots, trusted) = match &settings.trust {
            Trust::System => (system_roots()?, Vec::new()),
            Trust::Store(store) => {
                let contents = keystore::load(store, Purpose::Trust)?;
                (roots(&contents)?, contents.certificates)
            }
        };
        let inner =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&crypto))
                .build()
                .map_err(|error| format!("the trusted certificates cannot be used: {error}"))?;
        let known = trusted.clone();
        let verifier = Verifier { inner, trusted, check_host_name: settings.check_host_name };
        let builder = ClientConfig::builder_with_provider(crypto)
            .with_protocol_versions(&versions)
            .map_err(|error| {
                format!(
                    "no cipher suite fits the TLS versions ({error}); look at `ssl.cipher.suites` \
                     and `ssl.enabled.protocols`"
                )
            })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let Some(store) = &settings.identity else {
            return Ok((builder.with_no_client_auth(), Vec::new(), known));
        };
        let (chain, key) = identity(store)?;
        let own = chain.clone();
        let config = builder.with_client_auth_cert(chain, key).map_err(|error| {
            format!("own key and certificate cannot be used ({error}); look at `ssl.keystore.*`")
        })?;
        Ok((config, own, known))
    }
}

/// What connections use: the set-up, and the certificates that it trusts by name.
type InUse = (Arc<ClientConfig>, Arc<Vec<CertificateDer<'static>>>);

/// A set-up, our own chain, and the certificates of the trust store.
type NewlyMade = (ClientConfig, Vec<CertificateDer<'static>>, Vec<CertificateDer<'static>>);

impl Made {
    fn in_use(&self) -> InUse {
        (Arc::clone(&self.config), Arc::clone(&self.trusted))
    }
}

type Identity = (Vec<CertificateDer<'static>>, rustls::pki_types::PrivateKeyDer<'static>);

fn identity(store: &Store) -> Result<Identity, String> {
    let contents = keystore::load(store, Purpose::Key)?;
    match contents.key {
        Some(key) if !contents.certificates.is_empty() => Ok((contents.certificates, key)),
        Some(_) => Err("the key store has a key and no certificate".into()),
        None => Err("the key store has no private key; look at `ssl.keystore.*`".into()),
    }
}

fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _unusable) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("the system has no trusted certificates (SSL_CERT_FILE, /etc/ssl); name some \
                    with `ssl.truststore.location`"
            .into());
    }
    Ok(roots)
}

fn roots(contents: &Contents) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (added, unusable) = roots.add_parsable_certificates(contents.certificates.iter().cloned());
    match (added, unusable) {
        (0, 0) => Err("the trust store holds no certificate; look at `ssl.truststore.*`".into()),
        (0, _) => Err("no certificate of the trust store can be read".into()),
        (_, 0) => Ok(roots),
        (_, unusable) => {
            tracing::warn!(unusable, "certificates of a trust store cannot be read");
            Ok(roots)
        }
    }
}

/// rustls' own verifier, with two things that Java does and it does not: a broker's certificate
/// that is itself in the trust store is believed, and host names may go unchecked.
#[derive(Debug)]
struct Verifier {
    inner: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
    check_host_name: bool,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.trusted.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref()) {
            if not_after(end_entity).is_some_and(|ends| ends < now.as_secs().cast_signed()) {
                return Err(CertificateError::Expired.into());
            }
            if self.check_host_name {
                let parsed = ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&parsed, name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        let verdict = self.inner.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        match verdict {
            // The chain and its times are checked before the name is.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.check_host_name => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// When a certificate ends, in seconds since 1970.
fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

/// What went wrong in a handshake, or behind it, with the key to look at.
fn words(error: &io::Error, host: &str) -> String {
    match tls_error(error) {
        Some(error) => explain(error, Some(host)),
        None => match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => "it closed the connection in the middle of the TLS \
                handshake. This is how a listener behaves that is PLAINTEXT or SASL_PLAINTEXT, or \
                that refuses us without a word; look at `security.protocol` and `ssl.keystore.*`"
                .into(),
            _ => error.to_string(),
        },
    }
}

/// The TLS error inside an error of a stream. In TLS 1.3 a broker's verdict about our certificate
/// comes only after the handshake, as an error of the first read.
pub(super) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// A TLS error in words.
pub(super) fn explain(error: &rustls::Error, host: Option<&str>) -> String {
    use rustls::Error as E;
    let host = host.unwrap_or("that name");
    match error {
        E::InvalidCertificate(certificate) => match certificate {
            CertificateError::Expired => {
                "its certificate has expired; it must be renewed on the broker".into()
            }
            CertificateError::ExpiredContext { not_after, .. } => format!(
                "its certificate expired on {}; it must be renewed on the broker",
                date(i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX))
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; look at the clocks of both machines".into()
            }
            CertificateError::UnknownIssuer => "its certificate comes from an authority that is \
                not trusted here; look at `ssl.truststore.location` (without one, the system's \
                authorities are trusted)"
                .into(),
            CertificateError::NotValidForName => format!(
                "its certificate is not for {host}; look at `bootstrap.servers`, at the broker's \
                 advertised.listeners, and at `ssl.endpoint.identification.algorithm`"
            ),
            CertificateError::NotValidForNameContext { presented, .. } => format!(
                "its certificate is not for {host} but for {}; look at `bootstrap.servers`, at the \
                 broker's advertised.listeners, and at `ssl.endpoint.identification.algorithm`",
                if presented.is_empty() { "no name at all".into() } else { presented.join(", ") }
            ),
            other => format!("its certificate cannot be accepted ({other:?})"),
        },
        E::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => {
                "it wants a client certificate, and we have none; look at `ssl.keystore.location`"
                    .into()
            }
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied => format!(
                "it does not accept our client certificate, or misses one ({}); look at \
                 `ssl.keystore.location`, at the certificate's dates, and at the broker's trust store",
                alert_name(*alert)
            ),
            AlertDescription::ProtocolVersion => {
                "it speaks none of our TLS versions; look at `ssl.enabled.protocols`".into()
            }
            AlertDescription::HandshakeFailure => "it found no cipher suite in common, or wants a \
                client certificate (handshake_failure); look at `ssl.cipher.suites`, \
                `ssl.enabled.protocols` and `ssl.keystore.location`"
                .into(),
            other => format!("it broke off with the TLS alert {}", alert_name(*other)),
        },
        E::PeerIncompatible(why) => format!(
            "it has no TLS version or cipher suite in common with us ({why:?}); look at \
             `ssl.enabled.protocols` and `ssl.cipher.suites`"
        ),
        E::InvalidMessage(_) => {
            "it did not answer with TLS; this listener looks like PLAINTEXT or \
            SASL_PLAINTEXT. Look at `security.protocol`"
                .into()
        }
        E::PeerMisbehaved(why) => format!("it breaks the rules of TLS ({why:?})"),
        other => other.to_string(),
    }
}

/// An alert as RFC 8446 writes it.
fn alert_name(alert: AlertDescription) -> String {
    let mut out = String::new();
    for (index, c) in format!("{alert:?}").chars().enumerate() {
        if index > 0 && c.is_ascii_uppercase() && !out.ends_with(|c: char| c.is_ascii_uppercase()) {
            out.push('_');
        }
        out.push(c);
    }
    out.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_have_javas_names() {
        let known: Vec<String> = cipher_suites().collect();
        for name in ["TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"] {
            assert!(known.iter().any(|suite| suite == name), "{known:?}");
        }
    }

    #[test]
    fn errors_name_the_key_to_look_at() {
        let explained = |error: rustls::Error| explain(&error, Some("kafka-1"));
        for (error, word) in [
            (CertificateError::Expired.into(), "expired"),
            (CertificateError::UnknownIssuer.into(), "ssl.truststore.location"),
            (CertificateError::NotValidForName.into(), "ssl.endpoint.identification.algorithm"),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                "ssl.keystore.location",
            ),
            (rustls::Error::AlertReceived(AlertDescription::UnknownCA), "unknown_ca"),
            (
                rustls::Error::AlertReceived(AlertDescription::ProtocolVersion),
                "ssl.enabled.protocols",
            ),
            (
                rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType),
                "security.protocol",
            ),
        ] {
            let text = explained(error);
            assert!(text.contains(word), "{text}");
        }
    }
}
