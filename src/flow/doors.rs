//! Doors to readers of our own records, for the fuzz targets in `proto-tests/src/targets`; nothing
//! else may come to depend on them.

use super::{anchor, ledger};
use crate::model::Chunk;

/// An anchor as it is read, written again; `None` if it is none.
#[must_use]
pub fn anchor(value: &[u8]) -> Option<Vec<u8>> {
    let ((read, bends), name) = anchor::decode_anchor(value)?;
    Some(anchor::encode(&read, name.as_ref(), bends))
}

/// A chunk of an offset map and, as it is read, the record written again; `None` if it is none.
#[must_use]
pub fn chunk(value: &[u8]) -> Option<(Chunk, Vec<u8>)> {
    let (ids, whole, chunk) = ledger::decode(value)?;
    let again = ledger::encode(ids, whole, &chunk);
    Some((chunk, again))
}
