//! Tokens of an OAuth server (field report UP-030): refreshed before they end, and while the server is away the old one is
//! used to its end. Tokens are JWTs that nobody signed, which brokers believe that have no validator of their own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use testbed::admin::{At, Topic};
use testbed::agent::{Agent, Pending};
use testbed::certs::{Certs, PASSWORD};
use testbed::cluster::ClusterSpec;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, check, eventually};
use testbed::ports;
use testbed::secured::{Way, jaas, listeners};
use testbed::version::Version;

const COPY_WAIT: Duration = Duration::from_secs(60);

/// How long a token lasts.
const LIFETIME_S: u32 = 20;

/// After the server is back, the flow goes on within this time.
const RESUMES_WITHIN: Duration = Duration::from_secs(10);

const SECRET: &str = "client secret&k9";

#[derive(Debug, Deserialize)]
struct Served {
    given: u32,
    refused: u32,
}

struct Server(Pending);

impl Server {
    fn start(certs: &Certs, port: u16) -> Self {
        let args = json!({
            "port": port, "keystore": certs.path("idp.p12"), "password": PASSWORD,
            "client": "mirror", "secret": SECRET, "scope": "kafka+all", "lifetime_s": LIFETIME_S,
        });
        Self(Agent::shared().unwrap().ask("token_server", args).unwrap())
    }

    fn stop(self) -> Served {
        self.0.stop().unwrap();
        self.0.answer(COPY_WAIT).unwrap()
    }
}

#[test]
fn tokens_are_refreshed_before_they_end_and_a_server_that_is_away_is_waited_for() {
    let certs = Certs::new().unwrap();
    certs.issue("idp", "ca", "DNS:localhost,IP:127.0.0.1", "365").unwrap();
    certs.key_stores("idp").unwrap();
    // A broker ends a session with its token where sessions have an end at all.
    let spec = |version| {
        listeners(ClusterSpec::new(version), &certs, false)
            .set("listener.name.sasls.connections.max.reauth.ms", "3600000")
    };
    let (source, target) =
        ClusterSpec::start_both(spec(Version::V4_3_1), spec(Version::V4_3_1)).unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    let port = ports::take().unwrap();
    let url = format!("https://127.0.0.1:{port}/token");
    let trust =
        format!("ssl.truststore.type=\"PEM\" ssl.truststore.location=\"{}\"", certs.path("ca.pem"));
    let way = || {
        Way::new("OAUTH", "SASLS", "SASL_SSL")
            .trusting(&certs, "PEM")
            .unwrap()
            .with("sasl.mechanism", "OAUTHBEARER")
            .with("sasl.oauthbearer.token.endpoint.url", &url)
    };
    // One side as 4.x writes it, the other as 3.x does.
    let new = way()
        .with("sasl.jaas.config", jaas("OAUTHBEARER", &trust))
        .with("sasl.oauthbearer.client.credentials.client.id", "mirror")
        .with("sasl.oauthbearer.client.credentials.client.secret", SECRET)
        .with("sasl.oauthbearer.scope", "kafka all");
    let options = |secret: &str| {
        format!("{trust} clientId=\"mirror\" clientSecret=\"{secret}\" scope=\"kafka all\"")
    };
    let old = way().with("sasl.jaas.config", jaas("OAUTHBEARER", &options(SECRET)));
    let with = |old: &Way| {
        let file = new.write(FlowFile::of(&[]).flow("s", "t"), "s", &source).unwrap();
        old.write(file, "t", &target).unwrap()
    };
    let file = with(&old);

    // Nobody there, and then somebody who does not know us: the words say so, and no secret stands in them.
    let checked = check(&file, &[]).unwrap();
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.out.contains(&format!("no token from {url}")), "{checked:?}");
    let server = Server::start(&certs, port);
    let strange = way().with("sasl.jaas.config", jaas("OAUTHBEARER", &options("planted-k1")));
    let wrong = with(&strange);
    let mut said = String::new();
    for _ in 0..20 {
        let checked = check(&wrong, &[]).unwrap();
        said = format!("{}{}", checked.out, checked.err);
        if said.contains("invalid_client") {
            break;
        }
        thread::sleep(Duration::from_millis(200));
    }
    assert!(said.contains("it answered 401, invalid_client (who is that)"), "{said}");
    assert!(!said.contains("planted-k1") && !said.contains(SECRET), "{said}");

    let before = server.stop();
    assert!(before.refused >= 1, "{before:?}");

    let server = Server::start(&certs, port);
    let live = Fill::new("t", 1_000_000).codec(Codec::Lz4).size(100, 200);
    let filling = source.fill_in_background(&live.rate(500.0)).unwrap();
    let mirror = Mirror::heliograph(&file).unwrap();
    let begun = Instant::now();
    let copied = || target.offsets("s.t", At::Latest).map(|all| all.iter().sum::<i64>());
    let copied_at = |seconds: u64| {
        thread::sleep(Duration::from_secs(seconds).saturating_sub(begun.elapsed()));
        copied().unwrap()
    };
    let with_refreshed_tokens = [copied_at(25), copied_at(29)];
    copied_at(30);
    let served = server.stop();
    // Each cluster's first token ended at 20 s.
    assert_eq!((served.given, served.refused), (4, 0), "{served:?}");
    let with_the_old_token = [copied_at(31), copied_at(34)];
    let without_a_token = [copied_at(42), copied_at(44)];
    copied_at(45);
    let server = Server::start(&certs, port);
    let back = Instant::now();
    eventually("it goes on", RESUMES_WITHIN, &mirror, || Ok(copied()? > without_a_token[1]))
        .unwrap();
    println!(
        "records copied at 25 and 29 s: {with_refreshed_tokens:?}; server away, at 31 and 34 s: \
         {with_the_old_token:?}, at 42 and 44 s: {without_a_token:?}; went on {:?} after it was back",
        back.elapsed()
    );
    assert!(with_refreshed_tokens[0] < with_refreshed_tokens[1]);
    assert!(with_the_old_token[0] < with_the_old_token[1]);
    // The control: brokers do keep us out without a token.
    assert_eq!(without_a_token[0], without_a_token[1]);
    copied_at(90);
    filling.stop().unwrap();
    let comparison = Comparison::new(&source, "t", &target, "s.t").wait(COPY_WAIT);
    let matched = comparison.must_be_copied_by(&mirror).unwrap().total.matched;
    println!("{matched} records, each once; {:?}", server.stop());
    let log = mirror.log_text();
    assert!(log.contains("token not refreshed"), "{}", mirror.last_words());
    assert!(!log.contains(SECRET) && !log.contains("eyJ"), "{}", mirror.last_words());
}
