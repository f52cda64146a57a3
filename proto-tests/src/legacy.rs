//! Messages of formats 0 and 1 as their specification has them: a reader and a writer.
//!
//! Nothing here uses the code under test. Layout and rules: KIP-31, KIP-32, `LegacyRecord`,
//! `AbstractLegacyRecordBatch.DeepRecordsIterator` in Apache Kafka.

use crate::broker::batch::{Packing, Record, pack, unpack};

/// Attribute bit: times are the broker's.
const APPEND_TIME: u8 = 0b1000;

/// Bytes in front of what the length field counts.
const OVERHEAD: usize = 12;

/// A message as it lies in a record set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its offset: of a wrapper, that of its last inner message.
    pub offset: i64,
    /// Format, 0 or 1.
    pub magic: u8,
    /// Codec and timestamp type.
    pub attributes: u8,
    /// Its time; format 0 has none.
    pub time: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value: of a wrapper, messages.
    pub value: Option<Vec<u8>>,
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Writes the checksum of a message into it.
///
/// # Panics
///
/// If it is shorter than that.
pub fn seal(message: &mut [u8]) {
    let sum = crc(&message[16..]);
    message[12..16].copy_from_slice(&sum.to_be_bytes());
}

impl Message {
    /// A plain message.
    #[must_use]
    pub fn plain(magic: u8, record: &Record) -> Self {
        let (key, value) = (record.key.clone(), record.value.clone());
        Self { offset: record.offset, magic, attributes: 0, time: record.time, key, value }
    }

    /// A wrapper around records, which must not be empty. Of format 1 with `append_time`, all of
    /// them have that time.
    ///
    /// # Panics
    ///
    /// Without records.
    #[must_use]
    pub fn wrapper(
        magic: u8,
        packing: Packing,
        append_time: Option<i64>,
        records: &[Record],
    ) -> Self {
        let (first, last) = (&records[0], &records[records.len() - 1]);
        let inner: Vec<u8> = records
            .iter()
            .flat_map(|record| {
                let mut message = Self::plain(magic, record);
                if magic == 1 {
                    message.offset -= first.offset;
                }
                message.to_bytes()
            })
            .collect();
        let mut packed = pack(packing, &inner);
        if magic == 0 && packing == Packing::Lz4 {
            spoil_lz4_header(&mut packed);
        }
        let times = records.iter().map(|record| record.time);
        Self {
            offset: last.offset,
            magic,
            attributes: packing as u8 | append_time.map_or(0, |_| APPEND_TIME),
            time: append_time.or_else(|| times.max()).unwrap_or(-1),
            key: None,
            value: Some(packed),
        }
    }

