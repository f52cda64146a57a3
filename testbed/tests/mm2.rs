//! The real MirrorMaker 2 runs in this bed, and the judge agrees with it: the bed itself is right.

use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;

/// MirrorMaker 2 needs 10 to 40 s to its first record, more on a loaded machine.
const COPY_WAIT: Duration = Duration::from_secs(180);

#[test]
fn mirror_maker_2_copies_every_codec_and_shape_and_goes_on_after_a_stop() {
    let (source, target) = Cluster::pair().unwrap();
    for codec in Codec::ALL {
        let topic = format!("all.{}", codec.as_str());
        source.create_topic(&Topic::new(&topic).partitions(3)).unwrap();
        source.fill(&Fill::new(&topic, 5_000).motley().codec(codec)).unwrap();
    }
    let flow =
        FlowFile::one_way(("s", &source), ("t", &target)).topics("all\\..*").short_intervals();
    let mut mirror = Mirror::mm2(&flow).unwrap();
    for codec in Codec::ALL {
        let topic = format!("all.{}", codec.as_str());
        let comparison =
            Comparison::new(&source, &topic, &target, &format!("s.{topic}")).wait(COPY_WAIT);
        let verdict = comparison.must_be_copied_by(&mirror).unwrap();
        assert_eq!(verdict.total.matched, 5_000);
    }

    mirror.terminate(Duration::from_secs(60)).unwrap();
    source.fill(&Fill::new("all.lz4", 1_000).motley().first(5_000)).unwrap();
    mirror.launch().unwrap();

    let comparison = Comparison::new(&source, "all.lz4", &target, "s.all.lz4").wait(COPY_WAIT);
    assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 6_000);
    let usage = mirror.usage().unwrap();
    assert!(usage.cpu_seconds > 1.0 && usage.peak_rss_bytes > 50 << 20, "{usage:?}");
    mirror.kill9().unwrap();
}

#[test]
fn the_judge_finds_what_mirror_maker_2_repeats_after_a_crash() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 2_000)).unwrap();
    // Progress once a minute: what was copied before the crash is copied again after it.
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("t");
    let mut mirror = Mirror::mm2(&flow).unwrap();
    target.await_end_offsets("s.t", 2_000, COPY_WAIT).unwrap();

    mirror.kill9().unwrap();
    mirror.launch().unwrap();
    target.await_end_offsets("s.t", 4_000, COPY_WAIT).unwrap();

    let verdict = Comparison::new(&source, "t", &target, "s.t").run().unwrap();
    assert!(!verdict.same);
    assert_eq!((verdict.total.missing, verdict.total.repeated), (0, 2_000), "{verdict}");
}
