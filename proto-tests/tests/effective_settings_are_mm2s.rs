//! Twenty-one properties files mean here what they mean to MM2's own classes.
//!
//! `vectors/Effective.java` asked `MirrorMakerConfig`, `MirrorSourceConfig` and `MirrorCheckpointConfig` of Kafka 4.3.1;
//! `golden/effective` holds the files and the answers. Compared are the maps (clusters, worker, connector, clients) key
//! by key, and what comes of them. What MM2 adds of itself is listed here; where our defaults are others, only values
//! that a file sets are compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use heliograph::config::layers::{Layers, Map, Role};
use heliograph::config::properties::Document;
use heliograph::config::{FlowSettings, SyncsLocation, load};
use heliograph::model::{ClusterAlias, FlowId, Side, TopicName};
use serde_json::Value;

/// What MM2 puts into a map that no line of the file has.
const OF_ITSELF: [(&str, &[&str]); 4] = [
    ("clusters", &[]),
    (
        "worker",
        &[
            "client.id",
            "group.id",
            "offset.storage.topic",
            "config.storage.topic",
            "status.storage.topic",
            "key.converter",
            "value.converter",
            "header.converter",
        ],
    ),
    (
        "connector",
        &["name", "connector.class", "source.cluster.alias", "target.cluster.alias", "enabled"],
    ),
    // Its client ids are looked at below.
    ("client", &["enable.auto.commit", "auto.offset.reset"]),
];

/// Keys that only 3.x knows: 4.x drops them in silence, and they are honoured or named here.
const OF_3X: [&str; 3] = ["topics.blacklist", "groups.blacklist", "use.incremental.alter.configs"];

/// What they decide in `18-blacklists-and-unknown`, as in 3.x: the old name takes the place of the default of the new
/// one. (Topics of MM2 and of brokers are left out by other rules all the same.)
const BY_3X: [&str; 7] = [
    "replicates orders",
    "replicates mm2-x.internal",
    "replicates __hidden",
    "mirrors g",
    "mirrors console-consumer-1",
    "mirrors connect-x",
    "mirrors __g",
];

/// Files that we refuse, and the words of it: clients of one cluster share its connections.
const REFUSED: [(&str, &str); 2] = [
    ("04-client-keys-from-three-levels", "they cannot differ in security.protocol"),
    ("19-cluster-level-of-connector-keys", "they cannot differ in security.protocol"),
];

struct Golden {
    name: String,
    file: Vec<u8>,
    mm2: Value,
}

fn golden() -> Vec<Golden> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/effective");
    let mut all = Vec::new();
    for entry in fs::read_dir(&dir).expect("golden/effective") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|ext| ext == "properties") {
            let json = fs::read(path.with_extension("json")).expect("answers");
            all.push(Golden {
                name: path.file_stem().expect("name").to_string_lossy().into_owned(),
                file: fs::read(&path).expect("file"),
                mm2: serde_json::from_slice(&json).expect("JSON"),
            });
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn flow_id(name: &str) -> FlowId {
    let (source, target) = name.split_once("->").expect("a pair");
    FlowId { source: ClusterAlias::new(source), target: ClusterAlias::new(target) }
}

/// Every key that is not the same, in words.
fn differs(kind: &str, mm2: &Value, ours: &Map<'_>) -> Vec<String> {
    let extras = OF_ITSELF.iter().find(|(of, _)| *of == kind).map_or(&[][..], |(_, keys)| keys);
    let mut mm2: BTreeMap<&str, &str> = mm2
        .as_object()
        .expect("a map")
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str().expect("text")))
        .collect();
    let mut wrong = Vec::new();
    for (key, value) in ours.iter() {
        let theirs = mm2.remove(key);
        let text = value.text();
        let same = match (kind, key, theirs) {
            // The configured id, a bar, and who it is.
            ("client", "client.id", Some(theirs)) => {
                theirs.strip_prefix(text).is_some_and(|rest| rest.starts_with('|'))
            }
            ("connector", key, None) if OF_3X.contains(&key) => true,
            (_, _, theirs) => theirs == Some(text),
        };
        if !same {
            wrong.push(format!("{key}: MM2 {theirs:?}, we {text:?}"));
        }
    }
    for (key, value) in mm2 {
        let generated = kind == "client" && key == "client.id" && value.ends_with("|role");
        if !extras.contains(&key) && !generated {
            wrong.push(format!("{key}: MM2 {value:?}, we nothing"));
        }
    }
    wrong
}

