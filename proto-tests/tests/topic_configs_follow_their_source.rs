//! What is set on a source topic is set on its replica; what was made by hand there stays.
//!
//! Beside our own rules stand the configs that a real MM2 4.3.1 left on its target
//! (`golden/mm2`), which MM2's mode must give to the last entry.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use heliograph::model::{ConfigChange, ConfigEntry, ConfigSource};
use heliograph::policy::{ConfigFilter, ConfigMode, ConfigRules, NameList, Owned};
use proptest::prelude::*;
use serde_json::Value;

/// MM2's default of `config.properties.exclude`.
const EXCLUDED: [&str; 8] = [
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "message.timestamp.difference.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.timestamp.type",
    "unclean.leader.election.enable",
    "min.insync.replicas",
];

fn rules(mode: ConfigMode) -> ConfigRules {
    let exclude = NameList::new(&EXCLUDED).expect("patterns");
    ConfigRules { filter: ConfigFilter { exclude }, source_defaults: false, mode }
}

fn golden(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/mm2").join(file);
    serde_json::from_slice(&fs::read(path).expect(file)).expect(file)
}

fn entry(name: &str, value: &str, source: ConfigSource) -> ConfigEntry {
    let (name, value) = (name.to_owned(), Some(value.to_owned()));
    ConfigEntry { name, value, source, read_only: false, sensitive: false }
}

/// A config that is set on the topic itself.
fn set(name: &str, value: &str) -> ConfigEntry {
    entry(name, value, ConfigSource::Topic)
}

/// A config that nobody has set.
fn unset(name: &str) -> ConfigEntry {
    entry(name, "the default", ConfigSource::Default)
}

fn to(name: &str, value: &str) -> ConfigChange {
    ConfigChange { name: name.into(), value: Some(value.into()) }
}

fn away(name: &str) -> ConfigChange {
    ConfigChange { name: name.into(), value: None }
}

