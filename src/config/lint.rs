//! Looks at every line of the file: is its key known, is it where it has an effect, and can its
//! value be honoured?
//!
//! MM2 ignores what it does not know without a word, so a misspelt or misplaced key can go
//! unnoticed for years. Here each such line gets a warning that says where it belongs. A line
//! that asks for something we cannot do is an error.

use super::keys::{self, Key, Scope, Status};
use super::layers::{Layers, Role};
use super::problems::{Part, Problem};
use super::properties::Entry;
use super::read::Reader;
use crate::model::{ClusterAlias, FlowId, Side};

/// The one converter that leaves records as they are.
const BYTE_ARRAY_CONVERTER: &str = "org.apache.kafka.connect.converters.ByteArrayConverter";

/// What a key begins with.
enum Written<'e> {
    /// `a->b.rest`.
    Flow(FlowId, &'e str),
    /// `a->b.rest` with an alias that is not in `clusters`, or twice the same.
    NoFlow(FlowId, &'e str),
    /// `a.rest`.
    Cluster(ClusterAlias, &'e str),
    /// Anything else.
    Top,
}

/// The file's clusters and flows, to suggest keys that would have an effect.
pub(super) struct Names<'n> {
    /// Aliases in the order of `clusters`.
    pub(super) aliases: &'n [ClusterAlias],
    /// Flows that are on.
    pub(super) enabled: &'n [FlowId],
}

/// Checks all lines.
pub(super) fn check(reader: &mut Reader<'_>, layers: &Layers<'_>, names: &Names<'_>) {
    for (_, value) in layers.file().iter() {
        let line = value.chosen.key.place(0).line;
        for shadowed in &value.shadowed {
            let message = format!("line {line} has the same key and wins");
            reader.warn(shadowed, Part::Key, message, None);
        }
        if value.chosen.key.as_str().starts_with(BYTE_ORDER_MARK) {
            let message = "the file begins with a byte order mark, which is part of its first key";
            let hint = "save the file as ASCII or ISO-8859-1, or as UTF-8 without the mark";
            reader.error(value.chosen, Part::Key, message, Some(hint.to_owned()));
            continue;
        }
        encoding(reader, value.chosen);
        if layers.top("config.providers").is_none() {
            unfilled(reader, value.chosen);
        }
        names.line(reader, value.chosen);
    }
}

/// A reference in a file without any provider, which is then just text, as in Java.
fn unfilled(reader: &mut Reader<'_>, entry: &Entry) {
    let value = entry.value.as_str();
    let Some((name, _)) = value.split_once("${").and_then(|(_, rest)| rest.split_once(':')) else {
        return;
    };
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()) {
        let message =
            format!("`config.providers` does not stand in the file, so `${{{name}:` is text");
        let hint = format!(
            "write `config.providers = {name}` and `config.providers.{name}.class = \
             org.apache.kafka.common.config.provider.FileConfigProvider` (or another of Kafka's)"
        );
        reader.warn(entry, Part::Value, message, Some(hint));
    }
}

/// What an editor puts in front of UTF-8, as ISO-8859-1 reads it.
const BYTE_ORDER_MARK: &str = "\u{ef}\u{bb}\u{bf}";

/// Text that was saved as UTF-8, which Java does not read as such.
fn encoding(reader: &mut Reader<'_>, entry: &Entry) {
    let utf8 = |text: &str| {
        let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
        !text.is_ascii() && bytes.is_some_and(|bytes| std::str::from_utf8(&bytes).is_ok())
    };
    let part = if utf8(entry.key.as_str()) {
        Part::Key
    } else if utf8(entry.value.as_str()) {
        Part::Value
    } else {
        return;
    };
    let message = "this looks like UTF-8, but a properties file is read as ISO-8859-1";
    let hint = "keep to ASCII, and write other characters as \\uXXXX";
    reader.warn(entry, part, message, Some(hint.to_owned()));
}

