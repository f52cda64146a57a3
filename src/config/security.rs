//! How a cluster's connections are secured: `security.protocol`, `ssl.*` and `sasl.*`.

use std::path::PathBuf;

use super::keys::{self, Scope};
use super::layers::{Layered, Map};
use super::lint;
use super::problems::{Part, Problem};
use super::providers::Filled;
use super::read::Reader;
use crate::client::{
    Clock, Provided, SaslSettings, Security, Store, StoreFormat, TlsSettings, Trust, cipher_suites,
    credentials,
};
use crate::model::ClusterAlias;
use crate::wire::sasl::Mechanism;

/// Where tokens are got.
pub(super) const URL: &str = "sasl.oauthbearer.token.endpoint.url";

const NO_CLASSES: &str = "Java classes cannot be loaded here";

/// Callback handlers that we stand in for.
const HANDLERS: [&str; 2] =
    ["OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler"];

/// Whether a key of the client key set is about security.
fn is_ours(name: &str) -> bool {
    name == "security.protocol" || name.starts_with("ssl.") || name.starts_with("sasl.")
}

/// A key's value for all of a cluster's connections: the admin client's, which is the cluster's
/// unless the file says otherwise.
fn of_cluster<'m, 'a>(map: &'m Map<'a>, key: &str) -> Option<&'m Layered<'a>> {
    map.get(&format!("admin.{key}")).or_else(|| map.get(key))
}

/// Reads one cluster's security.
pub(super) fn read(
    reader: &mut Reader<'_>,
    filled: &Filled,
    alias: &ClusterAlias,
    map: &Map<'_>,
) -> Security {
    let mut keys = Keys { reader, filled, alias, map };
    let (tls, sasl) = keys.protocol();
    keys.useless();
    Security { tls: tls.then(|| keys.tls()), sasl: if sasl { keys.sasl(tls) } else { None } }
}

/// Values of one role of a flow that differ from those of the cluster: all clients of a cluster
/// share its connections here, and none of them may be less safe than the file says.
pub(super) fn same_for_role(
    reader: &mut Reader<'_>,
    alias: &ClusterAlias,
    cluster: &Map<'_>,
    role: &Map<'_>,
) {
    for row in keys::all().filter(|row| row.scope == Scope::Cluster && is_ours(row.name)) {
        let Some(theirs) = role.get(row.name) else { continue };
        let ours = of_cluster(cluster, row.name);
        let text = |value: &Layered<'_>| Reader::text(value).to_owned();
        if ours.map(text) != Some(text(theirs)) {
            let message = format!(
                "all clients of {alias} share its connections here, so they cannot differ in {}",
                row.name
            );
            let hint = format!("write `{alias}.{}`, which holds for all of them", row.name);
            reader.error(theirs.chosen, Part::Value, message, Some(hint));
        }
    }
}

pub(super) struct Keys<'k, 'r, 'a> {
    pub(super) reader: &'k mut Reader<'r>,
    filled: &'k Filled,
    alias: &'k ClusterAlias,
    map: &'k Map<'a>,
}

