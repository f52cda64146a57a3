//! Puts settings together: one pass over the file, all problems at once.

use std::collections::BTreeMap;
use std::time::Duration;

use super::groups;
use super::keys::{self, Scope};
use super::layers::{Layered, Layers, Map, Role};
use super::lint::{self, Names};
use super::names;
use super::problems::{Part, Problem, Problems};
use super::properties::Document;
use super::providers::{self, Filled};
use super::read::Reader;
use super::security;
use super::settings::{
    AclSettings, Backoff, ClusterSettings, DefaultsFrom, ExistingRecordsPolicy, FlowSettings,
    GapPolicy, HeartbeatSettings, Isolation, MirrorSettings, OffsetReset, OversizePolicy,
    ProcessSettings, RecreatePolicy, TruncationPolicy, VerifyCrc,
};
use super::storage::offset_storage;
use super::times;
use crate::model::{ClusterAlias, FlowId, Side};
use crate::policy::{ConfigFilter, ConfigMode, Origins, PolicyKind};

/// Fetched records in memory unless the file says otherwise: 16 MiB.
const MEMORY_BYTES: u64 = 16_777_216;

/// How often new topics are looked for. MM2 takes 600 s; looking costs one request here.
const REFRESH_TOPICS_S: u64 = 5;

/// How often topic configs and ACLs are compared. MM2 takes 600 s and sends everything each
/// time; here only differences are sent.
const SYNC_S: u64 = 60;

/// Reads the bytes of a properties file.
///
/// `only_targets` is MM2's `--clusters`: only flows into these clusters; empty for all.
///
/// # Errors
///
/// [`Problems`] with everything that must be changed, not only the first.
pub fn load(
    file_name: &str,
    bytes: &[u8],
    only_targets: &[String],
) -> Result<MirrorSettings, Problems> {
    let mut document = Document::parse(bytes);
    let mut errors: Vec<Problem> = document.errors.iter().map(Problem::syntax).collect();
    let filled = providers::fill(&mut document, &mut errors);
    let layers = Layers::new(&document);
    let reader = Reader { document: &document, errors, warnings: Vec::new() };
    let mut loader = Loader { layers: &layers, filled: &filled, reader };
    let settings = loader.all(only_targets);
    let Reader { mut errors, mut warnings, .. } = loader.reader;
    lint::in_order(&mut errors);
    lint::in_order(&mut warnings);
    if errors.is_empty() {
        Ok(MirrorSettings { warnings, ..settings })
    } else {
        Err(Problems { file: file_name.to_owned(), errors, warnings })
    }
}

struct Loader<'a, 'l> {
    layers: &'l Layers<'a>,
    filled: &'l Filled,
    reader: Reader<'a>,
}

impl Loader<'_, '_> {
    fn all(&mut self, only_targets: &[String]) -> MirrorSettings {
        let process = self.process();
        let aliases = self.aliases();
        let pairs = self.pairs(&aliases, only_targets);
        let enabled: Vec<FlowId> =
            pairs.iter().filter(|(_, enabled)| *enabled).map(|(id, _)| id.clone()).collect();
        let heartbeats = self.heartbeats(&aliases, only_targets);
        if enabled.is_empty() && heartbeats.is_empty() && !aliases.is_empty() {
            self.no_flow(&aliases, only_targets);
        }
        let origins = self.origins(&aliases);
        let flows: Vec<FlowSettings> = pairs
            .into_iter()
            .map(|(id, enabled)| self.flow(id, enabled, &aliases, &origins))
            .collect();
        let mut clusters = BTreeMap::new();
        for alias in &aliases {
            let touched = enabled.iter().any(|flow| flow.source == *alias || flow.target == *alias);
            let touched = touched || heartbeats.iter().any(|one| one.pair.target == *alias);
            let touched = touched || flows.iter().any(|flow| flow.keeps_progress_on(alias));
            if touched && let Some(cluster) = self.cluster(alias) {
                clusters.insert(alias.clone(), cluster);
            }
        }
        self.twins(&clusters);
        self.loops(&flows);
        let names = Names { aliases: &aliases, enabled: &enabled };
        lint::check(&mut self.reader, self.layers, &names);
        MirrorSettings { process, clusters, flows, heartbeats, warnings: Vec::new() }
    }

