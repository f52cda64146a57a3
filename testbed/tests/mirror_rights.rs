//! With exactly the rights of the table everything works; without one of them exactly what the table says rests, is named
//! with the command that grants it, and comes back without a restart once that is granted.
//!
//! One flow for each row, with users, topics and groups of its own, all in one process on one pair of clusters. The rights
//! are those of `heliograph::policy::RIGHTS`, and what is granted later is what the program itself says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::collections::BTreeSet;
use std::time::Duration;

use heliograph::model::AclOperation;
use heliograph::policy::{Feature, RIGHTS, Right, Thing};
use serde_json::Value;
use testbed::admin::{At, GroupOffset, Rule, Topic};
use testbed::cluster::{Cluster, ClusterSpec};
use testbed::events::{Metrics, get};
use testbed::fill::Fill;
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, check, eventually};
use testbed::ports;
use testbed::version::Version;

const WAIT: Duration = Duration::from_secs(90);

const RECORDS: u64 = 100;

/// What changes on the source once topics are mirrored.
const RETENTION: [&str; 2] = ["7000000", "8000000"];

/// What a right's lack shows at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// A flow that starts for the first time.
    AtFirst,
    /// A flow whose topics there are, at its next start.
    AtRestart,
    /// A source topic that grows.
    AtGrowth,
    /// Topics that nobody has made yet: `heartbeats` is everybody's, so a flow that lacks both rights to make it comes
    /// before all others.
    BeforeAll,
}

/// What rests together with a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rests {
    /// What the table names.
    Alone,
    /// And what needs copied records.
    Copying,
    /// And what needs the topic on the target.
    Topic,
}

fn shows(right: &Right) -> Shows {
    match (right.on, right.operation) {
        (Thing::Heartbeats | Thing::HeartbeatsBack, AclOperation::CREATE) => Shows::BeforeAll,
        (Thing::Replicas, AclOperation::ALTER) => Shows::AtGrowth,
        (
            Thing::SourceOffsets
            | Thing::Positions
            | Thing::OffsetMap
            | Thing::Owned
            | Thing::OwnedAcls
            | Thing::Checkpoints
            | Thing::OffsetSyncs,
            AclOperation::READ,
        ) => Shows::AtRestart,
        _ => Shows::AtFirst,
    }
}

fn rests(right: &Right) -> Rests {
    match (right.on, right.operation) {
        (Thing::Topics, _) | (Thing::Replicas, AclOperation::CREATE) => Rests::Topic,
        (Thing::Replicas, AclOperation::WRITE)
        | (Thing::SourceOffsets | Thing::Positions, AclOperation::CREATE)
        | (Thing::Positions, AclOperation::WRITE) => Rests::Copying,
        _ => Rests::Alone,
    }
}

/// What can be seen to work from outside.
const SEEN: [Feature; 11] = [
    Feature::Topics,
    Feature::DataRead,
    Feature::DataWrite,
    Feature::Progress,
    Feature::OffsetMap,
    Feature::Configs,
    Feature::Acls,
    Feature::OffsetSyncs,
    Feature::Checkpoints,
    Feature::GroupOffsets,
    Feature::Heartbeats,
];

/// One flow, which lacks `lacks`.
struct Cell {
    number: usize,
    lacks: Vec<&'static Right>,
}

impl Cell {
    fn name(&self) -> String {
        let lacks = self.lacks.iter().map(|one| format!("{} on {:?}", one.operation, one.on));
        format!("without {}", lacks.collect::<Vec<_>>().join(", "))
    }

    fn source(&self) -> String {
        format!("s{}", self.number)
    }

    fn target(&self) -> String {
        format!("t{}", self.number)
    }

    fn topic(&self) -> String {
        format!("data{}", self.number)
    }

    fn replica(&self) -> String {
        format!("{}.{}", self.source(), self.topic())
    }

    fn group(&self) -> String {
        format!("group{}", self.number)
    }

    fn own(&self, what: &str) -> String {
        format!("mm2-{what}.{}.internal", self.source())
    }

