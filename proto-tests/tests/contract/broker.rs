//! A broker to ask: the scripted one, or the real one that `TESTBED_BOOTSTRAP` names.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, CreateTopicsRequest, DeleteRecordsRequest, EndTxnRequest,
    FetchRequest, FetchResponse, FindCoordinatorRequest, InitProducerIdRequest, MetadataRequest,
    ProduceRequest, ProducerId, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use proto_tests::broker::batch::{self, Origin, Packing, Record, TRANSACTIONAL};
use proto_tests::broker::{FakeCluster, Release};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

/// The time of every record.
pub(crate) const TIME: i64 = 1_700_000_000_000;

trait Pipe: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Pipe for T {}

/// One connection to the broker in question.
pub(crate) struct Broker {
    pipe: Box<dyn Pipe>,
    correlation: i32,
    fake: Option<FakeCluster>,
}

/// A topic that was made for one test.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) name: String,
    pub(crate) id: Uuid,
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// Runs one rule against whichever broker there is, and says which.
pub(crate) fn against(rule: impl AsyncFnOnce(Broker)) {
    let bootstrap = std::env::var("TESTBED_BOOTSTRAP").ok();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(bootstrap.is_none()).build().unwrap();
    runtime.block_on(async {
        let broker = match &bootstrap {
            Some(address) => {
                println!("against the real broker at {address}");
                Broker::real(address).await
            }
            None => {
                println!(
                    "against the scripted broker (TESTBED_BOOTSTRAP=host:port names a real one)"
                );
                Broker::fake(&FakeCluster::new("fake", 1, Release::V4_3))
            }
        };
        rule(broker).await;
    });
}

impl Broker {
    #[expect(clippy::disallowed_methods, reason = "another client than the one under test")]
    async fn real(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the broker named is there");
        Self { pipe: Box::new(stream), correlation: 0, fake: None }
    }

    fn fake(cluster: &FakeCluster) -> Self {
        cluster.attach();
        let stream = cluster.dial(&cluster.bootstrap()[0]).unwrap();
        Self { pipe: Box::new(stream), correlation: 0, fake: Some(cluster.clone()) }
    }

    pub(crate) async fn send_raw(
        &mut self,
        key: i16,
        version: i16,
        flexible: bool,
        body: &[u8],
    ) -> Bytes {
        self.correlation += 1;
        let mut frame = BytesMut::new();
        frame.put_i16(key);
        frame.put_i16(version);
        frame.put_i32(self.correlation);
        frame.put_i16(8);
        frame.extend_from_slice(b"contract");
        if flexible {
            frame.put_u8(0);
        }
        frame.extend_from_slice(body);
        self.pipe.write_i32(i32::try_from(frame.len()).unwrap()).await.unwrap();
        self.pipe.write_all(&frame).await.unwrap();
        let length = usize::try_from(self.pipe.read_i32().await.unwrap()).unwrap();
        let mut answer = vec![0; length];
        self.pipe.read_exact(&mut answer).await.unwrap();
        let mut answer = Bytes::from(answer);
        let correlation = answer.split_to(4);
        assert_eq!(correlation[..], self.correlation.to_be_bytes());
        answer
    }

    pub(crate) async fn call<R>(&mut self, version: i16, request: &R) -> R::Response
    where
        R: Request + HeaderVersion + Encodable,
        R::Response: Decodable + HeaderVersion,
    {
        let mut body = BytesMut::new();
        request.encode(&mut body, version).unwrap();
        let flexible = R::header_version(version) >= 2;
        let mut answer = self.send_raw(R::KEY, version, flexible, &body).await;
        if R::Response::header_version(version) >= 1 {
            assert_eq!(answer.split_to(1)[0], 0, "no tagged fields in the header");
        }
        let decoded = R::Response::decode(&mut answer, version).unwrap();
        assert!(answer.is_empty(), "{} bytes are left over", answer.len());
        decoded
    }

