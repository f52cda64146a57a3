//! Rename rules (`topics.rename`): whatever belongs to a topic follows it under its other name, nothing goes round, and
//! no two topics meet.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::admin::{At, GroupOffset, Rule, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::events::Status;
use testbed::failover;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, check, eventually};
use testbed::ports;
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(90);

/// Topics are looked at every second here: a loop would have made its next topics by then.
const LOOP_WAIT: Duration = Duration::from_secs(4);

const IDENTITY: &str = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";
const DEFAULT: &str = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy";

struct Sites {
    a: Cluster,
    b: Cluster,
    c: Cluster,
}

/// Tests keep apart by aliases and topics.
static SITES: LazyLock<Sites> = LazyLock::new(|| {
    let spec = |name: &str| ClusterSpec::new(Version::V4_3_1).named(name).with_authorizer();
    let (a, b) = ClusterSpec::start_both(spec("a"), spec("b")).unwrap();
    Sites { a, b, c: spec("c").start().unwrap() }
});

fn at(topic: &str, offset: i64) -> GroupOffset {
    GroupOffset { topic: topic.to_owned(), partition: 0, offset, metadata: String::new() }
}

fn committed(cluster: &Cluster, group: &str, topic: &str) -> Option<i64> {
    let all = cluster.group_offsets(group).unwrap();
    all.into_iter().find(|one| one.topic == topic).map(|one| one.offset)
}

/// The topics of a cluster with `part` in their names, in order.
fn topics(cluster: &Cluster, part: &str) -> Vec<String> {
    let mut all = cluster.topics().unwrap();
    all.retain(|topic| topic.contains(part));
    all.sort();
    all
}

fn await_copy(mirror: &Mirror, from: (&Cluster, &str), to: (&Cluster, &str), records: u64) {
    eventually(&format!("{} exists", to.1), WAIT, mirror, || {
        Ok(to.0.describe_topic(to.1)?.is_some())
    })
    .unwrap();
    let comparison = Comparison::new(from.0, from.1, to.0, to.1).wait(WAIT);
    let total = comparison.must_be_copied_by(mirror).unwrap().total;
    assert_eq!((total.matched, total.repeated), (records, 0), "{}", to.1);
}

/// What a check says about the flow, whole, and about the first partition of a topic.
fn checked(file: &FlowFile, topic: &str) -> (Value, Value) {
    let checked = check(file, &["--json"]).unwrap();
    let page: Value = serde_json::from_str(&checked.out)
        .unwrap_or_else(|error| panic!("{error}: {}{}", checked.out, checked.err));
    let flow = page["flows"][0].clone();
    let all = flow["partitions"].as_array().unwrap_or_else(|| panic!("{page}"));
    let first = all.iter().find(|one| one["topic"] == topic && one["partition"] == 0).cloned();
    (flow, first.unwrap_or_default())
}

/// Forbids a user to read.
fn barred(name: &str, pattern: &str) -> Rule {
    let rule = Rule::allow(name, "User:barred", "READ");
    Rule { pattern: pattern.into(), permission: "DENY".into(), ..rule }
}