#[test]
fn every_map_holds_what_mm2s_holds() {
    let mut maps = 0;
    let mut wrong = Vec::new();
    for Golden { name, file, mm2 } in golden() {
        let document = Document::parse(&file);
        let layers = Layers::new(&document);
        let mut look = |what: String, kind: &str, mm2: &Value, ours: &Map<'_>| {
            maps += 1;
            wrong.extend(
                differs(kind, mm2, ours).iter().map(|one| format!("{name}: {what}: {one}")),
            );
        };
        for (alias, map) in mm2["clusters"].as_object().expect("clusters") {
            let ours = layers.cluster(&ClusterAlias::new(alias));
            look(format!("cluster {alias}"), "clusters", map, &ours);
        }
        for (pair, maps) in mm2["pairs"].as_object().expect("pairs") {
            let id = flow_id(pair);
            look(format!("{pair} worker"), "worker", &maps["worker"], &layers.worker(&id));
            let connector = layers.connector(&id);
            look(format!("{pair} connector"), "connector", &maps["connector"], &connector);
            for (side, word) in [(Side::Source, "source"), (Side::Target, "target")] {
                for role in Role::ALL {
                    let what = format!("{word}.{}", role.word());
                    let ours = layers.client(&id, side, role);
                    look(format!("{pair} {what}"), "client", &maps[&what], &ours);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(maps > 300, "{maps} maps");
}

/// Negative control: what is missing, too much or another value is seen.
#[test]
fn a_map_that_differs_is_seen() {
    let document = Document::parse(b"A.bootstrap.servers = a\nA.x = 1\nA.y = 2\n");
    let ours = Layers::new(&document).cluster(&ClusterAlias::new("A"));
    let mm2 = |y: &str, z: &str| {
        let text = format!(
            r#"{{"bootstrap.servers":"a","admin.bootstrap.servers":"a","consumer.bootstrap.servers":"a",
               "producer.bootstrap.servers":"a","y":"{y}"{z}}}"#
        );
        serde_json::from_str::<Value>(&text).expect("JSON")
    };
    assert_eq!(differs("clusters", &mm2("2", r#","x":"1""#), &ours), [""; 0]);
    assert_eq!(differs("clusters", &mm2("3", r#","z":"1""#), &ours).len(), 3);
}

#[test]
fn what_comes_of_the_maps_is_what_comes_of_mm2s() {
    let mut wrong = Vec::new();
    let (mut values, mut by_3x, mut refused) = (0, 0, Vec::new());
    for Golden { name, file, mm2 } in golden() {
        let settings = match load(&name, &file, &[]) {
            Ok(settings) => settings,
            Err(problems) => {
                refused.push((name, problems.to_string()));
                continue;
            }
        };
        for flow in &settings.flows {
            let Some(pair) = mm2["pairs"].get(flow.id.to_string()) else { continue };
            for (key, theirs, ours) in typed(flow, pair) {
                values += 1;
                if name == "18-blacklists-and-unknown" && BY_3X.contains(&key.as_str()) {
                    by_3x += usize::from(theirs != ours);
                    continue;
                }
                if theirs != ours {
                    wrong.push(format!("{name}: {}: {key}: MM2 {theirs}, we {ours}", flow.id));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let told: Vec<&String> = refused.iter().map(|(name, _)| name).collect();
    assert_eq!(told, REFUSED.map(|(name, _)| name), "{refused:#?}");
    for ((name, words), (_, part)) in refused.iter().zip(REFUSED) {
        assert!(words.contains(part), "{name}: {words}");
    }
    assert_eq!(by_3x, BY_3X.len());
    assert!(values > 600, "{values} values");
}

/// Name, MM2's value and ours.
fn typed(flow: &FlowSettings, pair: &Value) -> Vec<(String, Value, Value)> {
    let FlowId { source, target } = &flow.id;
    let on_source = flow.offset_syncs.location == SyncsLocation::Source;
    let internal = flow.names.policy.internal();
    let replica = flow.names.policy.remote(source, &TopicName::new("orders"));
    let is_set = |key: &str| pair["connector"].get(key).is_some();
    let seconds = |interval: Option<Duration>| {
        Value::from(
            interval.map_or(-1, |interval| i64::try_from(interval.as_secs()).expect("seconds")),
        )
    };
    let mut ours: Vec<(&str, Value)> = vec![
        ("enabled", flow.enabled.into()),
        (
            "offset-syncs.topic",
            internal.offset_syncs(if on_source { target } else { source }).as_str().into(),
        ),
        ("offset-syncs.topic.location", if on_source { "source" } else { "target" }.into()),
        ("checkpoints.topic", internal.checkpoints(source).as_str().into()),
        ("replica", replica.as_str().into()),
        ("offset.lag.max", flow.offset_syncs.lag_max.into()),
        ("emit.offset-syncs.enabled", flow.offset_syncs.emit.into()),
        ("heartbeats.replication.enabled", flow.heartbeats_replication.into()),
        ("emit.checkpoints", seconds(flow.groups.checkpoints)),
        ("sync.group.offsets", seconds(flow.groups.offsets)),
    ];
    if is_set("replication.factor") {
        ours.push(("replication.factor", flow.replication_factor.map_or(-1, i64::from).into()));
    }
    for (name, key, interval) in [
        ("refresh.topics", "refresh.topics", flow.refresh_topics_interval),
        ("sync.topic.configs", "sync.topic.configs", flow.sync_configs_interval),
        ("sync.topic.acls", "sync.topic.acls", flow.sync_acls_interval),
        ("refresh.groups", "refresh.groups", flow.groups.refresh),
    ] {
        // Ours have other defaults while they are on.
        if interval.is_none() || is_set(&format!("{key}.interval.seconds")) {
            ours.push((name, seconds(interval)));
        }
    }
    let theirs = pair["typed"].as_object().expect("typed values");
    let mut all: Vec<(String, Value, Value)> =
        ours.into_iter().map(|(key, value)| (key.to_owned(), theirs[key].clone(), value)).collect();
    for (key, value) in theirs {
        let Some((verb, name)) = key.split_once(' ') else { continue };
        let ours = match verb {
            "replicates" => flow.topics.accepts(name),
            "mirrors" => flow.groups.filter.accepts(name),
            "copies" => flow.configs.accepts(name),
            _ => continue,
        };
        all.push((key.clone(), value.clone(), ours.expect("a decision").into()));
    }
    all
}
