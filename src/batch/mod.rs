//! Floor 1: record batches as bytes.
//!
//! A batch is 61 bytes of header and a body. Forwarding one needs the header only: it is
//! classified ([`disposition`]), given our producer's numbers ([`restamp`]) and its checksum
//! is amended by linearity ([`amend`]). The body is never read on that path.
//!
//! Layout and rules: KIP-98, KIP-534, `DefaultRecordBatch`, `LogValidator` in Apache Kafka.

mod aborted;
mod codec;
mod control;
mod crc;
mod disposition;
mod header;
mod legacy;
mod merge;
mod rebuild;
mod record;
mod restamp;
mod shallow;
mod spare;

pub use aborted::AbortedIndex;
pub use codec::{CodecError, UNPACKED_BYTES_MAX};
pub use control::{ControlType, control_type};
pub use crc::{amend, verify};
pub use disposition::{Disposition, RebuildReason, RefuseReason, Terms, disposition};
pub use header::{Attributes, BatchHeader, Codec, HEADER_BYTES, HeaderError, RawBatch};
pub use legacy::{Batches, BatchesError, LegacyError};
pub use merge::{MERGED_UNPACKED_MAX, merge, mergeable};
pub use rebuild::{Oversize, Piece, RebuildError, Rebuilt, SizeLimits, rebuild};
pub use record::{BatchBuilder, RecordError, RecordView, for_each_record, unpacked_bytes};
pub use restamp::{OutBatch, Stamp, is_whole, restamp};
pub use shallow::{Entry, Shallow, ShallowError};
