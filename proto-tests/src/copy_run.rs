//! A copier, driven by a list of steps between a source log and an oracle of the target.
//!
//! After every step the run is judged: the target holds a prefix of what is to be copied, in
//! order and once each; what is acknowledged is there; sequences are contiguous, and what is
//! sent again is what was sent before. After the steps the faults end and the copy must
//! finish.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use heliograph::batch::{BatchBuilder, Codec, HEADER_BYTES, OutBatch, Oversize, RawBatch};
use heliograph::copy::{Copier, Effect, HaltReason, Outcome, Start, Terms, WINDOW_BATCHES_MAX};
use heliograph::model::{
    AbortedTransaction, LeaderEpoch, Offset, ProducerIdentity, Sequence, Timestamp,
};
use heliograph::wire::ErrorCode;
use heliograph::wire::fetch::{FetchedPartition, TopicRef};

use crate::golden::{Record, records};
use crate::oracle::{Append, PartitionLog};

const TRANSACTIONAL: u16 = 0b0001_0000;
const CONTROL: u16 = 0b0010_0000;
const LOG_APPEND_TIME: u16 = 0b0000_1000;

/// Error codes of passing conditions, after which nothing was stored.
const PASSING: [i16; 4] = [19, 6, 5, 56];

/// Error codes that may come although the batch was stored.
const DOUBTFUL: [i16; 2] = [20, 7];

/// One thing in the source's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A dense batch of so many records, in the codec of this number.
    Data(u8, u8),
    /// A batch from which compaction took the records whose bit is 0.
    Holes(u8),
    /// A batch that compaction emptied, of so many offsets.
    Emptied(u8),
    /// Offsets without a batch.
    Missing(u8),
    /// A batch with append times.
    AppendTime(u8),
    /// A transaction of so many records, and its marker: committed or aborted.
    Transaction(u8, bool),
    /// Two transactions at once, of which the first is aborted.
    Interleaved(u8),
    /// A dense batch whose body was damaged.
    Damaged(u8),
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A Fetch answer of so many batches, and so many bytes of the next one.
    Fetch(u8, u8),
    /// The last Fetch answer comes once more.
    StaleFetch,
    /// The Fetch answer is an error.
    FetchFails(u8),
    /// A batch is taken and sent to the leader.
    Take,
    /// The lane's broker works on its oldest request.
    Serve(u8),
    /// It refuses it for a passing reason.
    Refuse(u8, u8),
    /// It stores it, and answers with an error all the same.
    StoreAndRefuse(u8, u8),
    /// The oldest answer of a lane arrives.
    Answer(u8),
    /// The last answer arrives once more, unless its batch was sent again since.
    AnswerTwice,
    /// A lane is lost: what has no answer gets none, but may still be worked on.
    Lose(u8),
    /// A request of a lane that was lost is worked on after all.
    Ghost,
    /// The other broker leads from here on.
    MoveLeader,
    /// The target is out of reach: frames are let go of.
    Release,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is on the target.
    Copied,
    /// At a damaged batch, with everything before it on the target or waiting.
    HaltedAtDamage,
}

struct Sourced {
    next: i64,
    bytes: Bytes,
}

struct Source {
    batches: Vec<Sourced>,
    aborted: Vec<(AbortedTransaction, i64)>,
    /// What a committed reader sees, in order.
    expected: Vec<Record>,
    end: i64,
    damaged_at: Option<i64>,
}

/// Writes the header fields that differ from a built batch, and the checksum anew.
fn patch(batch: &RawBatch, edit: impl FnOnce(&mut [u8])) -> Bytes {
    let mut bytes = batch.bytes().to_vec();
    edit(&mut bytes);
    seal(&mut bytes);
    Bytes::from(bytes)
}

/// Makes the checksum of a batch that of its bytes.
///
/// # Panics
///
/// If it is shorter than a header.
pub fn seal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn codec(number: u8) -> Codec {
    Codec::from_id(number % 5).unwrap_or(Codec::None)
}