    fn process(&mut self) -> ProcessSettings {
        let reader = &mut self.reader;
        let memory = self.layers.top("heliograph.memory.bytes");
        let verify = self.layers.top("heliograph.verify.crc");
        let listen = self.layers.top("heliograph.http.listen");
        let memory_bytes = reader.number(memory, (1_u64 << 20, 1 << 40), "bytes");
        ProcessSettings {
            memory_bytes: memory_bytes.unwrap_or(MEMORY_BYTES),
            // A number in the file is a bound; without one, a long link may have more.
            memory_bytes_max: memory_bytes.unwrap_or(4 * MEMORY_BYTES),
            http_listen: reader.listen(listen),
            verify_crc: reader.word(
                verify,
                &[("never", VerifyCrc::Never), ("always", VerifyCrc::Always)],
                VerifyCrc::Never,
            ),
        }
    }

    fn aliases(&mut self) -> Vec<ClusterAlias> {
        let Some(value) = self.layers.top("clusters") else {
            let problem = Problem::missing("`clusters` is not set: there is nothing to mirror");
            self.reader
                .errors
                .push(problem.hint("write `clusters = a, b`, then a.bootstrap.servers and so on"));
            return Vec::new();
        };
        let elements = self.reader.list(value);
        if elements.len() < 2 {
            let message = "mirroring takes at least two clusters";
            self.reader.error(value.chosen, Part::Value, message, None);
        }
        elements.into_iter().map(|element| ClusterAlias::new(element.text)).collect()
    }

    /// The pairs that the file speaks of, into the targets asked for, and whether they are on.
    fn pairs(&mut self, aliases: &[ClusterAlias], only: &[String]) -> Vec<(FlowId, bool)> {
        for name in only {
            if !aliases.iter().any(|alias| alias.as_str() == name) {
                let message = format!("--clusters names {name}, which is not in `clusters`");
                self.reader.warnings.push(Problem::missing(message));
            }
        }
        let mut pairs = Vec::new();
        for source in aliases {
            for target in aliases {
                let wanted = only.is_empty() || only.iter().any(|name| target.as_str() == name);
                if source == target || !wanted {
                    continue;
                }
                let id = FlowId { source: source.clone(), target: target.clone() };
                let enabled = self.is_enabled(&id);
                let prefix = format!("{id}.");
                let spoken_of = self.layers.file().iter().any(|(key, _)| key.starts_with(&prefix));
                if enabled || spoken_of {
                    pairs.push((id, enabled));
                }
            }
        }
        pairs
    }

    /// What all flows of the file say about where topics came from, whatever `--clusters` names.
    fn origins(&mut self, aliases: &[ClusterAlias]) -> Origins {
        if !names::has_rules(self.layers) {
            return Origins::default();
        }
        let all = self.pairs(aliases, &[]);
        names::origins(&mut self.reader, self.layers, &all)
    }

