//! A source whose log is not what it was: a byte flipped on its disk, a tail cut off by an unclean election. Found, and
//! named with the place, and other partitions go on.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::fs;
use std::time::Duration;

use testbed::admin::{At, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::raw;
use testbed::version::Version;

const COPY_WAIT: Duration = Duration::from_secs(90);

/// Flips one bit in the values of the `index`-th batch of a partition while the broker is down; its base offset.
fn flip(source: &mut Cluster, partition: u32, index: usize) -> i64 {
    // A clean stop, so that nothing is looked through at the start.
    source.stop().unwrap();
    let dir = source.nodes()[0].partition_dir("t", partition);
    let path = dir.join("00000000000000000000.log");
    let mut log = fs::read(&path).unwrap();
    let mut batches = Vec::new();
    let (mut at, mut base) = (0, Vec::new());
    raw::walk(&log, |batch| {
        batches.push(at..at + batch.len());
        base.push(i64::from_be_bytes(*batch.first_chunk().unwrap()));
        at += batch.len();
    });
    assert!(index + 1 < batches.len(), "the last batch is no good: {} batches", batches.len());
    let middle = (batches[index].start + batches[index].end) / 2;
    log[middle] ^= 0b100;
    fs::write(&path, log).unwrap();
    source.start().unwrap();
    base[index]
}

#[test]
fn a_batch_damaged_on_the_sources_disk_stops_its_partition_and_is_named() {
    let (mut source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(3)).unwrap();
    source.fill(&Fill::new("t", 3_000).batches(4_000, 20)).unwrap();
    let offset = flip(&mut source, 1, 5);
    let mirror = Mirror::with_events(&FlowFile::one_way(("s", &source), ("t", &target))).unwrap();

    let place = format!("upstream offset {offset} ");
    let words = ["t-1", place.as_str(), "does not match its own checksum"];
    let halted = mirror.await_event("partition halted", &words, COPY_WAIT).unwrap();
    assert_eq!(halted.level(), "ERROR");
    eventually("everything else is there", COPY_WAIT, &mirror, || {
        Ok(target.offsets("s.t", At::Latest)? == [1_000, offset, 1_000])
    })
    .unwrap();
}

#[test]
fn a_damaged_batch_that_must_be_written_anew_is_found_all_the_same() {
    let (mut source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(2)).unwrap();
    source.fill(&Fill::new("t", 2_000).batches(8_000, 20)).unwrap();
    let offset = flip(&mut source, 1, 5);
    // Every batch is divided for this target, so nobody but the mirror sees the source's checksum.
    let copy = Topic::new("s.t").partitions(2).config("max.message.bytes", "3000");
    target.create_topic(&copy).unwrap();
    let mirror = Mirror::with_events(&FlowFile::one_way(("s", &source), ("t", &target))).unwrap();

    let place = format!("upstream offset {offset} ");
    let words = ["t-1", place.as_str(), "checksum"];
    mirror.await_event("partition halted", &words, COPY_WAIT).unwrap();
    eventually("everything else is there", COPY_WAIT, &mirror, || {
        Ok(target.offsets("s.t", At::Latest)? == [1_000, offset])
    })
    .unwrap();
}

/// Ten records, ten more that only node 1 has, then node 2 alone: it never had them, and goes on with its own.
#[test]
fn a_source_that_lost_its_tail_in_an_unclean_election_is_named_with_the_range() {
    let three = ClusterSpec::new(Version::V4_3_1).three_nodes();
    let (mut source, target) =
        ClusterSpec::start_both(three, ClusterSpec::new(Version::V4_3_1)).unwrap();
    let topic = |name: &str| {
        Topic::new(name)
            .assignment(vec![vec![1, 2]])
            .config("min.insync.replicas", "1")
            .config("unclean.leader.election.enable", "true")
    };
    source.create_topic(&topic("t")).unwrap();
    source
        .create_topic(
            &Topic::new("other").assignment(vec![vec![3]]).config("min.insync.replicas", "1"),
        )
        .unwrap();
    source.fill(&Fill::new("t", 10)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 10, COPY_WAIT).unwrap();

    source.kill9(2).unwrap();
    eventually("node 2 is out of sync", COPY_WAIT, &mirror, || {
        Ok(source.describe_topic("t")?.is_some_and(|topic| topic.partitions[0].isr == [1]))
    })
    .unwrap();
    source.fill(&Fill::new("t", 10).first(10)).unwrap();
    target.await_end_offsets("s.t", 20, COPY_WAIT).unwrap();
    source.kill9(1).unwrap();
    source.restart(2).unwrap();
    source.await_leader("t", 0, COPY_WAIT, |leader| leader == 2).unwrap();
    assert_eq!(source.offsets("t", At::Latest).unwrap(), [10]);
    source.fill(&Fill::new("t", 3).seed(99)).unwrap();

    // Offsets 10 to 20 were copied, and the source has lost them: the copy cannot be right from 10 on.
    let words = ["t-0", "offset 10", "up to 20"];
    let halted = mirror.await_event("partition halted", &words, COPY_WAIT).unwrap();
    assert_eq!(halted.level(), "ERROR");
    assert_eq!(target.offsets("s.t", At::Latest).unwrap(), [20]);
    source.fill(&Fill::new("other", 50)).unwrap();
    target.await_end_offsets("s.other", 50, COPY_WAIT).unwrap();
    source.restart(1).unwrap();
}

/// The same on the target: ten records that were acknowledged are gone, and going on would leave a hole.
#[test]
fn a_target_that_lost_its_tail_in_an_unclean_election_stops_the_partition_until_its_topic_is_deleted()
 {
    let three = ClusterSpec::new(Version::V4_3_1).three_nodes();
    let (source, mut target) =
        ClusterSpec::start_both(ClusterSpec::new(Version::V4_3_1), three).unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    let copy = Topic::new("s.t")
        .assignment(vec![vec![1, 2]])
        .config("min.insync.replicas", "1")
        .config("unclean.leader.election.enable", "true");
    target.create_topic(&copy).unwrap();
    source.fill(&Fill::new("t", 10)).unwrap();
    // What it writes about itself is on nodes that live on.
    let flow = FlowFile::one_way(("s", &source), ("t", &target)).set("replication.factor", "3");
    let mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 10, COPY_WAIT).unwrap();

    target.kill9(2).unwrap();
    eventually("node 2 is out of sync", COPY_WAIT, &mirror, || {
        Ok(target.describe_topic("s.t")?.is_some_and(|topic| topic.partitions[0].isr == [1]))
    })
    .unwrap();
    source.fill(&Fill::new("t", 10).first(10)).unwrap();
    target.await_end_offsets("s.t", 20, COPY_WAIT).unwrap();
    target.kill9(1).unwrap();
    target.restart(2).unwrap();
    target.await_leader("s.t", 0, COPY_WAIT, |leader| leader == 2).unwrap();
    assert_eq!(target.offsets("s.t", At::Latest).unwrap(), [10]);

    source.fill(&Fill::new("t", 3).first(20)).unwrap();
    let words = ["t-0", "ends at 10", "20 offsets", "Delete the target topic"];
    let halted = mirror.await_event("partition halted", &words, COPY_WAIT).unwrap();
    assert_eq!(halted.level(), "ERROR");
    assert_eq!(target.offsets("s.t", At::Latest).unwrap(), [10], "no hole is made");

    // The way out that it names.
    target.restart(1).unwrap();
    target.delete_topic("s.t").unwrap();
    target.await_end_offsets("s.t", 23, COPY_WAIT).unwrap();
    Comparison::new(&source, "t", &target, "s.t").must_be_copied_by(&mirror).unwrap();
}