    /// The resource of a right in this flow: type and name.
    fn resource(&self, thing: Thing) -> (&'static str, String) {
        match thing {
            Thing::Topics => ("TOPIC", self.topic()),
            Thing::SourceGroups | Thing::TargetGroups => ("GROUP", self.group()),
            Thing::SourceCluster | Thing::TargetCluster => ("CLUSTER", "kafka-cluster".into()),
            Thing::OffsetSyncs => ("TOPIC", format!("mm2-offset-syncs.{}.internal", self.target())),
            Thing::Heartbeats | Thing::HeartbeatsBack => ("TOPIC", "heartbeats".into()),
            // By name: the prefix would bring the rights on the topic of checkpoints along.
            Thing::Replicas => ("TOPIC", self.replica()),
            Thing::SourceOffsets => ("TOPIC", self.own("offsets")),
            Thing::Positions => ("TOPIC", self.own("heliograph-positions")),
            Thing::OffsetMap => ("TOPIC", self.own("heliograph-offset-map")),
            Thing::Owned => ("TOPIC", self.own("heliograph-owned")),
            Thing::OwnedAcls => ("TOPIC", self.own("heliograph-owned-acls")),
            Thing::OwnedAclsBack => {
                ("TOPIC", format!("mm2-heliograph-owned-acls.{}.internal", self.target()))
            }
            Thing::Checkpoints => ("TOPIC", format!("{}.checkpoints.internal", self.source())),
        }
    }

    fn is_on_source(thing: Thing) -> bool {
        thing.side() == heliograph::model::Side::Source
    }

    /// Rules for the source and for the target: the whole table but for what it lacks.
    fn rules(&self) -> (Vec<Rule>, Vec<Rule>) {
        let (mut source, mut target) = (Vec::new(), Vec::new());
        let lacks = |right: &Right| self.lacks.contains(&right);
        for right in RIGHTS.iter().filter(|right| !lacks(right)) {
            let (kind, name) = self.resource(right.on);
            let to = if Self::is_on_source(right.on) { &mut source } else { &mut target };
            to.push((kind, name, right.operation));
        }
        // `heartbeats` of the source is mirrored too.
        for right in RIGHTS {
            match right.on {
                Thing::Topics => source.push(("TOPIC", "heartbeats".into(), right.operation)),
                Thing::Replicas => {
                    let name = format!("{}.heartbeats", self.source());
                    target.push(("TOPIC", name, right.operation));
                }
                _ => {}
            }
        }
        let rule = |user: String| {
            move |(kind, name, operation): (&str, String, AclOperation)| Rule {
                resource_type: kind.into(),
                ..Rule::allow(&name, &format!("User:{user}"), &operation.to_string())
            }
        };
        let source = source.into_iter().map(rule(format!("us{}", self.number))).collect();
        (source, target.into_iter().map(rule(format!("ut{}", self.number))).collect())
    }

    fn write(&self, mut file: FlowFile, clusters: &Pair) -> FlowFile {
        let ends = [
            (self.source(), &clusters.source, format!("us{}", self.number)),
            (self.target(), &clusters.target, format!("ut{}", self.number)),
        ];
        for (alias, cluster, user) in ends {
            file = file
                .cluster(&alias, &cluster.bootstrap_of("SASLP", "127.0.0.1").unwrap())
                .set(format!("{alias}.security.protocol"), "SASL_PLAINTEXT")
                .set(format!("{alias}.sasl.mechanism"), "PLAIN")
                .set(format!("{alias}.sasl.jaas.config"), login(&user))
                .set(format!("{alias}.offset.flush.interval.ms"), "1000");
        }
        let flow = format!("{}->{}", self.source(), self.target());
        file.flow(&self.source(), &self.target())
            .set(format!("{flow}.topics"), self.topic())
            .set(format!("{flow}.groups"), self.group())
    }

    /// What the table says that it lacks: cluster, operation and features.
    fn expected(&self) -> BTreeSet<String> {
        let one = |right: &&Right| {
            let cluster = if Self::is_on_source(right.on) { self.source() } else { self.target() };
            let features: Vec<&str> = right.features.iter().map(|one| one.name()).collect();
            format!("{} at {cluster} for {}", right.operation, features.join(", "))
        };
        self.lacks.iter().map(one).collect()
    }
}

fn login(user: &str) -> String {
    format!(
        "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"{user}\" \
         password=\"pw-{user}\";"
    )
}

struct Pair {
    source: Cluster,
    target: Cluster,
}

impl Pair {
    fn start(cells: usize) -> Self {
        let users = |side: &str| {
            let one = |number| format!("user_u{side}{number}=\"pw-u{side}{number}\"");
            let all: Vec<String> = (0..cells).map(one).collect();
            format!(
                "org.apache.kafka.common.security.plain.PlainLoginModule required {};",
                all.join(" ")
            )
        };
        let spec = |side| {
            ClusterSpec::new(Version::V4_3_1)
                .with_authorizer()
                .set("allow.everyone.if.no.acl.found", "false")
                .listener("SASLP", "SASL_PLAINTEXT")
                .set("sasl.enabled.mechanisms", "PLAIN")
                .set("listener.name.saslp.plain.sasl.jaas.config", users(side))
        };
        let (source, target) = ClusterSpec::start_both(spec("s"), spec("t")).unwrap();
        Self { source, target }
    }

