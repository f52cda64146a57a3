//! The three field types of MM2's binary records: big-endian integers and short strings.
//!
//! They are the classic Kafka protocol's types, but these records are not protocol messages:
//! they stand in topics, have no API and no version negotiation, so they are read here and
//! not by `wire`.

use thiserror::Error;

/// Longest string of the classic protocol, in bytes; the length is an `i16`.
const STRING_BYTES_MAX: usize = 32_767;

/// A record that is not what its topic's format says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{record} is malformed at byte {at}: {problem}")]
pub struct Malformed {
    /// Which record and which half of it, such as `offset sync key`.
    pub record: &'static str,
    /// Where reading stopped, in bytes from the start.
    pub at: usize,
    /// What was wrong there.
    pub problem: String,
}

/// A text longer than the format's 16-bit length can say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} has {bytes} bytes; MM2's format ends at {STRING_BYTES_MAX}")]
pub struct TooLong {
    /// Which field of the record.
    pub field: &'static str,
    /// How long it is.
    pub bytes: usize,
}

/// Reads fields in order. What follows the last field is ignored, as Kafka's `Schema.read`
/// does: a later version may append.
pub(super) struct Reader<'a> {
    record: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(record: &'static str, bytes: &'a [u8]) -> Self {
        Self { record, bytes, at: 0 }
    }

    pub(super) fn malformed(&self, problem: impl Into<String>) -> Malformed {
        Malformed { record: self.record, at: self.at, problem: problem.into() }
    }

    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], Malformed> {
        let left = &self.bytes[self.at..];
        let Some(taken) = left.get(..count) else {
            return Err(
                self.malformed(format!("{what} needs {count} bytes, {} are left", left.len()))
            );
        };
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub(super) fn i16(&mut self, what: &str) -> Result<i16, Malformed> {
        Ok(i16::from_be_bytes(self.array(what)?))
    }

    pub(super) fn i32(&mut self, what: &str) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array(what)?))
    }

    pub(super) fn i64(&mut self, what: &str) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array(what)?))
    }

    pub(super) fn string(&mut self, what: &str) -> Result<&'a str, Malformed> {
        let length = self.i16(what)?;
        let Ok(length) = usize::try_from(length) else {
            return Err(self.malformed(format!("{what} has length {length}")));
        };
        let bytes = self.take(length, what)?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed(format!("{what} is not UTF-8")))
    }

    /// The version of a checkpoint or heartbeat value. Only 0 exists.
    pub(super) fn version_zero(&mut self) -> Result<(), Malformed> {
        match self.i16("version")? {
            0 => Ok(()),
            other => Err(self.malformed(format!("version {other} is unknown; known: 0"))),
        }
    }
}

/// Appends `text` with its 16-bit length in front.
pub(super) fn put_string(
    out: &mut Vec<u8>,
    field: &'static str,
    text: &str,
) -> Result<(), TooLong> {
    let too_long = TooLong { field, bytes: text.len() };
    let length = i16::try_from(text.len()).map_err(|_| too_long)?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}
