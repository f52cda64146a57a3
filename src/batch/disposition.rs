//! What becomes of a batch: one pure, total table over header values.

use super::header::{BatchHeader, Codec};
use crate::model::{GapReason, Offset};

/// What the table needs to know besides the header.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The upstream offset that was asked for: nothing before it may be copied.
    pub position: Offset,
    /// The batch belongs to an aborted transaction and the flow is `read_committed`.
    pub aborted: bool,
    /// Largest batch that the target topic takes (`max.message.bytes`), header included.
    pub batch_bytes_max: usize,
}

/// What becomes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The body goes on as it is, behind a new header.
    Forward,
    /// The records must be written anew.
    Rebuild(RebuildReason),
    /// Nothing of it is to be copied.
    Drop(GapReason),
    /// It is not understood: its partition stops.
    Refuse(RefuseReason),
}

/// Why records must be written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RebuildReason {
    /// Compaction removed records, and a produced batch must have dense offsets
    /// (`LogValidator.validateBatch`).
    OffsetHoles,
    /// The batch begins before the position; the records before it were copied already.
    StartsBefore,
    /// The target topic takes no batch of this size.
    TooLarge,
    /// Readers see the append time of the source for every record, which a producer can only
    /// say record by record.
    AppendTime,
}

impl RebuildReason {
    /// The word in logs and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OffsetHoles => "offset holes",
            Self::StartsBefore => "starts before the position",
            Self::TooLarge => "too large for the target",
            Self::AppendTime => "log append time",
        }
    }
}

/// Why a batch is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefuseReason {
    /// A codec number without meaning.
    #[error("codec {0} is unknown")]
    Codec(u16),
    /// Attribute bits without meaning; copying them blindly could change what records mean.
    #[error("attribute bits {0:#b} are unknown")]
    Attributes(u16),
}

/// Decides over `header`. Earlier rows win: what is not copied needs no rebuilding.
#[must_use]
pub fn disposition(header: &BatchHeader, terms: Terms) -> Disposition {
    let attributes = header.attributes;
    if attributes.is_control() {
        return Disposition::Drop(GapReason::Control);
    }
    if header.count == 0 {
        return Disposition::Drop(GapReason::Emptied);
    }
    if terms.aborted {
        return Disposition::Drop(GapReason::Aborted);
    }
    if attributes.unknown_bits() != 0 {
        return Disposition::Refuse(RefuseReason::Attributes(attributes.unknown_bits()));
    }
    let Some(codec) = attributes.codec() else {
        return Disposition::Refuse(RefuseReason::Codec(attributes.0 & 0b111));
    };
    if header.base_offset < terms.position {
        return Disposition::Rebuild(RebuildReason::StartsBefore);
    }
    if i64::from(header.count) != i64::from(header.last_offset_delta) + 1 {
        return Disposition::Rebuild(RebuildReason::OffsetHoles);
    }
    if header.total_bytes() > terms.batch_bytes_max {
        return Disposition::Rebuild(RebuildReason::TooLarge);
    }
    if attributes.is_log_append_time() && !shows_append_time_anyway(header, codec) {
        return Disposition::Rebuild(RebuildReason::AppendTime);
    }
    Disposition::Forward
}

/// Whether clearing the append-time bit leaves the visible timestamp as it is. Only a batch of
/// one uncompressed record can be told from its header: with base and maximum equal its delta
/// is 0 for every producer, as the base is the first record's own time.
fn shows_append_time_anyway(header: &BatchHeader, codec: Codec) -> bool {
    codec == Codec::None && header.count == 1 && header.base_timestamp == header.max_timestamp
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::header::Attributes;
    use crate::model::{LeaderEpoch, Timestamp};

    fn header() -> BatchHeader {
        BatchHeader {
            base_offset: Offset(100),
            length: 1000,
            leader_epoch: LeaderEpoch(3),
            crc: 0,
            attributes: Attributes(0),
            last_offset_delta: 9,
            base_timestamp: Timestamp(1),
            max_timestamp: Timestamp(2),
            producer_id: 7,
            producer_epoch: 0,
            base_sequence: None,
            count: 10,
        }
    }

    const TERMS: Terms =
        Terms { position: Offset(100), aborted: false, batch_bytes_max: 1_048_588 };

    #[test]
    fn a_dense_batch_is_forwarded_with_any_codec_and_inside_a_transaction() {
        for bits in [0, 1, 2, 3, 4, Attributes::TRANSACTIONAL | 3, Attributes::DELETE_HORIZON] {
            let header = BatchHeader { attributes: Attributes(bits), ..header() };
            assert_eq!(disposition(&header, TERMS), Disposition::Forward, "{bits:#b}");
        }
    }

    #[test]
    fn each_reason_to_drop_rebuild_or_refuse_is_found() {
        let bits = |bits| BatchHeader { attributes: Attributes(bits), ..header() };
        let cases = [
            (bits(Attributes::CONTROL), Disposition::Drop(GapReason::Control)),
            (BatchHeader { count: 0, ..header() }, Disposition::Drop(GapReason::Emptied)),
            (bits(5), Disposition::Refuse(RefuseReason::Codec(5))),
            (bits(0x80), Disposition::Refuse(RefuseReason::Attributes(0x80))),
            (
                BatchHeader { base_offset: Offset(99), ..header() },
                Disposition::Rebuild(RebuildReason::StartsBefore),
            ),
            (
                BatchHeader { count: 9, ..header() },
                Disposition::Rebuild(RebuildReason::OffsetHoles),
            ),
            (
                BatchHeader { length: 1_048_577, ..header() },
                Disposition::Rebuild(RebuildReason::TooLarge),
            ),
            (bits(Attributes::LOG_APPEND_TIME), Disposition::Rebuild(RebuildReason::AppendTime)),
        ];
        for (header, expected) in cases {
            assert_eq!(disposition(&header, TERMS), expected, "{header:?}");
        }
        let aborted = Terms { aborted: true, ..TERMS };
        assert_eq!(disposition(&header(), aborted), Disposition::Drop(GapReason::Aborted));
    }
}
