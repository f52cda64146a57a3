//! The idempotent producer's numbers (KIP-98).

use std::fmt;

use super::Offset;

/// A record's sequence under one producer id and epoch on one partition.
///
/// Runs from 0 to `i32::MAX` and then starts again at 0, as `DefaultRecordBatch` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(i32);

impl Sequence {
    /// Where every new producer id or epoch starts.
    pub const ZERO: Self = Self(0);

    /// Takes a sequence read from a batch header; `None` for the -1 of a batch without one.
    #[must_use]
    pub fn from_wire(value: i32) -> Option<Self> {
        (value >= 0).then_some(Self(value))
    }

    /// The sequence `records` further on.
    #[must_use]
    pub fn advance(self, records: i32) -> Self {
        Self(self.0.wrapping_add(records) & i32::MAX)
    }

    /// How many records lie between `earlier` and here, with the wrap-around; below 2^31.
    #[must_use]
    pub fn since(self, earlier: Self) -> u32 {
        (self.0.wrapping_sub(earlier.0) & i32::MAX).cast_unsigned()
    }

    /// As written into a batch header.
    #[must_use]
    pub fn to_wire(self) -> i32 {
        self.0
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A producer id with its epoch: whom a broker takes our batches to be from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProducerIdentity {
    /// Given out by `InitProducerId`; at least 0.
    pub id: i64,
    /// At least 0; a higher epoch shuts out lower ones.
    pub epoch: i16,
}

impl ProducerIdentity {
    /// The same producer under its next epoch, by which a leader refuses what is still on its way
    /// under this one. A producer may raise its epoch by itself (KIP-360); `None` behind the last.
    #[must_use]
    pub fn next_epoch(self) -> Option<Self> {
        Some(Self { epoch: self.epoch.checked_add(1)?, ..self })
    }
}

impl fmt::Display for ProducerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.id, self.epoch)
    }
}

/// One entry of a Fetch response's list of aborted transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbortedTransaction {
    /// Offset of the transaction's first record in this partition.
    pub first_offset: Offset,
    /// Whose transaction it was.
    pub producer_id: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_wraps_from_the_largest_int_to_zero() {
        let near_the_end = Sequence(i32::MAX);

        assert_eq!(near_the_end.advance(1), Sequence::ZERO);
        assert_eq!(near_the_end.advance(3), Sequence(2));
        assert_eq!(Sequence(2).since(near_the_end), 3);
        assert_eq!(Sequence::from_wire(-1), None);
    }
}
