//! Settings of offset syncs, checkpoints and group offsets (`MirrorSourceConfig`,
//! `MirrorCheckpointConfig`).

use std::time::Duration;

use super::layers::Map;
use super::load::{broker_default, default};
use super::read::Reader;
use super::settings::{GroupSettings, OffsetSyncs, SyncsLocation};
use crate::policy::{GroupFilter, Rewind};

/// Looking for groups costs one small request to each broker; a group that appears must not wait
/// for ten minutes.
const REFRESH_GROUPS_S: u64 = 30;

const INTERVAL_S: u64 = 60;

const LAG_MAX: i64 = 100;

pub(super) fn offset_syncs(reader: &mut Reader<'_>, connector: &Map<'_>) -> OffsetSyncs {
    let get = |key: &str| connector.get(key);
    OffsetSyncs {
        emit: reader.boolean(get("emit.offset-syncs.enabled"), true),
        location: reader.word(
            get("offset-syncs.topic.location"),
            &[("source", SyncsLocation::Source), ("target", SyncsLocation::Target)],
            SyncsLocation::Source,
        ),
        lag_max: reader.number(get("offset.lag.max"), (0_i64, i64::MAX), "").unwrap_or(LAG_MAX),
        replication_factor: broker_default(reader, get("offset-syncs.topic.replication.factor")),
    }
}

pub(super) fn groups(reader: &mut Reader<'_>, connector: &Map<'_>) -> GroupSettings {
    let get = |key: &str| connector.get(key);
    let seconds = (1_u64, u64::from(u32::MAX));
    let every = |reader: &mut Reader<'_>, (enabled, on): (&str, bool), interval: &str, unset| {
        let on = reader.boolean(get(enabled), on);
        if reader.is_off(get(interval)) {
            return None;
        }
        let interval = reader.number(get(interval), seconds, "s").unwrap_or(unset);
        on.then(|| Duration::from_secs(interval))
    };
    let refresh = every(
        reader,
        ("refresh.groups.enabled", true),
        "refresh.groups.interval.seconds",
        REFRESH_GROUPS_S,
    );
    let checkpoints = every(
        reader,
        ("emit.checkpoints.enabled", true),
        "emit.checkpoints.interval.seconds",
        INTERVAL_S,
    );
    let offsets = every(
        reader,
        ("sync.group.offsets.enabled", false),
        "sync.group.offsets.interval.seconds",
        INTERVAL_S,
    );
    let exclude = get("groups.exclude").or_else(|| get("groups.blacklist"));
    GroupSettings {
        filter: GroupFilter {
            include: reader.names(get("groups"), default("groups")),
            exclude: reader.names(exclude, default("groups.exclude")),
        },
        refresh,
        checkpoints,
        offsets,
        rewind: reader.word(
            get("sync.group.offsets.policy"),
            &[("monotonic", Rewind::Monotonic), ("follow", Rewind::Follow)],
            Rewind::Monotonic,
        ),
        replication_factor: broker_default(reader, get("checkpoints.topic.replication.factor")),
    }
}