impl Names<'_> {
    fn line(&self, reader: &mut Reader<'_>, entry: &Entry) {
        match self.written(entry.key.as_str()) {
            Written::Flow(flow, rest) => self.flow(reader, entry, &flow, rest),
            Written::NoFlow(flow, rest) => self.no_flow(reader, entry, &flow, rest),
            Written::Cluster(alias, rest) => self.cluster(reader, entry, &alias, rest),
            Written::Top => self.top(reader, entry),
        }
    }

    fn written<'e>(&self, key: &'e str) -> Written<'e> {
        for source in self.aliases {
            for target in self.aliases {
                let flow = FlowId { source: source.clone(), target: target.clone() };
                if let Some(rest) = key.strip_prefix(&format!("{flow}.")) {
                    let known = source != target;
                    return if known {
                        Written::Flow(flow, rest)
                    } else {
                        Written::NoFlow(flow, rest)
                    };
                }
            }
        }
        if let Some((source, rest)) = key.split_once("->")
            && let Some((target, rest)) = rest.split_once('.')
        {
            let flow =
                FlowId { source: ClusterAlias::new(source), target: ClusterAlias::new(target) };
            return Written::NoFlow(flow, rest);
        }
        // `a.b` may be an alias beside `a`; the longer one is meant.
        let alias = self
            .aliases
            .iter()
            .filter(|alias| key.strip_prefix(alias.as_str()).is_some_and(|r| r.starts_with('.')))
            .max_by_key(|alias| alias.as_str().len());
        match alias {
            Some(alias) => Written::Cluster(alias.clone(), &key[alias.as_str().len() + 1..]),
            None => Written::Top,
        }
    }

    fn flow(&self, reader: &mut Reader<'_>, entry: &Entry, flow: &FlowId, rest: &str) {
        let row = keys::find(Scope::Flow, rest).or_else(|| keys::find(Scope::FlowOnly, rest));
        if let Some(row) = row {
            effect(reader, entry, row);
        } else if let Some((role, name)) = client_key(rest) {
            client(reader, entry, role, name);
        } else if keys::in_client_key_set(rest) || worker_row(rest).is_some() {
            let hint = format!("write `{}.{rest}`", flow.target);
            let message = "MM2 does not look for this key under a flow, so it has no effect";
            reader.warn(entry, Part::Key, message, Some(hint));
        } else {
            unknown(reader, entry, &format!("{flow}."), rest, &[Scope::Flow, Scope::FlowOnly]);
        }
    }

    fn no_flow(&self, reader: &mut Reader<'_>, entry: &Entry, flow: &FlowId, rest: &str) {
        let aliases = || self.aliases.iter().map(ClusterAlias::as_str);
        let (message, hint) = if flow.source == flow.target {
            ("a flow from a cluster to itself does not exist".to_owned(), None)
        } else {
            let strange = [&flow.source, &flow.target]
                .into_iter()
                .find(|alias| !self.aliases.contains(alias))
                .unwrap_or(&flow.target);
            let hint = match nearest(strange.as_str(), aliases()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("add {strange} to `clusters`, or remove the line"),
            };
            (format!("`clusters` has no {strange}, so this line has no effect"), Some(hint))
        };
        // Someone believes that this flow runs.
        if rest == "enabled" && entry.value.as_str().trim().eq_ignore_ascii_case("true") {
            reader.error(entry, Part::Key, message, hint);
        } else {
            reader.warn(entry, Part::Key, message, hint);
        }
    }

    fn cluster(&self, reader: &mut Reader<'_>, entry: &Entry, alias: &ClusterAlias, rest: &str) {
        let flow_key = keys::find(Scope::Flow, rest).or_else(|| keys::find(Scope::FlowOnly, rest));
        if keys::in_client_key_set(rest) {
        } else if let Some(row) = worker_row(rest) {
            effect(reader, entry, row);
        } else if flow_key.is_some_and(|row| !row.name.ends_with('*')) {
            let message = format!(
                "`{}` belongs to a flow and has no effect under a cluster",
                entry.key.as_str()
            );
            let hint = format!("did you mean `{}.{rest}`?", self.flow_with(alias));
            reader.warn(entry, Part::Key, message, Some(hint));
        } else if let Some((_, role, name)) = sided_key(rest) {
            // MM2 puts the side in front of what stands under a cluster, and then it stands there twice.
            let message = "a cluster is no side of a flow by itself, so this line has no effect";
            let hint = format!("write `{}`", under_cluster(alias, role, name));
            reader.warn(entry, Part::Key, message, Some(hint));
        } else if let Some((role, name)) = client_key(rest) {
            client(reader, entry, role, name);
        } else {
            let scopes = [Scope::Cluster, Scope::Worker, Scope::WorkerFromTop];
            unknown(reader, entry, &format!("{alias}."), rest, &scopes);
        }
    }

    fn top(&self, reader: &mut Reader<'_>, entry: &Entry) {
        let key = entry.key.as_str();
        let seen = [Scope::Process, Scope::Flow, Scope::WorkerFromTop];
        let row = seen.iter().find_map(|scope| keys::find(*scope, key));
        if keys::in_client_key_set(key) {
        } else if let Some(row) = row {
            effect(reader, entry, row);
        } else if self.aliases.iter().any(|alias| alias.as_str() == key)
            && entry.value.as_str().starts_with("->")
        {
            let message = "a blank ends the key, so this line sets no flow";
            let hint = "write the arrow without blanks around it";
            reader.error(entry, Part::Key, message, Some(hint.to_owned()));
        } else if keys::find(Scope::FlowOnly, key).is_some() {
            let flow = self.some_flow();
            let message = "MM2 looks for this key under a flow only, so it has no effect here";
            reader.warn(entry, Part::Key, message, Some(format!("write `{flow}.{key}`")));
        } else if keys::find(Scope::Worker, key).is_some() {
            let target = self.some_flow().target;
            let message = "MM2 looks for this key under a target only, so it has no effect here";
            reader.warn(entry, Part::Key, message, Some(format!("write `{target}.{key}`")));
        } else if let Some((role, name)) = client_key(key) {
            let flow = self.some_flow();
            let hint = match sided_key(key) {
                Some((Side::Source, ..)) => under_cluster(&flow.source, role, name),
                Some((Side::Target, ..)) => under_cluster(&flow.target, role, name),
                None => format!("{}.{key}", flow.source),
            };
            let message = "client settings have no effect at the top level";
            reader.warn(entry, Part::Key, message, Some(format!("write `{hint}`")));
        } else if let Some((alias, rest)) = key.split_once('.')
            && (keys::in_client_key_set(rest)
                || worker_row(rest).is_some()
                || client_key(rest).is_some())
        {
            let message = format!("`clusters` has no {alias}, so this line has no effect");
            let near = nearest(alias, self.aliases.iter().map(ClusterAlias::as_str));
            let hint = near.map(|near| format!("did you mean {near}?"));
            reader.warn(entry, Part::Key, message, hint);
        } else {
            unknown(reader, entry, "", key, &[Scope::Cluster, seen[0], seen[1], seen[2]]);
        }
    }

    /// A flow to suggest for a key under `alias`: one that is on, if possible.
    fn flow_with(&self, alias: &ClusterAlias) -> FlowId {
        let touching = |flow: &&FlowId| flow.target == *alias || flow.source == *alias;
        self.enabled.iter().find(touching).cloned().unwrap_or_else(|| {
            let other = self.aliases.iter().find(|other| *other != alias);
            let target = other.cloned().unwrap_or_else(|| ClusterAlias::new("b"));
            FlowId { source: alias.clone(), target }
        })
    }

    fn some_flow(&self) -> FlowId {
        self.flow_with(&self.aliases.first().cloned().unwrap_or_else(|| ClusterAlias::new("a")))
    }
}

