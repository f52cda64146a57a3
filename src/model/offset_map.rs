//! Which downstream offset stands for which upstream offset, exactly.
//!
//! Records are copied in order, so upstream and downstream offsets run side by side, and only at
//! a *bend* does their difference change: behind a compaction hole, a transaction marker, an
//! aborted batch, or where somebody else wrote to the target. A partition without holes has one
//! bend; one that is written by transactions has one for each, a million a day. So bends are kept
//! as deltas, two or three bytes each, in chunks; chunks that lie safely elsewhere can be let go
//! of, and all that stays of them is where they begin and where they lie.
//!
//! Does not know: whose offsets these are, and where chunks are kept. Laws against a naive list:
//! `proto-tests/tests/laws_of_offset_maps.rs`.

use std::collections::VecDeque;
use std::mem::size_of;

use super::Offset;

/// Bytes of deltas beyond which a chunk is closed: about 400 bends. Small enough that one more
/// write of the open one each second costs nothing, large enough that a million bends have an
/// index of a few thousand entries.
const CHUNK_BYTES: usize = 1024;

/// The place from which on upstream and downstream offsets run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bend {
    /// Upstream offset of the first record of the run.
    pub upstream: Offset,
    /// Its downstream offset.
    pub downstream: Offset,
}

impl Bend {
    /// Shorthand for tests and tables.
    #[must_use]
    pub const fn new(upstream: i64, downstream: i64) -> Self {
        Self { upstream: Offset(upstream), downstream: Offset(downstream) }
    }

    /// Whether `later` continues the run that begins here.
    #[must_use]
    pub fn runs_to(self, later: Self) -> bool {
        later.upstream.since(self.upstream) == later.downstream.since(self.downstream)
    }

    fn translate(self, upstream: Offset) -> Offset {
        self.downstream.advance(upstream.since(self.upstream).max(0))
    }

    fn reverse(self, downstream: Offset) -> Offset {
        self.upstream.advance(downstream.since(self.downstream).max(0))
    }
}

/// Where the records of one batch come from, if not from consecutive offsets.
///
/// Empty for a batch without holes, which is nearly every one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(Vec<(Offset, i32)>);

impl Runs {
    /// No holes.
    #[must_use]
    pub const fn dense() -> Self {
        Self(Vec::new())
    }

    /// Says that record `index` of the batch has this upstream offset; in order. What continues
    /// the run before it is not kept.
    pub fn push(&mut self, upstream: Offset, index: i32) {
        let continues =
            |(from, at): &(Offset, i32)| upstream.since(*from) == i64::from(index) - i64::from(*at);
        if !self.0.last().is_some_and(continues) {
            self.0.push((upstream, index));
        }
    }

    /// Adds what a batch that begins at record `index` consists of: these runs, or without any,
    /// consecutive offsets from `start` on.
    pub fn append(&mut self, runs: &Self, start: Offset, index: i32) {
        if runs.0.is_empty() {
            self.push(start, index);
        }
        for (upstream, at) in &runs.0 {
            self.push(*upstream, index + at);
        }
    }

    /// The first record of each run with its place from the batch's first record, for a batch
    /// whose upstream offsets begin at `start`.
    pub fn bends(&self, start: Offset, downstream: Offset) -> impl Iterator<Item = Bend> {
        let dense = self.0.is_empty().then_some((start, 0));
        let runs = self.0.iter().copied();
        dense.into_iter().chain(runs).map(move |(upstream, index)| Bend {
            upstream,
            downstream: downstream.advance(i64::from(index)),
        })
    }
}

/// What a map says about an upstream offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translation {
    /// The first record that a reader at the upstream offset has not seen lies here; the end of
    /// what is copied, if all was seen.
    Exact(Offset),
    /// The map begins behind it.
    Before,
    /// It lies in a chunk that is not in memory.
    Away {
        /// Where that is kept.
        at: Offset,
        /// Where it ends downstream.
        end: Offset,
    },
}

/// A run of bends that is kept, and let go of, as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// How many bends the map had before it.
    pub index: u64,
    /// Its first bend.
    pub first: Bend,
    /// Bends behind the first.
    pub more: u32,
    /// The bends behind the first, each as the difference to the one before: downstream, and
    /// upstream less downstream, as variable length zigzag numbers.
    pub deltas: Vec<u8>,
}

