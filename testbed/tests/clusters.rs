//! Clusters of every version start, stop, crash and come back; nothing outlives its owner.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]
#![expect(clippy::disallowed_methods, reason = "real processes run by the real clock")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use testbed::admin::{At, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::version::Version;

const SOON: Duration = Duration::from_secs(60);

fn writes_and_reads(cluster: &Cluster) {
    let topic = format!("t{}", cluster.topics().unwrap().len());
    cluster.create_topic(&Topic::new(&topic).partitions(2)).unwrap();
    cluster.fill(&Fill::new(&topic, 500).codec(Codec::Lz4)).unwrap();
    assert_eq!(cluster.drain(&topic).unwrap(), [250, 250]);
    assert_eq!(cluster.offsets(&topic, At::Latest).unwrap(), [250, 250]);
}

#[test]
fn a_single_node_of_each_version_takes_records_before_and_after_a_stop() {
    for version in Version::ALL {
        let mut cluster = ClusterSpec::new(version).start().unwrap();
        let bootstrap = cluster.bootstrap();
        writes_and_reads(&cluster);

        cluster.stop().unwrap();
        cluster.start().unwrap();

        assert_eq!(cluster.bootstrap(), bootstrap);
        assert_eq!(cluster.drain("t0").unwrap(), [250, 250], "{version} lost records in a stop");
        writes_and_reads(&cluster);
    }
}

#[test]
fn a_single_node_of_each_version_keeps_its_records_over_a_crash() {
    for version in Version::ALL {
        let mut cluster = ClusterSpec::new(version).start().unwrap();
        writes_and_reads(&cluster);

        cluster.kill9(1).unwrap();
        cluster.restart(1).unwrap();

        assert_eq!(cluster.drain("t0").unwrap(), [250, 250], "{version} lost records in a crash");
    }
}

#[test]
fn three_nodes_go_on_without_one_and_take_it_back() {
    for version in Version::ALL {
        let mut cluster = ClusterSpec::new(version).three_nodes().start().unwrap();
        let topic = Topic::new("r3").assignment(vec![vec![2, 1, 3], vec![3, 2, 1]]);
        let described = cluster.create_topic(&topic).unwrap();
        assert_eq!(described.partitions[0].leader, 2);
        cluster.fill(&Fill::new("r3", 1_000)).unwrap();

        // Two of three must be in sync without it.
        cluster.await_in_sync("r3", SOON).unwrap();
        cluster.kill9(2).unwrap();
        // acks=all, so this waits for the new leader and the smaller ISR.
        let filled = cluster.fill(&Fill::new("r3", 1_000).first(1_000));
        if let Err(error) = filled {
            panic!("{version} without node 2: {error:#}\n{:#?}", cluster.describe_topic("r3"));
        }
        cluster.await_leader("r3", 0, SOON, |leader| leader != 2).unwrap();

        cluster.restart(2).unwrap();
        cluster.await_in_sync("r3", SOON).unwrap();
        cluster.elect_preferred_leaders("r3").unwrap();
        cluster.await_leader("r3", 0, SOON, |leader| leader == 2).unwrap();
        assert_eq!(cluster.drain("r3").unwrap(), [1_000, 1_000], "{version}");
    }
}

#[test]
fn a_property_of_a_test_overrides_the_beds_own() {
    let cluster = ClusterSpec::new(Version::V4_3_1)
        .set("auto.create.topics.enable", "true")
        .set("log.retention.ms", "123456789")
        .listener("SECOND", "PLAINTEXT")
        .start()
        .unwrap();
    let configs = cluster.create_topic(&Topic::new("t")).and_then(|_| cluster.topic_configs("t"));

    assert_eq!(configs.unwrap()["retention.ms"].value.as_deref(), Some("123456789"));
    assert!(cluster.bootstrap_of("SECOND", "localhost").unwrap().starts_with("localhost:"));
    assert!(cluster.bootstrap_of("THIRD", "localhost").is_err());
}