impl Source {
    fn new(pieces: &[Piece]) -> Self {
        let mut source = Self {
            batches: Vec::new(),
            aborted: Vec::new(),
            expected: Vec::new(),
            end: 0,
            damaged_at: None,
        };
        for piece in pieces {
            source.add(*piece);
        }
        source
    }

    fn build(&self, count: u8, codec: Codec) -> RawBatch {
        let mut builder = BatchBuilder::new(codec);
        for offset in (self.end..).take(usize::from(count)) {
            let (key, value) = (format!("key {}", offset % 3), format!("value {offset}"));
            builder.push(Timestamp(1000 + offset), Some(key.as_bytes()), Some(value.as_bytes()));
        }
        builder.finish(Offset(self.end)).expect("a batch of records")
    }

    fn push(&mut self, bytes: Bytes, visible: bool) -> i64 {
        let batch = RawBatch::new(bytes.clone()).expect("a whole batch");
        let (base, next) = (batch.header().base_offset.0, batch.header().next_offset().0);
        if visible {
            self.expected.extend(records(&batch).expect("readable records"));
        }
        self.batches.push(Sourced { next, bytes });
        self.end = next;
        base
    }

    fn transactional(&mut self, count: u8, producer: i64, visible: bool) -> i64 {
        let batch = self.build(count, Codec::None);
        let bytes = patch(&batch, |bytes| {
            bytes[21..23].copy_from_slice(&TRANSACTIONAL.to_be_bytes());
            bytes[43..51].copy_from_slice(&producer.to_be_bytes());
            bytes[51..57].fill(0);
        });
        self.push(bytes, visible)
    }

    fn marker(&mut self, producer: i64, commit: bool) -> i64 {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(Timestamp(7), Some(&[0, 0, 0, u8::from(commit)]), Some(&[0; 6]));
        let batch = builder.finish(Offset(self.end)).expect("a marker");
        let bytes = patch(&batch, |bytes| {
            bytes[21..23].copy_from_slice(&(TRANSACTIONAL | CONTROL).to_be_bytes());
            bytes[43..51].copy_from_slice(&producer.to_be_bytes());
            bytes[51..53].fill(0);
        });
        self.push(bytes, false)
    }

    fn add(&mut self, piece: Piece) {
        match piece {
            Piece::Data(count, number) => {
                let batch = self.build(1 + count % 5, codec(number));
                self.push(batch.bytes().clone(), true);
            }
            Piece::Holes(bits) => self.holes(bits),
            Piece::Emptied(offsets) => {
                let batch = self.build(1, Codec::None);
                let mut bytes = batch.bytes()[..HEADER_BYTES].to_vec();
                bytes[8..12].copy_from_slice(&49_i32.to_be_bytes());
                bytes[23..27].copy_from_slice(&i32::from(offsets % 4).to_be_bytes());
                bytes[27..35].copy_from_slice(&(-1_i64).to_be_bytes());
                bytes[57..61].fill(0);
                seal(&mut bytes);
                self.push(Bytes::from(bytes), false);
            }
            Piece::Missing(offsets) => self.end += i64::from(1 + offsets % 9),
            Piece::AppendTime(count) => {
                let batch = self.build(1 + count % 5, codec(count));
                let bits = LOG_APPEND_TIME | batch.header().attributes.0;
                let bytes = patch(&batch, |bytes| {
                    bytes[21..23].copy_from_slice(&bits.to_be_bytes());
                    bytes[35..43].copy_from_slice(&5_000_000_i64.to_be_bytes());
                });
                self.push(bytes, true);
            }
            Piece::Transaction(count, commit) => {
                let first = self.transactional(1 + count % 4, 900, commit);
                let marker = self.marker(900, commit);
                if !commit {
                    self.abort(first, 900, marker);
                }
            }
            Piece::Interleaved(count) => {
                let first = self.transactional(1 + count % 4, 901, false);
                self.transactional(1, 902, true);
                self.transactional(1, 901, false);
                let marker = self.marker(901, false);
                self.transactional(1, 902, true);
                self.marker(902, true);
                self.abort(first, 901, marker);
            }
            Piece::Damaged(count) => {
                let batch = self.build(1 + count % 5, codec(count));
                let mut bytes = batch.bytes().to_vec();
                *bytes.last_mut().expect("a body") ^= 0x40;
                let base = batch.header().base_offset.0;
                self.damaged_at.get_or_insert(base);
                self.batches
                    .push(Sourced { next: batch.header().next_offset().0, bytes: bytes.into() });
                self.end = batch.header().next_offset().0;
            }
        }
    }