fn worker_row(name: &str) -> Option<&'static Key> {
    keys::find(Scope::Worker, name).or_else(|| keys::find(Scope::WorkerFromTop, name))
}

/// A key of a client that says which side of a flow it is for.
fn sided_key(key: &str) -> Option<(Side, Option<Role>, &str)> {
    let side = match key.split_once('.')? {
        ("source", _) => Side::Source,
        ("target", _) => Side::Target,
        _ => return None,
    };
    client_key(key).map(|(role, name)| (side, role, name))
}

/// Where a client's key has an effect under a cluster.
fn under_cluster(alias: &ClusterAlias, role: Option<Role>, name: &str) -> String {
    match role {
        Some(role) => format!("{alias}.{}.{name}", role.word()),
        None => format!("{alias}.{name}"),
    }
}

/// Takes the words for a client off a key: `source.consumer.x`, `producer.override.x`,
/// `target.cluster.x` and others. `None` for the role stands for all.
fn client_key(rest: &str) -> Option<(Option<Role>, &str)> {
    let (sided, unsided) = match rest.split_once('.') {
        Some(("source" | "target", rest)) => (true, rest),
        _ => (false, rest),
    };
    let (word, name) = unsided.split_once('.')?;
    if sided && word == "cluster" {
        return Some((None, name));
    }
    let role = Role::ALL.into_iter().find(|role| role.word() == word)?;
    Some((Some(role), name.strip_prefix("override.").unwrap_or(name)))
}

