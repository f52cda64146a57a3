//! What a broker does with raw frames: one suite for the scripted broker, always, and for a real
//! one if `TESTBED_BOOTSTRAP=host:port` names it.
//!
//! Where the two differ the real one is right, and the scripted one is corrected. To run it
//! against a real broker: `cargo testbed up 4.3.1` in one terminal, and in another
//! `TESTBED_BOOTSTRAP=127.0.0.1:... cargo test -p proto-tests --test contract -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

mod broker;

use std::time::Duration;

use broker::{Ask, Broker, Made, TIME, against, data, records};
use bytes::Bytes;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DescribeConfigsRequest,
    InitProducerIdRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest, ProducerId, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use proto_tests::broker::batch::{self, CONTROL, Header, Origin, Packing, TRANSACTIONAL};

fn from(producer: i64, epoch: i16, sequence: i32) -> Origin {
    Origin { producer, epoch, sequence }
}

/// A batch of `count` records from a producer.
fn batch_of(count: usize, origin: Origin) -> Vec<u8> {
    data(&vec!["k"; count], origin)
}

/// A batch with a field overwritten, and sealed again.
fn with_field(mut batch: Vec<u8>, at: usize, field: &[u8]) -> Vec<u8> {
    batch[at..at + field.len()].copy_from_slice(field);
    batch::seal(&mut batch);
    batch
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

async fn producer_id(broker: &mut Broker) -> i64 {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(i32::MAX)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    for _ in 0..100 {
        let answer = broker.call(4, &request).await;
        if answer.error_code == 0 {
            assert_eq!(answer.producer_epoch, 0);
            return answer.producer_id.0;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("no producer id");
}

#[test]
fn a_batch_is_stored_at_the_end_with_the_leaders_epoch_and_comes_back_as_it_was() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let sent = data(&["a", "b"], Origin::NOBODY);
        assert_eq!(broker.produce(&topic, &sent).await, (0, 0));
        assert_eq!(broker.produce(&topic, &sent).await, (0, 2));

        let part = broker.fetch_by_id(&topic, 0, 0).await;
        assert_eq!(
            (part.high_watermark, part.last_stable_offset, part.log_start_offset),
            (4, 4, 0)
        );
        let stored = batch::split(&part.records.unwrap());
        assert_eq!(stored.len(), 2);
        let second = Header::read(&stored[1]).unwrap();
        assert_eq!((second.base, second.leader_epoch), (2, 0));
        assert_eq!(stored[1][16..], sent[16..], "what the checksum covers, and it, did not change");
    });
}

#[test]
fn batches_that_no_client_may_write_are_refused() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let good = data(&["a", "b"], Origin::NOBODY);

        let two = [good.clone(), good.clone()].concat();
        assert_eq!(broker.produce(&topic, &two).await.0, 87, "two batches");
        assert_eq!(broker.produce(&topic, &[]).await.0, 87, "none");
        let elsewhere = with_field(good.clone(), 0, &5_i64.to_be_bytes());
        assert_eq!(broker.produce(&topic, &elsewhere).await.0, 87, "base offset");
        let mut damaged = good.clone();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert_eq!(broker.produce(&topic, &damaged).await.0, 2, "checksum");
        let holes = with_field(good.clone(), 23, &2_i32.to_be_bytes());
        assert_eq!(broker.produce(&topic, &holes).await.0, 87, "range and count");
        let empty = batch::write(0, 1, &[], Packing::None, 0, Origin::NOBODY);
        assert_eq!(broker.produce(&topic, &empty).await.0, 87, "no records");
        let old = with_field(good.clone(), 16, &[1]);
        assert_eq!(broker.produce(&topic, &old).await.0, 87, "format 1");
        let control = batch::write(0, 1, &records(&["a"]), Packing::None, CONTROL, Origin::NOBODY);
        assert_eq!(broker.produce(&topic, &control).await.0, 87, "control");
        let without = batch_of(1, from(5, 0, -1));
        assert_eq!(broker.produce(&topic, &without).await.0, 87, "a producer without a sequence");
        let transactional =
            batch::write(0, 1, &records(&["a"]), Packing::None, TRANSACTIONAL, from(5, 0, 0));
        assert_eq!(broker.produce(&topic, &transactional).await.0, 53, "no transactional id");
        let wrong_count = with_field(good.clone(), 57, &1_i32.to_be_bytes());
        let wrong_count = with_field(wrong_count, 23, &0_i32.to_be_bytes());
        assert_eq!(broker.produce(&topic, &wrong_count).await.0, 87, "bytes behind the last");

        let part = broker.fetch_by_id(&topic, 0, 0).await;
        assert_eq!(part.high_watermark, 0, "nothing of it was stored");
    });
}