    /// The pairs that heartbeats are written for: the enabled flows of the whole file and their
    /// ways back, as far as their targets were asked for.
    ///
    /// MM2 takes every pair. The way back is what upstream clusters are discovered by; pairs that
    /// no flow connects would only cost connections.
    fn heartbeats(&mut self, aliases: &[ClusterAlias], only: &[String]) -> Vec<HeartbeatSettings> {
        let mut heartbeats = Vec::new();
        for source in aliases {
            for target in aliases.iter().filter(|target| *target != source) {
                if !only.is_empty() && !only.iter().any(|name| target.as_str() == name) {
                    continue;
                }
                let pair = FlowId { source: source.clone(), target: target.clone() };
                let back = FlowId { source: target.clone(), target: source.clone() };
                if !self.is_enabled(&pair) && !self.is_enabled(&back) {
                    continue;
                }
                let connector = self.layers.connector(&pair);
                let reader = &mut self.reader;
                if !reader.boolean(connector.get("emit.heartbeats.enabled"), true) {
                    continue;
                }
                let interval = connector.get("emit.heartbeats.interval.seconds");
                if reader.is_off(interval) {
                    continue;
                }
                let seconds = reader.number(interval, (0_u64, u32::MAX.into()), "s");
                if seconds == Some(0)
                    && let Some(value) = interval
                {
                    let message = "heartbeats without a pause would flood their topic";
                    let hint = "one is written each second".to_owned();
                    reader.warn(value.chosen, Part::Value, message, Some(hint));
                }
                heartbeats.push(HeartbeatSettings {
                    pair,
                    interval: Duration::from_secs(seconds.unwrap_or(1).max(1)),
                    replication_factor: broker_default(
                        reader,
                        connector.get("heartbeats.topic.replication.factor"),
                    ),
                });
            }
        }
        heartbeats
    }

    /// MM2 starts a flow for its own `enabled` or for heartbeats, and then its connector also
    /// hears an `enabled` at the top level.
    fn is_enabled(&mut self, id: &FlowId) -> bool {
        let own = self.layers.top(&format!("{id}.enabled"));
        if own.is_some() {
            // If it cannot be read, the flow was meant to exist; the rest is checked as if.
            return self.reader.boolean(own, true);
        }
        let heartbeats = self
            .layers
            .top(&format!("{id}.emit.heartbeats.enabled"))
            .or_else(|| self.layers.top("emit.heartbeats.enabled"));
        self.reader.boolean(heartbeats, true)
            && self.reader.boolean(self.layers.top("enabled"), false)
    }

    fn no_flow(&mut self, aliases: &[ClusterAlias], only: &[String]) {
        let message = if only.is_empty() {
            "no flow is enabled".to_owned()
        } else {
            format!("no flow into {} is enabled (--clusters)", only.join(", "))
        };
        let problem = Problem::missing(message);
        let wanted = |alias: &&ClusterAlias| only.iter().any(|name| alias.as_str() == name);
        let target = aliases.iter().find(wanted).or_else(|| aliases.get(1));
        let source = aliases.iter().find(|alias| Some(*alias) != target);
        let problem = match (source, target) {
            (Some(source), Some(target)) => {
                problem.hint(format!("write `{source}->{target}.enabled = true`"))
            }
            _ => problem,
        };
        self.reader.errors.push(problem);
    }