/// Data, configs, access rules, groups at every lag, checkpoints as Java reads them; through a kill in the middle.
#[test]
fn everything_that_belongs_to_a_topic_follows_it_under_its_other_name() {
    let Sites { a, b, .. } = &*SITES;
    a.create_topic(&Topic::new("w-orders").config("retention.ms", "100000000")).unwrap();
    for topic in ["w-pay.in", "w-other"] {
        a.create_topic(&Topic::new(topic).config("segment.bytes", "1048576")).unwrap();
    }
    a.fill(&Fill::new("w-orders", 6_000).transactions(7, 3)).unwrap();
    a.fill(&Fill::new("w-pay.in", 3_000).motley().codec(Codec::Lz4)).unwrap();
    a.fill(&Fill::new("w-other", 500)).unwrap();
    a.create_acls(&[
        Rule::allow("w-orders", "User:reader", "READ"),
        Rule::allow("w-orders", "User:writer", "WRITE"),
        Rule::allow("w-pay.in", "User:all", "ALL"),
        barred("w-", "PREFIXED"),
    ])
    .unwrap();
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    let file = FlowFile::one_way(("ws", a), ("wt", b))
        .topics("w-.*")
        .set("ws->wt.topics.rename", "w-orders:orders-eu, w-pay.*:eu.w-pay.*")
        .set("sync.group.offsets.enabled", "true")
        .set("sync.topic.acls.interval.seconds", "1")
        .set("sync.topic.acls.prefixed.enabled", "true")
        .set("heliograph.http.listen", &page)
        .short_intervals();
    let (flow, first) = checked(&file, "w-orders");
    assert_eq!(flow["renamed"], json!({"w-orders": "orders-eu", "w-pay.in": "eu.w-pay.in"}));
    assert_eq!(first["target_topic"], "orders-eu");
    assert_eq!(first["begins"]["origin"], "log start");

    let mut mirror = Mirror::heliograph(&file).unwrap();
    let records = u64::try_from(a.record_offsets("w-orders").unwrap()[0].len()).unwrap();
    await_copy(&mirror, (a, "w-orders"), (b, "orders-eu"), records);
    await_copy(&mirror, (a, "w-pay.in"), (b, "eu.w-pay.in"), 3_000);
    await_copy(&mirror, (a, "w-other"), (b, "ws.w-other"), 500);
    assert_eq!(topics(b, "w-"), ["eu.w-pay.in", "ws.w-other"]);

    assert_eq!(b.own_configs("orders-eu").unwrap()["retention.ms"], "100000000");
    assert_eq!(b.own_configs("eu.w-pay.in").unwrap()["segment.bytes"], "1048576");
    a.set_topic_config("w-orders", "retention.ms", "200000000").unwrap();
    let expected = [
        Rule::allow("orders-eu", "User:reader", "READ"),
        Rule::allow("eu.w-pay.in", "User:all", "READ"),
        // Whoever is kept from all that begins so is kept from it under every name.
        barred("ws.w-", "PREFIXED"),
        barred("orders-eu", "LITERAL"),
        barred("eu.w-pay.in", "LITERAL"),
    ];
    eventually("configs and rules", WAIT, &mirror, || {
        let rules = b.acls()?;
        Ok(b.own_configs("orders-eu")?["retention.ms"] == "200000000"
            && expected.iter().all(|rule| rules.contains(rule)))
    })
    .unwrap();
    assert!(!b.acls().unwrap().iter().any(|rule| rule.operation == "WRITE"));

    // Groups, at each lag, exact on both sides of a kill in the middle of more.
    let mut expected = Vec::new();
    for round in ["first", "second"] {
        let there = a.record_offsets("w-orders").unwrap().remove(0);
        let here = b.record_offsets("orders-eu").unwrap().remove(0);
        assert_eq!(there.len(), here.len());
        let lags = failover::lags(u64::try_from(there.len()).unwrap());
        let places = |offsets: &[i64]| failover::places(offsets, &lags).unwrap();
        for (lag, (there, here)) in lags.iter().zip(places(&there).into_iter().zip(places(&here))) {
            let group = format!("w-{round}-{lag}");
            a.commit_offsets(&group, &[at("w-orders", there)]).unwrap();
            expected.push((group, here));
        }
        let found = || {
            let all = expected.iter().map(|(group, _)| committed(b, group, "orders-eu"));
            all.collect::<Vec<_>>()
        };
        let wanted: Vec<_> = expected.iter().map(|(_, offset)| Some(*offset)).collect();
        let outcome = eventually("the groups", WAIT, &mirror, || Ok(found() == wanted));
        assert_eq!(found(), wanted, "{outcome:?}");
        if round == "first" {
            let more = Fill::new("w-orders", 9_000).first(100_000).transactions(7, 3).rate(4_000.0);
            let filling = a.fill_in_background(&more).unwrap();
            thread::sleep(Duration::from_millis(900));
            mirror.kill9().unwrap();
            mirror.launch().unwrap();
            filling.done().unwrap();
            let records = u64::try_from(a.record_offsets("w-orders").unwrap()[0].len()).unwrap();
            await_copy(&mirror, (a, "w-orders"), (b, "orders-eu"), records);
        }
    }
    assert!(!mirror.log_text().contains("no offset map"), "{}", mirror.last_words());
    let (group, offset) = &expected[3];
    let said = b.mirror_client("ws", &[group]).unwrap();
    let found: Vec<_> =
        said.groups[group].iter().map(|one| (one.topic.as_str(), one.offset)).collect();
    assert_eq!(found, [("orders-eu", *offset)], "as Java's RemoteClusterUtils reads it");

    // The page names both sides; what MM2 reads is about topics that MM2 would make, and those only.
    let status = Status::fetch(&page).unwrap();
    let partitions = &status.flows[0].partitions;
    let one = partitions.iter().find(|one| one.topic == "w-orders").unwrap();
    assert_eq!((one.target_topic.as_str(), one.state.as_str()), ("orders-eu", "copying"));
    mirror.terminate(WAIT).unwrap();
    for (cluster, topic) in [(b, "mm2-offsets.ws.internal"), (a, "mm2-offset-syncs.wt.internal")] {
        let keys: Vec<String> =
            cluster.read(topic, 100_000).unwrap().into_iter().filter_map(|one| one.key).collect();
        let holds = |name: &str| {
            let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
            keys.iter().any(|key| key.contains(&hex))
        };
        assert!(holds("w-other"), "{topic}: {keys:?}");
        assert!(!holds("w-orders") && !holds("w-pay"), "{topic}: {keys:?}");
    }
}

