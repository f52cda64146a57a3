//! Field reports about topics, their names, settings and beginnings (`docs/field-reports.md`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use testbed::admin::{At, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::events::{self, Status};
use testbed::fill::{Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, Program, eventually};
use testbed::ports;

const WAIT: Duration = Duration::from_secs(60);

const IDENTITY: &str = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy";

/// Source and target. Tests keep apart by the alias of their source, and by their topics.
static PAIR: LazyLock<(Cluster, Cluster)> = LazyLock::new(|| Cluster::pair().unwrap());

fn flow(alias: &str) -> FlowFile {
    let (source, target) = &*PAIR;
    FlowFile::one_way((alias, source), ("t", target))
        .topics(&format!("{alias}.*"))
        .set("emit.heartbeats.enabled", "false")
        .short_intervals()
}

fn with_page(flow: FlowFile) -> (FlowFile, String) {
    let page = format!("127.0.0.1:{}", ports::take().unwrap());
    (flow.set("heliograph.http.listen", &page), page)
}

/// UP-052: what the topic is made with is the source's already, not a minute later.
#[test]
fn up_052_a_new_topic_has_its_sources_settings_from_its_first_moment() {
    let (source, target) = &*PAIR;
    let mirror = Mirror::heliograph(&flow("born")).unwrap();
    let topic = Topic::new("born").config("cleanup.policy", "compact").config("retention.ms", "-1");
    source.create_topic(&topic.config("segment.bytes", "1048576")).unwrap();

    let mut first = None;
    eventually("the topic", WAIT, &mirror, || {
        first = target.own_configs("born.born").ok();
        Ok(first.is_some())
    })
    .unwrap();

    let first = first.unwrap();
    for (name, value) in
        [("cleanup.policy", "compact"), ("retention.ms", "-1"), ("segment.bytes", "1048576")]
    {
        assert_eq!(first.get(name).map(String::as_str), Some(value), "{first:?}");
    }
}

/// UP-047: a target with fewer partitions is grown, one with more is used as far as the source goes, and said.
#[test]
fn up_047_a_target_with_other_partitions_is_grown_or_named() {
    let (source, target) = &*PAIR;
    for (topic, there) in [("few", 2), ("few-more", 8)] {
        source.create_topic(&Topic::new(topic).partitions(6)).unwrap();
        target.create_topic(&Topic::new(topic).partitions(there)).unwrap();
        source.fill(&Fill::new(topic, 600)).unwrap();
    }
    let (flow, page) = with_page(flow("few").set("few->t.replication.policy.class", IDENTITY));
    let mirror = Mirror::with_events(&flow).unwrap();

    target.await_end_offsets("few", 600, WAIT).unwrap();
    target.await_end_offsets("few-more", 600, WAIT).unwrap();
    assert_eq!(target.offsets("few", At::Latest).unwrap(), [100; 6]);
    assert_eq!(
        target.offsets("few-more", At::Latest).unwrap(),
        [100, 100, 100, 100, 100, 100, 0, 0]
    );
    let words = ["few-more", "8 partitions and the source 6"];
    assert_eq!(mirror.await_event("the target has", &words, WAIT).unwrap().level(), "WARN");
    eventually("the page", WAIT, &mirror, || {
        let left = events::rounds(&page, "few", "t")?["topics"]["left"].to_string();
        Ok(left.contains("few-more: the target has 8") && !left.contains("few: the target has"))
    })
    .unwrap();
}