    fn abort(&mut self, first: i64, producer_id: i64, marker: i64) {
        let entry = AbortedTransaction { first_offset: Offset(first), producer_id };
        self.aborted.push((entry, marker));
    }

    /// Six offsets, of which those with a bit are still there.
    fn holes(&mut self, bits: u8) {
        let kept: Vec<u8> = (0..6).filter(|bit| bits & (1 << bit) != 0).collect();
        let whole = self.build(6, Codec::None);
        let mut body = Vec::new();
        let mut rest = &whole.body()[..];
        for index in 0..6 {
            // Records here are shorter than 64 bytes, so their length is one zig-zag byte.
            let (record, after) = rest.split_at(1 + usize::from(rest[0] / 2));
            rest = after;
            if kept.contains(&index) {
                body.extend_from_slice(record);
            }
        }
        if kept.is_empty() {
            return self.add(Piece::Emptied(3));
        }
        let mut bytes = [&whole.header_bytes()[..], &body].concat();
        let length = i32::try_from(bytes.len() - 12).expect("a small batch");
        let count = i32::try_from(kept.len()).expect("at most six");
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        seal(&mut bytes);
        self.push(Bytes::from(bytes), true);
    }

    /// What a broker answers from `position` on.
    fn answer(&self, position: i64, batches: usize, tail: usize) -> FetchedPartition {
        let from = self.batches.partition_point(|batch| batch.next <= position);
        let until = (from + batches).min(self.batches.len());
        let mut bytes = Vec::new();
        for batch in &self.batches[from..until] {
            bytes.extend_from_slice(&batch.bytes);
        }
        if let Some(cut) = self.batches.get(until) {
            bytes.extend_from_slice(&cut.bytes[..tail.min(cut.bytes.len() - 1)]);
        }
        let range_end = self.batches[..until].last().map_or(position, |last| last.next);
        let aborted = self
            .aborted
            .iter()
            .filter(|(entry, marker)| entry.first_offset.0 < range_end && *marker >= position)
            .map(|(entry, _)| *entry)
            .collect();
        FetchedPartition {
            topic: TopicRef::Name("source".into()),
            partition: 0,
            code: ErrorCode::NONE,
            high_watermark: Offset(self.end),
            last_stable_offset: Offset(self.end),
            log_start: Offset(0),
            diverging: None,
            leader: None,
            preferred_replica: None,
            aborted,
            records: Bytes::from(bytes),
        }
    }
}

#[derive(Clone, Debug)]
struct Request {
    sequence: Sequence,
    batch: OutBatch,
}

#[derive(Debug, Default)]
struct Lane {
    /// Sent, not yet worked on.
    requests: VecDeque<Request>,
    /// Worked on, not yet answered.
    answers: VecDeque<(Sequence, Outcome)>,
}