fn client(reader: &mut Reader<'_>, entry: &Entry, role: Option<Role>, name: &str) {
    if keys::in_client_key_set(name) {
        return;
    }
    let key = entry.key.as_str();
    let prefix = key.strip_suffix(name).unwrap_or_default();
    match role {
        None => unknown(reader, entry, prefix, name, &[Scope::Cluster]),
        Some(role) => match keys::find(role.scope(), name) {
            Some(row) => effect(reader, entry, row),
            None => unknown(reader, entry, prefix, name, &[Scope::Cluster, role.scope()]),
        },
    }
}

/// What a known key in a good place comes to.
fn effect(reader: &mut Reader<'_>, entry: &Entry, row: &Key) {
    let value = entry.value.as_str().trim();
    let bytes = row.name.ends_with(".converter") && value == BYTE_ARRAY_CONVERTER;
    let as_default = bytes || value.eq_ignore_ascii_case(row.default);
    match row.status {
        Status::Same => {}
        Status::DefaultDiffers { ours, .. } if row.name.ends_with(".blacklist") => {
            let message = "an old name that Kafka 4.0 removed; MM2 ignores it, it is honoured here";
            let hint = format!("write `{}`", entry.key.as_str().replace(row.name, ours));
            reader.warn(entry, Part::Key, message, Some(hint));
        }
        Status::DefaultDiffers { .. } => {}
        Status::Accepted { why } if !as_default => {
            reader.warn(entry, Part::Key, format!("no effect: {why}"), None);
        }
        // What is switched off is off.
        Status::Later { what } if value != "false" => {
            reader.warn(entry, Part::Key, format!("not in this version yet: {what}"), None);
        }
        Status::Accepted { .. } | Status::Later { .. } => {}
        Status::Refused { why, instead } => {
            if !as_default {
                reader.error(entry, Part::Value, why, Some(instead.to_owned()));
            }
        }
    }
}

/// A key that nobody knows.
fn unknown(reader: &mut Reader<'_>, entry: &Entry, prefix: &str, name: &str, scopes: &[Scope]) {
    let known = keys::all()
        .filter(|row| scopes.contains(&row.scope) && !row.name.ends_with('*'))
        .map(|row| row.name);
    let hint = nearest(name, known).map(|near| format!("did you mean `{prefix}{near}`?"));
    reader.warn(entry, Part::Key, "unknown key, so this line has no effect", hint);
}