impl<'a> Keys<'_, '_, 'a> {
    /// A value that is set and not empty.
    pub(super) fn get(&self, key: &str) -> Option<&Layered<'a>> {
        of_cluster(self.map, key).filter(|value| !Reader::text(value).is_empty())
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key).map(Reader::text)
    }

    pub(super) fn provided(&mut self, key: &str) -> Option<Provided> {
        let value = self.get(key)?;
        let (place, text) = (value.chosen.key.place(0), Reader::text(value));
        if self.filled.is_from_environment(place) {
            let message = "a secret in the environment can be read by other processes of this user";
            self.warn(key, message, Some("a file that only this user may read is safer"));
        }
        Some(self.filled.provided(place, text))
    }

    pub(super) fn error(&mut self, key: &str, message: impl Into<String>, hint: Option<&str>) {
        let hint = hint.map(ToOwned::to_owned);
        match of_cluster(self.map, key).map(|value| value.chosen) {
            Some(entry) => self.reader.error(entry, Part::Value, message, hint),
            None => {
                let problem = Problem::missing(message);
                let problem = Problem { hint, ..problem };
                if !self.reader.errors.contains(&problem) {
                    self.reader.errors.push(problem);
                }
            }
        }
    }

    pub(super) fn warn(&mut self, key: &str, message: impl Into<String>, hint: Option<&str>) {
        if let Some(value) = of_cluster(self.map, key) {
            self.reader.warn(value.chosen, Part::Value, message, hint.map(ToOwned::to_owned));
        }
    }

    /// Whether there is TLS, and whether a login.
    fn protocol(&mut self) -> (bool, bool) {
        const KNOWN: [(&str, (bool, bool)); 4] = [
            ("PLAINTEXT", (false, false)),
            ("SSL", (true, false)),
            ("SASL_PLAINTEXT", (false, true)),
            ("SASL_SSL", (true, true)),
        ];
        let Some(text) = self.text("security.protocol") else { return KNOWN[0].1 };
        let text = text.to_ascii_uppercase();
        if let Some((_, meaning)) = KNOWN.iter().find(|(name, _)| *name == text) {
            return *meaning;
        }
        let message = "unknown protocol; known: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL";
        let near = lint::nearest(&text, KNOWN.iter().map(|(name, _)| *name));
        let hint = near.map(|near| format!("did you mean {near}?"));
        self.error("security.protocol", message, hint.as_deref());
        KNOWN[0].1
    }

    /// Keys that ask for Java, or for nothing.
    fn useless(&mut self) {
        for key in
            ["ssl.engine.factory.class", "sasl.client.callback.handler.class", "sasl.login.class"]
        {
            if self.get(key).is_some() {
                self.error(key, NO_CLASSES, Some("leave it out"));
            }
        }
        let handler = self.text("sasl.login.callback.handler.class");
        if handler.is_some_and(|class| !HANDLERS.iter().any(|known| class.ends_with(known))) {
            let message = format!("{NO_CLASSES}; known: {}", HANDLERS.join(", "));
            self.error("sasl.login.callback.handler.class", message, None);
        }
        for row in keys::all().filter(|row| row.scope == Scope::Cluster && is_ours(row.name)) {
            if let keys::Status::Accepted { why } = row.status
                && self.text(row.name).is_some_and(|text| !text.eq_ignore_ascii_case(row.default))
            {
                self.warn(row.name, format!("no effect: {why}"), None);
            }
        }
    }

    fn tls(&mut self) -> TlsSettings {
        let trust = self.store("ssl.truststore", "ssl.truststore.certificates", None);
        let identity =
            self.store("ssl.keystore", "ssl.keystore.certificate.chain", Some("ssl.keystore.key"));
        let (v1_2, v1_3) = self.versions();
        TlsSettings {
            trust: trust.map_or(Trust::System, Trust::Store),
            identity,
            v1_2,
            v1_3,
            cipher_suites: self.cipher_suites(),
            check_host_name: self.check_host_name(),
        }
    }

    fn store(&mut self, prefix: &str, inline: &str, key: Option<&str>) -> Option<Store> {
        let type_key = format!("{prefix}.type");
        let kind = self.text(&type_key).unwrap_or("JKS").to_ascii_uppercase();
        let format = match kind.as_str() {
            "PEM" => StoreFormat::Pem,
            "JKS" | "PKCS12" => StoreFormat::Java,
            _ => {
                self.error(&type_key, "unknown kind of store; known: PEM, PKCS12, JKS", None);
                StoreFormat::Java
            }
        };
        let key_password = key.and_then(|_| self.provided("ssl.key.password"));
        let inline_key = key.and_then(|key| self.provided(key));
        if let Some(certificates) = self.provided(inline) {
            if format != StoreFormat::Pem {
                let hint = format!("write `{}.{type_key} = PEM`", self.alias);
                self.error(inline, "certificates in the file itself are PEM", Some(&hint));
            }
            if key.is_some() && inline_key.is_none() {
                let message = "a certificate chain without its key";
                self.error(inline, message, Some("write `ssl.keystore.key` too"));
            }
            return Some(Store::Inline { certificates, key: inline_key, key_password });
        }
        if let Some(key) = key.filter(|_| inline_key.is_some()) {
            let message = "a key without its certificates";
            self.error(key, message, Some("write `ssl.keystore.certificate.chain` too"));
        }
        let path = PathBuf::from(self.text(&format!("{prefix}.location"))?);
        let password = self.provided(&format!("{prefix}.password"));
        Some(Store::File { path, format, password, key_password })
    }

    fn versions(&mut self) -> (bool, bool) {
        let key = "ssl.enabled.protocols";
        let Some(value) = self.get(key).cloned() else { return (true, true) };
        let (mut v1_2, mut v1_3) = (false, false);
        for element in self.reader.list(&value) {
            match element.text {
                "TLSv1.2" => v1_2 = true,
                "TLSv1.3" => v1_3 = true,
                "TLSv1" | "TLSv1.1" | "SSLv3" | "SSLv2Hello" => {
                    let message = format!("{} is not safe and not spoken here", element.text);
                    self.reader.warn(value.chosen, element.part(), message, None);
                }
                _ => {
                    let message = "unknown TLS version; known: TLSv1.2, TLSv1.3".to_owned();
                    self.reader.error(value.chosen, element.part(), message, None);
                }
            }
        }
        if !v1_2 && !v1_3 {
            self.error(key, "no TLS version is left", Some("write TLSv1.2,TLSv1.3"));
        }
        (v1_2, v1_3)
    }

    fn cipher_suites(&mut self) -> Vec<String> {
        let key = "ssl.cipher.suites";
        let Some(value) = self.get(key).cloned() else { return Vec::new() };
        let known: Vec<String> = cipher_suites().collect();
        let elements = self.reader.list(&value);
        let (used, strange): (Vec<_>, Vec<_>) =
            elements.into_iter().partition(|element| known.iter().any(|k| k == element.text));
        for element in strange {
            let message = format!("{} is not spoken here", element.text);
            self.reader.warn(value.chosen, element.part(), message, None);
        }
        if used.is_empty() {
            let message = format!("no cipher suite is left; known: {}", known.join(", "));
            self.error(key, message, None);
        }
        used.into_iter().map(|element| element.text.to_owned()).collect()
    }

    fn check_host_name(&mut self) -> bool {
        let key = "ssl.endpoint.identification.algorithm";
        let Some(value) = of_cluster(self.map, key) else { return true };
        match Reader::text(value).to_ascii_lowercase().as_str() {
            "https" => true,
            "" => {
                let message = "brokers' host names are not checked: whoever has any certificate of \
                               a trusted authority can pretend to be one";
                self.warn(key, message, Some("leave the line out, or write https"));
                false
            }
            _ => {
                let hint = Some("write https, or nothing to turn it off");
                self.error(key, "unknown algorithm", hint);
                true
            }
        }
    }

    fn sasl(&mut self, tls: bool) -> Option<SaslSettings> {
        let mechanism = self.mechanism()?;
        if !tls && matches!(mechanism, Mechanism::Plain | Mechanism::OauthBearer) {
            let message = format!("{mechanism} without TLS shows the credentials to the network");
            self.warn("security.protocol", message, Some("write SASL_SSL"));
        }
        let alias = self.alias.clone();
        let Some(jaas) = self.provided("sasl.jaas.config") else {
            let message =
                format!("cluster {alias} logs in with {mechanism} and has no credentials");
            let hint = format!("write `{alias}.sasl.jaas.config`");
            self.error("sasl.jaas.config", message, Some(&hint));
            return None;
        };
        let mut settings = SaslSettings { mechanism, jaas, token_file: None, token_server: None };
        if mechanism == Mechanism::OauthBearer
            && let Some(url) = self.text(URL)
        {
            if url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
                let server = self.token_server(url, &settings.jaas)?;
                settings.token_server = Some(Box::new(server));
                return Some(settings);
            }
            settings.token_file = Some(self.token_file()?);
        }
        match credentials(&settings, Clock::start()) {
            Ok(_) => {}
            // A token may be written later; it is looked for at each login.
            Err(why) if settings.token_file.is_some() => {
                self.warn(URL, why, None);
            }
            Err(why) => self.error("sasl.jaas.config", why, None),
        }
        Some(settings)
    }

    fn mechanism(&mut self) -> Option<Mechanism> {
        let names = Mechanism::ALL.map(Mechanism::name);
        let known = names.join(", ");
        let Some(text) = self.text("sasl.mechanism") else {
            let message = format!(
                "cluster {} needs `sasl.mechanism`: Java's default GSSAPI is not spoken here",
                self.alias
            );
            self.error("sasl.mechanism", message, Some(&format!("known: {known}")));
            return None;
        };
        let found = Mechanism::from_name(text);
        if found.is_none() {
            let message = if text == "GSSAPI" {
                format!("GSSAPI (Kerberos) is not spoken here; possible: {known}")
            } else {
                format!("unknown mechanism; known: {known}")
            };
            let hint = lint::nearest(text, names).map(|near| format!("did you mean {near}?"));
            self.error("sasl.mechanism", message, hint.as_deref());
        }
        found
    }

    /// The file behind `file:///path`.
    fn token_file(&mut self) -> Option<PathBuf> {
        let text = self.text(URL)?;
        let path = text.strip_prefix("file:").map(|rest| rest.strip_prefix("//").unwrap_or(rest));
        match path.filter(|path| path.starts_with('/')) {
            Some(path) => Some(PathBuf::from(path)),
            None => {
                let message = "tokens are asked for over https, or read from a file";
                let hint = "write https://HOST/PATH, or file:///path";
                self.error(URL, message, Some(hint));
                None
            }
        }
    }
}