impl Chunk {
    fn new(index: u64, first: Bend) -> Self {
        Self { index, first, more: 0, deltas: Vec::new() }
    }

    /// Its bends in order; ends early where deltas are damaged.
    pub fn bends(&self) -> impl Iterator<Item = Bend> + '_ {
        let mut rest = &self.deltas[..];
        let mut last = self.first;
        let more = std::iter::from_fn(move || {
            let down = get_varint(&mut rest)?;
            let wider = get_varint(&mut rest)?;
            last = Bend {
                upstream: Offset(last.upstream.0.checked_add(down.checked_add(wider)?)?),
                downstream: Offset(last.downstream.0.checked_add(down)?),
            };
            Some(last)
        });
        std::iter::once(self.first).chain(more)
    }

    /// Whether its deltas are as many as it says, run forward, and are offsets of a log.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let from_zero =
            self.first.upstream >= Offset::ZERO && self.first.downstream >= Offset::ZERO;
        if !from_zero || self.next_index().is_none() {
            return false;
        }
        let mut count = 0_u64;
        let mut before = self.first;
        for bend in self.bends() {
            if bend.upstream < before.upstream || bend.downstream < before.downstream {
                return false;
            }
            before = bend;
            count += 1;
        }
        count == u64::from(self.more) + 1
    }

    /// How many bends the map has up to its end.
    fn next_index(&self) -> Option<u64> {
        next_index(self.index, self.more)
    }

    fn last(&self) -> Bend {
        self.bends().last().unwrap_or(self.first)
    }

    fn push(&mut self, before: Bend, bend: Bend) {
        let down = bend.downstream.since(before.downstream);
        put_varint(&mut self.deltas, down);
        put_varint(&mut self.deltas, bend.upstream.since(before.upstream) - down);
        self.more += 1;
    }

    /// The downstream offset for `upstream` in this chunk, not behind `end`, where the next chunk
    /// or the end of the copy is.
    #[must_use]
    pub fn translate(&self, upstream: Offset, end: Offset) -> Offset {
        let mut run = self.first;
        for bend in self.bends() {
            if bend.upstream > upstream {
                return run.translate(upstream).min(bend.downstream).min(end);
            }
            run = bend;
        }
        run.translate(upstream).min(end)
    }

    fn reverse(&self, downstream: Offset, end: Offset) -> Offset {
        let mut run = self.first;
        for bend in self.bends() {
            if bend.downstream > downstream {
                return run.reverse(downstream).min(bend.upstream).min(end);
            }
            run = bend;
        }
        run.reverse(downstream).min(end)
    }
}

/// How many bends there are up to the end of a chunk; `None` if that is more than can be counted.
fn next_index(index: u64, more: u32) -> Option<u64> {
    index.checked_add(u64::from(more) + 1)
}

/// A chunk as it was kept: what is needed of it to go on, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptChunk {
    /// How many bends the map had before it.
    pub index: u64,
    /// Its first bend.
    pub first: Bend,
    /// Bends behind the first.
    pub more: u32,
    /// The chunk itself, if it is in memory.
    pub chunk: Option<Chunk>,
    /// Where it is kept.
    pub at: Offset,
}

/// A chunk as a map holds it.
#[derive(Clone, Debug)]
struct Held {
    index: u64,
    first: Bend,
    /// Unless it was let go of.
    chunk: Option<Chunk>,
    /// Where it is kept as it is, if it is.
    at: Option<Offset>,
}

/// One partition's map from upstream to downstream offsets.
#[derive(Clone, Debug)]
pub struct OffsetMap {
    /// In order, never empty; the last one is open, and in memory.
    chunks: VecDeque<Held>,
    last: Bend,
    /// First upstream and downstream offset that is not copied.
    end: Bend,
    /// First upstream offsets of chunks that are no longer part of it, and not yet told.
    dropped: Vec<Offset>,
}

impl OffsetMap {
    /// A map of a copy that begins here.
    #[must_use]
    pub fn new(start: Bend) -> Self {
        let chunk = Some(Chunk::new(0, start));
        let open = Held { index: 0, first: start, chunk, at: None };
        Self { chunks: VecDeque::from([open]), last: start, end: start, dropped: Vec::new() }
    }

