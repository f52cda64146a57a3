//! Brokers with a listener for every way to be secured, and the ways themselves as lines of a properties file.

use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::certs::{Certs, PASSWORD};
use crate::cluster::{Cluster, ClusterSpec};
use crate::flow::FlowFile;
use crate::java::{self, Archive, Jvm};
use crate::version::Version;

/// The user that all mechanisms know.
pub const USER: &str = "mirror";
/// Its password for PLAIN.
pub const PLAIN_PASSWORD: &str = "plain-password-x1";
/// Its password for SCRAM, with the characters that must be escaped somewhere.
pub const SCRAM_PASSWORD: &str = "scram=pass,word-y2";

/// Listeners with SASL and what runs below it.
pub const SASL_LISTENERS: [(&str, &str); 3] =
    [("SASLP", "SASL_PLAINTEXT"), ("SASLS", "SASL_SSL"), ("REAUTH", "SASL_SSL")];

/// How long a session holds on the listener `REAUTH`.
pub const SESSION_MS: &str = "3000";

/// Adds the listeners to a cluster: TLS, MTLS, SASLP, SASLS, REAUTH, and with `broken` EXPIRED and ELSEWHERE, whose
/// certificates ([`broken_certs`]) are no good.
pub fn listeners(mut spec: ClusterSpec, certs: &Certs, broken: bool) -> ClusterSpec {
    let mut tls = vec![("TLS", "SSL", "server"), ("MTLS", "SSL", "server")];
    if broken {
        tls.extend([("EXPIRED", "SSL", "expired"), ("ELSEWHERE", "SSL", "elsewhere")]);
    }
    for (name, protocol) in SASL_LISTENERS {
        if protocol == "SASL_SSL" {
            tls.push((name, protocol, "server"));
        } else {
            spec = spec.listener(name, protocol);
        }
    }
    for (name, protocol, certificate) in tls {
        let prefix = format!("listener.name.{}.ssl", name.to_lowercase());
        spec = spec
            .listener(name, protocol)
            .set(format!("{prefix}.keystore.type"), "PEM")
            .set(
                format!("{prefix}.keystore.location"),
                certs.path(&format!("{certificate}.pbe.pem")),
            )
            // 2.8 wants the key in a PEM store to be encrypted.
            .set(format!("{prefix}.key.password"), PASSWORD)
            .set(format!("{prefix}.truststore.type"), "PEM")
            .set(format!("{prefix}.truststore.location"), certs.path("ca.pem"));
    }
    let package = "org.apache.kafka.common.security";
    let mut all = vec!["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];
    spec = spec
        .set("listener.name.mtls.ssl.client.auth", "required")
        .set("sasl.enabled.mechanisms", all.join(","))
        .set("listener.name.reauth.connections.max.reauth.ms", SESSION_MS)
        .set("delegation.token.master.key", "token-master")
        .set("delegation.token.secret.key", "token-master");
    for (name, _) in SASL_LISTENERS {
        let prefix = format!("listener.name.{}", name.to_lowercase());
        if name == "REAUTH" {
            all.pop();
        }
        spec = spec.set(format!("{prefix}.sasl.enabled.mechanisms"), all.join(","));
        for (mechanism, module) in [
            ("plain", format!("plain.PlainLoginModule required user_{USER}=\"{PLAIN_PASSWORD}\"")),
            ("scram-sha-256", "scram.ScramLoginModule required".into()),
            ("scram-sha-512", "scram.ScramLoginModule required".into()),
            ("oauthbearer", "oauthbearer.OAuthBearerLoginModule required".into()),
        ] {
            spec = spec.set(
                format!("{prefix}.{mechanism}.sasl.jaas.config"),
                format!("{package}.{module};"),
            );
        }
    }
    spec
}

/// The certificates of the listeners EXPIRED and ELSEWHERE.
pub fn broken_certs(certs: &Certs) -> Result<()> {
    certs.issue_expired("expired", "ca", "DNS:localhost,IP:127.0.0.1")?;
    certs.issue("elsewhere", "ca", "DNS:elsewhere.test", "365")
}

/// Gives `user` this password for both SCRAM mechanisms, or another one if it had one.
pub fn scram_user(cluster: &Cluster, user: &str, password: &str) -> Result<()> {
    // Both mechanisms in one call are refused, and one beside the other loses one of them on a
    // broker with ZooKeeper: it reads the user's settings, adds its own and writes them all back.
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let log = cluster.dir().join(format!("scram-{mechanism}.log"));
        let jvm = Jvm::Functional { heap_mib: 64 };
        let command = java::command(
            format!("ConfigCommand for {mechanism}"),
            Version::CLIENTS,
            jvm,
            Archive::Agent,
            "kafka.admin.ConfigCommand",
            &log,
        )?;
        let bootstrap = cluster.bootstrap();
        // Brackets keep the comma of a password from separating two settings.
        let config = format!("{mechanism}=[iterations=4096,password={password}]");
        let args = ["--bootstrap-server", &bootstrap, "--alter", "--add-config", &config];
        let mut child =
            command.args(args).args(["--entity-type", "users", "--entity-name", user]).start()?;
        let exit = child.wait(Duration::from_secs(60))?;
        if exit.code != Some(0) {
            bail!("{}: {}", child.name(), crate::process::tail(&log, 20));
        }
    }
    Ok(())
}

