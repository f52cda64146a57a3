//! A reader that refuses a count larger than the bytes left.

use crate::model::TopicId;

/// Bytes that are not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: expected {expected}, found {found}")]
pub struct Malformed {
    /// Where in the message, in bytes from its start.
    pub at: usize,
    /// What should have been there.
    pub expected: &'static str,
    /// What was there instead.
    pub found: String,
}

/// Reads the primitives of the Kafka protocol from a slice.
///
/// No method allocates for more than the slice holds, and none reads past its end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    flexible: bool,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start; `flexible` chooses compact lengths and tagged fields.
    #[must_use]
    pub fn new(bytes: &'a [u8], flexible: bool) -> Self {
        Self { bytes, at: 0, flexible }
    }

    /// Bytes read so far.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error about the byte that would be read next.
    pub fn malformed(&self, expected: &'static str, found: impl ToString) -> Malformed {
        Malformed { at: self.at, expected, found: found.to_string() }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize, expected: &'static str) -> Result<&'a [u8], Malformed> {
        let Some(slice) = self.bytes[self.at..].get(..count) else {
            return Err(self.malformed(expected, format!("{} bytes", self.remaining())));
        };
        self.at += count;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Malformed> {
        let slice = self.take(N, expected)?;
        Ok(slice.try_into().expect("`take` returned N bytes"))
    }

    /// A signed byte.
    pub fn i8(&mut self) -> Result<i8, Malformed> {
        Ok(i8::from_be_bytes(self.array("int8")?))
    }

    /// A 16-bit number.
    pub fn i16(&mut self) -> Result<i16, Malformed> {
        Ok(i16::from_be_bytes(self.array("int16")?))
    }

    /// A 32-bit number.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array("int32")?))
    }

    /// A 64-bit number.
    pub fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array("int64")?))
    }

    /// A topic id.
    pub fn topic_id(&mut self) -> Result<TopicId, Malformed> {
        Ok(TopicId(self.array("uuid")?))
    }

    /// An unsigned varint of at most five bytes.
    pub fn uvarint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0_u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array("unsigned varint")?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value)
                    .map_err(|_| self.malformed("unsigned varint of 32 bits", value));
            }
        }
        Err(self.malformed("end of unsigned varint", "a sixth byte"))
    }

    /// A length: `None` for null. Compact lengths are one more than they say.
    fn length(&mut self, short: bool, expected: &'static str) -> Result<Option<usize>, Malformed> {
        let length = if self.flexible {
            i64::from(self.uvarint()?) - 1
        } else if short {
            i64::from(self.i16()?)
        } else {
            i64::from(self.i32()?)
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(self.malformed(expected, format!("length {length}"))),
        }
    }

    /// A string that may be null; must be UTF-8.
    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, Malformed> {
        let Some(length) = self.length(true, "string")? else { return Ok(None) };
        let start = self.at;
        let bytes = self.take(length, "string")?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| Malformed {
            at: start,
            expected: "UTF-8",
            found: "other bytes".into(),
        })
    }

    /// A string that must not be null.
    pub fn string(&mut self) -> Result<&'a str, Malformed> {
        self.nullable_string()?.ok_or_else(|| self.malformed("string", "null"))
    }

    /// Bytes that may be null, as their place in the slice.
    pub fn nullable_bytes(&mut self) -> Result<Option<std::ops::Range<usize>>, Malformed> {
        let Some(length) = self.length(false, "bytes")? else { return Ok(None) };
        let start = self.at;
        self.take(length, "bytes")?;
        Ok(Some(start..self.at))
    }

    /// An array's element count, `None` for null.
    ///
    /// Refused if `count` elements of `smallest` bytes each cannot follow any more, so that
    /// reserving room for `count` of them is safe.
    pub fn nullable_count(&mut self, smallest: usize) -> Result<Option<usize>, Malformed> {
        let Some(count) = self.length(false, "array")? else { return Ok(None) };
        if count.saturating_mul(smallest.max(1)) > self.remaining() {
            return Err(self.malformed(
                "array that fits the message",
                format!("{count} elements in {} bytes", self.remaining()),
            ));
        }
        Ok(Some(count))
    }

    /// An array's element count; null counts as empty.
    pub fn count(&mut self, smallest: usize) -> Result<usize, Malformed> {
        Ok(self.nullable_count(smallest)?.unwrap_or(0))
    }

    /// Tagged fields, each shown to `field` with its tag and a reader of its own bytes; does
    /// nothing in versions without them.
    pub fn tagged(
        &mut self,
        mut field: impl FnMut(u32, &mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if !self.flexible {
            return Ok(());
        }
        let count = self.uvarint()?;
        for _ in 0..count {
            let tag = self.uvarint()?;
            let size = self.uvarint()? as usize;
            let start = self.at;
            let bytes = self.take(size, "tagged field")?;
            let mut inner = Reader::new(bytes, true);
            field(tag, &mut inner).map_err(|error| Malformed { at: start + error.at, ..error })?;
        }
        Ok(())
    }

    /// Tagged fields that do not matter.
    pub fn skip_tagged(&mut self) -> Result<(), Malformed> {
        self.tagged(|_, _| Ok(()))
    }

    /// Makes sure that nothing follows: a message is read to its last byte or not at all.
    pub fn finish(&self) -> Result<(), Malformed> {
        if self.remaining() == 0 {
            return Ok(());
        }
        Err(self.malformed("end of message", format!("{} more bytes", self.remaining())))
    }
}

