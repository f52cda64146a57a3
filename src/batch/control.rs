//! Transaction markers.

use super::header::RawBatch;
use super::record::read_varint;

/// What a control batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// The transaction's records do not count.
    Abort,
    /// The transaction's records count.
    Commit,
    /// Something that concerns brokers only (leader changes, snapshots), or came later.
    Other(i16),
}

/// Reads the type of a control batch from the key of its one record.
///
/// The key is two 16-bit numbers, version and type (`ControlRecordType`); later versions keep
/// both in front. `None` if the batch has been emptied, is compressed (no broker does that) or
/// its record does not hold such a key.
#[must_use]
pub fn control_type(batch: &RawBatch) -> Option<ControlType> {
    if batch.header().count == 0 || batch.header().attributes.codec().is_none_or(|c| c.id() != 0) {
        return None;
    }
    let body = batch.body();
    let mut rest = &body[..];
    let _length = read_varint(&mut rest)?;
    let (_attributes, after) = rest.split_first()?;
    rest = after;
    let _timestamp_delta = read_varint(&mut rest)?;
    let _offset_delta = read_varint(&mut rest)?;
    if read_varint(&mut rest)? < 4 {
        return None;
    }
    let kind = i16::from_be_bytes(rest.get(2..4)?.try_into().ok()?);
    Some(match kind {
        0 => ControlType::Abort,
        1 => ControlType::Commit,
        other => ControlType::Other(other),
    })
}