#[test]
fn topics_are_described_grown_configured_trimmed_and_deleted() {
    let cluster = Cluster::single().unwrap();
    cluster.create_topic(&Topic::new("t").config("retention.ms", "-1")).unwrap();
    cluster.fill(&Fill::new("t", 100)).unwrap();

    let grown = cluster.add_partitions("t", 4).unwrap();
    assert_eq!(grown.partitions.len(), 4);

    cluster.set_topic_config("t", "max.message.bytes", "2000000").unwrap();
    let configs = cluster.topic_configs("t").unwrap();
    assert_eq!(configs["max.message.bytes"].value.as_deref(), Some("2000000"));
    assert_eq!(configs["max.message.bytes"].source, "DYNAMIC_TOPIC_CONFIG");
    cluster.unset_topic_config("t", "max.message.bytes").unwrap();
    assert_eq!(cluster.topic_configs("t").unwrap()["max.message.bytes"].source, "DEFAULT_CONFIG");

    cluster.delete_records("t", 0, 40).unwrap();
    assert_eq!(cluster.offsets("t", At::Earliest).unwrap(), [40, 0, 0, 0]);
    assert_eq!(cluster.drain("t").unwrap(), [60, 0, 0, 0]);

    let id = grown.topic_id;
    cluster.delete_topic("t").unwrap();
    assert!(cluster.describe_topic("t").unwrap().is_none());
    assert_ne!(cluster.create_topic(&Topic::new("t")).unwrap().topic_id, id);
}

#[test]
fn group_offsets_are_committed_and_listed() {
    let cluster = Cluster::single().unwrap();
    cluster.create_topic(&Topic::new("t")).unwrap();
    let offset = testbed::admin::GroupOffset {
        topic: "t".into(),
        partition: 0,
        offset: 7,
        metadata: String::new(),
    };
    cluster.commit_offsets("readers", std::slice::from_ref(&offset)).unwrap();

    assert_eq!(cluster.group_offsets("readers").unwrap(), [offset]);
    assert!(cluster.groups().unwrap().iter().any(|group| group.group == "readers"));
    cluster.delete_group("readers").unwrap();
    assert!(cluster.groups().unwrap().iter().all(|group| group.group != "readers"));
}

#[test]
fn the_same_seed_gives_the_same_records_and_another_seed_others() {
    let (one, two) = (Cluster::single().unwrap(), Cluster::single().unwrap());
    for cluster in [&one, &two] {
        for topic in ["same", "other"] {
            cluster.create_topic(&Topic::new(topic).partitions(4)).unwrap();
        }
    }
    let fill = |topic| Fill::new(topic, 2_000).motley().seed(42);
    one.fill(&fill("same")).unwrap();
    // Another codec, other batches, more producers: how it is written is not what is written.
    two.fill(&fill("same").codec(Codec::Zstd).batches(100_000, 20).producers(2)).unwrap();
    one.fill(&fill("other")).unwrap();
    two.fill(&fill("other").seed(43)).unwrap();

    Comparison::new(&one, "same", &two, "same").must_be_same().unwrap();
    assert!(!Comparison::new(&one, "other", &two, "other").run().unwrap().same);
}

#[test]
fn an_open_transaction_hides_what_follows_it() {
    let cluster = Cluster::single().unwrap();
    cluster.create_topic(&Topic::new("t")).unwrap();
    cluster.fill(&Fill::new("t", 10)).unwrap();
    let filled = cluster.fill(&Fill::new("t", 5).transactions(10, 0).leave_open()).unwrap();
    cluster.fill(&Fill::new("t", 10)).unwrap();

    assert_eq!((filled.records, filled.open), (0, 5));
    assert_eq!(cluster.offsets("t", At::Latest).unwrap(), [25]);
    assert_eq!(cluster.offsets("t", At::Stable).unwrap(), [10]);
    assert_eq!(cluster.drain("t").unwrap(), [10]);
}