/// Both directions under names that say where records are from; groups that moved find their places at home again.
#[test]
fn two_sites_that_rename_to_each_other_cross_over_once_under_both_policies() {
    let Sites { a, b, .. } = &*SITES;
    for (policy, topic) in [(DEFAULT, "x-dots"), (IDENTITY, "x-kept")] {
        for (cluster, seed) in [(a, 1), (b, 2)] {
            cluster.create_topic(&Topic::new(topic)).unwrap();
            cluster.fill(&Fill::new(topic, 2_000).transactions(7, 3).seed(seed)).unwrap();
        }
        let (of_a, of_b) = (format!("{topic}-of-a"), format!("{topic}-of-b"));
        let file = FlowFile::both_ways(("xa", a), ("xb", b))
            .topics(&format!("(x[ab].)*{topic}.*"))
            .set("replication.policy.class", policy)
            .set("xa->xb.topics.rename", format!("{topic}:{of_a}"))
            .set("xb->xa.topics.rename", format!("{topic}:{of_b}"))
            .set("sync.group.offsets.enabled", "true")
            .short_intervals();
        let mut mirror = Mirror::heliograph(&file).unwrap();
        let records = |cluster: &Cluster| {
            u64::try_from(cluster.record_offsets(topic).unwrap()[0].len()).unwrap()
        };
        let crossed = |mirror: &Mirror| {
            await_copy(mirror, (a, topic), (b, &of_a), records(a));
            await_copy(mirror, (b, topic), (a, &of_b), records(b));
        };
        crossed(&mirror);

        // A group of `a` that moved to `b` and read on there.
        let there = b.record_offsets(&of_a).unwrap().remove(0);
        let home = a.record_offsets(topic).unwrap().remove(0);
        let group = format!("{topic}-home");
        b.commit_offsets(&group, &[at(&of_a, there[there.len() - 123])]).unwrap();
        let expected = Some(home[home.len() - 123]);
        let outcome =
            eventually("home", WAIT, &mirror, || Ok(committed(a, &group, topic) == expected));
        assert_eq!(committed(a, &group, topic), expected, "{outcome:?}");
        let said = a.mirror_client("xb", &[&group]).unwrap();
        assert_eq!(said.groups[&group].iter().map(|one| &one.topic).collect::<Vec<_>>(), [topic]);

        mirror.kill9().unwrap();
        for (cluster, seed) in [(a, 1), (b, 2)] {
            cluster.fill(&Fill::new(topic, 1_000).first(50_000).seed(seed)).unwrap();
        }
        mirror.launch().unwrap();
        crossed(&mirror);
        thread::sleep(LOOP_WAIT);
        crossed(&mirror);
        assert_eq!(topics(a, topic), [topic, of_b.as_str()], "{}", mirror.last_words());
        assert_eq!(topics(b, topic), [topic, of_a.as_str()], "{}", mirror.last_words());
        mirror.terminate(WAIT).unwrap();
    }
}

