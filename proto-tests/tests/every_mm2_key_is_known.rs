//! The registry of keys holds every key of MM2's own definitions, with its type and default.
//!
//! `vectors/config-defs` was dumped from the classes of Kafka 4.3.1.

use std::fs;
use std::path::Path;

use heliograph::config::keys::{self, Kind, Scope};

struct Defined {
    name: String,
    kind: Kind,
    default: String,
}

fn defined(file: &str) -> Vec<Defined> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/config-defs").join(file);
    let text = fs::read_to_string(&path).expect(file);
    let rows: Vec<Defined> = text
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let kind = match cells[1] {
                "BOOLEAN" => Kind::Boolean,
                "SHORT" => Kind::Short,
                "INT" => Kind::Int,
                "LONG" => Kind::Long,
                "DOUBLE" => Kind::Double,
                "STRING" => Kind::String,
                "LIST" => Kind::List,
                "CLASS" => Kind::Class,
                "PASSWORD" => Kind::Password,
                other => panic!("type {other} in {file}"),
            };
            let default = match cells[2] {
                "(required)" | "(null)" | "(empty string)" | "(empty list)" => String::new(),
                default => default.replace("\\\\", "\\"),
            };
            Defined { name: cells[0].to_owned(), kind, default }
        })
        .collect();
    assert!(!rows.is_empty(), "{file} is empty");
    rows
}

/// Keys of `file` without a row in one of `scopes` that has their type and default.
fn missing(file: &str, scopes: &[Scope]) -> Vec<String> {
    let fits = |key: &Defined| {
        scopes.iter().filter_map(|scope| keys::find(*scope, &key.name)).any(|row| {
            row.name.ends_with('*') || (row.kind == key.kind && row.default == key.default)
        })
    };
    defined(file).iter().filter(|key| !fits(key)).map(|key| key.name.clone()).collect()
}

const FLOW: &[Scope] = &[Scope::Flow, Scope::FlowOnly, Scope::Cluster, Scope::Process];
const WORKER: &[Scope] = &[Scope::WorkerFromTop, Scope::Worker, Scope::Cluster, Scope::Process];

#[test]
fn each_key_of_the_driver_has_a_row() {
    let none: [&str; 0] = [];
    assert_eq!(missing("mirror-maker.tsv", &[Scope::Process, Scope::Cluster]), none);
}

#[test]
fn each_key_of_the_connectors_and_their_filters_has_a_row() {
    let none: [&str; 0] = [];
    for file in [
        "mirror-connector-base.tsv",
        "mirror-source.tsv",
        "mirror-checkpoint.tsv",
        "mirror-heartbeat.tsv",
        "mirror-source-task.tsv",
        "mirror-checkpoint-task.tsv",
        "mirror-topic-filter.tsv",
        "mirror-group-filter.tsv",
        "mirror-config-property-filter.tsv",
        "mirror-client.tsv",
        "connect-source-connector.tsv",
    ] {
        assert_eq!(missing(file, FLOW), none, "{file}");
    }
}

#[test]
fn each_key_of_the_client_key_set_has_a_row_and_no_other_key_is_in_it() {
    let none: [&str; 0] = [];
    assert_eq!(missing("mirror-client-key-set.tsv", &[Scope::Cluster]), none);

    let set: Vec<String> =
        defined("mirror-client-key-set.tsv").into_iter().map(|key| key.name).collect();
    for row in keys::all().filter(|row| row.scope == Scope::Cluster) {
        assert!(set.iter().any(|name| name == row.name), "{}", row.name);
    }
}

#[test]
fn each_key_of_the_worker_has_a_row() {
    let none: [&str; 0] = [];
    assert_eq!(missing("connect-distributed.tsv", WORKER), none);
}

#[test]
fn each_key_of_the_clients_has_a_row() {
    let none: [&str; 0] = [];
    for (file, role) in [
        ("client-consumer.tsv", Scope::Consumer),
        ("client-producer.tsv", Scope::Producer),
        ("client-admin.tsv", Scope::Admin),
    ] {
        let mut missing = missing(file, &[role, Scope::Cluster]);
        // An admin client may do without bootstrap servers, so its default differs.
        missing.retain(|name| name != "bootstrap.servers");
        assert_eq!(missing, none, "{file}");
    }
}

/// Negative control: a key that is known only elsewhere is found missing.
#[test]
fn a_key_in_the_wrong_scope_counts_as_missing() {
    assert!(missing("mirror-source.tsv", &[Scope::Worker]).contains(&"topics".to_owned()));
}