/// A run in progress.
struct Run {
    source: Source,
    target: PartitionLog,
    copier: Copier,
    lanes: [Lane; 2],
    leader: usize,
    ghosts: VecDeque<Request>,
    last_fetch: Option<(Offset, FetchedPartition)>,
    last_answer: Option<(Sequence, Outcome)>,
    effects: Vec<Effect>,
    /// Every batch that was given a sequence: its bytes and the sequence behind it.
    sent: BTreeMap<i32, (OutBatch, Sequence)>,
    /// Sequences taken and not acknowledged, in order.
    open: VecDeque<Sequence>,
    next_new: Sequence,
    last_taken: Option<Sequence>,
    acked: Offset,
    /// How many records of the target have been looked at.
    judged: usize,
}

/// Where downstream offsets begin, so that they cannot be mistaken for upstream ones.
const DOWNSTREAM: i64 = 5000;

/// Runs `steps` over `pieces` against a target with a broker's rules, then lets the copy finish.
///
/// # Errors
///
/// The first promise that was broken, in words.
pub fn run(pieces: &[Piece], steps: &[Step], first_sequence: i32) -> Result<Ended, String> {
    run_against(PartitionLog::new(DOWNSTREAM), pieces, steps, first_sequence)
}

/// As [`run`], against a target whose leader forgets sequences.
///
/// # Errors
///
/// The first promise that was broken, in words.
pub fn run_with_forgetful_target(pieces: &[Piece], steps: &[Step]) -> Result<Ended, String> {
    run_against(PartitionLog::forgetful(DOWNSTREAM), pieces, steps, 0)
}

fn run_against(
    target: PartitionLog,
    pieces: &[Piece],
    steps: &[Step],
    first_sequence: i32,
) -> Result<Ended, String> {
    let sequence = Sequence::from_wire(first_sequence & i32::MAX).unwrap_or_default();
    let start = Start {
        upstream: Offset(0),
        downstream: Offset(DOWNSTREAM),
        epoch: LeaderEpoch::UNKNOWN,
        identity: ProducerIdentity { id: 77, epoch: 2 },
        sequence,
    };
    let terms = Terms {
        read_committed: true,
        limits: (1 << 20).into(),
        verify: false,
        oversize: Oversize::Refuse,
    };
    let mut run = Run {
        source: Source::new(pieces),
        target,
        copier: Copier::new(start, terms),
        lanes: Default::default(),
        leader: 0,
        ghosts: VecDeque::new(),
        last_fetch: None,
        last_answer: None,
        effects: Vec::new(),
        sent: BTreeMap::new(),
        open: VecDeque::new(),
        next_new: sequence,
        last_taken: None,
        acked: Offset(0),
        judged: 0,
    };
    for (at, step) in steps.iter().enumerate() {
        run.step(*step).map_err(|what| format!("step {at} {step:?}: {what}"))?;
        run.judge().map_err(|what| format!("step {at} {step:?}: {what}"))?;
    }
    run.finish()
}