fn owned(values: &[(&str, &[&str])]) -> Owned {
    let one = |(name, values): &(&str, &[&str])| {
        ((*name).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
    };
    values.iter().map(one).collect()
}

/// All configs of the recorded topic `many` before MM2 started.
fn many() -> Vec<ConfigEntry> {
    let lines = golden("default-policy/source-many-configs.json");
    let one = |line: &Value| ConfigEntry {
        name: line["name"].as_str().expect("a name").to_owned(),
        value: line["value"].as_str().map(str::to_owned),
        source: match line["source"].as_str() {
            Some("DYNAMIC_TOPIC_CONFIG") => ConfigSource::Topic,
            Some("DEFAULT_CONFIG") => ConfigSource::Default,
            other => panic!("{other:?}"),
        },
        read_only: line["read_only"] == true,
        sensitive: line["sensitive"] == true,
    };
    lines.as_array().expect("lines").iter().map(one).collect()
}

fn own_configs(file: &str, topic: &str) -> BTreeMap<String, String> {
    let topics = golden(file);
    let lines = topics.as_array().expect("topics");
    let line = lines.iter().find(|line| line["topic"] == topic).expect("the topic");
    let configs = line["configs"].as_object().expect("configs").iter();
    configs.map(|(name, value)| (name.clone(), value.as_str().expect("text").to_owned())).collect()
}

/// What a topic with these own configs is described as, beside a source with the entries `like`.
fn described(own: &BTreeMap<String, String>, like: &[ConfigEntry]) -> Vec<ConfigEntry> {
    like.iter()
        .map(|entry| {
            own.get(&entry.name).map_or_else(|| unset(&entry.name), |value| set(&entry.name, value))
        })
        .collect()
}

fn carry_out(own: &mut BTreeMap<String, String>, changes: &[ConfigChange]) {
    for change in changes {
        match &change.value {
            Some(value) => drop(own.insert(change.name.clone(), value.clone())),
            None => drop(own.remove(&change.name)),
        }
    }
}

#[test]
fn a_new_replica_gets_the_configs_that_the_recorded_mm2_gave_it() {
    for (run, topic, source_defaults) in
        [("default-policy", "A.many", false), ("identity-target", "many", true)]
    {
        let rules = ConfigRules { source_defaults, ..rules(ConfigMode::Mm2) };
        let new = rules.at_creation(many(), None);

        let mut expected = own_configs(&format!("{run}/topics-target.json"), topic);
        if run == "default-policy" {
            // Changed after the creation, on both sides.
            expected.insert("retention.ms".into(), "864000000".into());
            expected.insert("flush.ms".into(), "6000".into());
            expected.remove("min.insync.replicas");
        }
        assert_eq!(new.configs, expected, "{run}");
        assert_eq!((new.unknown.len(), new.unclear.len()), (0, 0));
    }
}

/// The third stage of the recorded run, step by step.
#[test]
fn in_mm2_mode_the_target_ends_up_as_the_recorded_mm2_left_it() {
    let rules = rules(ConfigMode::Mm2);
    let mut source = many();
    let mut target = rules.at_creation(source.clone(), None).configs;

    for entry in &mut source {
        match entry.name.as_str() {
            "retention.ms" => entry.value = Some("111000".into()),
            "flush.ms" => *entry = unset("flush.ms"),
            _ => {}
        }
    }
    target.insert("segment.ms".into(), "7777777".into());
    target.insert("min.insync.replicas".into(), "1".into());
    let plan = rules.plan(&source, &described(&target, &source), &Owned::new());
    let changes = [away("flush.ms"), to("retention.ms", "111000"), to("segment.ms", "3600000")];
    assert_eq!(plan.changes, changes);
    assert_eq!((plan.owned.len(), plan.drift.len()), (0, 0));
    carry_out(&mut target, &plan.changes);
    assert_eq!(target, own_configs("default-policy/target-configs-after-sync.json", "A.many"));

    // The other topic: nothing set on the source, one config by hand on the target.
    let source: Vec<_> = many().iter().map(|entry| unset(&entry.name)).collect();
    let mut target = BTreeMap::from([("retention.ms".to_owned(), "12345678".to_owned())]);
    let plan = rules.plan(&source, &described(&target, &source), &Owned::new());
    carry_out(&mut target, &plan.changes);
    assert_eq!(target, own_configs("default-policy/target-configs-after-sync.json", "A.orders"));
    // What is as it should be is not sent again.
    let plan = rules.plan(&source, &described(&target, &source), &Owned::new());
    assert_eq!(plan.changes, []);
}

/// Every case of one config: what the source wants, what the target has, what of it is ours.
#[test]
fn what_we_set_follows_the_source_and_what_was_made_by_hand_stays() {
    const NAME: &str = "retention.ms";
    type Case<'a> = (
        &'a str,
        Option<&'a str>,
        Option<&'a str>,
        &'a [&'a str],
        (Option<ConfigChange>, &'a [&'a str], bool),
    );
    let cases: [Case<'_>; 12] = [
        ("nothing anywhere", None, None, &[], (None, &[], false)),
        ("taken away here and there", None, None, &["1"], (None, &[], false)),
        ("new", Some("1"), None, &[], (Some(to(NAME, "1")), &["1"], false)),
        ("as it should be", Some("1"), Some("1"), &["1"], (None, &["1"], false)),
        ("taken over", Some("1"), Some("1"), &[], (None, &["1"], false)),
        ("changed", Some("2"), Some("1"), &["1"], (Some(to(NAME, "2")), &["2", "1"], false)),
        (
            "killed after the note",
            Some("2"),
            Some("1"),
            &["2", "1"],
            (Some(to(NAME, "2")), &["2", "1"], false),
        ),
        (
            "killed after the change",
            Some("3"),
            Some("2"),
            &["2", "1"],
            (Some(to(NAME, "3")), &["3", "2"], false),
        ),
        ("removed on the source", None, Some("1"), &["1"], (Some(away(NAME)), &["1"], false)),
        ("by hand", None, Some("7"), &[], (None, &[], true)),
        ("ours, changed by hand", Some("1"), Some("7"), &["1"], (None, &[], true)),
        ("removed by hand", Some("1"), None, &["1"], (Some(to(NAME, "1")), &["1"], false)),
    ];
    for (case, source, target, ours, (change, owns, drift)) in cases {
        let told = |value: Option<&str>| [value.map_or_else(|| unset(NAME), |v| set(NAME, v))];
        let ours = if ours.is_empty() { Owned::new() } else { owned(&[(NAME, ours)]) };
        let plan = rules(ConfigMode::Owned).plan(&told(source), &told(target), &ours);

        assert_eq!(plan.changes, change.into_iter().collect::<Vec<_>>(), "{case}");
        let owns = if owns.is_empty() { Owned::new() } else { owned(&[(NAME, owns)]) };
        assert_eq!(plan.owned, owns, "{case}");
        assert_eq!(!plan.drift.is_empty(), drift, "{case}");
    }
}

