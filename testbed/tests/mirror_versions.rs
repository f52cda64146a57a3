//! Clusters of different versions are mirrored into each other.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::ClusterSpec;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::Mirror;
use testbed::version::Version;

const COPY_WAIT: Duration = Duration::from_secs(120);

fn mirrors(from: Version, to: Version) {
    let (source, target) =
        ClusterSpec::start_both(ClusterSpec::new(from), ClusterSpec::new(to)).unwrap();
    for codec in Codec::ALL {
        let topic = format!("t-{}", codec.as_str());
        source.create_topic(&Topic::new(&topic).partitions(3)).unwrap();
        source.fill(&Fill::new(&topic, 10_000).motley().codec(codec)).unwrap();
    }
    source.create_topic(&Topic::new("transactions")).unwrap();
    source.fill(&Fill::new("transactions", 2_000).transactions(50, 4)).unwrap();

    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("t-.*, transactions");
    let mirror = Mirror::under_test(&flow).unwrap();

    let count = |topic: &str| {
        let comparison =
            Comparison::new(&source, topic, &target, &format!("s.{topic}")).wait(COPY_WAIT);
        comparison.must_be_copied_by(&mirror).unwrap().total.matched
    };
    for codec in Codec::ALL {
        assert_eq!(count(&format!("t-{}", codec.as_str())), 10_000, "{from} to {to}");
    }
    assert_eq!(count("transactions"), 1_500, "{from} to {to}");
}

#[test]
fn from_2_8_2_to_4_3_1() {
    mirrors(Version::V2_8_2, Version::V4_3_1);
}

#[test]
fn from_3_9_2_to_4_3_1() {
    mirrors(Version::V3_9_2, Version::V4_3_1);
}

#[test]
fn from_4_3_1_to_3_9_2() {
    mirrors(Version::V4_3_1, Version::V3_9_2);
}

#[test]
fn topics_in_message_formats_0_and_1_are_mirrored_exactly() {
    let specs = (ClusterSpec::new(Version::V2_8_2), ClusterSpec::new(Version::V4_3_1));
    let (source, target) = ClusterSpec::start_both(specs.0, specs.1).unwrap();
    let formats = ["0.9.0", "0.10.0"];
    // Format 0 and 1 know no zstd.
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4];
    let topics = || formats.iter().flat_map(|format| codecs.map(|codec| (*format, codec)));
    let name = |format: &str, codec: Codec| format!("old-{format}-{}", codec.as_str());
    for (format, codec) in topics() {
        let topic = name(format, codec);
        let config = Topic::new(&topic).partitions(2).config("message.format.version", format);
        source.create_topic(&config).unwrap();
        let fill = Fill::new(&topic, 4_000).null_keys(0.2).tombstones(0.1).codec(codec);
        source.fill(&fill.not_idempotent()).unwrap();
    }
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).topics("old-.*");
    let mirror = Mirror::under_test(&flow).unwrap();

    for (format, codec) in topics() {
        let topic = name(format, codec);
        let comparison =
            Comparison::new(&source, &topic, &target, &format!("s.{topic}")).wait(COPY_WAIT);
        assert_eq!(comparison.must_be_copied_by(&mirror).unwrap().total.matched, 4_000, "{topic}");
    }
}