    /// Makes a topic under a name of its own, and waits until it has a leader.
    pub(crate) async fn topic(&mut self, partitions: i32, configs: &[(&str, &str)]) -> Made {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("contract-{}-{count}", std::process::id());
        let config = |(name, value): &(&str, &str)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        };
        let topic = CreatableTopic::default()
            .with_name(topic_name(&name))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.iter().map(config).collect());
        let request =
            CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let answer = self.call(7, &request).await;
        assert_eq!(answer.topics[0].error_code, 0, "{:?}", answer.topics[0].error_message);
        let wanted = MetadataRequestTopic::default().with_name(Some(topic_name(&name)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![wanted]))
            .with_allow_auto_topic_creation(false);
        for _ in 0..100 {
            let answer = self.call(12, &request).await;
            let found = &answer.topics[0];
            let led = found.partitions.iter().filter(|one| one.leader_id.0 >= 0).count();
            if found.error_code == 0 && i32::try_from(led) == Ok(partitions) {
                let made = Made { name: name.clone(), id: found.topic_id };
                // A leader that is named does not always lead yet.
                if self.fetch_by_id(&made, 0, 0).await.error_code == 0 {
                    return made;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} has no leader");
    }

    pub(crate) async fn produce_to(
        &mut self,
        topic: &str,
        partition: i32,
        records: &[u8],
    ) -> PartitionProduceResponse {
        let one = PartitionProduceData::default()
            .with_index(partition)
            .with_records(Some(Bytes::copy_from_slice(records)));
        let data =
            TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![one]);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![data]);
        let mut answer = self.call(12, &request).await;
        answer.responses.remove(0).partition_responses.remove(0)
    }

    /// Produces to partition 0; code and base offset.
    pub(crate) async fn produce(&mut self, topic: &Made, records: &[u8]) -> (i16, i64) {
        let answer = self.produce_to(&topic.name, 0, records).await;
        (answer.error_code, answer.base_offset)
    }

    pub(crate) async fn fetch(&mut self, version: i16, request: &FetchRequest) -> FetchResponse {
        self.call(version, request).await
    }

    /// Partition 0 from an offset on, by topic id.
    pub(crate) async fn fetch_by_id(
        &mut self,
        topic: &Made,
        from: i64,
        isolation: i8,
    ) -> PartitionData {
        let ask = Ask { isolation, ..Ask::default() };
        let request = ask.request(16, topic, &[(0, from)]);
        let mut answer = self.fetch(16, &request).await;
        assert_eq!(answer.error_code, 0);
        answer.responses.remove(0).partitions.remove(0)
    }

    /// DeleteRecords, or what a test does to the scripted broker instead.
    pub(crate) async fn delete_to(&mut self, topic: &Made, offset: i64) {
        if let Some(fake) = &self.fake {
            let delete = |partition: &mut proto_tests::broker::Partition| {
                partition.log.delete_to(offset);
            };
            return fake.with(|state| state.partition_mut(&topic.name, 0).map(delete)).unwrap();
        }
        let partition =
            DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
        let topic = DeleteRecordsTopic::default()
            .with_name(topic_name(&topic.name))
            .with_partitions(vec![partition]);
        let request =
            DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
        let answer = self.call(2, &request).await;
        assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    }

    /// A transaction of two batches of two records each, with a batch of one record of somebody
    /// else between them; ended if told how. Gives the producer's id.
    pub(crate) async fn transaction(&mut self, topic: &Made, end: Option<bool>) -> i64 {
        let others = data(&["other"], Origin::NOBODY);
        let batch = |from: Origin| {
            batch::write(0, 2, &records(&["t1", "t2"]), Packing::None, TRANSACTIONAL, from)
        };
        if let Some(fake) = self.fake.clone() {
            let from = Origin { producer: 77, epoch: 0, sequence: 0 };
            fake.with(|state| {
                state.append(&topic.name, 0, &batch(from));
                state.append(&topic.name, 0, &others);
                state.append(&topic.name, 0, &batch(Origin { sequence: 2, ..from }));
                if let Some(commit) = end {
                    let partition = state.partition_mut(&topic.name, 0).unwrap();
                    partition.log.end_transaction(from, TIME, commit);
                }
            });
            return from.producer;
        }
        let id = format!("tx-{}", topic.name);
        let init = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(text(&id))))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let find = FindCoordinatorRequest::default().with_key_type(1).with_key(text(&id));
        let mut given = None;
        for _ in 0..100 {
            let _found = self.call(3, &find).await;
            let answer = self.call(4, &init).await;
            if answer.error_code == 0 {
                given = Some((answer.producer_id, answer.producer_epoch));
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let (producer, epoch) = given.expect("a coordinator");
        let wanted = AddPartitionsToTxnTopic::default()
            .with_name(topic_name(&topic.name))
            .with_partitions(vec![0]);
        let add = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(TransactionalId(text(&id)))
            .with_v3_and_below_producer_id(producer)
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(vec![wanted]);
        self.call(3, &add).await;
        let from = |sequence| Origin { producer: producer.0, epoch, sequence };
        for (sequence, first) in [(0, true), (2, false)] {
            if !first {
                assert_eq!(self.produce(topic, &others).await.0, 0);
            }
            let one = PartitionProduceData::default()
                .with_index(0)
                .with_records(Some(batch(from(sequence)).into()));
            let data = TopicProduceData::default()
                .with_name(topic_name(&topic.name))
                .with_partition_data(vec![one]);
            let request = ProduceRequest::default()
                .with_transactional_id(Some(TransactionalId(text(&id))))
                .with_acks(-1)
                .with_timeout_ms(10_000)
                .with_topic_data(vec![data]);
            let answer = self.call(11, &request).await;
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        }
        if let Some(commit) = end {
            let end = EndTxnRequest::default()
                .with_transactional_id(TransactionalId(text(&id)))
                .with_producer_id(producer)
                .with_producer_epoch(epoch)
                .with_committed(commit);
            assert_eq!(self.call(4, &end).await.error_code, 0);
            // The answer comes before the markers do.
            for _ in 0..100 {
                if self.fetch_by_id(topic, 0, 1).await.last_stable_offset == 6 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        producer.0
    }
}

/// How a Fetch request is made.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) isolation: i8,
    pub(crate) session: (i32, i32),
    pub(crate) wait_ms: i32,
    pub(crate) min_bytes: i32,
    pub(crate) max_bytes: i32,
    pub(crate) partition_bytes: i32,
    pub(crate) leader_epoch: i32,
    pub(crate) last_fetched_epoch: i32,
    pub(crate) forget: Vec<i32>,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            isolation: 0,
            session: (0, -1),
            wait_ms: 0,
            min_bytes: 0,
            max_bytes: 1 << 20,
            partition_bytes: 1 << 20,
            leader_epoch: -1,
            last_fetched_epoch: -1,
            forget: Vec::new(),
        }
    }
}