#[test]
fn a_cut_off_batch_behind_a_whole_one_is_let_fall() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let good = data(&["a", "b"], Origin::NOBODY);
        let tail = [&good[..], &good[..40]].concat();
        assert_eq!(broker.produce(&topic, &tail).await, (0, 0));
        assert_eq!(broker.fetch_by_id(&topic, 0, 0).await.high_watermark, 2);
    });
}

#[test]
fn every_codec_is_taken_and_kept() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        for (packing, base) in Packing::ALL.into_iter().zip((0..).step_by(2)) {
            let sent = batch::write(0, 2, &records(&["a", "b"]), packing, 0, Origin::NOBODY);
            assert_eq!(broker.produce(&topic, &sent).await, (0, base), "{packing:?}");
            let part = broker.fetch_by_id(&topic, base, 0).await;
            let stored = batch::split(&part.records.unwrap());
            assert_eq!(stored[0][21..], sent[21..], "{packing:?}");
        }
    });
}

#[test]
fn a_batch_above_the_topics_limit_is_too_large() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[("max.message.bytes", "200")]).await;
        let fits = batch_of(1, Origin::NOBODY);
        assert!(fits.len() <= 200);
        assert_eq!(broker.produce(&topic, &fits).await.0, 0);
        assert_eq!(broker.produce(&topic, &batch_of(20, Origin::NOBODY)).await.0, 10);
    });
}

#[test]
fn a_compacted_topic_names_the_records_without_a_key() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[("cleanup.policy", "compact")]).await;
        let mut inside = records(&["a", "b", "c"]);
        inside[1].key = None;
        let sent = batch::write(0, 3, &inside, Packing::None, 0, Origin::NOBODY);
        let answer = broker.produce_to(&topic.name, 0, &sent).await;
        assert_eq!(answer.error_code, 87);
        let named: Vec<i32> = answer.record_errors.iter().map(|one| one.batch_index).collect();
        assert_eq!(named, [1]);
    });
}

#[test]
fn sequences_follow_one_another_and_the_last_five_batches_are_known() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let id = producer_id(&mut broker).await;
        let two = |sequence| batch_of(2, from(id, 0, sequence));
        for (sequence, base) in [(0, 0), (2, 2), (4, 4), (6, 6), (8, 8), (10, 10)] {
            assert_eq!(broker.produce(&topic, &two(sequence)).await, (0, base));
        }
        for (sequence, base) in [(2, 2), (6, 6), (10, 10)] {
            let again = broker.produce(&topic, &two(sequence)).await;
            assert_eq!(again, (0, base), "a batch of the last five is known by its numbers");
        }
        assert_eq!(broker.produce(&topic, &two(0)).await.0, 45, "the sixth is forgotten");
        assert_eq!(broker.produce(&topic, &two(14)).await.0, 45, "a gap");
        let other_end = batch_of(1, from(id, 0, 10));
        assert_eq!(broker.produce(&topic, &other_end).await.0, 45, "another end");
        assert_eq!(broker.produce(&topic, &two(12)).await, (0, 12));
        assert_eq!(broker.fetch_by_id(&topic, 0, 0).await.high_watermark, 14);
    });
}

#[test]
fn what_a_known_batch_holds_is_not_compared() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let id = producer_id(&mut broker).await;
        assert_eq!(broker.produce(&topic, &data(&["a"], from(id, 0, 0))).await, (0, 0));
        assert_eq!(broker.produce(&topic, &data(&["b"], from(id, 0, 0))).await, (0, 0));
        assert_eq!(broker.fetch_by_id(&topic, 0, 0).await.high_watermark, 1);
    });
}

