//! Field reports about access rules, the mirror's own rights among them (`docs/field-reports.md`); one pair of
//! clusters for all. Both keep rules; the mirror comes to the source as a user of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::{At, Rule, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::events::{self, Metrics, Status};
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::frames::{CREATE_ACLS, Frames};
use testbed::mirror::{Mirror, eventually};
use testbed::ports;
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(60);

const LOGIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required";

/// What the test of UP-099 alone sends to the target.
static FRAMES: LazyLock<Frames> = LazyLock::new(Frames::default);

static PAIR: LazyLock<(Cluster, Cluster)> = LazyLock::new(|| {
    let source = ClusterSpec::new(Version::V4_3_1)
        .with_authorizer()
        .set("allow.everyone.if.no.acl.found", "true")
        .listener("LOGIN", "SASL_PLAINTEXT")
        .set("sasl.enabled.mechanisms", "PLAIN")
        .set("listener.name.login.sasl.enabled.mechanisms", "PLAIN")
        .set(
            "listener.name.login.plain.sasl.jaas.config",
            format!("{LOGIN} user_mirror=\"pass-word\";"),
        );
    let target =
        ClusterSpec::new(Version::V4_3_1).with_authorizer().watched_listener("WATCHED", &FRAMES);
    ClusterSpec::start_both(source, target).unwrap()
});

/// To the source as `User:mirror`.
fn flow(alias: &str) -> (FlowFile, String) {
    let (source, target) = &*PAIR;
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let login = format!("{LOGIN} username=\"mirror\" password=\"pass-word\";");
    let flow = FlowFile::of(&[])
        .cluster(alias, &source.bootstrap_of("LOGIN", "127.0.0.1").unwrap())
        .cluster("t", &target.bootstrap())
        .flow(alias, "t")
        .topics(&format!("{alias}.*"))
        .set(format!("{alias}.security.protocol"), "SASL_PLAINTEXT")
        .set(format!("{alias}.sasl.mechanism"), "PLAIN")
        .set(format!("{alias}.sasl.jaas.config"), login)
        .set("emit.heartbeats.enabled", "false")
        .set("sync.topic.acls.interval.seconds", "1")
        .set("heliograph.http.listen", &page)
        .short_intervals();
    (flow, page)
}

fn rules_of(cluster: &Cluster, topic: &str) -> Vec<Rule> {
    cluster.acls().unwrap().into_iter().filter(|rule| rule.name == topic).collect()
}

/// UP-099: 500 rules; once they are there, nothing is sent.
#[test]
fn up_099_rules_that_are_there_are_not_sent_again() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("many")).unwrap();
    let rules: Vec<Rule> = (0..500)
        .map(|user| Rule::allow("many", &format!("User:u{user}"), "DESCRIBE"))
        .chain([Rule::allow("many", "User:mirror", "READ")])
        .chain([Rule::allow("many", "User:mirror", "DESCRIBE_CONFIGS")])
        .collect();
    source.create_acls(&rules).unwrap();
    let (flow, page) = flow("many");
    let watched = target.bootstrap_of("WATCHED", "127.0.0.1").unwrap();
    let flow = flow.set("t.bootstrap.servers", watched);
    let mirror = Mirror::heliograph(&flow).unwrap();
    eventually("the rules", WAIT, &mirror, || {
        Ok(rules_of(target, "many.many").len() == rules.len())
    })
    .unwrap();
    let runs = || events::rounds(&page, "many", "t").unwrap()["acls"]["runs"].as_u64().unwrap();
    let (before, begun) = (FRAMES.count(CREATE_ACLS), runs());
    assert!(before > 0, "the proxy saw none of them");

    eventually("three more rounds", WAIT, &mirror, || Ok(runs() >= begun + 4)).unwrap();

    assert_eq!(FRAMES.count(CREATE_ACLS), before);
}