#[test]
fn each_codec_reaches_the_log_as_asked() {
    let cluster = Cluster::single().unwrap();
    let mut sizes = Vec::new();
    for codec in Codec::ALL {
        let topic = format!("c-{}", codec.as_str());
        cluster.create_topic(&Topic::new(&topic)).unwrap();
        cluster.fill(&Fill::new(&topic, 5_000).codec(codec).batches(64_000, 100)).unwrap();
        let log = cluster.nodes()[0].partition_dir(&topic, 0).join("00000000000000000000.log");
        // Low three bits of the attributes (byte 22) of the first batch.
        let id = fs::read(log).unwrap()[22] & 0b111;
        assert_eq!(usize::from(id), sizes.len(), "{topic}");
        sizes.push(cluster.log_size(&topic).unwrap());
    }
    assert!(sizes[1..].iter().all(|size| *size < sizes[0]), "nothing was compressed: {sizes:?}");
}

// What follows runs `#[ignore]`d bodies of this very file in another process, and ends that process in bad ways.

fn body(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", name, "--nocapture"]);
    command
}

/// Processes whose environment or command line names the folder of the process `owner`.
fn processes_of(owner: u32) -> Vec<u32> {
    let folder = format!("heliograph-testbed-{owner}/");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let Ok(pid) = entry.unwrap().file_name().to_string_lossy().parse::<u32>() else { continue };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&folder) {
            found.push(pid);
        }
    }
    found
}

fn await_none(owner: u32) {
    let begun = Instant::now();
    let folder = std::env::temp_dir().join(format!("heliograph-testbed-{owner}"));
    while !processes_of(owner).is_empty() || folder.join("00-kafka-4.3.1/data").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "10 s after the end of {owner} there are {:?} and {}",
            processes_of(owner),
            folder.display()
        );
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[ignore = "a body for the tests below"]
fn body_that_waits() {
    let _cluster = ClusterSpec::new(Version::V4_3_1).start().unwrap();
    println!("\nready");
    thread::sleep(SOON);
}

#[test]
#[ignore = "a body for the tests below"]
fn body_that_panics() {
    let _cluster = ClusterSpec::new(Version::V4_3_1).start().unwrap();
    panic!("on purpose");
}

fn await_ready(child: &mut std::process::Child) {
    use std::io::{BufRead, BufReader};
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "the body ended early");
}

#[test]
fn no_broker_outlives_a_test_process_that_is_killed() {
    let mut child = body("body_that_waits").stdout(Stdio::piped()).spawn().unwrap();
    await_ready(&mut child);
    assert!(!processes_of(child.id()).is_empty(), "the check itself sees no broker");

    child.kill().unwrap();
    child.wait().unwrap();

    await_none(child.id());
    assert!(!std::env::temp_dir().join(format!("heliograph-testbed-{}", child.id())).exists());
}

#[test]
fn no_broker_outlives_ctrl_c() {
    let mut child = body("body_that_waits").stdout(Stdio::piped()).spawn().unwrap();
    await_ready(&mut child);
    assert!(!processes_of(child.id()).is_empty(), "the check itself sees no broker");

    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    child.wait().unwrap();

    await_none(child.id());
}

#[test]
fn no_broker_outlives_a_panic_and_its_log_stays() {
    let child =
        body("body_that_panics").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let owner = child.id();
    let output = child.wait_with_output().unwrap();

    let said = String::from_utf8_lossy(&output.stderr);
    let folder = std::env::temp_dir().join(format!("heliograph-testbed-{owner}"));
    assert!(!output.status.success());
    await_none(owner);
    assert!(said.contains(&format!("logs of this run are kept in {}", folder.display())), "{said}");
    assert!(folder.join("00-kafka-4.3.1/node-1.log").exists());
    fs::remove_dir_all(folder).unwrap();
}
