//! Where upstream offsets of a flow lie on its target, for who asks.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::ledger::{Found, decode, is_about};
use super::progress::ProgressBook;
use crate::batch::for_each_record;
use crate::client::{Cluster, LogError};
use crate::model::{Bend, Chunk, Offset, TopicName, TopicPartition};
use crate::wire::ErrorCode;

/// Chunks that were read again, kept while one question is answered: questions come sorted.
const CHUNKS_MAX: usize = 16;

/// The record is not in the log: it was deleted with it.
const OFFSET_OUT_OF_RANGE: ErrorCode = ErrorCode(1);

/// A handle to the offset maps of one flow; cheap to clone.
#[derive(Clone, Debug)]
pub struct Offsets {
    pub(super) book: Arc<ProgressBook>,
    pub(super) target: Cluster,
    pub(super) map_topic: TopicName,
}

/// What is known about one upstream offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// The record that a reader at the upstream offset sees next lies here, or will.
    Exact(Offset),
    /// It lies before what this program copied.
    Unknown,
}

impl Offsets {
    /// The downstream offset for each upstream offset, in order.
    ///
    /// # Errors
    ///
    /// [`LogError`] if a part of a map that is not in memory cannot be read.
    pub async fn translate(
        &self,
        wanted: &[(TopicPartition, Offset)],
    ) -> Result<Vec<Translated>, LogError> {
        let mut chunks: BTreeMap<Offset, Chunk> = BTreeMap::new();
        let mut answers = Vec::with_capacity(wanted.len());
        for (source, upstream) in wanted {
            let answer = match self.book.find(source, *upstream) {
                Found::At(downstream) => Translated::Exact(downstream),
                Found::Unknown => Translated::Unknown,
                Found::InRecord { record, end } => {
                    if !chunks.contains_key(&record)
                        && let Some(chunk) = self.read_if_there(source, record).await?
                    {
                        if chunks.len() == CHUNKS_MAX {
                            chunks.pop_first();
                        }
                        chunks.insert(record, chunk);
                    }
                    // One that cannot be read says nothing.
                    let exact = |chunk: &Chunk| Translated::Exact(chunk.translate(*upstream, end));
                    // In a topic that was made anew, another one may stand there.
                    let found = chunks.get(&record).filter(|one| one.first.upstream <= *upstream);
                    found.map_or(Translated::Unknown, exact)
                }
            };
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Nothing where somebody has deleted the topic of maps, or its records: what they said is
    /// forgotten, and everything else goes on.
    async fn read_if_there(
        &self,
        source: &TopicPartition,
        record: Offset,
    ) -> Result<Option<Chunk>, LogError> {
        match self.read(source, record).await {
            Err(LogError::Missing(_)) => Ok(None),
            Err(LogError::Partition(error)) if error.code == OFFSET_OUT_OF_RANGE => Ok(None),
            read => read,
        }
    }

    async fn read(
        &self,
        source: &TopicPartition,
        record: Offset,
    ) -> Result<Option<Chunk>, LogError> {
        let topic = TopicPartition { topic: self.map_topic.clone(), partition: 0 };
        let mut found = None;
        let mut failed = Ok(());
        self.target
            .scan(&topic, record, record.advance(1), false, |scanned| {
                let read = for_each_record(&scanned.batch, |one| {
                    let ours = one.key.is_some_and(|key| is_about(key, source));
                    if one.offset == record && ours {
                        found = one.value.and_then(decode).map(|(.., chunk)| chunk);
                    }
                });
                failed =
                    read.map_err(|cause| LogError::Records { partition: topic.clone(), cause });
                ControlFlow::Continue(())
            })
            .await?;
        failed?;
        Ok(found)
    }

    /// The upstream offset for a downstream offset of the partition that `source` is copied to,
    /// where that part of its map is in memory.
    #[must_use]
    pub fn translate_back(&self, source: &TopicPartition, downstream: Offset) -> Option<Offset> {
        self.book.find_back(source, downstream)
    }

    /// How far a partition is copied, on both sides.
    #[must_use]
    pub fn copied(&self, source: &TopicPartition) -> Option<Bend> {
        self.book.copied(source)
    }

    /// The first upstream offset of a partition of which it is known where it lies: where the copy
    /// began, or the source's log began when that was last looked at.
    #[must_use]
    pub fn begins(&self, source: &TopicPartition) -> Option<Offset> {
        self.book.begins(source)
    }

    /// Writes all positions again: their topics were deleted.
    pub fn write_anew(&self) {
        self.book.write_anew();
    }

    /// Offset syncs that are due; with `all`, also of partitions that came to rest.
    #[must_use]
    pub fn take_syncs(&self, all: bool) -> Vec<(TopicPartition, Bend)> {
        self.book.take_syncs(all)
    }

    /// Partitions whose maps may say something about what the source has lost since.
    #[must_use]
    pub fn long_maps(&self) -> Vec<TopicPartition> {
        self.book.long_maps()
    }

    /// The source's logs begin here now; what maps say about what lies before is dropped.
    pub fn forget_before(&self, starts: &BTreeMap<TopicPartition, Offset>) {
        self.book.forget_before(starts);
    }

    /// Bytes that the maps take in memory.
    #[must_use]
    pub fn map_bytes(&self) -> usize {
        self.book.map_bytes()
    }
}