    /// `None` if the cluster cannot be reached by what the file says.
    fn cluster(&mut self, alias: &ClusterAlias) -> Option<ClusterSettings> {
        let map = self.layers.cluster(alias);
        let Some(servers) = map.get("bootstrap.servers") else {
            let problem = Problem::missing(format!("cluster {alias} has no bootstrap servers"))
                .hint(format!("write `{alias}.bootstrap.servers = host:9092`"));
            self.reader.errors.push(problem);
            return None;
        };
        let reader = &mut self.reader;
        let bootstrap = reader.brokers(servers);
        if bootstrap.is_empty() && Reader::text(servers).is_empty() {
            reader.error(servers.chosen, Part::Value, "no broker is named", None);
        }
        // A setting of the admin client is the cluster's; without it, that of the worker.
        let get = |key: &str| map.get(&format!("admin.{key}")).or_else(|| map.get(key));
        let backoff = |reader: &mut Reader<'_>, first: &str, longest: &str, ms: (u64, u64)| {
            let first = reader.millis(get(first), ms.0);
            Backoff { first, longest: reader.millis(get(longest), ms.1).max(first) }
        };
        Some(ClusterSettings {
            alias: alias.clone(),
            bootstrap,
            security: security::read(reader, self.filled, alias, &map),
            client_id: map.get("client.id").map(|value| Reader::text(value).to_owned()),
            request_timeout: reader.millis(get("request.timeout.ms"), 30_000),
            metadata_max_age: reader.millis(get("metadata.max.age.ms"), 300_000),
            connections_max_idle: reader.millis(get("connections.max.idle.ms"), 540_000),
            connection_setup_timeout: backoff(
                reader,
                "socket.connection.setup.timeout.ms",
                "socket.connection.setup.timeout.max.ms",
                (10_000, 30_000),
            ),
            reconnect_backoff: backoff(
                reader,
                "reconnect.backoff.ms",
                "reconnect.backoff.max.ms",
                (50, 1_000),
            ),
            retry_backoff: backoff(
                reader,
                "retry.backoff.ms",
                "retry.backoff.max.ms",
                (100, 1_000),
            ),
        })
    }

    /// Two aliases with the same brokers are one cluster, and a flow between them feeds itself.
    fn twins(&mut self, clusters: &BTreeMap<ClusterAlias, ClusterSettings>) {
        let mut seen: BTreeMap<Vec<(String, u16)>, &ClusterAlias> = BTreeMap::new();
        for (alias, cluster) in clusters {
            let mut brokers = cluster.bootstrap.clone();
            brokers.iter_mut().for_each(|(host, _)| host.make_ascii_lowercase());
            brokers.sort();
            if brokers.is_empty() {
                continue;
            }
            let Some(first) = seen.insert(brokers, alias) else { continue };
            let map = self.layers.cluster(alias);
            if let Some(servers) = map.get("bootstrap.servers") {
                let message = format!("{alias} and {first} have the same bootstrap servers");
                let hint = "two aliases of one cluster cannot be mirrored to each other";
                self.reader.warn(servers.chosen, Part::Value, message, Some(hint.to_owned()));
            }
        }
    }

    /// Pairs of flows that would copy the same records to and fro, because the policy cannot
    /// tell from a topic's name that it came from there.
    fn loops(&mut self, flows: &[FlowSettings]) {
        let Some(clusters) = self.layers.top("clusters") else { return };
        for flow in flows.iter().filter(|flow| flow.enabled) {
            let FlowId { source, target } = &flow.id;
            let back = flows.iter().find(|other| {
                other.enabled && other.id.source == *target && other.id.target == *source
            });
            // Each pair once.
            let Some(back) = back.filter(|_| source < target) else { continue };
            let separator = flow.names.policy.separator();
            let identity =
                [flow, back].iter().any(|f| f.names.policy.kind() == PolicyKind::Identity);
            let split = [source, target].into_iter().find(|a| a.as_str().contains(separator));
            let (message, hint) = if identity {
                (
                    format!(
                        "{} and {} keep topic names, so cycles cannot be seen",
                        flow.id, back.id
                    ),
                    "make sure that no topic is selected by both flows".to_owned(),
                )
            } else if let Some(alias) = split {
                (
                    format!(
                        "the alias {alias} holds the separator `{separator}`, so cycles cannot be seen"
                    ),
                    "use another replication.policy.separator or alias".to_owned(),
                )
            } else {
                continue;
            };
            self.reader.warn(clusters.chosen, Part::Value, message, Some(hint));
        }
    }

    fn flow(
        &mut self,
        id: FlowId,
        enabled: bool,
        aliases: &[ClusterAlias],
        origins: &Origins,
    ) -> FlowSettings {
        let connector = self.layers.connector(&id);
        let worker = self.layers.worker(&id);
        let consumer = self.layers.client(&id, Side::Source, Role::Consumer);
        let clients = [
            (Side::Source, Role::Consumer),
            (Side::Source, Role::Admin),
            (Side::Target, Role::Producer),
            (Side::Target, Role::Admin),
        ];
        for (side, role) in clients.into_iter().filter(|_| enabled) {
            let alias = match side {
                Side::Source => &id.source,
                Side::Target => &id.target,
            };
            let (cluster, role) = (self.layers.cluster(alias), self.layers.client(&id, side, role));
            security::same_for_role(&mut self.reader, alias, &cluster, &role);
        }
        let reader = &mut self.reader;
        let names = names::flow_names(reader, &id, &connector);
        let get = |key: &str| connector.get(key);
        let config_exclude =
            get("config.properties.exclude").or_else(|| get("config.properties.blacklist"));
        let every = get("refresh.topics.interval.seconds");
        let off = reader.is_off(every);
        let refresh = reader.boolean(get("refresh.topics.enabled"), true) && !off;
        let every = every.filter(|_| !off);
        let interval = reader.number(every, (1_u64, u32::MAX.into()), "s");
        let (configs, configs_every) = sync(reader, &connector, "configs");
        let (acls, acls_every) = sync(reader, &connector, "acls");
        FlowSettings {
            enabled,
            sync_configs_interval: configs.then_some(configs_every),
            sync_configs_mode: reader.word(
                get("sync.topic.configs.mode"),
                &[("owned", ConfigMode::Owned), ("mm2", ConfigMode::Mm2)],
                ConfigMode::Owned,
            ),
            sync_acls_interval: acls.then_some(acls_every),
            acls: AclSettings {
                interval: acls_every,
                prefixed: reader.boolean(get("sync.topic.acls.prefixed.enabled"), false),
                groups: reader.boolean(get("sync.group.acls.enabled"), false),
                remove: reader.boolean(get("sync.acls.remove.enabled"), false),
            },
            topics: names::topic_filter(reader, &connector),
            configs: ConfigFilter {
                exclude: reader.names(config_exclude, default("config.properties.exclude")),
            },
            names,
            origins: origins.clone(),
            heartbeats_replication: reader.boolean(get("heartbeats.replication.enabled"), true),
            offset_syncs: groups::offset_syncs(reader, &connector),
            groups: groups::groups(reader, &connector),
            replication_factor: broker_default(reader, get("replication.factor")),
            refresh_topics_interval: refresh
                .then(|| Duration::from_secs(interval.unwrap_or(REFRESH_TOPICS_S))),
            tasks_max: reader.number(get("tasks.max"), (1_u32, i32::MAX.unsigned_abs()), ""),
            isolation: reader.word(
                consumer.get("isolation.level"),
                &[
                    ("read_committed", Isolation::ReadCommitted),
                    ("read_uncommitted", Isolation::ReadUncommitted),
                ],
                Isolation::ReadCommitted,
            ),
            auto_offset_reset: offset_reset(
                reader,
                get("start.timestamp"),
                consumer.get("auto.offset.reset"),
            ),
            use_defaults_from: reader.word(
                get("use.defaults.from"),
                &[("source", DefaultsFrom::Source), ("target", DefaultsFrom::Target)],
                DefaultsFrom::Target,
            ),
            offset_storage: offset_storage(reader, &id, (&worker, &connector), aliases),
            offset_flush_interval: reader.millis(worker.get("offset.flush.interval.ms"), 60_000),
            offset_flush_timeout: reader.millis(worker.get("offset.flush.timeout.ms"), 5_000),
            fetch_max_bytes: fetch_bytes(reader, consumer.get("fetch.max.bytes")),
            max_partition_fetch_bytes: fetch_bytes(
                reader,
                consumer.get("max.partition.fetch.bytes"),
            ),
            fetch_max_wait: reader.millis(consumer.get("fetch.max.wait.ms"), 500),
            client_id: match consumer.get("client.id").map(Reader::text) {
                None | Some("") => id.to_string(),
                Some(configured) => format!("{configured}|{id}"),
            },
            gap_policy: reader.word(
                get("gap.policy"),
                &[("record", GapPolicy::Record), ("halt", GapPolicy::Halt)],
                GapPolicy::Record,
            ),
            recreate_policy: reader.word(
                get("recreate.policy"),
                &[("restart", RecreatePolicy::Restart), ("halt", RecreatePolicy::Halt)],
                RecreatePolicy::Restart,
            ),
            existing_records_policy: reader.word(
                get("existing.records.policy"),
                &[("halt", ExistingRecordsPolicy::Halt), ("append", ExistingRecordsPolicy::Append)],
                ExistingRecordsPolicy::Halt,
            ),
            oversize_policy: reader.word(
                get("oversize.policy"),
                &[("halt", OversizePolicy::Halt), ("skip", OversizePolicy::Skip)],
                OversizePolicy::Halt,
            ),
            truncation_policy: reader.word(
                get("truncation.policy"),
                &[("halt", TruncationPolicy::Halt), ("record", TruncationPolicy::Record)],
                TruncationPolicy::Halt,
            ),
            bytes_per_second_max: reader
                .number(get("max.bytes.per.second"), (0_u64, 1 << 50), "bytes")
                .filter(|limit| *limit > 0),
            id,
        }
    }
}