/// The candidate closest to `text`, if one is close enough to be what was meant.
pub(super) fn nearest<'c>(
    text: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let most = (text.chars().count() / 4).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (distance(&text.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many characters must be put in, taken out, changed, or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for row in 1..=from.len() {
        let mut next = vec![row];
        for column in 1..=to.len() {
            let changed = usize::from(from[row - 1] != to[column - 1]);
            let mut least =
                (last[column] + 1).min(next[column - 1] + 1).min(last[column - 1] + changed);
            let swapped = row > 1
                && column > 1
                && from[row - 1] == to[column - 2]
                && from[row - 2] == to[column - 1];
            if swapped {
                least = least.min(before[column - 2] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut last, next);
    }
    last[to.len()]
}

/// Problems in the order of the file; those without a place first.
pub(super) fn in_order(problems: &mut [Problem]) {
    problems.sort_by_key(|problem| problem.excerpt.as_ref().map(|excerpt| excerpt.place));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::properties::Document;

    /// Errors and warnings about `line` in a file with clusters `a` and `b` and the flow `a->b`.
    fn said_about(line: &str) -> Vec<String> {
        let document = Document::parse(line.as_bytes());
        let mut reader = Reader { document: &document, errors: Vec::new(), warnings: Vec::new() };
        let aliases = [ClusterAlias::new("a"), ClusterAlias::new("b")];
        let enabled = [FlowId { source: aliases[0].clone(), target: aliases[1].clone() }];
        let names = Names { aliases: &aliases, enabled: &enabled };
        check(&mut reader, &Layers::new(&document), &names);
        let errors = reader.errors.iter().map(|problem| ("error", problem));
        let warnings = reader.warnings.iter().map(|problem| ("warning", problem));
        errors
            .chain(warnings)
            .map(|(word, problem)| {
                let hint = problem.hint.as_deref().unwrap_or("-");
                format!("{word}: {} [{hint}]", problem.message)
            })
            .collect()
    }

    #[test]
    fn keys_with_an_effect_are_passed_without_a_word() {
        for line in [
            "clusters = a, b",
            "topics = x",
            "a->b.topics = x",
            "a.bootstrap.servers = x:1",
            "security.protocol = PLAINTEXT",
            "a.consumer.isolation.level = read_committed",
            "a->b.source.consumer.isolation.level = read_committed",
            "a->b.source.admin.security.protocol = PLAINTEXT",
            "b.offset.flush.interval.ms = 1",
            "offset.storage.topic = x",
            "b.offset.storage.topic = x",
            "a->b.use.defaults.from = source",
            "a->b.sync.topic.acls.enabled = false",
            "key.converter = org.apache.kafka.connect.converters.ByteArrayConverter",
            "transforms =",
            "topic.filter.class = org.apache.kafka.connect.mirror.DefaultTopicFilter",
            "heliograph.memory.bytes = 1",
            "a->b.gap.policy = halt",
        ] {
            assert!(said_about(line).is_empty(), "{line}: {:?}", said_about(line));
        }
    }

    #[test]
    fn a_misspelt_key_is_met_with_the_nearest_known_one() {
        assert_eq!(
            said_about("a->b.topcis = x"),
            ["warning: unknown key, so this line has no effect [did you mean `a->b.topics`?]"]
        );
        assert_eq!(
            said_about("a.boostrap.servers = x"),
            [
                "warning: unknown key, so this line has no effect [did you mean `a.bootstrap.servers`?]"
            ]
        );
        assert_eq!(
            said_about("a.consumer.isolation.levle = x"),
            [
                "warning: unknown key, so this line has no effect [did you mean `a.consumer.isolation.level`?]"
            ]
        );
        assert_eq!(
            said_about("completely.different = x"),
            ["warning: unknown key, so this line has no effect [-]"]
        );
    }

    #[test]
    fn a_key_meant_for_another_layer_says_so() {
        for (line, hint) in [
            ("a.topics = x", "did you mean `a->b.topics`?"),
            ("b.replication.factor = 1", "did you mean `a->b.replication.factor`?"),
            ("a->b.offset.flush.interval.ms = 1", "write `b.offset.flush.interval.ms`"),
            ("offset.flush.interval.ms = 1", "write `b.offset.flush.interval.ms`"),
            ("use.defaults.from = source", "write `a->b.use.defaults.from`"),
            ("consumer.isolation.level = x", "write `a.consumer.isolation.level`"),
            ("source.consumer.isolation.level = x", "write `a.consumer.isolation.level`"),
            ("source.cluster.security.protocol = x", "write `a.security.protocol`"),
            ("target.producer.linger.ms = 5", "write `b.producer.linger.ms`"),
            ("a.source.consumer.isolation.level = x", "write `a.consumer.isolation.level`"),
            ("b.target.cluster.security.protocol = x", "write `b.security.protocol`"),
            ("c.bootstrap.servers = x:1", "did you mean a?"),
            ("topics.blacklist = x", "write `topics.exclude`"),
            ("a->b.topics.blacklist = x", "write `a->b.topics.exclude`"),
        ] {
            let said = said_about(line);
            assert!(said[0].starts_with("warning: "), "{line}: {said:?}");
            assert!(said[0].ends_with(&format!("[{hint}]")), "{line}: {said:?}");
        }
    }

    #[test]
    fn a_flow_of_an_undefined_cluster_is_an_error_when_it_is_switched_on() {
        assert_eq!(
            said_about("x->b.enabled = true"),
            ["error: `clusters` has no x, so this line has no effect [did you mean a?]"]
        );
        assert!(said_about("x->b.topics = y")[0].starts_with("warning: `clusters` has no x"));
        assert!(
            said_about("a->a.enabled = true")[0].starts_with("error: a flow from a cluster to")
        );
        assert!(said_about("a -> b.enabled = true")[0].starts_with("error: a blank ends the key"));
    }

    #[test]
    fn what_cannot_be_honoured_is_an_error() {
        for line in [
            "a->b.transforms = mask",
            "topic.filter.class = com.example.Filter",
            "b.exactly.once.source.support = enabled",
            "a->b.offsets.storage.topic = x",
        ] {
            assert!(said_about(line)[0].starts_with("error: "), "{line}: {:?}", said_about(line));
        }
    }

    #[test]
    fn a_converter_changes_nothing_and_says_so() {
        for line in [
            "key.converter = org.apache.kafka.connect.json.JsonConverter",
            "b.value.converter = x",
            "a->b.header.converter = x",
        ] {
            let told = said_about(line);
            assert!(told[0].starts_with("warning: no effect: records are"), "{line}: {told:?}");
        }
    }

    #[test]
    fn a_line_that_a_later_one_overrides_is_reported() {
        assert_eq!(
            said_about("topics = a\ntopics = b"),
            ["warning: line 2 has the same key and wins [-]"]
        );
    }

    #[test]
    fn text_saved_as_utf8_is_reported_because_java_reads_other_characters() {
        assert!(said_about("a->b.topics = caf\u{e9}")[0].contains("UTF-8"));
        assert!(said_about("a->b.topics = caf\\u00e9").is_empty());
    }

    #[test]
    fn a_byte_order_mark_and_references_without_providers_are_told() {
        let told = said_about("\u{feff}topics = x");
        assert!(told[0].starts_with("error: the file begins with a byte order mark"), "{told:?}");
        let reference = "a.sasl.jaas.config = ${file:/etc/login:jaas}";
        let told = said_about(reference);
        assert!(told[0].contains("`${file:` is text"), "{told:?}");
        let with = format!(
            "{reference}\nconfig.providers = env\nconfig.providers.env.class = \
             org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        );
        assert!(!said_about(&with).iter().any(|one| one.contains("is text")));
    }

    #[test]
    fn a_swap_of_neighbours_counts_as_one_change() {
        assert_eq!(distance("topcis", "topics"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