/// One way to be secured: a listener, and the settings of a client that fit it.
#[derive(Debug, Clone)]
pub struct Way {
    /// For people.
    pub name: String,
    pub listener: &'static str,
    /// Keys without the alias.
    pub lines: Vec<(String, String)>,
}

impl Way {
    pub fn new(name: impl Into<String>, listener: &'static str, protocol: &str) -> Self {
        Self { name: name.into(), listener, lines: Vec::new() }.with("security.protocol", protocol)
    }

    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        let value = value.into();
        match self.lines.iter_mut().find(|(known, _)| known == key) {
            Some(line) => line.1 = value,
            None => self.lines.push((key.to_owned(), value)),
        }
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        self.name = format!("{} {name}", self.name);
        self
    }

    /// The authority in a store of this kind: `PEM`, `inline`, `PKCS12` or `JKS`.
    pub fn trusting(self, certs: &Certs, kind: &str) -> Result<Self> {
        let way = self.named(&format!("trust={kind}"));
        Ok(match kind {
            "inline" => way
                .with("ssl.truststore.type", "PEM")
                .with("ssl.truststore.certificates", inline(&certs.text("ca.pem")?)),
            "PEM" => way
                .with("ssl.truststore.type", "PEM")
                .with("ssl.truststore.location", certs.path("ca.pem")),
            _ => {
                let file = if kind == "JKS" { "ca.jks" } else { "ca.p12" };
                way.with("ssl.truststore.type", kind)
                    .with("ssl.truststore.location", certs.path(file))
                    .with("ssl.truststore.password", PASSWORD)
            }
        })
    }

    /// The client certificate `name` in a store of this kind: also `pbes2` and `pbe` for PEM with an encrypted key, and
    /// `openssl` for PKCS12 that openssl wrote.
    pub fn identified(self, certs: &Certs, name: &str, kind: &str) -> Result<Self> {
        let way = self.named(&format!("key={kind}"));
        Ok(match kind {
            "inline" => way
                .with("ssl.keystore.type", "PEM")
                .with("ssl.keystore.key", inline(&certs.text(&format!("{name}.pbes2.key"))?))
                .with(
                    "ssl.keystore.certificate.chain",
                    inline(&certs.text(&format!("{name}.pem"))?),
                )
                .with("ssl.key.password", PASSWORD),
            "PEM" => way
                .with("ssl.keystore.type", "PEM")
                .with("ssl.keystore.location", certs.path(&format!("{name}.store.pem"))),
            "pbes2" | "pbe" => way
                .with("ssl.keystore.type", "PEM")
                .with("ssl.keystore.location", certs.path(&format!("{name}.{kind}.pem")))
                .with("ssl.key.password", PASSWORD),
            _ => {
                let (kind, file) = match kind {
                    "JKS" => ("JKS", "jks"),
                    "openssl" => ("PKCS12", "p12"),
                    _ => ("PKCS12", "java.p12"),
                };
                way.with("ssl.keystore.type", kind)
                    .with("ssl.keystore.location", certs.path(&format!("{name}.{file}")))
                    .with("ssl.keystore.password", PASSWORD)
            }
        })
    }

    /// A login by this mechanism with the right credentials.
    pub fn logging_in(self, mechanism: &str) -> Self {
        let login = match mechanism {
            "OAUTHBEARER" => format!("unsecuredLoginStringClaim_sub=\"{USER}\""),
            "PLAIN" => format!("username=\"{USER}\" password=\"{PLAIN_PASSWORD}\""),
            _ => format!("username=\"{USER}\" password=\"{SCRAM_PASSWORD}\""),
        };
        self.named(mechanism)
            .with("sasl.mechanism", mechanism)
            .with("sasl.jaas.config", jaas(mechanism, &login))
    }

    /// Writes the cluster `alias` at this way's listener of `cluster`.
    pub fn write(&self, mut file: FlowFile, alias: &str, cluster: &Cluster) -> Result<FlowFile> {
        let bootstrap = match self.listener {
            "PLAINTEXT" => cluster.bootstrap(),
            listener => cluster
                .bootstrap_of(listener, "127.0.0.1")
                .with_context(|| format!("for {}", self.name))?,
        };
        file = file.cluster(alias, &bootstrap);
        for (key, value) in &self.lines {
            file = file.set(format!("{alias}.{key}"), value);
        }
        Ok(file)
    }
}

/// A `sasl.jaas.config` with these options.
pub fn jaas(mechanism: &str, options: &str) -> String {
    let module = match mechanism {
        "PLAIN" => "plain.PlainLoginModule",
        "OAUTHBEARER" => "oauthbearer.OAuthBearerLoginModule",
        _ => "scram.ScramLoginModule",
    };
    format!("org.apache.kafka.common.security.{module} required {options};")
}

/// Text over several lines as a value of a properties file.
fn inline(text: &str) -> String {
    text.trim_end().replace('\n', "\\n\\\n  ")
}
