//! Where a flow's progress is kept: MM2's own topic on the target, or that of a Connect cluster.

use super::layers::Map;
use super::load::broker_default;
use super::problems::Part;
use super::read::Reader;
use super::settings::{ConnectCluster, OffsetStorage};
use crate::mm2;
use crate::model::{ClusterAlias, FlowId, TopicName};

/// As Connect creates the topic; MM2 finds a key by this count.
const PARTITIONS: i32 = 25;

/// Offsets topic of the Connect cluster that ran MM2's source connector.
const TOPIC: &str = "connect.offset.storage.topic";
/// Alias of the Kafka cluster that holds it.
const CLUSTER: &str = "connect.offset.storage.cluster";
/// Name of that connector.
const CONNECTOR: &str = "connect.connector.name";

pub(super) fn offset_storage(
    reader: &mut Reader<'_>,
    id: &FlowId,
    (worker, connector): (&Map<'_>, &Map<'_>),
    aliases: &[ClusterAlias],
) -> OffsetStorage {
    let connect = connect_cluster(reader, id, connector, aliases);
    let own = worker.get("offset.storage.topic").map(Reader::text);
    let theirs = connector.get(TOPIC).map(Reader::text);
    let partitions = worker.get("offset.storage.partitions");
    let number = reader.number(partitions, (-1_i32, i32::MAX), "");
    if number == Some(0)
        && let Some(value) = partitions
    {
        reader.error(value.chosen, Part::Value, "neither -1 nor at least 1", None);
    }
    let topic = if connect.is_some() { theirs } else { own };
    OffsetStorage {
        topic: match topic {
            None | Some("") => mm2::connect_offsets(&id.source),
            Some(topic) => TopicName::new(topic),
        },
        connect,
        partitions: Some(number.unwrap_or(PARTITIONS)).filter(|number| *number > 0),
        replication_factor: broker_default(reader, worker.get("offset.storage.replication.factor")),
    }
}

/// The Connect cluster whose progress is gone on with, if its offsets topic is named.
fn connect_cluster(
    reader: &mut Reader<'_>,
    id: &FlowId,
    connector: &Map<'_>,
    aliases: &[ClusterAlias],
) -> Option<ConnectCluster> {
    let (cluster, name) = (connector.get(CLUSTER), connector.get(CONNECTOR));
    if connector.get(TOPIC).is_none_or(|topic| Reader::text(topic).is_empty()) {
        for value in [cluster, name].into_iter().flatten() {
            let message = format!("has no effect without `{TOPIC}`");
            reader.warn(value.chosen, Part::Key, &message, None);
        }
        return None;
    }
    let alias = match cluster.map(Reader::text) {
        None | Some("") => id.target.clone(),
        Some(alias) => ClusterAlias::new(alias),
    };
    if let Some(value) = cluster
        && !aliases.contains(&alias)
    {
        let known: Vec<&str> = aliases.iter().map(ClusterAlias::as_str).collect();
        let hint = format!("one of {}", known.join(", "));
        reader.error(value.chosen, Part::Value, "not in `clusters`", Some(hint));
    }
    let name = match name.map(Reader::text) {
        None | Some("") => mm2::SOURCE_CONNECTOR,
        Some(name) => name,
    };
    Some(ConnectCluster { cluster: alias, connector: name.to_owned() })
}