#[test]
fn values_of_brokers_become_explicit_but_for_those_in_their_files() {
    let target = [unset("a"), unset("b"), unset("c"), set("d", "by hand"), unset("e")];
    let source = [
        entry("a", "1", ConfigSource::DynamicBroker),
        entry("b", "2", ConfigSource::DynamicDefaultBroker),
        entry("c", "3", ConfigSource::StaticBroker),
        entry("d", "4", ConfigSource::StaticBroker),
        ConfigEntry { read_only: true, ..set("e", "5") },
    ];
    for mode in [ConfigMode::Owned, ConfigMode::Mm2] {
        let plan = rules(mode).plan(&source, &target, &Owned::new());
        assert_eq!(plan.changes, [to("a", "1"), to("b", "2")], "{mode:?}");
    }
    // But what we had set goes when the source's topic has it from a file again.
    let plan = rules(ConfigMode::Owned).plan(
        &source,
        &[set("c", "9"), set("d", "by hand")],
        &owned(&[("c", &["9"])]),
    );
    assert_eq!(plan.changes, [away("c")]);
    assert_eq!(plan.drift.len(), 1);
    assert_eq!(plan.drift[0].to_string(), "d=by hand (source: not set)");
}

#[test]
fn what_the_target_does_not_know_is_left_out_and_named() {
    let source = [set("new.one", "1"), unset("new.default"), set("flush.ms", "2")];
    let known = BTreeSet::from(["flush.ms".to_owned()]);

    let new = rules(ConfigMode::Owned).at_creation(source.to_vec(), Some(&known));
    assert_eq!(new.unknown, ["new.one"]);
    assert_eq!(new.configs.keys().collect::<Vec<_>>(), ["flush.ms"]);

    let plan = rules(ConfigMode::Owned).plan(&source, &[unset("flush.ms")], &Owned::new());
    assert_eq!(plan.unknown, ["new.one"]);
    assert_eq!(plan.changes, [to("flush.ms", "2")]);
}

fn values() -> impl Strategy<Value = BTreeMap<String, String>> {
    let name = prop::sample::select(vec!["a", "b", "c", "min.insync.replicas"]);
    let value = prop::sample::select(vec!["1", "2", "3"]);
    prop::collection::btree_map(name.prop_map(str::to_owned), value.prop_map(str::to_owned), 0..4)
}

proptest! {
    /// Whatever both sides have: carried out once, nothing is left to do; and a process that
    /// dies at any step ends up in the same place.
    #[test]
    fn a_plan_that_is_carried_out_leaves_nothing_to_do(
        source in prop::collection::vec(values(), 1..5),
        by_hand in values(),
        mm2 in any::<bool>(),
        dies_at in 0_usize..5,
        noted in any::<bool>(),
    ) {
        let rules = rules(if mm2 { ConfigMode::Mm2 } else { ConfigMode::Owned });
        let like = ["a", "b", "c", "min.insync.replicas"].map(unset);
        let run = |dies_at: Option<usize>| {
            let (mut target, mut ours) = (by_hand.clone(), Owned::new());
            for (step, source) in source.iter().enumerate() {
                let source = described(source, &like);
                let plan = rules.plan(&source, &described(&target, &like), &ours);
                if dies_at == Some(step) {
                    // The note goes first; the change may get lost, or not.
                    if noted {
                        ours = plan.owned;
                    } else {
                        continue;
                    }
                    let again = rules.plan(&source, &described(&target, &like), &ours);
                    carry_out(&mut target, &again.changes);
                    ours = again.owned;
                    continue;
                }
                carry_out(&mut target, &plan.changes);
                ours = plan.owned;
                let after = rules.plan(&source, &described(&target, &like), &ours);
                prop_assert_eq!(after.changes, []);
            }
            Ok((target, ours))
        };
        let (target, _) = run(None)?;
        // What is excluded is never touched.
        let excluded = "min.insync.replicas";
        prop_assert_eq!(target.get(excluded), by_hand.get(excluded));
        let last = source.last().expect("a step");
        let same = |target: &BTreeMap<String, String>| {
            let plan = rules.plan(&described(last, &like), &described(target, &like), &Owned::new());
            plan.changes.is_empty()
        };
        prop_assert!(same(&target));
        if noted && dies_at < source.len() {
            prop_assert_eq!(run(Some(dies_at))?.0, target);
        }
    }
}