#[test]
fn a_new_epoch_begins_at_zero_and_shuts_the_old_one_out() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let id = producer_id(&mut broker).await;
        assert_eq!(broker.produce(&topic, &batch_of(1, from(id, 3, 0))).await.0, 0);
        assert_eq!(broker.produce(&topic, &batch_of(1, from(id, 4, 1))).await.0, 45);
        assert_eq!(broker.produce(&topic, &batch_of(1, from(id, 4, 0))).await.0, 0);
        assert_eq!(broker.produce(&topic, &batch_of(1, from(id, 3, 1))).await.0, 47);
        assert_eq!(broker.produce(&topic, &batch_of(1, from(id, 3, 0))).await.0, 47);
    });
}

#[test]
fn an_unknown_producer_may_begin_anywhere_and_sequences_wrap_to_zero() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let id = producer_id(&mut broker).await;
        assert_eq!(broker.produce(&topic, &batch_of(3, from(id, 0, i32::MAX))).await, (0, 0));
        assert_eq!(broker.produce(&topic, &batch_of(1, from(id, 0, 3))).await.0, 45);
        assert_eq!(broker.produce(&topic, &batch_of(1, from(id, 0, 2))).await, (0, 3));
    });
}

#[test]
fn each_partition_has_its_own_sequences() {
    against(async |mut broker| {
        let topic = broker.topic(2, &[]).await;
        let id = producer_id(&mut broker).await;
        for partition in [0, 1] {
            let answer =
                broker.produce_to(&topic.name, partition, &batch_of(1, from(id, 0, 0))).await;
            assert_eq!((answer.error_code, answer.base_offset), (0, 0));
        }
    });
}

#[test]
fn topics_and_partitions_that_are_not_there_are_named_as_such() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let batch = batch_of(1, Origin::NOBODY);
        assert_eq!(broker.produce_to("no-such-topic", 0, &batch).await.error_code, 3);
        assert_eq!(broker.produce_to(&topic.name, 7, &batch).await.error_code, 3);

        let by_name = Ask::default().request(12, &topic, &[(7, 0)]);
        assert_eq!(broker.fetch(12, &by_name).await.responses[0].partitions[0].error_code, 3);
        let gone = Made { id: uuid::Uuid::from_u128(0xdead), ..topic.clone() };
        let by_id = Ask::default().request(16, &gone, &[(0, 0)]);
        assert_eq!(broker.fetch(16, &by_id).await.responses[0].partitions[0].error_code, 100);
    });
}

async fn four_batches(broker: &mut Broker, topic: &Made) -> usize {
    let batch = batch_of(3, Origin::NOBODY);
    for base in [0, 3, 6, 9] {
        assert_eq!(broker.produce(topic, &batch).await, (0, base));
    }
    batch.len()
}

#[test]
fn an_answer_begins_with_the_whole_batch_that_holds_the_position() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        four_batches(&mut broker, &topic).await;
        let set = broker.fetch_by_id(&topic, 4, 0).await.records.unwrap();
        let bases: Vec<i64> =
            batch::split(&set).iter().map(|batch| Header::read(batch).unwrap().base).collect();
        assert_eq!(bases, [3, 6, 9]);
    });
}

#[test]
fn byte_limits_cut_the_last_batch_and_never_the_first_of_an_answer() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let size = four_batches(&mut broker, &topic).await;
        let limit = i32::try_from(2 * size + 20).unwrap();
        let ask = Ask { partition_bytes: limit, ..Ask::default() };
        let answer = broker.fetch(16, &ask.request(16, &topic, &[(0, 0)])).await;
        let set = answer.responses[0].partitions[0].records.clone().unwrap();
        assert_eq!(set.len(), 2 * size + 20, "a plain cut");

        let ask = Ask { partition_bytes: 10, ..Ask::default() };
        let answer = broker.fetch(16, &ask.request(16, &topic, &[(0, 0)])).await;
        let set = answer.responses[0].partitions[0].records.clone().unwrap();
        assert_eq!(set.len(), size, "one batch comes, however large");
    });
}

