//! Clusters secured in every way: each record arrives, whatever the way in, and keys and passwords may change meanwhile.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::json;
use testbed::admin::Topic;
use testbed::agent::Agent;
use testbed::certs::Certs;
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, Program};
use testbed::secured::{SCRAM_PASSWORD, USER, Way, jaas, listeners, scram_user};
use testbed::version::Version;

const COPY_WAIT: Duration = Duration::from_secs(60);

const RECORDS: u64 = 500;

fn certs() -> Certs {
    let certs = Certs::new().unwrap();
    certs.trust_stores("ca").unwrap();
    certs.issue("client", "ca", "DNS:mirror.test", "365").unwrap();
    certs.key_stores("client").unwrap();
    certs
}

fn pair(source: Version, target: Version, certs: &Certs) -> (Cluster, Cluster) {
    let spec = |version| listeners(ClusterSpec::new(version), certs, false);
    let (source, target) = ClusterSpec::start_both(spec(source), spec(target)).unwrap();
    thread::scope(|scope| {
        for cluster in [&source, &target] {
            scope.spawn(move || scram_user(cluster, USER, SCRAM_PASSWORD).unwrap());
        }
    });
    (source, target)
}

const VERSIONS: [&str; 2] = ["TLSv1.2", "TLSv1.3"];
const MECHANISMS: [&str; 4] = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];

/// `{"alg":"none"}` and `{"sub":"mirror","iat":1700000000,"exp":4000000000}`: until the year 2096.
const TOKEN: &str =
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJtaXJyb3IiLCJpYXQiOjE3MDAwMDAwMDAsImV4cCI6NDAwMDAwMDAwMH0.";

/// Every way that differs in something.
fn all_ways(certs: &Certs) -> Vec<Way> {
    let mut ways = vec![Way::new("PLAINTEXT", "PLAINTEXT", "PLAINTEXT")];
    for version in VERSIONS {
        let tls = |listener, protocol| {
            let way = Way::new(protocol, listener, protocol).named(version);
            way.with("ssl.enabled.protocols", version)
        };
        for trust in ["PEM", "inline", "PKCS12", "JKS"] {
            ways.push(tls("TLS", "SSL").trusting(certs, trust).unwrap());
        }
        for (trust, key) in [
            ("PEM", "PEM"),
            ("inline", "inline"),
            ("PEM", "pbes2"),
            ("PEM", "pbe"),
            ("PKCS12", "PKCS12"),
            ("PKCS12", "openssl"),
            ("JKS", "JKS"),
        ] {
            let way = tls("MTLS", "SSL").trusting(certs, trust).unwrap();
            ways.push(way.identified(certs, "client", key).unwrap());
        }
        for mechanism in MECHANISMS {
            for trust in ["PEM", "PKCS12", "JKS"] {
                let way = tls("SASLS", "SASL_SSL").trusting(certs, trust).unwrap();
                ways.push(way.logging_in(mechanism));
            }
        }
    }
    let plain = || Way::new("SASL_PLAINTEXT", "SASLP", "SASL_PLAINTEXT");
    for mechanism in MECHANISMS {
        ways.push(plain().logging_in(mechanism));
    }
    fs::write(certs.path("token.jwt"), format!("{TOKEN}\n")).unwrap();
    let url = format!("file://{}", certs.path("token.jwt"));
    let from_file = plain().logging_in("OAUTHBEARER").named("from a file");
    ways.push(
        from_file
            .with("sasl.jaas.config", jaas("OAUTHBEARER", ""))
            .with("sasl.oauthbearer.token.endpoint.url", url),
    );
    ways
}

/// The main ones.
fn main_ways(certs: &Certs) -> Vec<Way> {
    let all = all_ways(certs);
    let main = [
        "SSL TLSv1.2 trust=PEM",
        "SSL TLSv1.3 trust=PKCS12",
        "SSL TLSv1.2 trust=JKS key=JKS",
        "SSL TLSv1.3 trust=PEM key=pbes2",
        "SASL_SSL TLSv1.3 trust=JKS PLAIN",
        "SASL_SSL TLSv1.2 trust=PKCS12 SCRAM-SHA-512",
        "SASL_SSL TLSv1.3 trust=PEM SCRAM-SHA-256",
        "SASL_SSL TLSv1.3 trust=PEM OAUTHBEARER",
        "SASL_PLAINTEXT SCRAM-SHA-256",
    ];
    let ways: Vec<Way> = all.into_iter().filter(|way| main.contains(&way.name.as_str())).collect();
    assert_eq!(ways.len(), main.len());
    ways
}