impl Ask {
    pub(crate) fn request(
        &self,
        version: i16,
        topic: &Made,
        wanted: &[(i32, i64)],
    ) -> FetchRequest {
        let partition = |(index, offset): &(i32, i64)| {
            FetchPartition::default()
                .with_partition(*index)
                .with_current_leader_epoch(self.leader_epoch)
                .with_fetch_offset(*offset)
                .with_last_fetched_epoch(if version >= 12 { self.last_fetched_epoch } else { -1 })
                .with_log_start_offset(-1)
                .with_partition_max_bytes(self.partition_bytes)
        };
        let ids = version >= 13;
        let mut request = FetchRequest::default()
            .with_max_wait_ms(self.wait_ms)
            .with_min_bytes(self.min_bytes)
            .with_max_bytes(self.max_bytes)
            .with_isolation_level(self.isolation)
            .with_session_id(self.session.0)
            .with_session_epoch(self.session.1);
        if !wanted.is_empty() {
            let named = if ids {
                FetchTopic::default().with_topic_id(topic.id)
            } else {
                FetchTopic::default().with_topic(topic_name(&topic.name))
            };
            request.topics = vec![named.with_partitions(wanted.iter().map(partition).collect())];
        }
        if !self.forget.is_empty() {
            let gone = if ids {
                ForgottenTopic::default().with_topic_id(topic.id)
            } else {
                ForgottenTopic::default().with_topic(topic_name(&topic.name))
            };
            request.forgotten_topics_data = vec![gone.with_partitions(self.forget.clone())];
        }
        request
    }
}

/// Records with these keys, at offsets from 0.
pub(crate) fn records(keys: &[&str]) -> Vec<Record> {
    (0..)
        .zip(keys)
        .map(|(offset, key)| Record {
            offset,
            time: TIME + offset,
            key: Some(key.as_bytes().to_vec()),
            value: Some(b"value".to_vec()),
            headers: Vec::new(),
        })
        .collect()
}

/// A batch of records with these keys.
pub(crate) fn data(keys: &[&str], from: Origin) -> Vec<u8> {
    let span = i64::try_from(keys.len()).unwrap();
    batch::write(0, span, &records(keys), Packing::None, 0, from)
}
