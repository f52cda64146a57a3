//! How flows name what they mirror: MM2's policy, and rename rules of our own (`topics.rename`).
//!
//! Rules that contradict each other are refused here, also those of a flow and its way back. A flow's
//! rules count for the loop rules of all others, whether it is on, off, or runs in another process
//! with the same file.

use super::layers::{Layered, Layers, Map};
use super::lint;
use super::load::default;
use super::problems::Part;
use super::read::Reader;
use crate::model::FlowId;
use crate::policy::{
    FlowNames, NamedFlow, Origins, PolicyKind, Renames, ReplicationPolicy, TopicFilter,
};

/// MM2's package of policies and filters.
const MIRROR_PACKAGE: &str = "org.apache.kafka.connect.mirror.";

/// The key of rename rules.
const RENAME: &str = "topics.rename";

/// Whether any flow of the file has rules.
pub(super) fn has_rules(layers: &Layers<'_>) -> bool {
    layers.file().iter().any(|(key, _)| {
        key.strip_suffix(RENAME).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    })
}

/// A flow's names.
pub(super) fn flow_names(reader: &mut Reader<'_>, id: &FlowId, connector: &Map<'_>) -> FlowNames {
    let policy = policy(reader, id, connector);
    let names = FlowNames::new(policy, &id.source);
    let Some(value) = connector.get(RENAME) else { return names };
    let elements = reader.list(value);
    let texts: Vec<&str> = elements.iter().map(|element| element.text).collect();
    match Renames::new(&texts, &names.policy, &id.source) {
        Ok(renames) => names.with_renames(renames),
        Err(errors) => {
            for error in errors {
                let start = elements[error.rule].start + error.at;
                let part = Part::Characters { start, length: error.length };
                reader.error(value.chosen, part, error.problem, Some(error.hint));
            }
            names
        }
    }
}

/// Which topics a flow takes, as far as its lists say.
pub(super) fn topic_filter(reader: &mut Reader<'_>, connector: &Map<'_>) -> TopicFilter {
    let exclude = connector.get("topics.exclude").or_else(|| connector.get("topics.blacklist"));
    TopicFilter {
        include: reader.names(connector.get("topics"), default("topics")),
        exclude: reader.names(exclude, default("topics.exclude")),
    }
}

/// What the names of all flows of the file say about where topics came from; rules that no topic can
/// ever be named by are refused. `flows` are all that the file speaks of, and whether each is on.
pub(super) fn origins(
    reader: &mut Reader<'_>,
    layers: &Layers<'_>,
    flows: &[(FlowId, bool)],
) -> Origins {
    if !has_rules(layers) {
        return Origins::default();
    }
    let named: Vec<(NamedFlow, bool)> = flows
        .iter()
        .map(|(id, enabled)| {
            let connector = layers.connector(id);
            let names = flow_names(reader, id, &connector);
            let filter = topic_filter(reader, &connector);
            (NamedFlow { flow: id.clone(), names, filter }, *enabled)
        })
        .collect();
    for (one, _) in &named {
        let connector = layers.connector(&one.flow);
        let Some(value) = connector.get(RENAME) else { continue };
        unused(reader, value, one);
        let back = named.iter().find(|(other, _)| {
            other.flow.source == one.flow.target && other.flow.target == one.flow.source
        });
        if let Some((back, enabled)) = back {
            beside_way_back(reader, value, one, (back, *enabled));
        }
    }
    Origins::new(named.into_iter().map(|(one, _)| one).collect())
}

/// Says which rules are about topics that the flow does not take.
fn unused(reader: &mut Reader<'_>, value: &Layered<'_>, one: &NamedFlow) {
    let elements = reader.list(value);
    for (rule, name) in one.names.renames().single_names() {
        if let Some(element) = elements.get(rule)
            && one.filter.accepts(name) == Ok(false)
        {
            let message = format!("{} does not take {name}: the rule has no effect", one.flow);
            let hint = "see topics and topics.exclude".to_owned();
            reader.warn(value.chosen, element.part(), message, Some(hint));
        }
    }
}

/// Whether rules leave something to be mirrored each way.
fn beside_way_back(
    reader: &mut Reader<'_>,
    value: &Layered<'_>,
    one: &NamedFlow,
    (back, back_is_on): (&NamedFlow, bool),
) {
    let elements = reader.list(value);
    let (there, returns) = (one.names.renames(), back.names.renames());
    if let Some((rule, giver)) = there.undone_by(returns)
        && let Some(element) = elements.get(rule)
    {
        let message = format!(
            "never applies: by its rule `{giver}`, {} gives such names, so that these topics came \
             from {}",
            back.flow, one.flow.target
        );
        let hint = "rename it in one direction only, or to different names".to_owned();
        reader.error(value.chosen, element.part(), message, Some(hint));
    } else if let Some(element) = there.gives_all().and_then(|rule| elements.get(rule))
        && back_is_on
    {
        let message = format!(
            "can give every name, so that {} takes no topic: each may have come from {}",
            back.flow, one.flow.source
        );
        let hint = "let the names that the rule gives begin with something".to_owned();
        reader.warn(value.chosen, element.part(), message, Some(hint));
    }
}

fn policy(reader: &mut Reader<'_>, id: &FlowId, connector: &Map<'_>) -> ReplicationPolicy {
    let class = connector.get("replication.policy.class");
    let kind = match class {
        None => PolicyKind::Default,
        Some(value) => {
            let text = Reader::text(value);
            match text.strip_prefix(MIRROR_PACKAGE) {
                Some("DefaultReplicationPolicy") => PolicyKind::Default,
                Some("IdentityReplicationPolicy") => PolicyKind::Identity,
                _ => {
                    let known = ["DefaultReplicationPolicy", "IdentityReplicationPolicy"];
                    let simple = text.rsplit('.').next().unwrap_or(text);
                    let hint = lint::nearest(simple, known)
                        .map(|near| format!("did you mean {MIRROR_PACKAGE}{near}?"));
                    let message = format!(
                        "Java classes cannot be loaded here; known in {MIRROR_PACKAGE}: {}",
                        known.join(", ")
                    );
                    reader.error(value.chosen, Part::Value, message, hint);
                    PolicyKind::Default
                }
            }
        }
    };
    let separator = connector.get("replication.policy.separator");
    let text = separator.map_or(".", Reader::text);
    if let Some(value) = separator {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if text.is_empty() || !text.chars().all(legal) {
            let message = "a topic's name cannot hold this separator";
            let hint = "use letters, digits, `.`, `_` and `-`";
            reader.error(value.chosen, Part::Value, message, Some(hint.to_owned()));
        }
    }
    let policy = ReplicationPolicy::new(kind, text, Some(id.source.clone()));
    let internal = connector.get("replication.policy.internal.topic.separator.enabled");
    if reader.boolean(internal, true) { policy } else { policy.with_internal_separator(".") }
}