impl Run {
    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Fetch(batches, tail) => {
                if let Some(wish) = self.copier.wish() {
                    let batches = usize::from(batches % 8);
                    let part = self.source.answer(wish.position.0, batches, usize::from(tail));
                    self.last_fetch = Some((wish.position, part.clone()));
                    self.copier.on_fetched(wish.position, part, &mut self.effects);
                }
            }
            Step::StaleFetch => {
                if let Some((asked, part)) = self.last_fetch.clone() {
                    self.copier.on_fetched(asked, part, &mut self.effects);
                }
            }
            Step::FetchFails(code) => {
                if let Some(wish) = self.copier.wish() {
                    let codes = [6, 74, 75, 78, 3, -1];
                    let code = ErrorCode(codes[usize::from(code) % codes.len()]);
                    let part = FetchedPartition {
                        code,
                        records: Bytes::new(),
                        ..self.source.answer(wish.position.0, 0, 0)
                    };
                    self.copier.on_fetched(wish.position, part, &mut self.effects);
                }
            }
            Step::Take => self.take()?,
            Step::Serve(lane) => self.serve(lane, |_| None),
            Step::Refuse(lane, code) => {
                let code = PASSING[usize::from(code) % PASSING.len()];
                if let Some(request) = self.lane(lane).requests.pop_front() {
                    let outcome = Outcome::Refused(ErrorCode(code), None);
                    self.lane(lane).answers.push_back((request.sequence, outcome));
                }
            }
            Step::StoreAndRefuse(lane, code) => {
                let code = DOUBTFUL[usize::from(code) % DOUBTFUL.len()];
                self.serve(lane, |append| matches!(append, Append::Stored(_)).then_some(code));
            }
            Step::Answer(lane) => {
                if let Some((sequence, outcome)) = self.lane(lane).answers.pop_front() {
                    self.last_answer = Some((sequence, outcome.clone()));
                    self.copier.on_produced(sequence, outcome, &mut self.effects);
                }
            }
            Step::AnswerTwice => {
                if let Some((sequence, outcome)) = self.last_answer.take() {
                    self.copier.on_produced(sequence, outcome, &mut self.effects);
                }
            }
            Step::Lose(lane) => {
                let lost = std::mem::take(self.lane(lane));
                for (sequence, _) in lost.answers {
                    self.copier.on_produced(sequence, Outcome::Unknown, &mut self.effects);
                }
                for request in lost.requests {
                    let sequence = request.sequence;
                    self.ghosts.push_back(request);
                    self.copier.on_produced(sequence, Outcome::Unknown, &mut self.effects);
                }
            }
            Step::Ghost => {
                if let Some(ghost) = self.ghosts.pop_front() {
                    self.target.append(&ghost.batch);
                }
            }
            Step::MoveLeader => self.leader = 1 - self.leader,
            Step::Release => self.copier.release(),
        }
        Ok(())
    }

    fn lane(&mut self, lane: u8) -> &mut Lane {
        &mut self.lanes[usize::from(lane % 2)]
    }

    fn serve(&mut self, lane: u8, instead: impl FnOnce(Append) -> Option<i16>) {
        let leads = self.leader == usize::from(lane % 2);
        let Some(request) = self.lane(lane).requests.pop_front() else { return };
        let append = if leads { self.target.append(&request.batch) } else { Append::Refused(6) };
        let outcome = match (instead(append), append) {
            (Some(code), _) | (None, Append::Refused(code)) => {
                Outcome::Refused(ErrorCode(code), None)
            }
            (None, Append::Stored(base)) => Outcome::Stored(Offset(base)),
        };
        self.lane(lane).answers.push_back((request.sequence, outcome));
    }

    fn take(&mut self) -> Result<(), String> {
        let had = self.copier.has_batch();
        let Some((batch, sequence)) = self.copier.take() else {
            return if had { Err("a batch was promised and not given".into()) } else { Ok(()) };
        };
        if !had {
            return Err("a batch was given that was not promised".into());
        }
        let header: &[u8; HEADER_BYTES] = &batch.header;
        let field = i32::from_be_bytes(header[53..57].try_into().expect("four bytes"));
        if field != sequence.to_wire() {
            return Err(format!("sequence {sequence} is reported, {field} is sent"));
        }
        let count = i32::from_be_bytes(header[57..61].try_into().expect("four bytes"));
        if sequence == self.next_new {
            self.next_new = sequence.advance(count);
            self.sent.insert(field, (batch.clone(), self.next_new));
            self.open.push_back(sequence);
        } else {
            let Some((before, _)) = self.sent.get(&field) else {
                return Err(format!("sequence {sequence} does not follow {}", self.next_new));
            };
            if (before.header, &before.body) != (batch.header, &batch.body) {
                return Err(format!("sequence {sequence} is sent again with other bytes"));
            }
        }
        let behind = self.last_taken.and_then(|last| self.sent.get(&last.to_wire()));
        let follows = behind.is_none_or(|(_, next)| *next == sequence);
        if !follows && self.open.front() != Some(&sequence) {
            return Err(format!("{sequence} is sent again, but not the batches before it"));
        }
        self.last_taken = Some(sequence);
        // Sent again, it is another request: the first one has had its answer, and a connection that
        // is lost says nothing late. Twice refused as out of order would mean two requests.
        self.last_answer.take_if(|(answered, _)| *answered == sequence);
        self.lanes[self.leader].requests.push_back(Request { sequence, batch });
        Ok(())
    }

    fn judge(&mut self) -> Result<(), String> {
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Foreign { expected, found, .. } => {
                    return Err(format!("stored at {found} where {expected} was due: a duplicate"));
                }
                Effect::Doubt(doubt) => return Err(format!("in doubt: {doubt:?}")),
                Effect::Passed(gap) => return Err(format!("lost {gap:?}")),
                Effect::Halted
                | Effect::Stored(_)
                | Effect::FindSourceLeader
                | Effect::FindTargetLeader
                | Effect::Pause(..) => {}
            }
        }
        let stored = self.target.records();
        for (at, record) in stored.iter().enumerate().skip(self.judged) {
            let Some(expected) = self.source.expected.get(at) else {
                return Err(format!("a duplicate: {record:?} is stored behind the last record"));
            };
            if expected.content() != record.content() {
                let earlier = stored[..at].iter().any(|r| r.content() == record.content());
                let what = if earlier { "a duplicate" } else { "out of order" };
                return Err(format!("{what}: {record:?} is stored where {expected:?} was due"));
            }
        }
        self.judged = stored.len();
        let acked = self.copier.acked();
        if acked < self.acked {
            return Err(format!("acked went back from {} to {acked}", self.acked));
        }
        self.acked = acked;
        let claimed = self.source.expected.partition_point(|record| record.offset < acked.0);
        if claimed > stored.len() {
            return Err(format!(
                "{claimed} records are acknowledged up to {acked}, {} are stored",
                stored.len()
            ));
        }
        let first = self.copier.anchor().sequence;
        while self.open.front().is_some_and(|open| *open != first) {
            self.open.pop_front();
        }
        if self.open.len() > WINDOW_BATCHES_MAX {
            return Err(format!("{} batches are in the window", self.open.len()));
        }
        Ok(())
    }

    /// No more faults: everything must arrive.
    fn finish(&mut self) -> Result<Ended, String> {
        let end = self.source.batches.last().map_or(0, |last| last.next);
        let rounds = 40 + 4 * self.source.batches.len();
        for _ in 0..rounds {
            if self.copier.halted().is_some() || self.copier.acked().0 == end {
                break;
            }
            let steps = [
                Step::Fetch(7, 0),
                Step::Take,
                Step::Take,
                Step::Serve(0),
                Step::Serve(1),
                Step::Ghost,
                Step::Answer(0),
                Step::Answer(1),
            ];
            for step in steps {
                self.step(step).map_err(|what| format!("at the end, {step:?}: {what}"))?;
                self.judge().map_err(|what| format!("at the end, {step:?}: {what}"))?;
            }
        }
        while !self.ghosts.is_empty() {
            self.step(Step::Ghost)?;
            self.judge().map_err(|what| format!("a late ghost: {what}"))?;
        }
        if let Some(reason) = self.copier.halted() {
            return match reason {
                HaltReason::SourceDamaged(at) if self.source.damaged_at == Some(at.0) => {
                    Ok(Ended::HaltedAtDamage)
                }
                _ => Err(format!("halted: {reason}")),
            };
        }
        let (stored, expected) = (self.target.records().len(), self.source.expected.len());
        if self.source.damaged_at.is_some() {
            return Err(format!("neither halted nor stopped by the damage; {stored} stored"));
        }
        if stored < expected {
            return Err(format!("stalled: {stored} of {expected} records are stored"));
        }
        if self.copier.acked().0 != end {
            return Err(format!("stalled: acked stays at {} of {end}", self.copier.acked()));
        }
        Ok(Ended::Copied)
    }
}