    /// What the flow finds on the source: records, a config, a rule, a group in the middle.
    fn prepare(&self, cell: &Cell) {
        let topic = cell.topic();
        let wanted = Topic::new(&topic).config("retention.ms", RETENTION[0]);
        self.source.create_topic(&wanted).unwrap();
        self.source.fill(&Fill::new(&topic, RECORDS)).unwrap();
        let offset = GroupOffset { topic, partition: 0, offset: 50, metadata: String::new() };
        self.source.commit_offsets(&cell.group(), &[offset]).unwrap();
    }

    fn records(&self, on_source: bool, topic: &str) -> i64 {
        let cluster = if on_source { &self.source } else { &self.target };
        cluster.offsets(topic, At::Latest).map_or(0, |ends| ends.iter().sum())
    }

    fn works(&self, cell: &Cell, feature: Feature, page: &Value) -> bool {
        let (replica, target) = (cell.replica(), &self.target);
        match feature {
            Feature::Topics => {
                let partitions = |cluster: &Cluster, topic: &str| {
                    cluster.describe_topic(topic).unwrap().map_or(0, |found| found.partitions.len())
                };
                partitions(target, &replica) == partitions(&self.source, &cell.topic())
            }
            Feature::DataRead | Feature::DataWrite => {
                self.records(false, &replica) == i64::try_from(RECORDS).unwrap()
            }
            Feature::Progress => {
                self.records(false, &cell.own("offsets")) > 0
                    && self.records(false, &cell.own("heliograph-positions")) > 0
            }
            Feature::OffsetMap => self.records(false, &cell.own("heliograph-offset-map")) > 0,
            Feature::Configs => {
                let configs = target.own_configs(&replica).unwrap_or_default();
                configs.get("retention.ms").is_some_and(|value| value == RETENTION[1])
            }
            Feature::Acls => {
                target.acls().unwrap().contains(&Rule::allow(&replica, "User:alice", "READ"))
            }
            Feature::OffsetSyncs => self.records(true, &cell.resource(Thing::OffsetSyncs).1) > 0,
            Feature::Checkpoints => self.records(false, &cell.resource(Thing::Checkpoints).1) > 0,
            Feature::GroupOffsets => {
                let offsets = target.group_offsets(&cell.group()).unwrap_or_default();
                offsets.iter().any(|one| one.topic == replica && one.offset == 50)
            }
            Feature::Heartbeats => {
                let pairs = page["heartbeats"].as_array().unwrap();
                let mine = pairs.iter().filter(|pair| {
                    [pair["source"].as_str(), pair["target"].as_str()]
                        .contains(&Some(cell.source().as_str()))
                });
                let well = |pair: &Value| {
                    pair["round"]["outcome"] == "done" && pair["round"]["runs"].as_u64() >= Some(2)
                };
                mine.clone().count() == 2 && mine.into_iter().all(well)
            }
            Feature::Resume | Feature::TakeOver => true,
        }
    }

    /// Carries out a command as the program prints it.
    fn grant(&self, command: &str) {
        let value = |option: &str| -> Option<String> {
            let (_, rest) = command.split_once(&format!("--{option} "))?;
            Some(rest.split_whitespace().next()?.trim_matches('\'').to_owned())
        };
        let server = value("bootstrap-server").unwrap();
        let at_source = self.source.bootstrap_of("SASLP", "127.0.0.1").unwrap() == server;
        let cluster = if at_source { &self.source } else { &self.target };
        let (kind, name) = if command.contains("--cluster") {
            ("CLUSTER", "kafka-cluster".to_owned())
        } else if let Some(group) = value("group") {
            ("GROUP", group)
        } else {
            ("TOPIC", value("topic").unwrap())
        };
        let mut rule = Rule::allow(&name, &value("allow-principal").unwrap(), "ANY");
        rule.resource_type = kind.into();
        if let Some(pattern) = value("resource-pattern-type") {
            rule.pattern = pattern.to_ascii_uppercase();
        }
        for part in command.split("--operation ").skip(1) {
            let camel = part.split_whitespace().next().unwrap();
            let mut operation = String::new();
            for (at, c) in camel.char_indices() {
                if at > 0 && c.is_ascii_uppercase() {
                    operation.push('_');
                }
                operation.push(c.to_ascii_uppercase());
            }
            cluster.create_acls(&[Rule { operation, ..rule.clone() }]).unwrap();
        }
    }
}

