//! One partition's log, as its leader keeps it.
//!
//! Batches, the state of producers, open and aborted transactions, and where each leader epoch
//! began (`UnifiedLog`, `ProducerStateManager`, `ProducerAppendInfo`, `LeaderEpochFileCache`).
//! Everything is replicated at once: the high watermark is the log's end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use super::batch::{
    self, CONTROL, HEADER, Header, Origin, Packing, Record, TRANSACTIONAL, is_commit,
};

/// Batches per producer that a leader remembers.
const REMEMBERED: usize = 5;

/// A batch in the log.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its header, with the offsets and the epoch that the leader wrote.
    pub header: Header,
    /// The whole of it.
    pub bytes: Bytes,
    /// Which segment it lies in; no fetch answer crosses two.
    segment: u32,
}

#[derive(Clone, Debug, Default)]
struct Producer {
    epoch: i16,
    recent: VecDeque<(i32, i32, i64)>,
}

/// What the leader makes of a producer's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequenced {
    /// It follows.
    Next,
    /// It is here already, at this offset.
    Duplicate(i64),
    /// It is refused with this code.
    Refused(i16),
}

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted {
    /// Whose.
    pub producer: i64,
    /// Its first offset.
    pub first: i64,
    /// Its marker's offset.
    pub last: i64,
}

/// A partition's log.
#[derive(Clone, Debug, Default)]
pub struct PartitionLog {
    start: i64,
    end: i64,
    batches: Vec<Stored>,
    producers: BTreeMap<i64, Producer>,
    open: BTreeMap<i64, i64>,
    aborted: Vec<Aborted>,
    epochs: Vec<(i32, i64)>,
    segment: u32,
}

