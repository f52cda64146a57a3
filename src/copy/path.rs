//! How a batch of the target came to be what it is, and when small ones become one.

use crate::batch::{Codec, RebuildReason};

/// How a batch of the target came to be what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// A source batch behind a new header.
    Raw,
    /// Several small source batches in one.
    Merged,
    /// Records of a source batch, written anew.
    Rebuilt(RebuildReason),
}

/// Largest batch that merging makes for a target that is far.
///
/// Five of them in flight over a round trip of 100 ms are 26 MB/s for one partition; larger ones
/// would only make the first record of each wait longer for the last.
const MERGED_BYTES_FAR: usize = 512 * 1024;

/// The same for one that is near: the cost of a batch is spread over enough records, and five of
/// them in flight for every busy partition leave room in the processor's cache and in memory.
const MERGED_BYTES_NEAR: usize = 128 * 1024;

/// Largest number of batches merged at once, so that a shard's other partitions need not wait.
pub(super) const MERGED_BATCHES_MAX: usize = 4096;

/// Batches smaller than this are merged when several of one partition are ready.
///
/// Uncompressed, records are moved for less than it costs to send a batch of them (a request's
/// share, the broker's checks, its answer): `cargo bench` shows the first, and a topic of 16 KiB
/// batches, `batch.size`'s default, became cheaper on both sides. Beyond 32 KiB the bytes
/// themselves cost more than sending one batch less saves.
const PLAIN_BELOW: usize = 32 * 1024;

/// The same for compressed batches, which have to be unpacked and packed.
///
/// That costs by the byte, and with gzip many times what it costs with lz4: from 2 KiB on, sending
/// is cheaper, as long as the way is short.
const PACKED_BELOW: usize = 2 * 1024;

/// The same for compressed batches while a round trip to the target, and not the work, is what
/// limits the copy.
const PACKED_BELOW_FAR: usize = 64 * 1024;

/// When small batches are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Merging {
    /// The target is near: only where merging costs less than sending.
    #[default]
    Near,
    /// The target is far: whatever a round trip can carry more of.
    Far,
}

impl Merging {
    /// Bytes of the largest batch that it makes.
    pub(super) fn bytes_max(self) -> usize {
        match self {
            Self::Near => MERGED_BYTES_NEAR,
            Self::Far => MERGED_BYTES_FAR,
        }
    }

    /// Bytes that a batch of `codec` must be smaller than to be merged.
    pub(super) fn below(self, codec: Option<Codec>) -> usize {
        match (self, codec) {
            (_, None) => 0,
            (Self::Near | Self::Far, Some(Codec::None)) => PLAIN_BELOW,
            (Self::Near, Some(_)) => PACKED_BELOW,
            (Self::Far, Some(_)) => PACKED_BELOW_FAR,
        }
    }
}
