//! A partition that stopped, or is in doubt, gives its frames back: the memory of all partitions is
//! one budget, and a few that stand still would hold it for ever.

use std::sync::Arc;

use bytes::Bytes;
use heliograph::batch::{BatchBuilder, Codec, Oversize};
use heliograph::copy::{Copier, Outcome, Start, Terms};
use heliograph::model::{LeaderEpoch, Offset, ProducerIdentity, Sequence, Timestamp};
use heliograph::wire::ErrorCode;
use heliograph::wire::fetch::{FetchedPartition, TopicRef};

/// A frame that can tell whether anybody still holds it.
struct Frame {
    bytes: Vec<u8>,
    _alive: Arc<()>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn copier() -> Copier {
    let start = Start {
        upstream: Offset(0),
        downstream: Offset(0),
        epoch: LeaderEpoch::UNKNOWN,
        identity: ProducerIdentity { id: 7, epoch: 0 },
        sequence: Sequence::ZERO,
    };
    let terms = Terms {
        read_committed: true,
        limits: (1 << 20).into(),
        verify: false,
        oversize: Oversize::Refuse,
    };
    Copier::new(start, terms)
}

/// Fetches one batch whose last byte may be wrong, sends it, and tells what the target said.
/// Whether its frame is alive before and after that.
fn alive(damaged: bool, said: ErrorCode) -> (bool, bool) {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.push(Timestamp(1), Some(b"key"), Some(&[7; 100_000]));
    let mut bytes = builder.finish(Offset(0)).expect("a batch").bytes().to_vec();
    if damaged {
        *bytes.last_mut().expect("a body") ^= 1;
    }
    let alive = Arc::new(());
    let records = Bytes::from_owner(Frame { bytes, _alive: Arc::clone(&alive) });
    let part = FetchedPartition {
        topic: TopicRef::Name("t".into()),
        partition: 0,
        code: ErrorCode::NONE,
        high_watermark: Offset(1),
        last_stable_offset: Offset(1),
        log_start: Offset(0),
        diverging: None,
        leader: None,
        preferred_replica: None,
        aborted: Vec::new(),
        records,
    };
    let (mut copier, mut effects) = (copier(), Vec::new());
    copier.on_fetched(Offset(0), part, &mut effects);
    let (batch, sequence) = copier.take().expect("a batch");
    drop(batch);
    let before = Arc::strong_count(&alive) > 1;
    copier.on_produced(sequence, Outcome::Refused(said, None), &mut effects);
    effects.clear();
    (before, Arc::strong_count(&alive) > 1)
}

#[test]
fn one_that_stopped_at_a_damaged_batch_holds_nothing() {
    assert_eq!(alive(true, ErrorCode(2)), (true, false));
}

#[test]
fn one_whose_records_are_refused_holds_nothing() {
    assert_eq!(alive(false, ErrorCode(87)), (true, false));
}

#[test]
fn one_that_must_look_at_both_logs_again_holds_nothing() {
    assert_eq!(alive(false, ErrorCode(45)), (true, false));
}

/// Negative control: what is tried again must be kept.
#[test]
fn one_that_tries_again_keeps_its_batch() {
    assert_eq!(alive(false, ErrorCode(19)), (true, true));
}