/// The default of a flow's key, from the registry.
pub(super) fn default(name: &str) -> &'static str {
    keys::find(Scope::Flow, name).map_or("", |row| row.default)
}

/// A replication factor; -1 stands for the broker's own default.
pub(super) fn broker_default(reader: &mut Reader<'_>, value: Option<&Layered<'_>>) -> Option<i16> {
    let number = reader.number(value, (-1_i16, i16::MAX), "")?;
    if number == 0
        && let Some(value) = value
    {
        reader.error(value.chosen, Part::Value, "neither -1 nor at least 1", None);
    }
    (number > 0).then_some(number)
}

/// Whether topic configs or ACLs are compared, and how often.
fn sync(reader: &mut Reader<'_>, connector: &Map<'_>, what: &str) -> (bool, Duration) {
    let enabled = connector.get(&format!("sync.topic.{what}.enabled"));
    let interval = connector.get(&format!("sync.topic.{what}.interval.seconds"));
    let off = reader.is_off(interval);
    let interval = interval.filter(|_| !off);
    let seconds = reader.number(interval, (1_u64, u32::MAX.into()), "s").unwrap_or(SYNC_S);
    (reader.boolean(enabled, true) && !off, Duration::from_secs(seconds))
}

/// Where partitions without progress start: at a time of the file, or as the source consumer's
/// `auto.offset.reset` says.
fn offset_reset(
    reader: &mut Reader<'_>,
    time: Option<&Layered<'_>>,
    reset: Option<&Layered<'_>>,
) -> OffsetReset {
    if let Some(value) = time.filter(|value| !Reader::text(value).is_empty()) {
        if let Some(at) = times::timestamp(Reader::text(value)) {
            return OffsetReset::At(at);
        }
        let hint = "write 2026-05-01T12:30:00Z, or milliseconds since 1970".to_owned();
        reader.error(value.chosen, Part::Value, "not a point in time", Some(hint));
    }
    if let Some(value) = reset
        && let Some(age) = Reader::text(value).strip_prefix("by_duration:")
    {
        if let Some(age) = times::duration(age) {
            return OffsetReset::Ago(age);
        }
        let hint = "write by_duration:P7D, or by_duration:PT1H30M".to_owned();
        reader.error(value.chosen, Part::Value, "not a duration", Some(hint));
        return OffsetReset::Earliest;
    }
    reader.word(
        reset,
        &[
            ("earliest", OffsetReset::Earliest),
            ("latest", OffsetReset::Latest),
            ("none", OffsetReset::None),
        ],
        OffsetReset::Earliest,
    )
}

fn fetch_bytes(reader: &mut Reader<'_>, value: Option<&Layered<'_>>) -> Option<u32> {
    reader.number(value, (1_u32, i32::MAX.unsigned_abs()), "bytes")
}
