//! What one batch costs, step by step, without sockets: `cargo bench`.
//!
//! Wall time is for people; where valgrind is at hand, `valgrind --tool=callgrind` on the same
//! binary with the name of one bench counts instructions, which do not depend on the machine's mood.
//! Allocations are counted beside it: what is done for each forwarded batch must have none.

use bytes::Bytes;
use divan::{AllocProfiler, Bencher, black_box, counter::BytesCount};
use heliograph::batch::{
    BatchBuilder, Codec, Oversize, RawBatch, Shallow, amend, merge, rebuild, restamp, verify,
};
use heliograph::model::{Offset, ProducerIdentity, Sequence, Timestamp, TopicName};
use heliograph::wire::{PartitionBatch, encode_produce};

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

const IDENTITY: ProducerIdentity = ProducerIdentity { id: 7, epoch: 0 };

/// Sizes of a batch's records, bytes: a lone record, the producer's default batch, a full one.
const SIZES: [usize; 3] = [1 << 10, 1 << 14, 1 << 18];

fn main() {
    divan::main();
}

/// A batch of 1 KiB records that compress to about a half.
fn batch(codec: Codec, bytes: usize, base: i64) -> RawBatch {
    let mut builder = BatchBuilder::new(codec);
    let mut state = 1_u32;
    for i in 0..(bytes / 1024).max(1) {
        let value: Vec<u8> = (0..1000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 28).to_le_bytes()[0] + b'a'
            })
            .collect();
        let time = Timestamp(1_700_000_000_000 + i64::try_from(i).expect("small"));
        builder.push(time, Some(b"key"), Some(&value));
    }
    builder.finish(Offset(base)).expect("a batch")
}

/// What a fetch answer holds for one partition: batches of a size, 256 KiB in all.
fn record_set(bytes: usize) -> Bytes {
    let one = batch(Codec::None, bytes, 0);
    let count = (256 * 1024 / bytes).max(1);
    Bytes::from(one.bytes().repeat(count))
}

#[divan::bench(args = SIZES)]
fn restamping(bencher: Bencher<'_, '_>, bytes: usize) {
    let batch = batch(Codec::None, bytes, 0);
    bencher.bench(|| restamp(black_box(&batch), IDENTITY, Sequence::ZERO));
}

#[divan::bench(args = SIZES)]
fn amending_a_checksum(bencher: Bencher<'_, '_>, bytes: usize) {
    let batch = batch(Codec::None, bytes, 0);
    let mut new = *batch.header_bytes();
    new[43..57].fill(9);
    let (old, body) = (batch.header().crc, batch.body().len());
    bencher.bench(|| amend(black_box(old), batch.header_bytes(), &new, body));
}

#[divan::bench(args = SIZES)]
fn verifying_a_checksum(bencher: Bencher<'_, '_>, bytes: usize) {
    let batch = batch(Codec::None, bytes, 0);
    bencher.counter(BytesCount::new(bytes)).bench(|| verify(black_box(&batch)));
}

#[divan::bench(args = SIZES)]
fn walking_256_kib_of_batches(bencher: Bencher<'_, '_>, bytes: usize) {
    let set = record_set(bytes);
    bencher.bench(|| Shallow::new(black_box(set.clone())).count());
}

#[divan::bench(args = SIZES)]
fn encoding_a_produce_request_of_8_partitions(bencher: Bencher<'_, '_>, bytes: usize) {
    let topic = TopicName::new("primary.orders");
    let out = restamp(&batch(Codec::None, bytes, 0), IDENTITY, Sequence::ZERO);
    bencher.bench(|| {
        let batches: Vec<PartitionBatch<'_>> = (0..8)
            .map(|partition| PartitionBatch {
                topic: &topic,
                partition,
                head: &out.header,
                body: out.body.clone(),
            })
            .collect();
        encode_produce(12, "heliograph", 30_000, &batches)
    });
}

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

#[divan::bench(args = CODECS)]
fn rebuilding_256_kib(bencher: Bencher<'_, '_>, codec: Codec) {
    let batch = batch(codec, 256 * 1024, 0);
    bencher
        .counter(BytesCount::new(256_usize * 1024))
        .bench(|| rebuild(black_box(&batch), Offset(1), 1 << 20, Oversize::Refuse));
}

/// Against one produce request more per batch, which costs some 15 us here and more on the broker.
#[divan::bench(args = CODECS)]
fn merging_16_batches_of_1_kib(bencher: Bencher<'_, '_>, codec: Codec) {
    let batches: Vec<RawBatch> = (0..16).map(|base| batch(codec, 1024, base)).collect();
    bencher.counter(BytesCount::new(16_usize * 1024)).bench(|| merge(black_box(&batches)));
}

#[divan::bench(args = CODECS)]
fn merging_16_batches_of_16_kib(bencher: Bencher<'_, '_>, codec: Codec) {
    let batches: Vec<RawBatch> = (0..16).map(|base| batch(codec, 1 << 14, base)).collect();
    bencher.counter(BytesCount::new(256_usize * 1024)).bench(|| merge(black_box(&batches)));
}