/// UP-066: one wrong character in a pattern, and nothing is copied while everything looks well.
#[test]
fn up_066_patterns_have_javas_meaning_and_those_that_match_nothing_are_named() {
    let (source, target) = &*PAIR;
    for topic in ["pat-orders", "pat-orders2", "pat-pay-1", "pat-pay-x"] {
        source.create_topic(&Topic::new(topic)).unwrap();
    }
    let flow = flow("pat").topics(r"pat-orders, pat-pay-[0-9]+, pat-typo\\.x");
    let (flow, page) = with_page(flow);
    let mirror = Mirror::with_events(&flow).unwrap();

    let told = mirror.await_event("no topic of the source matches", &["pat-typo"], WAIT).unwrap();
    assert_eq!((told.level(), told.text("topics").as_deref()), ("WARN", Some(r"pat-typo\.x")));
    eventually("both topics", WAIT, &mirror, || {
        let there: BTreeSet<String> =
            target.topics()?.into_iter().filter(|one| one.starts_with("pat.pat-")).collect();
        Ok(there == BTreeSet::from(["pat.pat-orders".into(), "pat.pat-pay-1".into()]))
    })
    .unwrap();
    let said = mirror.events().iter().filter(|one| one.holds(&["no topic of the source"])).count();
    assert_eq!(said, 1, "{}", mirror.last_words());
    let left = |page: &str| events::rounds(page, "pat", "t").unwrap()["topics"]["left"].to_string();
    eventually("the page", WAIT, &mirror, || Ok(left(&page).contains("pat-typo"))).unwrap();

    source.create_topic(&Topic::new("pat-typo.x")).unwrap();
    eventually("the late one", WAIT, &mirror, || {
        Ok(target.describe_topic("pat.pat-typo.x")?.is_some() && !left(&page).contains("typo"))
    })
    .unwrap();
}

/// UP-090: 100 records a minute apart, from the 60th on; another value later changes nothing. Then the other ways to
/// say where to start.
#[test]
fn up_090_a_partition_without_progress_starts_where_the_file_says() {
    const MINUTE: i64 = 60_000;
    let (source, target) = &*PAIR;
    let now = i64::try_from(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis(),
    )
    .unwrap();
    let begun = now - 100 * MINUTE;
    for topic in ["from", "ago", "late", "never"] {
        source.create_topic(&Topic::new(topic)).unwrap();
        let times = Timestamps::Step { start: begun, step: MINUTE };
        source.fill(&Fill::new(topic, 100).timestamps(times)).unwrap();
    }
    let first = |topic: &str| -> Vec<i64> {
        let records = target.read(&format!("{topic}.{topic}"), 1_000).unwrap();
        records.iter().map(|one| (one.timestamp - begun) / MINUTE).collect()
    };

    let starts_at = |at: i64| flow("from").set("from->t.start.timestamp", (begun + at).to_string());
    let mut mirror = Mirror::heliograph(&starts_at(60 * MINUTE - 1)).unwrap();
    target.await_end_offsets("from.from", 40, WAIT).unwrap();
    assert_eq!(first("from"), (60..100).collect::<Vec<_>>());
    mirror.terminate(WAIT).unwrap();
    std::fs::write(mirror.file(), starts_at(10 * MINUTE).to_string()).unwrap();
    source.fill(&Fill::new("from", 5).first(100)).unwrap();
    mirror.launch().unwrap();
    target.await_end_offsets("from.from", 45, WAIT).unwrap();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(target.offsets("from.from", At::Latest).unwrap(), [45]);

    let reset = |alias: &str, value: &str| {
        flow(alias).set(format!("{alias}.consumer.auto.offset.reset"), value)
    };
    let _ago = Mirror::heliograph(&reset("ago", "by_duration:PT30M30S")).unwrap();
    let _late = Mirror::heliograph(&reset("late", "latest")).unwrap();
    let never = Mirror::with_events(&reset("never", "none")).unwrap();
    target.await_end_offsets("ago.ago", 30, WAIT).unwrap();
    assert_eq!(first("ago"), (70..100).collect::<Vec<_>>());
    never.await_event("partition halted", &["auto.offset.reset=none"], WAIT).unwrap();
    eventually("the topic", WAIT, &never, || Ok(target.offsets("late.late", At::Latest)? == [0]))
        .unwrap();
    // A restart's worth of time: what comes after the start is copied, what was there is not.
    thread::sleep(Duration::from_secs(2));
    source.fill(&Fill::new("late", 7).first(100)).unwrap();
    target.await_end_offsets("late.late", 7, WAIT).unwrap();
}