#[test]
fn behind_an_answers_first_partition_limits_are_strict() {
    against(async |mut broker| {
        let topic = broker.topic(2, &[]).await;
        let batch = batch_of(3, Origin::NOBODY);
        for partition in [0, 1] {
            assert_eq!(broker.produce_to(&topic.name, partition, &batch).await.error_code, 0);
        }
        let ask = Ask { partition_bytes: 10, ..Ask::default() };
        let answer = broker.fetch(16, &ask.request(16, &topic, &[(1, 0), (0, 0)])).await;
        let lengths: Vec<(i32, usize)> = answer.responses[0]
            .partitions
            .iter()
            .map(|one| (one.partition_index, one.records.as_ref().map_or(0, Bytes::len)))
            .collect();
        assert_eq!(lengths, [(1, batch.len()), (0, 0)]);
    });
}

#[test]
fn positions_outside_the_log_are_out_of_range_and_its_end_is_not() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        four_batches(&mut broker, &topic).await;
        assert_eq!(broker.fetch_by_id(&topic, 12, 0).await.error_code, 0);
        assert_eq!(broker.fetch_by_id(&topic, 13, 0).await.error_code, 1);

        broker.delete_to(&topic, 4).await;
        assert_eq!(broker.fetch_by_id(&topic, 3, 0).await.error_code, 1);
        let part = broker.fetch_by_id(&topic, 4, 0).await;
        assert_eq!((part.error_code, part.log_start_offset), (0, 4));
        let set = batch::split(&part.records.unwrap());
        assert_eq!(Header::read(&set[0]).unwrap().base, 3, "the batch that holds it is whole");
    });
}

#[test]
fn epochs_that_no_leader_has_had_are_told_apart() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        four_batches(&mut broker, &topic).await;
        let code = async |broker: &mut Broker, ask: Ask| {
            let answer = broker.fetch(16, &ask.request(16, &topic, &[(0, 6)])).await;
            answer.responses[0].partitions[0].error_code
        };
        let known = Ask { leader_epoch: 0, last_fetched_epoch: 0, ..Ask::default() };
        assert_eq!(code(&mut broker, known).await, 0);
        let ahead = Ask { leader_epoch: 5, ..Ask::default() };
        assert_eq!(code(&mut broker, ahead).await, 75);
        let unknown = Ask { last_fetched_epoch: 5, ..Ask::default() };
        assert_eq!(code(&mut broker, unknown).await, 1, "not a divergence");
    });
}

#[test]
fn a_session_answers_only_what_is_new() {
    against(async |mut broker| {
        let topic = broker.topic(2, &[]).await;
        let batch = batch_of(1, Origin::NOBODY);
        broker.produce_to(&topic.name, 0, &batch).await;

        let first = Ask { session: (0, 0), ..Ask::default() };
        let answer = broker.fetch(16, &first.request(16, &topic, &[(0, 0), (1, 0)])).await;
        let id = answer.session_id;
        assert_ne!(id, 0);
        assert_eq!(answer.responses[0].partitions.len(), 2, "a full answer names all");

        let next = |epoch| Ask { session: (id, epoch), ..Ask::default() };
        let answer = broker.fetch(16, &next(1).request(16, &topic, &[(0, 1)])).await;
        assert_eq!((answer.error_code, answer.session_id), (0, id));
        assert!(answer.responses.is_empty(), "no news: {:?}", answer.responses);

        broker.produce_to(&topic.name, 1, &batch).await;
        let answer = broker.fetch(16, &next(2).request(16, &topic, &[])).await;
        assert_eq!(answer.responses[0].partitions.len(), 1);
        assert_eq!(answer.responses[0].partitions[0].partition_index, 1);

        let forget = Ask { forget: vec![1], ..next(3) };
        let answer = broker.fetch(16, &forget.request(16, &topic, &[])).await;
        assert!(answer.responses.is_empty(), "it was forgotten: {:?}", answer.responses);
    });
}

#[test]
fn a_session_that_is_unknown_or_out_of_step_is_refused_as_a_whole() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let ask = |session| Ask { session, ..Ask::default() }.request(16, &topic, &[(0, 0)]);
        let id = broker.fetch(16, &ask((0, 0))).await.session_id;

        let answer = broker.fetch(16, &ask((id, 7))).await;
        assert_eq!((answer.error_code, answer.session_id), (71, 0));
        let answer = broker.fetch(16, &ask((123_456_789, 1))).await;
        assert_eq!((answer.error_code, answer.session_id), (70, 0));
        let by_name = Ask { session: (id, 1), ..Ask::default() }.request(12, &topic, &[(0, 0)]);
        assert_eq!(broker.fetch(12, &by_name).await.error_code, 106, "names in a session of ids");

        let answer = broker.fetch(16, &ask((id, -1))).await;
        assert_eq!((answer.error_code, answer.session_id), (0, 0), "the last request of a session");
        assert_eq!(broker.fetch(16, &ask((id, 1))).await.error_code, 70);
    });
}

