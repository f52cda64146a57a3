//! Whatever a secured cluster refuses, or we refuse about it: one line says what is wrong and which key to look at, no
//! secret stands anywhere, and the other flows go on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use testbed::admin::Topic;
use testbed::certs::{Certs, PASSWORD};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::ports;
use testbed::secured::{
    PLAIN_PASSWORD, SCRAM_PASSWORD, USER, Way, broken_certs, jaas, listeners, scram_user,
};
use testbed::version::Version;

const TOLD_WITHIN: Duration = Duration::from_secs(30);
const COPY_WAIT: Duration = Duration::from_secs(60);

/// Passwords that are wrong, and planted to be looked for.
const PLANTED: [&str; 4] =
    ["planted-one-k1", "planted-two-k2", "planted-three-k3", "planted-four-k4"];

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{path}: {text}");
    text
}

/// A way that is refused, and the words that say so.
type Case = (&'static str, Way, &'static [&'static str]);

fn cases(certs: &Certs) -> Vec<Case> {
    let plain = Way::new("", "PLAINTEXT", "PLAINTEXT");
    let tls = |listener| Way::new("", listener, "SSL").trusting(certs, "PEM").unwrap();
    let sasl = |mechanism: &'static str, options: String| {
        let way = Way::new("", "SASLS", "SASL_SSL").trusting(certs, "PEM").unwrap();
        way.with("sasl.mechanism", mechanism).with("sasl.jaas.config", jaas(mechanism, &options))
    };
    let user = |name: &str, password: &str| format!("username=\"{name}\" password=\"{password}\"");
    let at = |mut way: Way, listener| {
        way.listener = listener;
        way
    };
    let [one, two, three, four] = PLANTED;
    vec![
        (
            "wrong password with PLAIN",
            sasl("PLAIN", user(USER, one)),
            &["refused user \"mirror\" with PLAIN", "`sasl.jaas.config`"],
        ),
        (
            "wrong password with SCRAM",
            sasl("SCRAM-SHA-512", user(USER, two)),
            &["refused user \"mirror\" with SCRAM-SHA-512", "`sasl.jaas.config`"],
        ),
        (
            "unknown user",
            sasl("SCRAM-SHA-256", user("nobody", two)),
            &["refused user \"nobody\" with SCRAM-SHA-256", "whether the user exists"],
        ),
        (
            "wrong mechanism",
            at(sasl("OAUTHBEARER", "unsecuredLoginStringClaim_sub=\"u\"".into()), "REAUTH"),
            &["does not take OAUTHBEARER", "PLAIN", "SCRAM-SHA-256", "`sasl.mechanism`"],
        ),
        (
            "token of another time",
            sasl(
                "OAUTHBEARER",
                "unsecuredLoginStringClaim_sub=\"u\" unsecuredLoginLifetimeSeconds=\"-3600\""
                    .into(),
            ),
            &["refused the holder of the token", "clocks"],
        ),
        ("expired certificate", tls("EXPIRED"), &["its certificate expired on 2020-02-01"]),
        (
            "wrong host name",
            tls("ELSEWHERE"),
            &["not for 127.0.0.1", "elsewhere.test", "`ssl.endpoint.identification.algorithm`"],
        ),
        (
            "unknown authority",
            tls("TLS").with("ssl.truststore.location", certs.path("other.pem")),
            &["authority that is not trusted", "`ssl.truststore.location`"],
        ),
        ("no client certificate", tls("MTLS"), &["client certificate", "`ssl.keystore.location`"]),
        (
            "expired client certificate",
            tls("MTLS").identified(certs, "expired", "PEM").unwrap(),
            &["does not accept our client certificate", "`ssl.keystore.location`"],
        ),
        (
            "wrong password of a PKCS12 store",
            tls("TLS").trusting(certs, "PKCS12").unwrap().with("ssl.truststore.password", three),
            &["ca.p12", "password is wrong", "`ssl.truststore.password`"],
        ),
        (
            "wrong password of a JKS store",
            tls("TLS").trusting(certs, "JKS").unwrap().with("ssl.truststore.password", three),
            &["ca.jks", "password is wrong", "`ssl.truststore.password`"],
        ),
        (
            "wrong password of a key",
            tls("MTLS")
                .identified(certs, "client", "pbes2")
                .unwrap()
                .with("ssl.key.password", four),
            &["client.pbes2.pem", "cannot be decrypted", "`ssl.key.password`"],
        ),
        ("TLS on a plain port", at(tls("TLS"), "PLAINTEXT"), &["TLS", "`security.protocol`"]),
        ("plain on a TLS port", at(plain.clone(), "TLS"), &["TLS", "SSL"]),
        ("plain on a SASL port", at(plain, "SASLP"), &["expects SASL", "`security.protocol`"]),
        (
            "SASL on a TLS port without it",
            at(sasl("PLAIN", user(USER, PLAIN_PASSWORD)), "TLS"),
            &["takes no login", "`security.protocol`"],
        ),
    ]
}

fn clusters(certs: &Certs) -> (Cluster, Cluster) {
    let source = listeners(ClusterSpec::new(Version::V4_3_1), certs, true);
    let (source, target) =
        ClusterSpec::start_both(source, ClusterSpec::new(Version::V4_3_1)).unwrap();
    scram_user(&source, USER, SCRAM_PASSWORD).unwrap();
    (source, target)
}

#[test]
fn each_refusal_names_the_key_to_look_at_and_no_secret_stands_anywhere() {
    let certs = Certs::new().unwrap();
    broken_certs(&certs).unwrap();
    certs.authority("other").unwrap();
    certs.trust_stores("ca").unwrap();
    certs.issue("client", "ca", "DNS:mirror.test", "365").unwrap();
    certs.key_stores("client").unwrap();
    let (source, target) = clusters(&certs);
    source.create_topic(&Topic::new("t")).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    let port = ports::take().unwrap();
    let good = Way::new("", "SASLS", "SASL_SSL").trusting(&certs, "JKS").unwrap();
    let mut file = FlowFile::of(&[("t", &target)])
        .flow("s", "t")
        .set("heliograph.http.listen", format!("127.0.0.1:{port}"));
    file = good.logging_in("SCRAM-SHA-256").write(file, "s", &source).unwrap();
    let cases = cases(&certs);
    for (index, (_, way, _)) in cases.iter().enumerate() {
        let alias = format!("x{index}");
        file = way.write(file, &alias, &source).unwrap().flow(&alias, "t");
    }
    let mut mirror = Mirror::heliograph(&file).unwrap();

    for (index, (case, _, words)) in cases.iter().enumerate() {
        let cluster = format!("cluster=x{index} ");
        let told =
            |line: &str| line.contains(&cluster) && words.iter().all(|word| line.contains(word));
        let what = format!("{case}: the log says {words:?} of {cluster}");
        eventually(&what, TOLD_WITHIN, &mirror, || Ok(mirror.log_text().lines().any(told)))
            .unwrap_or_else(|error| {
                let log = mirror.log_text();
                let lines: Vec<&str> = log.lines().filter(|line| line.contains(&cluster)).collect();
                panic!("{error:#}\n{}", lines.join("\n"));
            });
    }
    // The good flow does not care.
    target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap();
    let said = [get(port, "/status"), get(port, "/metrics"), {
        mirror.terminate(COPY_WAIT).unwrap();
        mirror.log_text()
    }];
    for secret in PLANTED.iter().chain(&[PLAIN_PASSWORD, SCRAM_PASSWORD, PASSWORD]) {
        for text in &said {
            assert!(!text.contains(secret), "{secret} stands in\n{text}");
        }
    }
}

#[test]
fn a_login_that_is_refused_is_tried_ever_more_seldom_and_goes_well_once_the_user_is_there() {
    let certs = Certs::new().unwrap();
    broken_certs(&certs).unwrap();
    let (source, target) = clusters(&certs);
    source.create_topic(&Topic::new("t")).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    let way = Way::new("", "SASLS", "SASL_SSL").trusting(&certs, "PEM").unwrap();
    let login = jaas("SCRAM-SHA-512", "username=\"late\" password=\"late-password-v4\"");
    let way = way.with("sasl.mechanism", "SCRAM-SHA-512").with("sasl.jaas.config", login);
    let file = way.write(FlowFile::of(&[("t", &target)]).flow("s", "t"), "s", &source).unwrap();
    let mirror = Mirror::heliograph(&file).unwrap();
    let failures = || {
        let text = std::fs::read_to_string(source.node(1).unwrap().log()).unwrap_or_default();
        text.lines().filter(|line| line.contains("Failed authentication")).count()
    };
    eventually("a login fails", TOLD_WITHIN, &mirror, || Ok(failures() > 0)).unwrap();
    thread::sleep(Duration::from_secs(12));
    let before = failures();
    assert!((2..=8).contains(&before), "{before} logins failed in twelve seconds");

    scram_user(&source, "late", "late-password-v4").unwrap();

    target.await_end_offsets("s.t", 1_000, COPY_WAIT).unwrap();
    assert!(!mirror.log_text().contains("late-password"), "{}", mirror.last_words());
}
