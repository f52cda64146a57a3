//! Floor 1: MirrorMaker 2's own record formats and topic names, byte for byte.
//!
//! MM2's Java classes read what is written here and we read what they wrote, so every format
//! is checked against records of a real MM2 (`proto-tests/golden/mm2`). Values in, bytes out:
//! nothing here knows a broker, a flow's state or a replication policy's renaming.

mod checkpoint;
mod connect_offset;
mod field;
mod heartbeat;
mod names;
mod offset_sync;

pub use checkpoint::Checkpoint;
pub use connect_offset::{
    CHECKPOINT_CONNECTOR, HEARTBEAT_CONNECTOR, SOURCE_CONNECTOR, SourceOffsetKey, decode_value,
    encode_value, murmur2, partition_for_key,
};
pub use field::{Malformed, TooLong};
pub use heartbeat::Heartbeat;
pub use names::{
    HEARTBEATS, InternalNames, connect_configs, connect_group, connect_offsets, connect_status,
};
pub use offset_sync::OffsetSync;