/// What `/status` says that a cell lacks, and the commands.
fn lacking(page: &Value, cell: &Cell) -> (BTreeSet<String>, Vec<String>) {
    let (mut found, mut grants) = (BTreeSet::new(), Vec::new());
    let flows = page["flows"].as_array().unwrap().iter();
    for one in flows.chain(page["heartbeats"].as_array().unwrap()) {
        let ends = [one["source"].as_str().unwrap(), one["target"].as_str().unwrap()];
        if !ends.contains(&cell.source().as_str()) {
            continue;
        }
        for right in one["missing_rights"]["first"].as_array().unwrap() {
            found.insert(words(right));
            grants.push(right["grant"].as_str().unwrap().to_owned());
        }
    }
    (found, grants)
}

fn words(right: &Value) -> String {
    let features = right["features"].as_array().unwrap();
    let features: Vec<&str> = features.iter().map(|one| one.as_str().unwrap()).collect();
    let (operation, cluster) =
        (right["operation"].as_str().unwrap(), right["cluster"].as_str().unwrap());
    format!("{operation} at {cluster} for {}", features.join(", "))
}

/// What `check --json` says that a cell lacks: cluster and operation.
fn checked_lacks(page: &Value, cell: &Cell) -> BTreeSet<String> {
    let flow = page["flows"].as_array().unwrap().iter();
    let flow = flow.filter(|flow| flow["source"] == cell.source().as_str()).collect::<Vec<_>>();
    let rights = flow[0]["rights"].as_array().unwrap_or_else(|| panic!("{}", flow[0]));
    let missing = rights.iter().flat_map(|one| one["missing"].as_array().unwrap());
    let word = |one: &Value| {
        format!("{} at {}", one["operation"].as_str().unwrap(), one["cluster"].as_str().unwrap())
    };
    missing.map(word).collect()
}

struct Stage<'a> {
    pair: &'a Pair,
    mirror: &'a Mirror,
    address: &'a str,
}