    /// A map from the chunks it was kept in, up to `end`, which may lie before their end. `None` if
    /// they are not all of the `bends` that there should be up to there, or do not fit together.
    ///
    /// The last chunk must be in memory.
    #[must_use]
    pub fn restore(
        chunks: impl IntoIterator<Item = KeptChunk>,
        end: Bend,
        bends: u64,
    ) -> Option<Self> {
        // A map has one chunk at least, also of a copy that has not begun.
        let (mut kept, mut is_first) = (Vec::new(), true);
        for chunk in chunks {
            if std::mem::take(&mut is_first) || chunk.first.upstream < end.upstream {
                kept.push(chunk);
            }
        }
        let ordered = kept.iter().zip(kept.iter().skip(1)).all(|(one, next)| {
            next_index(one.index, one.more) == Some(next.index)
                && one.first.upstream < next.first.upstream
                && one.first.downstream <= next.first.downstream
        });
        let fits = kept.iter().filter_map(|kept| kept.chunk.as_ref()).all(Chunk::is_sound);
        let held =
            |KeptChunk { index, first, chunk, at, .. }| Held { index, first, chunk, at: Some(at) };
        let held: VecDeque<Held> = kept.into_iter().map(held).collect();
        let last = held.back()?.chunk.as_ref()?.last();
        if !ordered || !fits {
            return None;
        }
        let mut map = Self { chunks: held, last, end, dropped: Vec::new() };
        map.cut(end);
        let plausible = map.last.upstream <= end.upstream
            && map.last.downstream <= end.downstream
            && map.bends() == bends;
        plausible.then_some(map)
    }

    /// Bends so far, with those that were dropped at its head.
    #[must_use]
    pub fn bends(&self) -> u64 {
        let more = |held: &Held| held.chunk.as_ref().map_or(0, |chunk| u64::from(chunk.more));
        self.chunks.back().map_or(0, |open| open.index + more(open) + 1)
    }

    /// First place that is not copied, on both sides.
    #[must_use]
    pub fn end(&self) -> Bend {
        self.end
    }

    /// First place that it knows of.
    #[must_use]
    pub fn start(&self) -> Bend {
        self.chunks.front().map_or(self.last, |held| held.first)
    }

    /// From here on offsets run side by side; bends come in order.
    pub fn push(&mut self, bend: Bend) {
        if self.last.runs_to(bend) {
            return;
        }
        let bends = self.bends();
        let before = std::mem::replace(&mut self.last, bend);
        self.end = Bend {
            upstream: self.end.upstream.max(bend.upstream),
            downstream: self.end.downstream.max(bend.downstream),
        };
        if let Some(open) = self.chunks.back_mut()
            && let Some(chunk) = &mut open.chunk
            && (chunk.deltas.len() < CHUNK_BYTES || bend.upstream == before.upstream)
        {
            chunk.push(before, bend);
            open.at = None;
            return;
        }
        let chunk = Some(Chunk::new(bends, bend));
        self.chunks.push_back(Held { index: bends, first: bend, chunk, at: None });
    }

    /// Everything before this place is copied, or was passed.
    pub fn advance(&mut self, end: Bend) {
        self.end = Bend {
            upstream: self.end.upstream.max(end.upstream),
            downstream: self.end.downstream.max(end.downstream),
        };
    }

    /// The copy goes on at `end`, which may lie before what was copied: what the map says from
    /// there on is dropped.
    pub fn cut(&mut self, end: Bend) {
        while self.chunks.len() > 1
            && self.chunks.back().is_some_and(|held| held.first.upstream >= end.upstream)
        {
            if let Some(dropped) = self.chunks.pop_back() {
                self.dropped.push(dropped.first.upstream);
            }
        }
        if let Some(open) = self.chunks.back_mut()
            && let Some(chunk) = &mut open.chunk
        {
            if chunk.bends().skip(1).any(|bend| bend.upstream >= end.upstream) {
                let mut kept = Chunk::new(chunk.index, chunk.first);
                let mut before = chunk.first;
                for bend in chunk.bends().skip(1).filter(|bend| bend.upstream < end.upstream) {
                    kept.push(before, bend);
                    before = bend;
                }
                *chunk = kept;
                open.at = None;
            }
            self.last = chunk.last();
        }
        self.end = end;
    }