/// Writes the primitives of the Kafka protocol behind one another.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    flexible: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, flexible: bool) -> Self {
        Self { out, flexible }
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn i8(&mut self, value: i8) {
        self.raw(&value.to_be_bytes());
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.raw(&value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.raw(&value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.raw(&value.to_be_bytes());
    }

    pub(super) fn uvarint(&mut self, mut value: u32) {
        while value > 0x7f {
            self.out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.push((value & 0x7f) as u8);
    }

    /// A length of array or bytes.
    ///
    /// # Panics
    ///
    /// If it does not fit the wire; requests are bounded far below.
    pub(super) fn length(&mut self, length: usize) {
        let length = i32::try_from(length).expect("requests stay far below 2 GiB");
        if self.flexible {
            self.uvarint(length.cast_unsigned() + 1);
        } else {
            self.i32(length);
        }
    }

    /// # Panics
    ///
    /// If the text is longer than 32767 bytes; names are limited to 249 by brokers.
    pub(super) fn string(&mut self, text: &str) {
        if self.flexible {
            self.length(text.len());
        } else {
            self.i16(i16::try_from(text.len()).expect("names are far below 32 KiB"));
        }
        self.raw(text.as_bytes());
    }

    pub(super) fn null_string(&mut self) {
        if self.flexible {
            self.uvarint(0);
        } else {
            self.i16(-1);
        }
    }

    /// No tagged fields; nothing in versions without them.
    pub(super) fn no_tagged(&mut self) {
        if self.flexible {
            self.uvarint(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_the_bytes_cannot_hold_is_an_error_and_reserves_nothing() {
        let huge = [0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        let error = Reader::new(&huge, false).count(4).unwrap_err();
        assert_eq!(error.found, "2147483647 elements in 4 bytes");

        let compact = [0xff, 0xff, 0xff, 0xff, 0x0f, 1];
        assert!(Reader::new(&compact, true).count(1).is_err());
        // Two elements of one byte do fit.
        assert_eq!(Reader::new(&[3, 1, 2], true).count(1), Ok(2));
    }

    #[test]
    fn lengths_below_null_strings_that_are_not_text_and_endless_varints_are_errors() {
        assert!(Reader::new(&(-2_i16).to_be_bytes(), false).nullable_string().is_err());
        assert!(Reader::new(&[0, 1, 0xff], false).nullable_string().is_err());
        assert!(Reader::new(&[0x80; 6], true).uvarint().is_err());
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f], true).uvarint().is_err());
    }

    #[test]
    fn what_is_written_is_read_back_in_both_encodings() {
        for flexible in [false, true] {
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out, flexible);
            writer.string("orders");
            writer.null_string();
            writer.length(300);
            writer.raw(&[7; 300]);
            writer.no_tagged();

            let mut reader = Reader::new(&out, flexible);
            assert_eq!(reader.string(), Ok("orders"));
            assert_eq!(reader.nullable_string(), Ok(None));
            assert_eq!(reader.nullable_bytes().unwrap().unwrap().len(), 300);
            reader.skip_tagged().unwrap();
            reader.finish().unwrap();
        }
    }
}