    /// Its bytes, sealed.
    ///
    /// # Panics
    ///
    /// If it is larger than a length can say.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.offset.to_be_bytes().to_vec();
        out.extend([0; 8]);
        out.extend([self.magic, self.attributes]);
        if self.magic == 1 {
            out.extend(self.time.to_be_bytes());
        }
        for part in [&self.key, &self.value] {
            let length = part.as_ref().map_or(-1, |part| i32::try_from(part.len()).expect("small"));
            out.extend(length.to_be_bytes());
            out.extend(part.iter().flatten());
        }
        let length = i32::try_from(out.len() - OVERHEAD).expect("small");
        out[8..12].copy_from_slice(&length.to_be_bytes());
        seal(&mut out);
        out
    }

    /// Takes a message from the front; what is cut off is an error.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn take(rest: &mut &[u8]) -> Result<Self, String> {
        let length = i32::from_be_bytes(*rest.get(8..).and_then(<[u8]>::first_chunk).ok_or("cut")?);
        let total = OVERHEAD + usize::try_from(length).map_err(|_| "negative length")?;
        let (bytes, after) = rest.split_at_checked(total).ok_or("cut message")?;
        *rest = after;
        let offset = i64::from_be_bytes(*bytes.first_chunk().ok_or("cut")?);
        let stored =
            u32::from_be_bytes(*bytes.get(12..).and_then(<[u8]>::first_chunk).ok_or("cut")?);
        if stored != crc(&bytes[16..]) {
            return Err(format!("the message at {offset} has a wrong checksum"));
        }
        let [magic, attributes] = *bytes.get(16..).and_then(<[u8]>::first_chunk).ok_or("cut")?;
        let mut fields = &bytes[18..];
        let time = match magic {
            0 => -1,
            1 => i64::from_be_bytes(*take(&mut fields, 8)?.first_chunk().ok_or("cut")?),
            other => return Err(format!("format {other}")),
        };
        let mut part =
            || match i32::from_be_bytes(*take(&mut fields, 4)?.first_chunk().ok_or("cut")?) {
                -1 => Ok(None),
                length => {
                    let length = usize::try_from(length).map_err(|_| "negative length")?;
                    take(&mut fields, length).map(|bytes| Some(bytes.to_vec()))
                }
            };
        let (key, value) = (part()?, part()?);
        if !fields.is_empty() {
            return Err("bytes behind the value".to_owned());
        }
        Ok(Self { offset, magic, attributes, time, key, value })
    }

    /// The records that it stands for.
    ///
    /// # Errors
    ///
    /// In words.
    pub fn records(self) -> Result<Vec<Record>, String> {
        let packing = Packing::of(i16::from(self.attributes)).ok_or("unknown codec")?;
        if packing == Packing::None {
            return Ok(vec![self.record()]);
        }
        let mut packed = self.value.ok_or("a wrapper without value")?;
        if self.magic == 0 && packing == Packing::Lz4 {
            mend_lz4_header(&mut packed);
        }
        let unpacked = unpack(packing, &packed)?;
        let (mut rest, mut inside) = (&unpacked[..], Vec::new());
        while !rest.is_empty() {
            let message = Self::take(&mut rest)?;
            if message.magic != self.magic || message.attributes & 7 != 0 {
                return Err("an inner message of another kind".to_owned());
            }
            inside.push(message.record());
        }
        let last = inside.last().ok_or("an empty wrapper")?.offset;
        if self.magic == 1 {
            for record in &mut inside {
                let absolute =
                    self.offset.checked_sub(last).and_then(|at| at.checked_add(record.offset));
                record.offset = absolute.ok_or("an offset outside of all logs")?;
                if self.attributes & APPEND_TIME != 0 {
                    record.time = self.time;
                }
            }
        }
        Ok(inside)
    }

    fn record(self) -> Record {
        let Self { offset, time, key, value, .. } = self;
        Record { offset, time, key, value, headers: Vec::new() }
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], &'static str> {
    let (bytes, after) = rest.split_at_checked(count).ok_or("cut field")?;
    *rest = after;
    Ok(bytes)
}

/// Where an lz4 frame's header ends in its checksum.
fn lz4_checksum_at(frame: &[u8]) -> Option<usize> {
    let at = if frame.get(4)? & 0b1000 == 0 { 6 } else { 14 };
    (at < frame.len()).then_some(at)
}

/// What decoders expect there: of the descriptor, without the frame's magic number.
fn mend_lz4_header(frame: &mut [u8]) {
    if let Some(at) = lz4_checksum_at(frame) {
        frame[at] = twox_hash::XxHash32::oneshot(0, &frame[4..at]).to_be_bytes()[2];
    }
}

/// What producers of format 0 wrote there: of the magic number as well (KAFKA-3160).
fn spoil_lz4_header(frame: &mut [u8]) {
    if let Some(at) = lz4_checksum_at(frame) {
        frame[at] = twox_hash::XxHash32::oneshot(0, &frame[..at]).to_be_bytes()[2];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_in_every_codec_of_both_formats() {
        let record = |offset: i64| Record {
            offset,
            time: 1_000 - offset,
            key: Some(vec![7]),
            value: (offset != 8).then(|| vec![9; 300]),
            headers: Vec::new(),
        };
        let all = [record(5), record(6), record(8)];
        for packing in [Packing::Gzip, Packing::Snappy, Packing::Lz4] {
            let bytes = Message::wrapper(1, packing, None, &all).to_bytes();
            let read = Message::take(&mut &bytes[..]).unwrap();
            assert_eq!(read.records().unwrap(), all, "{packing:?}");

            let bytes = Message::wrapper(0, packing, None, &all).to_bytes();
            let read = Message::take(&mut &bytes[..]).unwrap().records().unwrap();
            let timeless = all.clone().map(|record| Record { time: -1, ..record });
            assert_eq!(read, timeless, "{packing:?}");

            let appended = Message::wrapper(1, packing, Some(77), &all);
            assert!(appended.clone().records().unwrap().iter().all(|record| record.time == 77));
            let mut damaged = appended.to_bytes();
            *damaged.last_mut().unwrap() ^= 1;
            assert!(Message::take(&mut &damaged[..]).is_err());
        }
    }
}
