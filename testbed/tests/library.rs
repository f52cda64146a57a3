//! The crate inside other programs: the examples of `docs/examples`, run on real clusters, and what they say compared
//! with what Java's own `MirrorClient` and `RemoteClusterUtils` say.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use testbed::admin::{GroupOffset, MirrorView, Topic};
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, eventually};
use testbed::scratch::Scratch;

const WAIT: Duration = Duration::from_secs(60);

/// Builds an example and gives its program.
fn example(name: &str) -> PathBuf {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "heliograph", "--example", name])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let of_it = message["target"]["name"] == name;
        message["executable"].as_str().filter(|_| of_it).map(PathBuf::from)
    });
    executables.next_back().unwrap_or_else(|| panic!("no program of {name}"))
}

/// Runs a program; its standard output, once it has ended well.
fn run(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn at(topic: &str, offset: i64) -> GroupOffset {
    GroupOffset { topic: topic.into(), partition: 0, offset, metadata: "here".into() }
}

#[test]
fn the_examples_copy_what_is_there_and_say_what_javas_own_classes_say() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("orders").partitions(3)).unwrap();
    source.create_topic(&Topic::new("late.orders")).unwrap();
    source.fill(&Fill::new("orders", 3_000).partitions([0]).transactions(7, 3)).unwrap();
    source.fill(&Fill::new("orders", 200).first(3_000).partitions([1, 2])).unwrap();
    let flow = FlowFile::both_ways(("s", &source), ("t", &target))
        .short_intervals()
        .set("sync.group.offsets.enabled", "true");
    let scratch = Scratch::new("library").unwrap();
    let file = flow.write(scratch.path(), "mm2.properties").unwrap();
    let file = file.to_str().unwrap();

    // The mirror as a library: it comes to an end by itself.
    let said = run(&example("mirror_until_caught_up"), &[file]);
    assert!(said.contains("s->t: "), "{said}");
    let copied = Comparison::new(&source, "orders", &target, "s.orders").run().unwrap();
    assert!(copied.same, "{copied}");

    // What it left, and what the program makes of it later, as Java sees it.
    source.commit_offsets("billing", &[at("orders", 1_234)]).unwrap();
    source.commit_offsets("audit", &[at("orders", 10), at("late.orders", 0)]).unwrap();
    let mirror = Mirror::heliograph(&flow).unwrap();
    let client = example("failover");
    let groups = ["billing", "audit", "nobody"];
    let mut last = String::new();
    eventually("both say the same", WAIT, &mirror, || {
        let java = target.mirror_client("s", &groups)?;
        let ours = run(&client, &[&[file, "t", "s"][..], &groups].concat());
        let ours: Value = serde_json::from_str(&ours)?;
        last = format!("{java:?}\n{ours}");
        Ok(is_whole(&java) && same(&java, &ours))
    })
    .unwrap_or_else(|error| panic!("{last}\n{error:#}"));
    let ours: Value = serde_json::from_str(&run(&client, &[file, "t", "s", "billing"])).unwrap();
    let remote = ours["remote_topics_of_upstream"].to_string();
    assert!(remote.contains("s.orders") && remote.contains("s.late.orders"), "{ours}");
    assert_eq!(ours["groups"]["billing"][0]["metadata"], "here");

    let refused = Command::new(&client).args([file, "elsewhere", "s"]).output().unwrap();
    assert!(!refused.status.success());
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("elsewhere"), "{why}");
}

/// Whether there is something to compare.
fn is_whole(java: &MirrorView) -> bool {
    let billing = java.groups["billing"].len() == 1 && java.groups["audit"].len() == 2;
    billing && java.groups["nobody"].is_empty() && java.upstream_clusters == ["s"] && java.hops == 1
}

fn same(java: &MirrorView, ours: &Value) -> bool {
    let names = |of: &str| -> Vec<String> { serde_json::from_value(ours[of].clone()).unwrap() };
    let mut groups = java.groups.clone();
    let mut found: std::collections::BTreeMap<String, Vec<GroupOffset>> =
        serde_json::from_value(ours["groups"].clone()).unwrap();
    for offsets in groups.values_mut().chain(found.values_mut()) {
        offsets.sort_by(|one, other| {
            (&one.topic, one.partition).cmp(&(&other.topic, other.partition))
        });
    }
    java.heartbeat_topics == names("heartbeat_topics")
        && java.checkpoint_topics == names("checkpoint_topics")
        && java.upstream_clusters == names("upstream_clusters")
        && java.remote_topics == names("remote_topics")
        && ours["hops"] == java.hops
        && groups == found
}