/// UP-098: somebody deletes what the sync adds, every time.
#[test]
fn up_098_rules_that_are_taken_away_again_and_again_are_added_more_and_more_seldom() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("fight")).unwrap();
    let rule = |user: &str| Rule::allow("fight", user, "READ");
    let own = Rule::allow("fight", "User:mirror", "DESCRIBE_CONFIGS");
    source.create_acls(&[rule("User:alice"), rule("User:mirror"), own]).unwrap();
    let (flow, page) = flow("fight");
    let mirror = Mirror::with_events(&flow).unwrap();
    let contested = || {
        let rounds = events::rounds(&page, "fight", "t").unwrap();
        rounds["acls"]["undone"].to_string().contains("contested")
    };
    let alice = Rule { name: "fight.fight".into(), ..rule("User:alice") };
    let (begun, mut deleted) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(20) {
        if rules_of(target, "fight.fight").contains(&alice) {
            target.delete_acls(std::slice::from_ref(&alice)).unwrap();
            deleted += 1;
        }
        thread::sleep(Duration::from_millis(50));
    }

    assert!((5..=8).contains(&deleted), "added {deleted} times in 20 rounds");
    assert!(contested());
    mirror.await_event("contested", &["fight.fight", "User:alice"], WAIT).unwrap();
    // What nobody takes away is no contest.
    let lines: Vec<_> =
        mirror.events().into_iter().filter(|one| one.holds(&["contested"])).collect();
    assert!(lines.iter().all(|one| !one.holds(&["User:mirror"])), "{lines:?}");
    assert!(lines.len() <= 6, "{lines:?}");
}

/// UP-057: rights on one topic are taken away, first that to read, then that to see it at all; in neither case is it
/// told as deleted, or as being without lag.
#[test]
fn up_057_a_topic_whose_rights_are_taken_away_is_told_as_denied_and_recovers_alone() {
    let (source, target) = &*PAIR;
    for topic in ["right", "right-other"] {
        source.create_topic(&Topic::new(topic)).unwrap();
    }
    let (flow, page) = flow("right");
    let mirror = Mirror::with_events(&flow).unwrap();
    let more = |topic: &str, first: u64| source.fill(&Fill::new(topic, 50).first(first)).unwrap();
    more("right", 0);
    more("right-other", 0);
    target.await_end_offsets("right.right", 50, WAIT).unwrap();
    let allow = |operation: &str| Rule::allow("right", "User:mirror", operation);
    let mut count = 50;
    for left in ["DESCRIBE", "DESCRIBE_CONFIGS"] {
        // Any rule on a topic takes away what no rule allows.
        let others = Rule { principal: "User:somebody".into(), ..allow("ALL") };
        let rules = [allow(left), others];
        source.create_acls(&rules).unwrap();
        // The question that is underway was let through already.
        eventually(&format!("{left} alone is told"), WAIT, &mirror, || {
            let status = Status::fetch(&page)?;
            let partition = status.partition("right", 0)?;
            let told = partition.waiting_for.as_deref().unwrap_or_default();
            let metrics = Metrics::fetch(&page)?;
            let denied = metrics.sum("heliograph_waiting_partitions", &[("on", "source refuses")]);
            Ok(told.contains("TOPIC_AUTHORIZATION_FAILED")
                && partition.lag.is_none()
                && denied == Some(1.0))
        })
        .unwrap_or_else(|error| panic!("{left}: {error:#}"));
        more("right", count);
        more("right-other", count);
        let other = 50 + i64::try_from(count).unwrap();
        target.await_end_offsets("right.right-other", other.unsigned_abs(), WAIT).unwrap();
        if left != "DESCRIBE" {
            mirror
                .await_event("may not be described any more", &["right", "kafka-acls"], WAIT)
                .unwrap();
        }
        assert_eq!(target.offsets("right.right", At::Latest).unwrap(), [other - 50]);
        source.delete_acls(&rules).unwrap();
        target.await_end_offsets("right.right", other.unsigned_abs(), WAIT).unwrap();
        count += 50;
    }
    eventually("all is well again", WAIT, &mirror, || {
        let undone = events::rounds(&page, "right", "t")?["topics"]["undone"]["count"].clone();
        Ok(undone == 0 && Status::fetch(&page)?.partition("right", 0)?.lag == Some(0))
    })
    .unwrap();
    let gone = mirror.events().into_iter().filter(|one| one.message().contains("is gone")).count();
    assert_eq!(gone, 0, "{}", mirror.last_words());
}