#[test]
fn an_error_in_a_session_is_told_every_time() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let ask = |session| Ask { session, ..Ask::default() };
        let answer = broker.fetch(16, &ask((0, 0)).request(16, &topic, &[(0, 99)])).await;
        let id = answer.session_id;
        assert_eq!(answer.responses[0].partitions[0].error_code, 1);
        for epoch in [1, 2] {
            let answer = broker.fetch(16, &ask((id, epoch)).request(16, &topic, &[])).await;
            assert_eq!(answer.responses[0].partitions[0].error_code, 1);
        }
    });
}

#[test]
fn a_fetch_waits_for_data_as_long_as_it_may() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let ask = Ask { wait_ms: 300, min_bytes: 1, ..Ask::default() };
        let begun = tokio::time::Instant::now();
        let answer = broker.fetch(16, &ask.request(16, &topic, &[(0, 0)])).await;
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_millis(295), "{waited:?}");
        assert_eq!(answer.responses[0].partitions[0].error_code, 0);

        broker.produce(&topic, &batch_of(1, Origin::NOBODY)).await;
        let begun = tokio::time::Instant::now();
        let patient = Ask { wait_ms: 20_000, ..ask };
        broker.fetch(16, &patient.request(16, &topic, &[(0, 0)])).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "there was something to tell");
    });
}

#[test]
fn aborted_transactions_are_listed_for_readers_of_committed_records() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        let producer = broker.transaction(&topic, Some(false)).await;

        let part = broker.fetch_by_id(&topic, 0, 1).await;
        assert_eq!((part.high_watermark, part.last_stable_offset), (6, 6));
        let listed: Vec<(i64, i64)> = part
            .aborted_transactions
            .unwrap()
            .iter()
            .map(|one| (one.producer_id.0, one.first_offset))
            .collect();
        assert_eq!(listed, [(producer, 0)]);
        // An answer ends where a segment does, so the marker may come with the next one.
        let mut set = batch::split(&part.records.unwrap());
        while set.len() < 4 {
            let next = Header::read(&set[set.len() - 1]).unwrap().next();
            set.extend(batch::split(&broker.fetch_by_id(&topic, next, 1).await.records.unwrap()));
        }
        let kinds: Vec<(i64, bool, bool)> = set
            .iter()
            .map(|batch| Header::read(batch).unwrap())
            .map(|header| (header.base, header.has(TRANSACTIONAL), header.has(CONTROL)))
            .collect();
        let wanted = [(0, true, false), (2, false, false), (3, true, false), (5, true, true)];
        assert_eq!(kinds, wanted);
        assert!(!batch::is_commit(&set[3]));
        assert_eq!(set[3].len(), 78, "a marker");

        let uncommitted = broker.fetch_by_id(&topic, 0, 0).await;
        assert_eq!(uncommitted.aborted_transactions.map_or(0, |all| all.len()), 0);
        let behind = broker.fetch_by_id(&topic, 6, 1).await;
        assert_eq!(behind.aborted_transactions.map_or(0, |all| all.len()), 0);
    });
}

#[test]
fn an_open_transaction_holds_back_readers_of_committed_records() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        assert_eq!(broker.produce(&topic, &batch_of(1, Origin::NOBODY)).await, (0, 0));
        broker.transaction(&topic, None).await;

        let part = broker.fetch_by_id(&topic, 0, 1).await;
        assert_eq!((part.high_watermark, part.last_stable_offset), (6, 1));
        assert_eq!(batch::split(&part.records.unwrap()).len(), 1);
        let part = broker.fetch_by_id(&topic, 0, 0).await;
        assert_eq!(batch::split(&part.records.unwrap()).len(), 4);
        assert_eq!(end_offset(&mut broker, &topic, -1, 1).await, (0, 1, 0));
        assert_eq!(end_offset(&mut broker, &topic, -1, 0).await, (0, 6, 0));
    });
}