impl PartitionLog {
    /// First offset that readers may ask for.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.start
    }

    /// Offset of the next record; the high watermark as well.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.end
    }

    /// End of what a reader of committed records may see.
    #[must_use]
    pub fn stable(&self) -> i64 {
        self.open.values().copied().min().unwrap_or(self.end)
    }

    /// Its batches, in order.
    #[must_use]
    pub fn batches(&self) -> &[Stored] {
        &self.batches
    }

    /// Its aborted transactions.
    #[must_use]
    pub fn aborted(&self) -> &[Aborted] {
        &self.aborted
    }

    /// Every record that a reader sees, committed or not.
    ///
    /// # Panics
    ///
    /// If a batch cannot be read: the broker checked it.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let data = self.batches.iter().filter(|stored| !stored.header.has(CONTROL));
        data.flat_map(|stored| batch::records(&stored.bytes).expect("checked when appended"))
            .filter(|record| record.offset >= self.start)
            .collect()
    }

    /// Whether a batch belongs to an aborted transaction.
    #[must_use]
    pub fn is_aborted(&self, header: &Header) -> bool {
        let within = |one: &Aborted| {
            one.producer == header.producer && (one.first..=one.last).contains(&header.base)
        };
        header.has(TRANSACTIONAL) && self.aborted.iter().any(within)
    }

    /// What a leader says about the sequence of a batch from a client.
    #[must_use]
    pub fn sequenced(&self, header: &Header) -> Sequenced {
        if header.producer < 0 {
            return Sequenced::Next;
        }
        let first = header.sequence;
        let last = first.wrapping_add(header.last_delta) & i32::MAX;
        let Some(known) = self.producers.get(&header.producer) else { return Sequenced::Next };
        if known.epoch == header.epoch
            && let Some((.., base)) =
                known.recent.iter().find(|(f, l, _)| (*f, *l) == (first, last))
        {
            return Sequenced::Duplicate(*base);
        }
        if header.epoch < known.epoch {
            return Sequenced::Refused(47);
        }
        if header.epoch > known.epoch {
            return if first == 0 { Sequenced::Next } else { Sequenced::Refused(45) };
        }
        let expected =
            known.recent.back().map_or(0, |(_, last, _)| last.wrapping_add(1) & i32::MAX);
        if first == expected { Sequenced::Next } else { Sequenced::Refused(45) }
    }

    /// Says that a leader of `epoch` begins here.
    pub fn begin_epoch(&mut self, epoch: i32) {
        let end = self.end;
        self.epochs.retain(|(known, start)| *known < epoch && *start < end);
        self.epochs.push((epoch, end));
    }

    /// Begins a new segment: no fetch answer reaches over its border.
    pub fn roll(&mut self) {
        self.segment += 1;
    }

    /// Stores a batch behind the last, whatever it is; gives its first offset.
    ///
    /// # Panics
    ///
    /// If the bytes are not a batch.
    pub fn append(&mut self, bytes: &[u8]) -> i64 {
        let base = self.end;
        let mut bytes = bytes.to_vec();
        bytes[..8].copy_from_slice(&base.to_be_bytes());
        let epoch = self.epochs.last().map_or(0, |(epoch, _)| *epoch);
        bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
        let header = Header::read(&bytes).expect("a batch");
        self.end = header.next();
        self.note(&header, &bytes);
        self.batches.push(Stored { header, bytes: bytes.into(), segment: self.segment });
        base
    }

    /// Takes notice of producer and transaction.
    fn note(&mut self, header: &Header, bytes: &[u8]) {
        if header.producer < 0 {
            return;
        }
        let producer = self.producers.entry(header.producer).or_default();
        if producer.epoch != header.epoch {
            *producer = Producer { epoch: header.epoch, recent: VecDeque::new() };
        }
        if header.has(CONTROL) {
            if let Some(first) = self.open.remove(&header.producer)
                && !is_commit(bytes)
            {
                let (producer, last) = (header.producer, header.base);
                self.aborted.push(Aborted { producer, first, last });
            }
            return;
        }
        let last = header.sequence.wrapping_add(header.last_delta) & i32::MAX;
        producer.recent.push_back((header.sequence, last, header.base));
        if producer.recent.len() > REMEMBERED {
            producer.recent.pop_front();
        }
        if header.has(TRANSACTIONAL) {
            self.open.entry(header.producer).or_insert(header.base);
        }
    }

    /// Ends an open transaction of a producer.
    pub fn end_transaction(&mut self, from: Origin, time: i64, commit: bool) -> i64 {
        self.append(&batch::marker(0, time, from, commit))
    }

    /// The leader forgets its producers, as after their expiry.
    pub fn forget_producers(&mut self) {
        self.producers.clear();
    }

    /// Index of the first batch that holds `offset` or comes behind it.
    fn place(&self, offset: i64) -> usize {
        self.batches.partition_point(|stored| stored.header.next() <= offset)
    }

    /// The bytes from `offset` on, as a broker cuts them: below `upper`, within one segment, at
    /// most `bytes_max`, or at least one batch if `at_least_one`.
    #[must_use]
    pub fn read(&self, offset: i64, upper: i64, bytes_max: usize, at_least_one: bool) -> Bytes {
        let from = self.place(offset);
        let Some(first) = self.batches.get(from) else { return Bytes::new() };
        if first.header.base >= upper {
            return Bytes::new();
        }
        if first.bytes.len() > bytes_max {
            return if at_least_one { first.bytes.clone() } else { Bytes::new() };
        }
        let mut out = Vec::new();
        for stored in &self.batches[from..] {
            if stored.header.base >= upper || stored.segment != first.segment {
                break;
            }
            let room = bytes_max - out.len();
            // A plain cut: the last batch may be partial.
            out.extend_from_slice(&stored.bytes[..stored.bytes.len().min(room)]);
            if room <= stored.bytes.len() {
                break;
            }
        }
        out.into()
    }

    /// Aborted transactions that overlap an answer's range.
    #[must_use]
    pub fn aborted_within(&self, offset: i64, set: &Bytes) -> Vec<Aborted> {
        let until = batch::split(set).last().and_then(|last| Header::read(last));
        let until = until.map_or(offset, |header| header.next());
        let overlaps = |one: &&Aborted| one.last >= offset && one.first < until;
        self.aborted.iter().filter(overlaps).copied().collect()
    }

    /// Where an epoch ended: the largest epoch known up to it, and that epoch's end
    /// (`LeaderEpochFileCache.endOffsetFor`). -1 and -1 if nobody can say.
    #[must_use]
    pub fn epoch_end(&self, asked: i32) -> (i32, i64) {
        let Some((latest, _)) = self.epochs.last() else { return (-1, -1) };
        if asked == *latest {
            return (asked, self.end);
        }
        let higher = self.epochs.iter().position(|(epoch, _)| *epoch > asked);
        match higher {
            None => (-1, -1),
            Some(0) => (asked, self.epochs[0].1),
            Some(at) => (self.epochs[at - 1].0, self.epochs[at].1),
        }
    }

    /// Epoch of the batch at an offset.
    #[must_use]
    pub fn epoch_at(&self, offset: i64) -> i32 {
        self.epochs.iter().rev().find(|(_, start)| *start <= offset).map_or(-1, |(epoch, _)| *epoch)
    }

    /// Retention or DeleteRecords: what lies before `offset` is gone.
    pub fn delete_to(&mut self, offset: i64) {
        self.start = offset.clamp(self.start, self.end);
        let start = self.start;
        self.batches.retain(|stored| stored.header.next() > start);
        self.aborted.retain(|one| one.last >= start);
        let before = self.epochs.iter().rposition(|(_, begun)| *begun <= start).unwrap_or(0);
        self.epochs.drain(..before);
        if let Some((_, begun)) = self.epochs.first_mut() {
            *begun = (*begun).max(start);
        }
    }

    /// An unclean election: what lies from `offset` on is gone, and the end moves back to the
    /// border of the batch there. Gives the new end.
    pub fn truncate(&mut self, offset: i64) -> i64 {
        let keep = self.batches.partition_point(|stored| stored.header.next() <= offset);
        self.batches.truncate(keep);
        self.end =
            self.batches.last().map_or(self.start, |last| last.header.next()).max(self.start);
        let end = self.end;
        self.epochs.retain(|(_, begun)| *begun < end);
        self.producers.clear();
        self.open.clear();
        self.aborted.clear();
        for stored in self.batches.clone() {
            self.note(&stored.header, &stored.bytes);
        }
        end
    }

    /// The cleaner's work up to `until`: of each key the last record stays, of aborted data
    /// nothing. `keep_empty` says whether a batch that was emptied stays as a header.
    ///
    /// # Panics
    ///
    /// If a batch cannot be read: the broker checked it.
    pub fn compact(&mut self, until: i64, mut keep_empty: impl FnMut() -> bool) {
        let until = until.min(self.stable());
        let mut last = BTreeMap::new();
        let mut cleaned = BTreeSet::new();
        for stored in &self.batches {
            if stored.header.has(CONTROL) || stored.header.next() > until {
                continue;
            }
            cleaned.insert(stored.header.base);
            if self.is_aborted(&stored.header) {
                continue;
            }
            for record in batch::records(&stored.bytes).expect("checked when appended") {
                last.insert(record.key, record.offset);
            }
        }
        let all = std::mem::take(&mut self.batches);
        for stored in &all {
            if !cleaned.contains(&stored.header.base) {
                self.batches.push(stored.clone());
                continue;
            }
            let records = batch::records(&stored.bytes).expect("checked when appended");
            let aborted = self.is_aborted(&stored.header);
            let kept: Vec<Record> = records
                .iter()
                .filter(|record| !aborted && last.get(&record.key) == Some(&record.offset))
                .cloned()
                .collect();
            if kept.len() == records.len() && !kept.is_empty() {
                self.batches.push(stored.clone());
            } else if !kept.is_empty() || keep_empty() {
                self.batches.push(rewritten(stored, &kept));
            }
        }
    }

    /// Spoils the stored bytes of the batch at `offset`: a bad disk. `false` if there is none.
    pub fn damage(&mut self, offset: i64) -> bool {
        let at = self.place(offset);
        let Some(stored) = self.batches.get_mut(at) else { return false };
        let mut bytes = stored.bytes.to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 0x40;
        stored.bytes = bytes.into();
        true
    }

    /// Puts the last batch before the one in front of it: what no broker does. For a negative
    /// control.
    pub fn swap_last(&mut self) {
        let [.., a, b] = self.batches.as_mut_slice() else { return };
        let base = a.header.base;
        std::mem::swap(&mut a.bytes, &mut b.bytes);
        let mut next = base;
        for stored in [a, b] {
            let mut bytes = stored.bytes.to_vec();
            bytes[..8].copy_from_slice(&next.to_be_bytes());
            stored.header = Header::read(&bytes).expect("a batch");
            stored.bytes = bytes.into();
            next = stored.header.next();
        }
    }
}

fn rewritten(stored: &Stored, kept: &[Record]) -> Stored {
    let header = stored.header;
    let from = Origin { producer: header.producer, epoch: header.epoch, sequence: header.sequence };
    let packing = if kept.is_empty() {
        Packing::None
    } else {
        Packing::ALL[usize::from(header.attributes.cast_unsigned() & 7)]
    };
    let attributes = header.attributes & TRANSACTIONAL;
    let span = i64::from(header.last_delta) + 1;
    let mut bytes = batch::write(header.base, span, kept, packing, attributes, from);
    bytes[12..16].copy_from_slice(&header.leader_epoch.to_be_bytes());
    debug_assert!(bytes.len() >= HEADER);
    let header = Header::read(&bytes).expect("just written");
    Stored { header, bytes: bytes.into(), segment: stored.segment }
}