/// UP-015: other client ids are no other flow.
#[test]
fn up_015_a_restart_under_other_client_ids_copies_nothing_again() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("again").partitions(3)).unwrap();
    source.fill(&Fill::new("again", 3_000)).unwrap();
    let mut mirror = Mirror::heliograph(&flow("again")).unwrap();
    target.await_end_offsets("again.again", 3_000, WAIT).unwrap();
    mirror.kill9().unwrap();
    let other = flow("again").set("client.id", "other").set("again.consumer.group.id", "another");
    std::fs::write(mirror.file(), other.to_string()).unwrap();
    mirror.launch().unwrap();
    source.fill(&Fill::new("again", 300).first(3_000)).unwrap();

    let comparison = Comparison::new(source, "again", target, "again.again").wait(WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 3_300);
}

/// UP-028: records into new partitions at once.
#[test]
fn up_028_partitions_that_are_added_under_load_are_copied_from_their_first_record() {
    let (source, target) = &*PAIR;
    source.create_topic(&Topic::new("grow").partitions(3)).unwrap();
    let mirror = Mirror::heliograph(&flow("grow")).unwrap();
    let filling = source
        .fill_in_background(&Fill::new("grow", 1_000).partitions([0, 1, 2]).rate(200.0))
        .unwrap();
    thread::sleep(Duration::from_secs(2));
    source.add_partitions("grow", 6).unwrap();
    source.fill(&Fill::new("grow", 30).first(5_000).partitions([3, 4, 5])).unwrap();
    let grown = Instant::now();
    eventually("six partitions", WAIT, &mirror, || {
        Ok(target.offsets("grow.grow", At::Latest)?.get(3..).is_some_and(|new| new == [10, 10, 10]))
    })
    .unwrap();
    let took = grown.elapsed();
    filling.done().unwrap();

    let comparison = Comparison::new(source, "grow", target, "grow.grow").wait(WAIT);
    let verdict = comparison.must_be_copied_by(&mirror).unwrap();
    assert_eq!((verdict.total.matched, verdict.total.repeated), (1_030, 0));
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// UP-093: two flows with one target topic: an empty one is given to one of them only, and the merge can be declared.
#[test]
fn up_093_two_sources_merge_into_one_topic_only_if_that_is_declared() {
    let (a, b) = &*PAIR;
    let c = Cluster::single().unwrap();
    for (cluster, seed) in [(a, 1), (b, 2)] {
        cluster.create_topic(&Topic::new("merge-orders")).unwrap();
        cluster.fill(&Fill::new("merge-orders", 500).seed(seed)).unwrap();
    }
    let (flow, page) = with_page(
        FlowFile::of(&[("ma", a), ("mb", b), ("mc", &c)])
            .flow("ma", "mc")
            .flow("mb", "mc")
            .topics("merge-.*")
            .set("replication.policy.class", IDENTITY)
            .set("emit.heartbeats.enabled", "false")
            .short_intervals(),
    );
    let mut mirror = Mirror::with_events(&flow).unwrap();
    let words = ["merge-orders", "existing.records.policy=append"];
    mirror.await_event("partition halted", &words, WAIT).unwrap();
    c.await_end_offsets("merge-orders", 500, WAIT).unwrap();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(c.offsets("merge-orders", At::Latest).unwrap(), [500]);
    let halted = || {
        let flows = Status::fetch(&page)?.flows;
        let all = flows.iter().flat_map(|flow| &flow.partitions);
        Ok(all.filter(|one| one.state == "halted").count() == 1)
    };
    assert!(halted().unwrap());
    // The one that began goes on after a restart, the other one waits.
    mirror.terminate(WAIT).unwrap();
    mirror.launch().unwrap();
    eventually("one goes on", WAIT, &mirror, halted).unwrap();
    a.fill(&Fill::new("merge-orders", 10).first(500).seed(1)).unwrap();
    b.fill(&Fill::new("merge-orders", 10).first(500).seed(2)).unwrap();
    c.await_end_offsets("merge-orders", 510, WAIT).unwrap();

    mirror.terminate(WAIT).unwrap();
    let merged = flow.set("existing.records.policy", "append");
    std::fs::write(mirror.file(), merged.to_string()).unwrap();
    mirror.launch().unwrap();
    c.await_end_offsets("merge-orders", 1_020, WAIT).unwrap();
    thread::sleep(Duration::from_secs(2));
    assert_eq!(c.offsets("merge-orders", At::Latest).unwrap(), [1_020]);
}

/// UP-018: names stay as they are in both directions, on topics that are there on both sides, empty or not.
#[test]
fn up_018_names_that_stay_as_they_are_both_ways_never_make_records_go_round() {
    let (a, b) = &*PAIR;
    for topic in ["both-empty", "both-full"] {
        for cluster in [a, b] {
            cluster.create_topic(&Topic::new(topic)).unwrap();
        }
    }
    a.fill(&Fill::new("both-full", 10)).unwrap();
    b.fill(&Fill::new("both-full", 7).seed(2)).unwrap();
    let (flow, page) = with_page(
        FlowFile::both_ways(("ba", a), ("bb", b))
            .topics("both-.*")
            .set("replication.policy.class", IDENTITY)
            .set("emit.heartbeats.enabled", "false")
            .short_intervals(),
    );
    let mut mirror = Mirror::with_events(&flow).unwrap();
    mirror.await_event("partition halted", &["both-empty", "go round"], WAIT).unwrap();
    // Whichever way the empty one goes, a record is copied once.
    a.fill(&Fill::new("both-empty", 5)).unwrap();
    b.fill(&Fill::new("both-empty", 3).seed(2)).unwrap();
    let ends = || {
        let end = |cluster: &Cluster, topic| cluster.offsets(topic, At::Latest).unwrap()[0];
        ["both-empty", "both-full"].map(|topic| (end(a, topic), end(b, topic)))
    };
    let copied = |ends: [(i64, i64); 2]| [(5, 8), (8, 3)].contains(&ends[0]) && ends[1] == (10, 7);
    eventually("one direction", WAIT, &mirror, || Ok(copied(ends()))).unwrap();
    for _ in 0..2 {
        thread::sleep(Duration::from_secs(3));
        assert!(copied(ends()), "{:?}", ends());
        mirror.terminate(WAIT).unwrap();
        mirror.launch().unwrap();
        eventually("three halted", WAIT, &mirror, || {
            let flows = Status::fetch(&page)?.flows;
            let all = flows.iter().flat_map(|flow| &flow.partitions);
            Ok(all.filter(|one| one.state == "halted").count() == 3)
        })
        .unwrap();
    }
}

/// UP-045: both ways for all topics, by one process and by two; after a dozen looks no name has grown.
#[test]
fn up_045_no_name_gets_a_second_prefix_however_often_topics_are_looked_at() {
    let (a, b) = Cluster::pair().unwrap();
    a.create_topic(&Topic::new("mine")).unwrap();
    b.create_topic(&Topic::new("yours")).unwrap();
    let flow = FlowFile::both_ways(("a", &a), ("b", &b)).topics(".*").short_intervals();
    let names = |cluster: &Cluster| -> BTreeSet<String> {
        let all = cluster.topics().unwrap().into_iter();
        all.filter(|name| !name.ends_with(".internal") && !name.starts_with("__")).collect()
    };
    let expected = |own: &str, other: &str, alias: &str| -> BTreeSet<String> {
        [
            own.to_owned(),
            format!("{alias}.{other}"),
            "heartbeats".into(),
            format!("{alias}.heartbeats"),
        ]
        .into()
    };
    let settled = |mirror: &Mirror| {
        eventually("all replicas", WAIT, mirror, || {
            Ok(names(&a).len() >= 4 && names(&b).len() >= 4)
        })
        .unwrap();
        thread::sleep(Duration::from_secs(5));
        assert_eq!(names(&a), expected("mine", "yours", "b"));
        assert_eq!(names(&b), expected("yours", "mine", "a"));
    };
    let mut both = Mirror::heliograph(&flow).unwrap();
    settled(&both);
    both.terminate(WAIT).unwrap();

    let into = |target: &str| {
        let mut mirror =
            Mirror::prepare(Program::Heliograph, &flow, &["--clusters", target]).unwrap();
        mirror.launch().unwrap();
        mirror
    };
    let (_one, other) = (into("a"), into("b"));
    settled(&other);
}

/// UP-009: the target is rebuilt under the mirror, internal topics and all.
#[test]
fn up_009_a_target_that_is_rebuilt_while_the_mirror_runs_is_filled_again() {
    let (source, mut target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 1_000)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target))
        .short_intervals()
        .set("sync.group.offsets.enabled", "true");
    let mut mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 1_000, WAIT).unwrap();

    target.rebuild().unwrap();

    let copied = |mirror: &Mirror, target: &Cluster, records: u64| {
        let comparison = Comparison::new(&source, "t", target, "s.t").wait(WAIT);
        assert_eq!(comparison.must_be_copied_by(mirror).unwrap().total.matched, records);
    };
    copied(&mirror, &target, 1_000);
    mirror.await_event("target topic was made anew", &["s.t-0"], WAIT).unwrap();
    mirror.await_event("internal topics were deleted on the target", &["positions"], WAIT).unwrap();
    // Positions, checkpoints and heartbeats are written there again, and a restart goes on by them.
    source.fill(&Fill::new("t", 500).first(1_000)).unwrap();
    source
        .commit_offsets(
            "g",
            &[testbed::admin::GroupOffset {
                topic: "t".into(),
                partition: 0,
                offset: 300,
                metadata: String::new(),
            }],
        )
        .unwrap();
    copied(&mirror, &target, 1_500);
    eventually("the group", WAIT, &mirror, || {
        Ok(target.group_offsets("g")?.first().map(|one| one.offset) == Some(300))
    })
    .unwrap();
    mirror.kill9().unwrap();
    source.fill(&Fill::new("t", 500).first(1_500)).unwrap();
    mirror.launch().unwrap();
    copied(&mirror, &target, 2_000);
    eventually("heartbeats", WAIT, &mirror, || {
        Ok(target.offsets("heartbeats", At::Latest)?.iter().sum::<i64>() > 2)
    })
    .unwrap();
    source.set_topic_config("t", "retention.ms", "360000000").unwrap();
    eventually("a config that follows", WAIT, &mirror, || {
        Ok(target.own_configs("s.t")?.get("retention.ms").is_some_and(|v| v == "360000000"))
    })
    .unwrap();
    // And while it is away.
    mirror.terminate(WAIT).unwrap();
    target.rebuild().unwrap();
    mirror.launch().unwrap();
    copied(&mirror, &target, 2_000);
}