/// One process with a flow for each way, secured so on both sides.
fn mirror_by(ways: &[Way], source: &Cluster, target: &Cluster) {
    let mut file = FlowFile::of(&[]).set("offset.storage.partitions", "1");
    for (index, way) in ways.iter().enumerate() {
        let topic = format!("cell-{index}");
        source.create_topic(&Topic::new(&topic)).unwrap();
        source.fill(&Fill::new(&topic, RECORDS).codec(Codec::Lz4)).unwrap();
        let (s, t) = (format!("s{index}"), format!("t{index}"));
        file = way.write(file, &s, source).unwrap();
        file = way.write(file, &t, target).unwrap();
        file = file.flow(&s, &t).set(format!("{s}->{t}.topics"), topic);
    }
    let mirror = Mirror::heliograph(&file).unwrap();
    for (index, way) in ways.iter().enumerate() {
        let topic = format!("s{index}.cell-{index}");
        target.await_end_offsets(&topic, RECORDS, COPY_WAIT).unwrap_or_else(|error| {
            let mine: Vec<String> = mirror
                .log_text()
                .lines()
                .filter(|line| line.contains(&format!("s{index}->t{index}")))
                .map(ToOwned::to_owned)
                .collect();
            panic!("{}: {error:#}\n{}\n{}", way.name, mine.join("\n"), mirror.last_words());
        });
    }
}

#[test]
fn a_topic_is_mirrored_by_every_way_to_be_secured() {
    let certs = certs();
    let (source, target) = pair(Version::V4_3_1, Version::V4_3_1, &certs);

    mirror_by(&all_ways(&certs), &source, &target);
}

#[test]
fn brokers_of_2_8_and_3_9_are_reached_by_the_main_ways_too() {
    let certs = certs();
    let (source, target) = pair(Version::V2_8_2, Version::V3_9_2, &certs);

    mirror_by(&main_ways(&certs), &source, &target);
}

#[test]
fn certificates_and_passwords_change_during_a_copy_and_no_record_is_lost_or_twice() {
    let certs = Certs::new().unwrap();
    certs.issue("client", "ca", "DNS:mirror.test", "365").unwrap();
    let (mut source, mut target) = pair(Version::V4_3_1, Version::V4_3_1, &certs);
    source.create_topic(&Topic::new("t").partitions(4)).unwrap();
    // What the mirror reads, beside what brokers read.
    let secrets = certs.path("secrets.properties");
    let write_secret = |password: &str| fs::write(&secrets, format!("scram={password}\n")).unwrap();
    write_secret(SCRAM_PASSWORD);
    let copy = |from: &str, to: &str| fs::copy(certs.path(from), certs.path(to)).unwrap();
    copy("ca.pem", "trust.pem");
    copy("client.store.pem", "own.pem");
    let provider = "org.apache.kafka.common.config.provider.FileConfigProvider";
    let login = format!("username=\"{USER}\" password=\"${{file:{secrets}:scram}}\"");
    let tls = |listener, protocol| {
        let way = Way::new(protocol, listener, protocol);
        way.with("ssl.truststore.type", "PEM")
            .with("ssl.truststore.location", certs.path("trust.pem"))
    };
    let from = tls("SASLS", "SASL_SSL")
        .with("sasl.mechanism", "SCRAM-SHA-512")
        .with("sasl.jaas.config", jaas("SCRAM-SHA-512", &login));
    let to = tls("MTLS", "SSL")
        .with("ssl.keystore.type", "PEM")
        .with("ssl.keystore.location", certs.path("own.pem"));
    let mut file = FlowFile::of(&[])
        .set("config.providers", "file")
        .set("config.providers.file.class", provider)
        .flow("s", "t");
    file = from.write(file, "s", &source).unwrap();
    file = to.write(file, "t", &target).unwrap();
    // Functional brokers encrypt without the compiler that knows AES: a few megabytes a second.
    let live = Fill::new("t", 1_000_000).codec(Codec::Lz4).size(100, 500);
    let filling = source.fill_in_background(&live.rate(4_000.0)).unwrap();
    let mirror = Mirror::heliograph(&file).unwrap();
    target.await_end_offsets("s.t", 10_000, COPY_WAIT).unwrap();

    // The password first on the broker, so that old logins fail for a while.
    scram_user(&source, USER, "another-pass-z3").unwrap();
    write_secret("another-pass-z3");
    // A new authority, which both sides trust beside the old one until all certificates are new.
    certs.authority("next").unwrap();
    certs.issue("server-next", "next", "DNS:localhost,IP:127.0.0.1", "365").unwrap();
    certs.issue("client-next", "next", "DNS:mirror.test", "365").unwrap();
    let both = certs.text("ca.pem").unwrap() + &certs.text("next.pem").unwrap();
    fs::write(certs.path("trust.pem"), &both).unwrap();
    fs::write(certs.path("ca.pem"), &both).unwrap();
    copy("server-next.pbe.pem", "server.pbe.pem");
    copy("client-next.store.pem", "own.pem");
    target.restart(1).unwrap();
    filling.stop().unwrap();
    source.restart(1).unwrap();
    // Nothing old is left.
    fs::write(certs.path("trust.pem"), certs.text("next.pem").unwrap()).unwrap();
    source.fill(&Fill::new("t", 20_000).first(1_000_000).codec(Codec::Lz4)).unwrap();

    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    let copied = comparison.must_be_copied_by(&mirror).unwrap().total.matched;
    assert!(copied > 30_000, "{copied}");
    assert!(mirror.log_text().contains("certificates were read again"), "{}", mirror.last_words());
}