    /// Whether the last chunk is in memory, as it must be to go on: a map that was cut to a chunk
    /// that was let go of is of no more use.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.chunks.back().is_some_and(|open| open.chunk.is_some())
    }

    fn find(&self, after: impl Fn(&Held) -> bool) -> Option<(&Held, Option<&Held>)> {
        let next = self.chunks.partition_point(|held| !after(held));
        let held = self.chunks.get(next.checked_sub(1)?)?;
        Some((held, self.chunks.get(next)))
    }

    /// The downstream offset at which a reader of the target sees what a reader of the source sees
    /// from `upstream` on.
    #[must_use]
    pub fn translate(&self, upstream: Offset) -> Translation {
        if upstream >= self.end.upstream {
            return Translation::Exact(self.end.downstream);
        }
        let Some((held, next)) = self.find(|held| held.first.upstream > upstream) else {
            return Translation::Before;
        };
        let end = next.map_or(self.end, |next| next.first).downstream;
        match (&held.chunk, held.at) {
            (Some(chunk), _) => Translation::Exact(chunk.translate(upstream, end)),
            (None, Some(at)) => Translation::Away { at, end },
            // Only what is kept elsewhere is let go of.
            (None, None) => Translation::Before,
        }
    }

    /// The upstream offset at which a reader of the source sees what a reader of the target sees
    /// from `downstream` on. `None` where the map begins behind it, or is not in memory.
    #[must_use]
    pub fn reverse(&self, downstream: Offset) -> Option<Offset> {
        if downstream >= self.end.downstream {
            return Some(self.end.upstream);
        }
        let (held, next) = self.find(|held| held.first.downstream > downstream)?;
        let end = next.map_or(self.end, |next| next.first).upstream;
        held.chunk.as_ref().map(|chunk| chunk.reverse(downstream, end))
    }

    /// Chunks that are not the same elsewhere.
    pub fn unsaved(&self) -> impl Iterator<Item = &Chunk> {
        self.chunks.iter().filter(|held| held.at.is_none()).filter_map(|held| held.chunk.as_ref())
    }

    /// First upstream offsets of chunks that are part of it no more; told once.
    pub fn take_dropped(&mut self) -> Vec<Offset> {
        std::mem::take(&mut self.dropped)
    }

    /// The chunk that begins at `first` is kept there, as it was when it had so many `more` bends.
    pub fn saved(&mut self, first: Offset, more: u32, at: Offset) {
        for held in &mut self.chunks {
            let same = held.chunk.as_ref().is_some_and(|chunk| chunk.more == more);
            if held.first.upstream == first && same {
                held.at = Some(at);
            }
        }
    }

    /// Lets go of the oldest chunks that are kept elsewhere, until no more than `bytes_max` are
    /// in memory, or only the open one.
    pub fn evict(&mut self, bytes_max: usize) {
        let mut bytes = self.bytes();
        let closed = self.chunks.len().saturating_sub(1);
        for held in self.chunks.iter_mut().take(closed) {
            if bytes <= bytes_max {
                return;
            }
            if held.at.is_some()
                && let Some(chunk) = held.chunk.take()
            {
                bytes -= chunk.deltas.capacity();
            }
        }
    }

    /// Bytes of deltas in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let deltas = |held: &Held| held.chunk.as_ref().map_or(0, |chunk| chunk.deltas.capacity());
        self.chunks.iter().map(deltas).sum()
    }

    /// All bytes that it takes.
    #[must_use]
    pub fn bytes_in_all(&self) -> usize {
        self.bytes() + self.chunks.len() * size_of::<Held>()
    }

    /// Whether it is of several chunks.
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.chunks.len() > 1
    }

    /// Drops chunks that end before `upstream`, where the source's log begins now.
    pub fn forget_before(&mut self, upstream: Offset) {
        while self.chunks.get(1).is_some_and(|next| next.first.upstream <= upstream) {
            if let Some(gone) = self.chunks.pop_front() {
                self.dropped.push(gone.first.upstream);
            }
        }
    }
}

/// Most bytes of a 64 bit number in base 128.
const VARINT_BYTES_MAX: u32 = 10;

fn put_varint(into: &mut Vec<u8>, number: i64) {
    let mut rest = (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned();
    loop {
        let low = (rest & 0x7f) as u8;
        rest >>= 7;
        if rest == 0 {
            into.push(low);
            return;
        }
        into.push(low | 0x80);
    }
}

fn get_varint(from: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for place in 0..VARINT_BYTES_MAX {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= u64::from(byte & 0x7f).checked_shl(7 * place)?;
        if byte & 0x80 == 0 {
            return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
        }
    }
    None
}
