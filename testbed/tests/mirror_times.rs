//! Whose clock a reader of the target sees: the producer's, the source broker's or the target broker's.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use testbed::admin::{Record, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill, Timestamps};
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;

const COPY_WAIT: Duration = Duration::from_secs(60);

/// What producers say: November 2023, so that nobody takes it for the time of a test.
const DATED: i64 = 1_700_000_000_000;

/// No broker's clock stands before this: November 2024.
const NOWADAYS: i64 = 1_730_000_000_000;

fn append_time(topic: &str) -> Topic {
    Topic::new(topic).config("message.timestamp.type", "LogAppendTime")
}

/// Topics of every codec, dated by their producers, under the source's clock if `appended`.
fn topics(source: &Cluster, appended: bool) -> Vec<String> {
    let mut names = Vec::new();
    for codec in Codec::ALL {
        let kind = if appended { "appended" } else { "dated" };
        let name = format!("{kind}-{}", codec.as_str());
        source
            .create_topic(&if appended { append_time(&name) } else { Topic::new(&name) })
            .unwrap();
        let dates = Timestamps::Step { start: DATED, step: 1_000 };
        let fill = Fill::new(&name, 2_000).codec(codec).timestamps(dates).headers(0.3);
        source.fill(&fill).unwrap();
        names.push(name);
    }
    names
}

fn all_of(records: &[Record], kind: &str, when: impl Fn(i64) -> bool) {
    assert!(!records.is_empty());
    for record in records {
        assert!(record.timestamp_type == kind && when(record.timestamp), "{record:?}");
    }
}

#[test]
fn append_times_of_the_source_are_what_a_reader_of_the_target_sees() {
    let (source, target) = Cluster::pair().unwrap();
    let names = topics(&source, true);
    let mirror =
        Mirror::under_test(&FlowFile::one_way(("s", &source), ("t", &target)).with_page().unwrap())
            .unwrap();

    for name in &names {
        let copy = format!("s.{name}");
        let comparison = Comparison::new(&source, name, &target, &copy).wait(COPY_WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 2_000);
        // By default the kind of time is not among the configs that are copied, as in MirrorMaker 2.
        all_of(&target.read(&copy, 10_000).unwrap(), "CreateTime", |time| time > NOWADAYS);
    }
}

#[test]
fn a_target_that_stamps_records_itself_stamps_them_and_nothing_else_changes() {
    let (source, target) = Cluster::pair().unwrap();
    // Under the producers' clock on the source, and under the source's.
    for appended_on_the_source in [false, true] {
        let names = topics(&source, appended_on_the_source);
        for name in &names {
            target.create_topic(&append_time(&format!("s.{name}"))).unwrap();
        }
        let flow = FlowFile::one_way(("s", &source), ("t", &target))
            .with_page()
            .unwrap()
            .topics(&names.join(", "));
        let mut mirror = Mirror::under_test(&flow).unwrap();

        for name in &names {
            let copy = format!("s.{name}");
            let comparison =
                Comparison::new(&source, name, &target, &copy).without_timestamps().wait(COPY_WAIT);
            assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 2_000);
            all_of(&target.read(&copy, 10_000).unwrap(), "LogAppendTime", |time| time > NOWADAYS);
        }
        // What the target's clock changed is recognised again after a crash.
        mirror.kill9().unwrap();
        for name in &names {
            source.fill(&Fill::new(name, 500).first(2_000)).unwrap();
        }
        mirror.launch().unwrap();
        for name in &names {
            let comparison = Comparison::new(&source, name, &target, &format!("s.{name}"))
                .without_timestamps()
                .wait(COPY_WAIT);
            assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 2_500);
        }
    }
}