/// As above, but the new log has grown past the mirror's position: the offset itself looks fine.
#[test]
fn a_source_that_lost_its_tail_and_grew_past_it_is_named_with_the_range() {
    // Two clusters of which one has three nodes, half a minute: every night is often enough.
    if std::env::var_os("TESTBED_FULL").is_none() {
        eprintln!("only with TESTBED_FULL=1");
        return;
    }
    let three = ClusterSpec::new(Version::V4_3_1).three_nodes();
    let (mut source, target) =
        ClusterSpec::start_both(three, ClusterSpec::new(Version::V4_3_1)).unwrap();
    let topic = Topic::new("t")
        .assignment(vec![vec![1, 2]])
        .config("min.insync.replicas", "1")
        .config("unclean.leader.election.enable", "true");
    source.create_topic(&topic).unwrap();
    source.fill(&Fill::new("t", 10)).unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let mut mirror = Mirror::with_events(&flow).unwrap();
    target.await_end_offsets("s.t", 10, COPY_WAIT).unwrap();

    source.kill9(2).unwrap();
    eventually("node 2 is out of sync", COPY_WAIT, &mirror, || {
        Ok(source.describe_topic("t")?.is_some_and(|topic| topic.partitions[0].isr == [1]))
    })
    .unwrap();
    source.fill(&Fill::new("t", 10).first(10)).unwrap();
    target.await_end_offsets("s.t", 20, COPY_WAIT).unwrap();
    mirror.terminate(COPY_WAIT).unwrap();
    source.kill9(1).unwrap();
    source.restart(2).unwrap();
    source.await_leader("t", 0, COPY_WAIT, |leader| leader == 2).unwrap();
    // While the mirror is away: 10 to 60 are other records than those that it copied.
    source.fill(&Fill::new("t", 50).seed(99)).unwrap();
    mirror.launch().unwrap();

    let words = ["t-0", "offset 10", "up to 20"];
    mirror.await_event("partition halted", &words, COPY_WAIT).unwrap();
    assert_eq!(target.offsets("s.t", At::Latest).unwrap(), [20]);
}