/// UP-009, the same kind of fault: somebody deletes only what the mirror remembers by.
#[test]
fn up_009_positions_that_are_deleted_under_the_mirror_are_written_anew() {
    let (source, target) = Cluster::pair().unwrap();
    for topic in ["busy", "quiet"] {
        source.create_topic(&Topic::new(topic)).unwrap();
        source.fill(&Fill::new(topic, 100)).unwrap();
    }
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).short_intervals();
    let mut mirror = Mirror::with_events(&flow).unwrap();
    for topic in ["s.busy", "s.quiet"] {
        target.await_end_offsets(topic, 100, WAIT).unwrap();
    }
    thread::sleep(Duration::from_secs(2));
    for topic in ["positions", "offset-map", "owned"] {
        let topic = format!("mm2-heliograph-{topic}.s.internal");
        if target.topics().unwrap().contains(&topic) {
            target.delete_topic(&topic).unwrap();
        }
    }
    target.delete_topic("mm2-offsets.s.internal").unwrap();
    target.delete_topic("s.checkpoints.internal").unwrap();
    source.fill(&Fill::new("busy", 100).first(100)).unwrap();
    target.await_end_offsets("s.busy", 200, WAIT).unwrap();
    mirror.await_event("internal topics were deleted on the target", &["positions"], WAIT).unwrap();
    let owned = "mm2-heliograph-owned.s.internal".to_owned();
    eventually("what is owned", WAIT, &mirror, || Ok(target.topics()?.contains(&owned))).unwrap();
    thread::sleep(Duration::from_secs(3));

    // A restart knows of both, the one that has moved since and the one that has not.
    mirror.kill9().unwrap();
    for topic in ["busy", "quiet"] {
        source.fill(&Fill::new(topic, 50).first(200)).unwrap();
    }
    mirror.launch().unwrap();
    for (topic, records) in [("busy", 250), ("quiet", 150)] {
        let copy = format!("s.{topic}");
        let comparison = Comparison::new(&source, topic, &target, &copy).wait(WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, records);
    }
}