/// Code, offset and epoch.
async fn end_offset(
    broker: &mut Broker,
    topic: &Made,
    timestamp: i64,
    isolation: i8,
) -> (i16, i64, i32) {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(0)
        .with_current_leader_epoch(-1)
        .with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default()
        .with_name(TopicName(text(&topic.name)))
        .with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_isolation_level(isolation)
        .with_topics(vec![topic]);
    let answer = broker.call(7, &request).await;
    let one = &answer.topics[0].partitions[0];
    (one.error_code, one.offset, one.leader_epoch)
}

#[test]
fn offsets_are_listed_by_place_and_time() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        assert_eq!(end_offset(&mut broker, &topic, -1, 0).await, (0, 0, 0), "empty");
        four_batches(&mut broker, &topic).await;
        assert_eq!(end_offset(&mut broker, &topic, -1, 0).await, (0, 12, 0));
        assert_eq!(end_offset(&mut broker, &topic, TIME + 1, 0).await, (0, 1, 0));
        broker.delete_to(&topic, 4).await;
        assert_eq!(end_offset(&mut broker, &topic, -2, 0).await, (0, 4, 0));
        let gone = Made { name: "no-such-topic".into(), ..topic };
        assert_eq!(end_offset(&mut broker, &gone, -1, 0).await.0, 3);
    });
}

#[test]
fn an_epochs_end_is_the_logs_end_or_unknown() {
    against(async |mut broker| {
        let topic = broker.topic(1, &[]).await;
        four_batches(&mut broker, &topic).await;
        let ask = async |broker: &mut Broker, epoch| {
            let partition = OffsetForLeaderPartition::default()
                .with_partition(0)
                .with_current_leader_epoch(-1)
                .with_leader_epoch(epoch);
            let topic = OffsetForLeaderTopic::default()
                .with_topic(TopicName(text(&topic.name)))
                .with_partitions(vec![partition]);
            let request = OffsetForLeaderEpochRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_topics(vec![topic]);
            let answer = broker.call(4, &request).await;
            let one = &answer.topics[0].partitions[0];
            (one.error_code, one.leader_epoch, one.end_offset)
        };
        assert_eq!(ask(&mut broker, 0).await, (0, 0, 12));
        assert_eq!(ask(&mut broker, 5).await, (0, -1, -1));
    });
}

#[test]
fn topics_are_made_once_and_only_grow() {
    against(async |mut broker| {
        let topic = broker.topic(2, &[("max.message.bytes", "5000")]).await;
        let again = CreatableTopic::default()
            .with_name(TopicName(text(&topic.name)))
            .with_num_partitions(1)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default().with_topics(vec![again]).with_timeout_ms(5000);
        assert_eq!(broker.call(7, &request).await.topics[0].error_code, 36);

        let grow = |count| {
            let topic = CreatePartitionsTopic::default()
                .with_name(TopicName(text(&topic.name)))
                .with_count(count)
                .with_assignments(None);
            CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(5000)
        };
        assert_eq!(broker.call(3, &grow(2)).await.results[0].error_code, 37);
        assert_eq!(broker.call(3, &grow(3)).await.results[0].error_code, 0);

        let resource = DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text(&topic.name))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let answer = broker.call(4, &request).await;
        let configs = &answer.results[0].configs;
        let one = |name: &str| {
            let found = configs.iter().find(|config| config.name.as_str() == name).unwrap();
            (found.value.clone().unwrap().to_string(), found.config_source)
        };
        assert_eq!(one("max.message.bytes"), ("5000".to_owned(), 1));
        assert_eq!(one("cleanup.policy"), ("delete".to_owned(), 5));
    });
}

#[test]
fn a_question_about_versions_in_a_version_that_is_not_known_is_answered_in_version_0() {
    against(async |mut broker| {
        let answer = broker.send_raw(18, 99, true, &[1, 1, 0]).await;
        assert_eq!(answer[..2], 35_i16.to_be_bytes());
        assert_eq!(answer[2..6], 1_i32.to_be_bytes(), "one entry");
        assert_eq!(answer[6..8], 18_i16.to_be_bytes(), "about the question itself");
    });
}

#[test]
fn producer_ids_differ() {
    against(async |mut broker| {
        let first = producer_id(&mut broker).await;
        assert_ne!(producer_id(&mut broker).await, first);
    });
}