/// Sessions of three seconds; ten minutes of them, at five times the rate, with `TESTBED_FULL=1`.
#[test]
fn sessions_are_renewed_in_mid_flow_without_an_error_or_a_pause() {
    let full = std::env::var_os("TESTBED_FULL").is_some();
    let (seconds, rate): (u64, u64) = if full { (600, 10_000) } else { (20, 2_000) };
    let certs = certs();
    let (source, target) = pair(Version::V4_3_1, Version::V4_3_1, &certs);
    source.create_topic(&Topic::new("t").partitions(4)).unwrap();
    source.fill(&Fill::new("t", 4_000)).unwrap();
    let way = Way::new("REAUTH", "REAUTH", "SASL_SSL").trusting(&certs, "PEM").unwrap();
    let way = way.logging_in("SCRAM-SHA-512");
    let mut file = FlowFile::of(&[]).flow("s", "t");
    file = way.write(file, "s", &source).unwrap();
    file = way.write(file, "t", &target).unwrap();
    let args = ["--log-format", "json", "--log", "info,heliograph::client::connection=debug"];
    let mut mirror = Mirror::prepare(Program::Heliograph, &file, &args).unwrap();
    mirror.launch().unwrap();
    target.await_end_offsets("s.t", 4_000, COPY_WAIT).unwrap();
    let said_before = mirror.events().len();

    let wait = Duration::from_secs(seconds + 60);
    let args = json!({
        "source": source.bootstrap(), "source_topic": "t",
        "target": target.bootstrap(), "target_topic": "s.t",
        "records": rate * seconds, "rate": rate, "warm_up": rate * 3,
        "wait_ms": u64::try_from(wait.as_millis()).unwrap(),
    });
    let delays: serde_json::Value =
        Agent::shared().unwrap().call("delays", args, wait * 2).unwrap();

    let added = &delays["added"];
    println!("{seconds} s of sessions of 3 s: added delay {added}");
    // No complaint, and no connection that was lost and made again.
    let events = mirror.events().split_off(said_before);
    let loud = events.iter().find(|event| ["WARN", "ERROR"].contains(&event.level()));
    assert!(loud.is_none(), "{loud:?}");
    let mut took_us: Vec<u64> = events
        .iter()
        .filter(|event| event.message() == "session renewed")
        .filter_map(|event| event.text("took_us")?.parse().ok())
        .collect();
    took_us.sort_unstable();
    let (count, most) = (took_us.len(), took_us.last().copied().unwrap_or(0));
    println!("{count} renewals took {} us in the middle, {most} at most", took_us[count / 2]);
    // At least the lane that fetches and the one that produces, every three seconds.
    assert!(count as u64 >= seconds / 3 * 2, "{count} renewals in {seconds} s");
    mirror.must_be_running().unwrap();
    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    comparison.must_be_copied_by(&mirror).unwrap();
    let max_ms = added["max_us"].as_i64().unwrap() / 1000;
    // On an idle machine it stays below a tenth of a second; other tests may share this one.
    assert!(max_ms < 1_000, "a record was held up for {max_ms} ms");
}
