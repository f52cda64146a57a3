//! How connections of one cluster are secured, as settings: values only.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::dial::Endpoint;
use crate::model::Secret;
use crate::wire::sasl::Mechanism;

/// What a cluster's connections need before the first request. The default is nothing: plaintext.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// TLS, for SSL and SASL_SSL.
    pub tls: Option<TlsSettings>,
    /// A login, for SASL_PLAINTEXT and SASL_SSL.
    pub sasl: Option<SaslSettings>,
}

impl Security {
    /// The word of `security.protocol`.
    #[must_use]
    pub fn protocol(&self) -> &'static str {
        match (&self.tls, &self.sasl) {
            (None, None) => "PLAINTEXT",
            (Some(_), None) => "SSL",
            (None, Some(_)) => "SASL_PLAINTEXT",
            (Some(_), Some(_)) => "SASL_SSL",
        }
    }
}

/// TLS of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// Whose certificates are believed.
    pub trust: Trust,
    /// Who we are, where the broker asks.
    pub identity: Option<Store>,
    /// Whether TLS 1.2 may be spoken.
    pub v1_2: bool,
    /// Whether TLS 1.3 may be spoken.
    pub v1_3: bool,
    /// IANA names of the cipher suites that may be used, all known; empty for all.
    pub cipher_suites: Vec<String>,
    /// Whether the certificate must be for the name that was dialled.
    pub check_host_name: bool,
}

/// Whose certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those that the system believes.
    System,
    /// Those of this store, and no others.
    Store(Store),
}

/// Certificates, and a key perhaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// In a file, which is read again when it has changed.
    File {
        /// Where.
        path: PathBuf,
        /// How it is written.
        format: StoreFormat,
        /// Its password.
        password: Option<Provided>,
        /// The key's own password.
        key_password: Option<Provided>,
    },
    /// As PEM in the settings themselves (KIP-651).
    Inline {
        /// Certificates.
        certificates: Provided,
        /// The private key.
        key: Option<Provided>,
        /// The key's password.
        key_password: Option<Provided>,
    },
}

/// How a store file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFormat {
    /// JKS or PKCS12; which, its first bytes tell, as they do in Java.
    Java,
    /// PEM.
    Pem,
}

/// A login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaslSettings {
    /// By which mechanism.
    pub mechanism: Mechanism,
    /// `sasl.jaas.config`.
    pub jaas: Provided,
    /// Where a token is read from for OAUTHBEARER (`file:` URLs); `None` to make an unsecured one.
    pub token_file: Option<PathBuf>,
    /// The server that tokens are asked of for OAUTHBEARER (`https:` URLs).
    pub token_server: Option<Box<TokenSettings>>,
}

/// How tokens are got by the client-credentials grant (RFC 6749).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    /// The server (`sasl.oauthbearer.token.endpoint.url`).
    pub endpoint: TokenUrl,
    /// Who asks; without it, `clientId` among the options of `sasl.jaas.config`.
    pub client_id: Option<Provided>,
    /// Its secret; without it, `clientSecret` there.
    pub client_secret: Option<Provided>,
    /// What to ask a token for; without it, `scope` there.
    pub scope: Option<String>,
    /// Whether id and secret are URL-encoded in the header.
    pub header_urlencode: bool,
    /// TLS of the server.
    pub tls: TlsSettings,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long the answer may take.
    pub read_timeout: Duration,
    /// When a token is refreshed.
    pub refresh: RefreshRule,
    /// First and longest pause before a question that failed is put again.
    pub retry: (Duration, Duration),
}

/// Where a token server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUrl {
    /// Its address.
    pub address: Endpoint,
    /// Path and query.
    pub path: String,
}

impl fmt::Display for TokenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A query may hold what is nobody's business.
        let path = self.path.split('?').next().unwrap_or_default();
        write!(f, "https://{}{path}", self.address)
    }
}

/// When a token is refreshed (`sasl.login.refresh.*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshRule {
    /// The part of its life after which it is, in thousandths.
    pub window_permille: u32,
    /// At most so much later, in thousandths.
    pub jitter_permille: u32,
    /// Not sooner after the last refresh, if the token lasts that long.
    pub min_period: Duration,
    /// Not later before its end, if the token lasts that long.
    pub buffer: Duration,
}

/// Fills in what a text only points at, such as `${file:/run/secrets:password}`.
pub trait Provide: Send + Sync {
    /// The text with everything filled in.
    ///
    /// # Errors
    ///
    /// What could not be found, in words.
    fn fill(&self, text: &str) -> Result<Secret, String>;
}

/// A text that may hold references to providers. They are followed anew at each use, so that a
/// password that was changed there is used at the next login.
#[derive(Clone)]
pub struct Provided {
    text: Secret,
    providers: Option<Arc<dyn Provide>>,
}

impl Provided {
    /// A text that stands for itself.
    #[must_use]
    pub fn fixed(text: impl Into<String>) -> Self {
        Self { text: Secret::new(text), providers: None }
    }

    /// A text that `providers` fill in.
    #[must_use]
    pub fn by(text: impl Into<String>, providers: Arc<dyn Provide>) -> Self {
        Self { text: Secret::new(text), providers: Some(providers) }
    }

    /// The text as it is now.
    ///
    /// # Errors
    ///
    /// What could not be found, in words.
    pub fn get(&self) -> Result<Secret, String> {
        match &self.providers {
            Some(providers) => providers.fill(self.text.reveal()),
            None => Ok(self.text.clone()),
        }
    }
}

impl fmt::Debug for Provided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl PartialEq for Provided {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Provided {}