impl Stage<'_> {
    fn page(&self) -> Value {
        serde_json::from_str(&get(self.address, "/status").unwrap()).unwrap()
    }

    fn mirror_page(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&get(self.address, "/status")?)?)
    }

    /// Waits until a cell lacks exactly what it should, by `/status`, log and metric.
    fn must_lack(&self, cell: &Cell) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut grants = Vec::new();
        eventually(&format!("{}: it is named", cell.name()), WAIT, self.mirror, || {
            (seen, grants) = lacking(&self.mirror_page()?, cell);
            Ok(seen == cell.expected())
        })
        .unwrap_or_else(|error| panic!("{error:#}\nexpected {:?}, seen {seen:?}", cell.expected()));
        let log = self.mirror.events();
        for grant in &grants {
            let told = log.iter().any(|event| {
                event.message().starts_with("a right is missing")
                    && event.text("grant").as_deref() == Some(grant)
            });
            assert!(told, "{}: the log does not say {grant}", cell.name());
        }
        let metrics = Metrics::parse(&get(self.address, "/metrics").unwrap()).unwrap();
        for right in &cell.lacks {
            for feature in right.features {
                // Heartbeats of the way back are those of the other pair.
                let back = right.on == Thing::HeartbeatsBack;
                let (source, target) = if back {
                    (cell.target(), cell.source())
                } else {
                    (cell.source(), cell.target())
                };
                let labels = [
                    ("source", source.as_str()),
                    ("target", target.as_str()),
                    ("feature", feature.name()),
                ];
                let value = metrics.sum("heliograph_missing_rights", &labels).unwrap_or(0.0);
                assert!(value >= 1.0, "{}: {feature} is {value}", cell.name());
            }
        }
        grants
    }

    fn must_work(&self, cell: &Cell, features: &[Feature]) {
        let mut left = Vec::new();
        eventually(&format!("{}: what it may works", cell.name()), WAIT, self.mirror, || {
            let page = self.mirror_page()?;
            left = features.to_vec();
            left.retain(|one| !self.pair.works(cell, *one, &page));
            Ok(left.is_empty())
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{left:?} do not work"));
    }

    /// Everything that does not need what is lacking works, and what needs it does not.
    fn must_rest(&self, cell: &Cell) {
        let mut resting: BTreeSet<Feature> = BTreeSet::new();
        for right in &cell.lacks {
            resting.extend(right.features);
            let copying = [
                Feature::DataRead,
                Feature::DataWrite,
                Feature::Progress,
                Feature::OffsetMap,
                Feature::OffsetSyncs,
                Feature::Checkpoints,
                Feature::GroupOffsets,
            ];
            match rests(right) {
                Rests::Alone => {}
                Rests::Copying => resting.extend(copying),
                Rests::Topic => {
                    resting.extend(copying);
                    resting.extend([Feature::Topics, Feature::Configs]);
                }
            }
        }
        let others: Vec<Feature> =
            SEEN.into_iter().filter(|feature| !resting.contains(feature)).collect();
        self.must_work(cell, &others);
        let page = self.page();
        for right in &cell.lacks {
            for feature in right.features.iter().filter(|feature| SEEN.contains(feature)) {
                assert!(!self.pair.works(cell, *feature, &page), "{}: {feature}", cell.name());
            }
        }
    }

    fn must_be_well(&self, cell: &Cell) {
        self.must_work(cell, &SEEN);
        eventually(&format!("{}: nothing is missing", cell.name()), WAIT, self.mirror, || {
            Ok(lacking(&self.mirror_page()?, cell).0.is_empty())
        })
        .unwrap();
    }
}

#[test]
fn each_right_of_the_table_is_needed_for_what_it_says_and_all_of_them_are_enough() {
    // One cell lacks nothing.
    let mut lacks: Vec<Vec<&Right>> = vec![Vec::new()];
    let first = RIGHTS.iter().filter(|right| shows(right) == Shows::BeforeAll).collect();
    lacks.push(first);
    let others = RIGHTS.iter().filter(|right| shows(right) != Shows::BeforeAll);
    lacks.extend(others.map(|right| vec![right]));
    let cells: Vec<Cell> =
        lacks.into_iter().enumerate().map(|(number, lacks)| Cell { number, lacks }).collect();
    let pair = Pair::start(cells.len());
    let (mut on_source, mut on_target) = (Vec::new(), Vec::new());
    for cell in &cells {
        pair.prepare(cell);
        let (source, target) = cell.rules();
        on_source.extend(source);
        on_source.push(Rule::allow(&cell.topic(), "User:alice", "READ"));
        on_target.extend(target);
    }
    pair.source.create_acls(&on_source).unwrap();
    pair.target.create_acls(&on_target).unwrap();
    let (port, single) = (ports::take().unwrap(), ports::take().unwrap());
    let file = |cells: &[Cell], port: u16| {
        let mut file = FlowFile::of(&[]);
        for cell in cells {
            file = cell.write(file, &pair);
        }
        file = file
            .set("heliograph.http.listen", format!("127.0.0.1:{port}"))
            .set("replication.factor", "1")
            .set("offset.storage.partitions", "1")
            .set("emit.heartbeats.interval.seconds", "2")
            .set("sync.topic.acls.interval.seconds", "2")
            .set("sync.acls.remove.enabled", "true")
            .set("sync.group.offsets.enabled", "true");
        for key in [
            "refresh.topics.interval.seconds",
            "refresh.groups.interval.seconds",
            "emit.checkpoints.interval.seconds",
            "sync.group.offsets.interval.seconds",
            "sync.topic.configs.interval.seconds",
        ] {
            file = file.set(key, "2");
        }
        file
    };

    // A check changes nothing, and knows before topics exist who may not make them.
    let all = file(&cells, port);
    let before = (pair.source.topics().unwrap(), pair.target.topics().unwrap());
    let checked = check(&all, &["--json"]).unwrap();
    assert_eq!(checked.code, Some(3), "{}", checked.err);
    assert_eq!((pair.source.topics().unwrap(), pair.target.topics().unwrap()), before);
    let page: Value = serde_json::from_str(&checked.out).unwrap();
    for cell in &cells {
        let creates = |right: &&&Right| {
            right.operation == AclOperation::CREATE || shows(right) == Shows::BeforeAll
        };
        let known = cell.lacks.iter().filter(creates).map(|right| {
            let at = if Cell::is_on_source(right.on) { cell.source() } else { cell.target() };
            format!("{} at {at}", right.operation)
        });
        let found = checked_lacks(&page, cell);
        assert!(known.clone().all(|one| found.contains(&one)), "{}: {found:?}", cell.name());
    }

    // The flow that may not make `heartbeats`, alone.
    {
        let address = format!("127.0.0.1:{single}");
        let mirror = Mirror::with_events(&file(&cells[1..2], single)).unwrap();
        let stage = Stage { pair: &pair, mirror: &mirror, address: &address };
        let cell = &cells[1];
        std::thread::sleep(Duration::from_secs(1));
        let grants = stage.must_lack(cell);
        pair.source.set_topic_config(&cell.topic(), "retention.ms", RETENTION[1]).unwrap();
        stage.must_rest(cell);
        grants.iter().for_each(|grant| pair.grant(grant));
        stage.must_be_well(cell);
    }

    let address = format!("127.0.0.1:{port}");
    let mut mirror = Mirror::with_events(&all).unwrap();
    let at = |when: Shows| {
        let cells = cells.iter().skip(2);
        cells.filter(move |cell| cell.lacks.iter().any(|right| shows(right) == when))
    };
    {
        let stage = Stage { pair: &pair, mirror: &mirror, address: &address };
        eventually("the page is there", WAIT, &mirror, || Ok(get(&address, "/status").is_ok()))
            .unwrap();
        // Every other flow works: a config that changes on the source arrives.
        stage.must_work(&cells[0], &[Feature::Topics, Feature::DataWrite]);
        // What is made later gets the new config at once.
        for cell in
            cells.iter().filter(|cell| cell.lacks.iter().all(|right| rests(right) != Rests::Topic))
        {
            stage.must_work(cell, &[Feature::Topics]);
        }
        for cell in cells.iter().filter(|cell| cell.number != 1) {
            pair.source.set_topic_config(&cell.topic(), "retention.ms", RETENTION[1]).unwrap();
        }
        stage.must_be_well(&cells[0]);
        let mut grants = Vec::new();
        for cell in at(Shows::AtFirst) {
            grants.extend(stage.must_lack(cell));
            stage.must_rest(cell);
        }
        let checked = check(&all, &["--json"]).unwrap();
        let page: Value = serde_json::from_str(&checked.out).unwrap();
        for cell in at(Shows::AtFirst) {
            let short = |one: String| one.split(" for ").next().unwrap().to_owned();
            let expected: BTreeSet<String> = cell.expected().into_iter().map(short).collect();
            assert_eq!(checked_lacks(&page, cell), expected, "check, {}", cell.name());
        }
        grants.iter().for_each(|grant| pair.grant(grant));
        for cell in at(Shows::AtFirst) {
            stage.must_be_well(cell);
        }
        // What shows only at a start does no harm before.
        for cell in at(Shows::AtRestart) {
            stage.must_be_well(cell);
        }
        for cell in at(Shows::AtGrowth) {
            stage.must_be_well(cell);
            pair.source.add_partitions(&cell.topic(), 2).unwrap();
            let grants = stage.must_lack(cell);
            stage.must_rest(cell);
            grants.iter().for_each(|grant| pair.grant(grant));
            stage.must_be_well(cell);
        }
    }

    mirror.terminate(WAIT).unwrap();
    // MM2's syncs are asked for what is not in a map of ours.
    for cell in at(Shows::AtRestart) {
        if cell.lacks[0].on == Thing::OffsetSyncs {
            pair.target.delete_topic(&cell.own("heliograph-positions")).unwrap();
            pair.target.delete_topic(&cell.own("heliograph-offset-map")).unwrap();
        }
    }
    mirror.launch().unwrap();
    eventually("the page is there", WAIT, &mirror, || Ok(get(&address, "/status").is_ok()))
        .unwrap();
    let stage = Stage { pair: &pair, mirror: &mirror, address: &address };
    let mut grants = Vec::new();
    for cell in at(Shows::AtRestart) {
        grants.extend(stage.must_lack(cell));
    }
    grants.iter().for_each(|grant| pair.grant(grant));
    for cell in &cells {
        eventually(&format!("{}: nothing is missing", cell.name()), WAIT, &mirror, || {
            Ok(lacking(&stage.mirror_page()?, cell).0.is_empty())
        })
        .unwrap();
    }
    eventually("every flow is ready", WAIT, &mirror, || Ok(get(&address, "/readyz").is_ok()))
        .unwrap();

    // With every right, a check has nothing to say.
    let checked = check(&all, &[]).unwrap();
    assert_eq!(checked.code, Some(0), "{}\n{}", checked.out, checked.err);
    assert!(checked.out.ends_with("all is well\n") && !checked.out.contains("missing"));
}