/// A chain, and a ring: kept names hide what the first flow did, and the last one sees it all the same, also as a process
/// of its own.
#[test]
fn a_ring_of_three_clusters_brings_nothing_back_to_where_it_came_from() {
    let Sites { a, b, c } = &*SITES;
    for (policy, topic, on_c) in
        [(DEFAULT, "r-dots", "rb.r-dots-of-a"), (IDENTITY, "r-kept", "r-kept-of-a")]
    {
        a.create_topic(&Topic::new(topic).partitions(2)).unwrap();
        a.fill(&Fill::new(topic, 1_000)).unwrap();
        let on_b = format!("{topic}-of-a");
        let file = FlowFile::of(&[("ra", a), ("rb", b), ("rc", c)])
            .flow("ra", "rb")
            .flow("rb", "rc")
            .flow("rc", "ra")
            .topics(&format!("(r[abc]\\\\.)*{topic}.*"))
            .set("replication.policy.class", policy)
            .set("ra->rb.topics.rename", format!("{topic}*:{topic}-of-a*"))
            .set("emit.heartbeats.enabled", "false")
            .short_intervals();
        let judge = |mirror: &Mirror| {
            await_copy(mirror, (a, topic), (b, &on_b), 1_000);
            await_copy(mirror, (b, &on_b), (c, on_c), 1_000);
            thread::sleep(LOOP_WAIT);
            await_copy(mirror, (a, topic), (c, on_c), 1_000);
            assert_eq!(topics(a, topic), [topic], "{}", mirror.last_words());
            assert_eq!(topics(b, topic), [on_b.as_str()], "{}", mirror.last_words());
            assert_eq!(topics(c, topic), [on_c], "{}", mirror.last_words());
        };
        let mut mirror = Mirror::with_events(&file).unwrap();
        judge(&mirror);
        mirror.await_event("it came from the target", &["rc->ra", on_c], WAIT).unwrap();
        mirror.terminate(WAIT).unwrap();

        // Each site's process by itself: what the others do, it knows from the file only.
        let program = testbed::mirror::Program::under_test();
        let mut alone: Vec<Mirror> = ["ra", "rb", "rc"]
            .iter()
            .map(|site| {
                let mut one =
                    Mirror::prepare(program.clone(), &file, &["--clusters", site]).unwrap();
                one.launch().unwrap();
                one
            })
            .collect();
        judge(&alone[2]);
        for one in &mut alone {
            one.terminate(WAIT).unwrap();
        }
        if policy == IDENTITY {
            // Negative control, and what cannot be known: a site whose file lacks the rules takes it back.
            let rule = format!("ra->rb.topics.rename = {topic}*:{topic}-of-a*\n");
            let text = file.to_string();
            assert!(text.contains(&rule), "{text}");
            std::fs::write(alone[0].file(), text.replace(&rule, "")).unwrap();
            alone[0].launch().unwrap();
            await_copy(&alone[0], (c, on_c), (a, on_c), 1_000);
        }
    }
}

/// A rule that comes, goes and comes again: a new name begins as a new topic does, a former one goes on where it stopped,
/// nothing is deleted, and records that are somebody else's are not written behind.
#[test]
fn a_topic_that_is_renamed_later_begins_anew_and_its_copy_stays() {
    let Sites { a, b, .. } = &*SITES;
    a.create_topic(&Topic::new("l-orders")).unwrap();
    a.fill(&Fill::new("l-orders", 1_000)).unwrap();
    a.commit_offsets("l-group", &[at("l-orders", 700)]).unwrap();
    let plain = FlowFile::one_way(("ls", a), ("lt", b))
        .topics("l-.*")
        .set("emit.heartbeats.enabled", "false")
        .set("sync.group.offsets.enabled", "true")
        .short_intervals();
    let ruled = plain.clone().set("ls->lt.topics.rename", "l-orders:l-new");
    let mut mirror = Mirror::with_events(&plain).unwrap();
    let switch = |mirror: &mut Mirror, file: &FlowFile| {
        mirror.terminate(WAIT).unwrap();
        std::fs::write(mirror.file(), file.to_string()).unwrap();
        mirror.launch().unwrap();
    };
    await_copy(&mirror, (a, "l-orders"), (b, "ls.l-orders"), 1_000);
    mirror.terminate(WAIT).unwrap();

    let (_, first) = checked(&ruled, "l-orders");
    assert_eq!(first["begins"]["origin"], "renamed", "{first}");
    assert_eq!(first["begins"]["left"], 1_000);
    mirror.launch().unwrap();
    switch(&mut mirror, &ruled);
    mirror.await_event("another name on the target", &["l-new", "ls.l-orders"], WAIT).unwrap();
    await_copy(&mirror, (a, "l-orders"), (b, "l-new"), 1_000);
    eventually("the group", WAIT, &mirror, || Ok(committed(b, "l-group", "l-new") == Some(700)))
        .unwrap();
    assert_eq!(b.offsets("ls.l-orders", At::Latest).unwrap(), [1_000], "the copy stays");

    // While the rule is there, the former copy rests; without it, it goes on where it stopped.
    a.fill(&Fill::new("l-orders", 100).first(1_000)).unwrap();
    await_copy(&mirror, (a, "l-orders"), (b, "l-new"), 1_100);
    mirror.kill9().unwrap();
    std::fs::write(mirror.file(), plain.to_string()).unwrap();
    let (_, first) = checked(&plain, "l-orders");
    assert_eq!(
        (&first["begins"]["upstream"], &first["begins"]["left"]),
        (&json!(1_000), &json!(100))
    );
    mirror.launch().unwrap();
    await_copy(&mirror, (a, "l-orders"), (b, "ls.l-orders"), 1_100);
    a.fill(&Fill::new("l-orders", 10).first(1_100)).unwrap();
    await_copy(&mirror, (a, "l-orders"), (b, "ls.l-orders"), 1_110);
    assert_eq!(b.offsets("l-new", At::Latest).unwrap(), [1_100]);
    switch(&mut mirror, &ruled);
    await_copy(&mirror, (a, "l-orders"), (b, "l-new"), 1_110);
    assert_eq!(b.offsets("ls.l-orders", At::Latest).unwrap(), [1_110]);

    // A name that is somebody's.
    b.create_topic(&Topic::new("l-theirs")).unwrap();
    b.fill(&Fill::new("l-theirs", 7)).unwrap();
    let theirs = plain.clone().set("ls->lt.topics.rename", "l-orders:l-theirs");
    switch(&mut mirror, &theirs);
    mirror.await_event("partition halted", &["l-theirs", "existing.records.policy"], WAIT).unwrap();
    assert_eq!(b.offsets("l-theirs", At::Latest).unwrap(), [7]);
    mirror.terminate(WAIT).unwrap();

    // Another policy is another name, too: the target's own topic of that name is not written to.
    b.create_topic(&Topic::new("l-orders")).unwrap();
    b.fill(&Fill::new("l-orders", 5)).unwrap();
    let kept = plain.clone().set("replication.policy.class", IDENTITY);
    let (_, first) = checked(&kept, "l-orders");
    assert!(first["halts"].as_str().unwrap_or_default().contains("existing.records"), "{first}");

    // Refused before anything is connected to.
    let refused = check(&plain.set("ls->lt.topics.rename", "a:b, c:b"), &[]).unwrap();
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("can give a name that `a:b` gives, too"), "{}", refused.err);
}

