//! `/readyz` says whether every flow is connected and moves, and why not; `/healthz` only that the process is alive.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "how long it takes is what is promised")]

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::admin::{At, GroupOffset, Topic};
use testbed::certs::Certs;
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::events::{Metrics, answer, get};
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, check, eventually};
use testbed::ports;
use testbed::secured::{SCRAM_PASSWORD, USER, Way, listeners, scram_user};
use testbed::version::Version;

/// What the field asks for: a change is seen within this time.
const SEEN_WITHIN: Duration = Duration::from_secs(15);

const COPY_WAIT: Duration = Duration::from_secs(60);

struct Page(String);

impl Page {
    fn readiness(&self) -> anyhow::Result<(u16, Value)> {
        let (status, body) = answer(&self.0, "/readyz")?;
        Ok((status, serde_json::from_str(&body)?))
    }

    /// Waits until the flow is ready; how long that took.
    fn await_ready(&self, mirror: &Mirror) -> Duration {
        let begun = Instant::now();
        eventually("it is ready", SEEN_WITHIN, mirror, || {
            let (status, page) = self.readiness()?;
            assert_eq!(status == 200, page["ready"] == true);
            Ok(status == 200)
        })
        .unwrap();
        begun.elapsed()
    }

    /// Waits until it is not ready for a reason of this kind about this cluster, with this word in it.
    fn await_reason(
        &self,
        mirror: &Mirror,
        (kind, cluster, word): (&str, &str, &str),
    ) -> (Duration, String) {
        let (begun, mut what, mut last) = (Instant::now(), String::new(), Value::Null);
        eventually(&format!("{kind} of {cluster}"), SEEN_WITHIN, mirror, || {
            let (status, page) = self.readiness()?;
            let reasons = page["flows"][0]["reasons"].as_array().unwrap().clone();
            let found = reasons.iter().find(|one| one["kind"] == kind && one["cluster"] == cluster);
            last = page;
            if let Some(found) = found {
                what = found["what"].as_str().unwrap().to_owned();
            }
            Ok(status == 503 && found.is_some() && what.contains(word))
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{last}"));
        (begun.elapsed(), what)
    }
}

/// Field report UP-013.
#[test]
fn a_wrong_port_is_told_by_readiness_and_a_broker_that_comes_up_there_makes_it_ready() {
    let (mut source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    // Nobody listens there, until the broker is started.
    source.stop().unwrap();
    let port = ports::take().unwrap();
    let wrong = source.node(1).unwrap().port();
    let page = Page(format!("127.0.0.1:{port}"));
    let file = FlowFile::of(&[("a", &source), ("b", &target)])
        .flow("a", "b")
        .set("heliograph.http.listen", &page.0);
    let mut mirror = Mirror::heliograph(&file).unwrap();

    let reason = ("connection", "a", wrong.to_string());
    let (took, what) = page.await_reason(&mirror, (reason.0, reason.1, &reason.2));
    println!("not ready after {took:?}: {what}");
    assert_eq!(answer(&page.0, "/healthz").unwrap().0, 200);
    mirror.must_be_running().unwrap();
    let checked = check(&file, &[]).unwrap();
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.out.contains("does not answer") && checked.out.contains(&wrong.to_string()));

    source.start().unwrap();
    println!("ready after {:?}", page.await_ready(&mirror));
    target.await_end_offsets("a.t", 1_000, COPY_WAIT).unwrap();
    let checked = check(&file, &[]).unwrap();
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[test]
fn a_login_that_is_taken_away_is_told_as_that_and_given_back_makes_it_ready() {
    let certs = Certs::new().unwrap();
    let secured = |version| listeners(ClusterSpec::new(version), &certs, false);
    let (source, target) =
        ClusterSpec::start_both(ClusterSpec::new(Version::V4_3_1), secured(Version::V4_3_1))
            .unwrap();
    scram_user(&target, USER, SCRAM_PASSWORD).unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    let port = ports::take().unwrap();
    let page = Page(format!("127.0.0.1:{port}"));
    // Sessions of three seconds, so that a user who is gone is noticed.
    let way = Way::new("REAUTH", "REAUTH", "SASL_SSL").trusting(&certs, "PEM").unwrap();
    let way = way.logging_in("SCRAM-SHA-512");
    let file = FlowFile::of(&[("a", &source)]).set("heliograph.http.listen", &page.0);
    let file = way.write(file, "b", &target).unwrap().flow("a", "b");
    let mirror = Mirror::heliograph(&file).unwrap();
    eventually("the page is there", COPY_WAIT, &mirror, || Ok(page.readiness().is_ok())).unwrap();
    page.await_ready(&mirror);
    target.await_end_offsets("a.t", 1_000, COPY_WAIT).unwrap();

    scram_user(&target, USER, "quite-another-w7").unwrap();
    let refused = "refused user \"mirror\"";
    let (took, what) = page.await_reason(&mirror, ("authentication", "b", refused));
    println!("not ready after {took:?}: {what}");
    let checked = check(&file, &[]).unwrap();
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(checked.out.contains("refused user \"mirror\""), "{checked:?}");

    scram_user(&target, USER, SCRAM_PASSWORD).unwrap();
    println!("ready after {:?}", page.await_ready(&mirror));
    for text in [get(&page.0, "/status").unwrap(), mirror.log_text(), checked.out, checked.err] {
        assert!(!text.contains(SCRAM_PASSWORD), "{text}");
    }
}

#[test]
fn certificates_that_end_soon_are_told_and_measured_and_stores_that_are_not_there_are_refused() {
    let certs = Certs::new().unwrap();
    certs.issue("client", "ca", "DNS:mirror.test", "5").unwrap();
    certs.issue("renewed", "ca", "DNS:mirror.test", "365").unwrap();
    let (mut source, target) = ClusterSpec::start_both(
        listeners(ClusterSpec::new(Version::V4_3_1), &certs, false),
        ClusterSpec::new(Version::V4_3_1),
    )
    .unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    let port = ports::take().unwrap();
    let address = format!("127.0.0.1:{port}");
    let copy = |from: &str| fs::copy(certs.path(from), certs.path("own.pem")).unwrap();
    copy("client.store.pem");
    let way = Way::new("MTLS", "MTLS", "SSL")
        .trusting(&certs, "PEM")
        .unwrap()
        .with("ssl.keystore.type", "PEM")
        .with("ssl.keystore.location", certs.path("own.pem"));
    // To everybody: that is told.
    let file = FlowFile::of(&[("b", &target)])
        .set("heliograph.http.listen", format!("0.0.0.0:{port}"))
        .flow("a", "b");
    let file = way.write(file, "a", &source).unwrap();
    let mirror = Mirror::with_events(&file).unwrap();

    let told = mirror.await_event("a certificate ends soon", &["own", "\"a\""], COPY_WAIT).unwrap();
    assert_eq!((told.level(), told.number("days_left")), ("WARN", Some(4)));
    mirror.await_event("open to whoever can reach it", &["0.0.0.0"], COPY_WAIT).unwrap();
    let ends = |role: &str| {
        let metrics = Metrics::fetch(&address).unwrap();
        let labels = [("cluster", "a"), ("role", role)];
        metrics.sum("heliograph_certificate_expiry_seconds", &labels)
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let days = |ends: Option<f64>| (ends.unwrap() - now.as_secs_f64()) / 86_400.0;
    eventually("all three are measured", COPY_WAIT, &mirror, || {
        Ok(["own", "broker", "authority"].iter().all(|role| ends(role).is_some()))
    })
    .unwrap();
    assert!((4.0..5.1).contains(&days(ends("own"))), "{:?}", ends("own"));
    assert!(days(ends("broker")) > 300.0 && days(ends("authority")) > 300.0);
    let checked = check(&file, &[]).unwrap();
    assert!(checked.out.contains("the own certificate of"), "{}", checked.out);

    // Field report UP-072: renewed on disk, used at the next connection, without a restart of ours.
    copy("renewed.store.pem");
    source.restart(1).unwrap();
    eventually("the renewed one is measured", COPY_WAIT, &mirror, || {
        Ok(ends("own").is_some_and(|at| days(Some(at)) > 300.0))
    })
    .unwrap();
    drop(mirror);

    for key in ["a.ssl.truststore.location", "a.ssl.keystore.location"] {
        let mut mirror = Mirror::heliograph(&file.clone().set(key, "/nowhere/store.pem")).unwrap();
        let exit = mirror.wait(COPY_WAIT).unwrap();
        assert_eq!(exit.code, Some(2), "{}", mirror.last_words());
        let said = format!("{key}: /nowhere/store.pem cannot be read");
        assert!(mirror.log_text().contains(&said), "{}", mirror.last_words());
        assert_eq!(check(&file.clone().set(key, "/nowhere/store.pem"), &[]).unwrap().code, Some(2));
    }
}

/// A quota that makes the broker leave connections unread for seconds (KIP-219): it is kept to and told, and the rest
/// of the work goes on beside it.
#[test]
fn a_quota_of_the_target_is_told_as_that_and_not_as_a_cluster_that_does_not_answer() {
    const QUOTA: f64 = 1_000_000.0;
    const RECORDS: u64 = 40_000;
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", RECORDS).size(1_000, 1_000).noise().batches(500_000, 20)).unwrap();
    target.set_quota("limited", "producer_byte_rate", QUOTA).unwrap();
    let port = ports::take().unwrap();
    let page = Page(format!("127.0.0.1:{port}"));
    let file = FlowFile::of(&[("a", &source), ("b", &target)])
        .flow("a", "b")
        .set("b.client.id", "limited")
        .set("b.producer.client.id", "limited")
        .set("heliograph.http.listen", &page.0)
        .set("refresh.topics.interval.seconds", "2")
        .set("emit.checkpoints.interval.seconds", "1");
    let mirror = Mirror::with_events(&file).unwrap();
    page.await_ready(&mirror);

    // Records and topics that come meanwhile, and a group, want requests of all kinds.
    let (mut told, mut made) = (0, false);
    let begun = Instant::now();
    let at = GroupOffset { topic: "t".into(), partition: 0, offset: 10, metadata: String::new() };
    source.commit_offsets("g", &[at]).unwrap();
    eventually("all is copied", COPY_WAIT * 2, &mirror, || {
        let (status, what) = page.readiness()?;
        let reasons = &what["flows"][0]["reasons"];
        let silent = reasons.as_array().unwrap().iter().any(|one| {
            let words = one["what"].as_str().unwrap();
            words.contains("answer") || !words.contains("quota")
        });
        assert!(status == 200 || !silent, "after {:?}: {what}", begun.elapsed());
        let metrics = Metrics::fetch(&page.0)?;
        let waiting = metrics.sum("heliograph_waiting_partitions", &[("on", "target quota")]);
        told += u32::from(waiting.is_some_and(|partitions| partitions > 0.0));
        if !made && begun.elapsed() > Duration::from_secs(8) {
            source.create_topic(&Topic::new("later").partitions(3))?;
            made = true;
        }
        Ok(target.offsets("a.t", At::Latest)?.iter().sum::<i64>() == RECORDS.cast_signed())
    })
    .unwrap();
    let took = begun.elapsed().as_secs_f64();
    println!("{took:.0} s for {RECORDS} KB, told as a quota {told} times");
    assert!(took > 20.0, "the quota did nothing");
    assert!(told > 3, "nobody said why it is slow");
    mirror.await_event("a quota for this principal", &["target", "\"b\""], COPY_WAIT).unwrap();
    assert!(target.describe_topic("a.later").unwrap().is_some(), "{}", mirror.last_words());
    let loud: Vec<_> = mirror.events().into_iter().filter(|one| one.level() != "INFO").collect();
    assert!(loud.is_empty(), "{loud:?}");
}