/// Names that meet: within a flow the topic without a rule gives way, and of two flows one has the topic.
#[test]
fn topics_whose_names_would_meet_are_left_out_and_never_merged() {
    let Sites { a, b, c } = &*SITES;
    for (cluster, topic, seed) in
        [(a, "m-orders", 1), (a, "m-shared", 2), (b, "m-orders", 3), (a, "m-far", 4)]
    {
        cluster.create_topic(&Topic::new(topic)).unwrap();
        cluster.fill(&Fill::new(topic, 300).seed(seed)).unwrap();
    }
    let apart = FlowFile::of(&[("ma", a), ("mb", b), ("mc", c)])
        .flow("ma", "mc")
        .flow("mb", "mc")
        .topics("m-.*")
        .set("replication.policy.class", IDENTITY)
        .set("emit.heartbeats.enabled", "false")
        .short_intervals();
    let file = apart
        .clone()
        .set("ma->mc.topics.rename", "m-orders:m-shared")
        .set("mb->mc.topics.rename", "m-orders:m-shared");
    let mut mirror = Mirror::with_events(&file).unwrap();
    mirror.await_event("topic left out", &["m-shared", "topics.rename"], WAIT).unwrap();
    mirror
        .await_event("partition halted", &["m-shared", "existing.records.policy=append"], WAIT)
        .unwrap();
    await_copy(&mirror, (a, "m-far"), (c, "m-far"), 300);
    c.await_end_offsets("m-shared", 300, WAIT).unwrap();
    thread::sleep(LOOP_WAIT);
    assert_eq!(c.offsets("m-shared", At::Latest).unwrap(), [300]);
    assert_eq!(topics(c, "m-"), ["m-far", "m-shared"], "{}", mirror.last_words());
    mirror.terminate(WAIT).unwrap();
    c.delete_topic("m-shared").unwrap();

    // With other rules the same topics land apart.
    let file = apart
        .set("ma->mc.topics.rename", "m-orders:m-orders-of-a")
        .set("mb->mc.topics.rename", "m-orders:m-orders-of-b");
    std::fs::write(mirror.file(), file.to_string()).unwrap();
    mirror.launch().unwrap();
    await_copy(&mirror, (a, "m-orders"), (c, "m-orders-of-a"), 300);
    await_copy(&mirror, (b, "m-orders"), (c, "m-orders-of-b"), 300);
    await_copy(&mirror, (a, "m-shared"), (c, "m-shared"), 300);
}
