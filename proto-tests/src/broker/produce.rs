//! Produce: every check of a broker, in its order (`ProduceRequest.validateRecords`,
//! `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`, `ProducerAppendInfo`).

use bytes::Bytes;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId, ProduceRequest, ProduceResponse};
use kafka_protocol::protocol::StrBytes;

use super::answers::Asked;
use super::batch::{self, CONTROL, HEADER, Header, TRANSACTIONAL};
use super::log::Sequenced;
use super::state::{State, Topic};

/// Why a batch is refused: the code, and which records are named for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    /// The error code.
    code: i16,
    /// In words.
    why: String,
    /// Indexes of records that are named.
    records: Vec<i32>,
}

fn refused(code: i16, why: impl Into<String>) -> Refusal {
    Refusal { code, why: why.into(), records: Vec::new() }
}

/// The one batch of a partition's records, if a broker takes it.
fn check(topic: &Topic, records: &Bytes) -> Result<(Header, Bytes), Refusal> {
    let batches = batch::split(records);
    let Some(first) = batches.first() else {
        return Err(refused(87, "Produce requests must have at least one batch"));
    };
    let header = Header::read(first).ok_or_else(|| refused(87, "cut"))?;
    if header.magic != 2 {
        return Err(refused(87, "Produce requests are only allowed to contain batches of magic 2"));
    }
    if batches.len() > 1 {
        return Err(refused(87, "Produce requests must have exactly one batch per partition"));
    }
    if header.base != 0 {
        return Err(refused(87, format!("The baseOffset should be 0, but it is {}", header.base)));
    }
    if first.len() > topic.batch_bytes_max() {
        return Err(refused(10, format!("The record batch size is {} bytes", first.len())));
    }
    if first.len() < HEADER || !batch::intact(first) {
        return Err(refused(2, "Record is corrupt"));
    }
    if header.last_delta < 0 {
        return Err(refused(87, "Batch has an invalid offset range"));
    }
    if header.count <= 0 {
        return Err(refused(87, "Invalid reported count for record batch"));
    }
    if header.count != header.last_delta + 1 {
        return Err(refused(
            87,
            format!("Inconsistent batch offset range: {} and {}", header.last_delta, header.count),
        ));
    }
    if header.has(CONTROL) {
        return Err(refused(87, "Clients are not allowed to write control records"));
    }
    if header.producer >= 0 && header.sequence < 0 {
        return Err(refused(87, "Invalid sequence number in record batch with producerId"));
    }
    let inside = batch::records(first).map_err(|why| refused(87, why))?;
    if topic.is_compacted() {
        let nameless = inside.iter().enumerate().filter(|(_, record)| record.key.is_none());
        let records: Vec<i32> =
            nameless.filter_map(|(index, _)| i32::try_from(index).ok()).collect();
        if !records.is_empty() {
            let why = "One or more records have been rejected".into();
            return Err(Refusal { code: 87, why, records });
        }
    }
    Ok((header, first.clone()))
}

/// What a partition's records become: an offset, or a refusal.
fn take(
    state: &mut State,
    asked: &Asked,
    topic: &str,
    partition: i32,
    records: &Bytes,
) -> Result<i64, Refusal> {
    if let Err(code) = state.led_by(asked.node, topic, partition) {
        return Err(refused(code, ""));
    }
    let (header, bytes) = check(&state.topics[topic], records)?;
    if !asked.applies {
        return Ok(-1);
    }
    let index = usize::try_from(partition).expect("it was found");
    if !state.quirks.forgets_sequences {
        match state.topics[topic].partitions[index].log.sequenced(&header) {
            Sequenced::Next => {}
            Sequenced::Duplicate(base) => return Ok(base),
            Sequenced::Refused(code) => return Err(refused(code, "sequence")),
        }
    }
    Ok(state.store(topic, index, &bytes))
}

/// Answers a Produce request; `None` if the client wants no answer.
pub(super) fn produce(
    state: &mut State,
    asked: &Asked,
    request: &ProduceRequest,
) -> Option<ProduceResponse> {
    let transactional =
        request.topic_data.iter().flat_map(|topic| &topic.partition_data).any(|one| {
            let header = one.records.as_ref().and_then(|records| Header::read(records));
            header.is_some_and(|header| header.has(TRANSACTIONAL))
        });
    let whole = match request.acks {
        // Without a transactional id nothing transactional may be written.
        _ if transactional && request.transactional_id.is_none() => Some(53),
        -1..=1 => None,
        _ => Some(21),
    };
    let mut topics = Vec::new();
    for topic in &request.topic_data {
        let name = if asked.version >= 13 {
            state.name_of(*topic.topic_id.as_bytes()).map(str::to_owned)
        } else {
            Some(topic.name.0.to_string())
        };
        let mut partitions = Vec::new();
        for one in &topic.partition_data {
            let outcome = match (&name, whole) {
                (_, Some(code)) => Err(refused(code, "")),
                (None, _) => Err(refused(100, "")),
                (Some(name), None) => {
                    let records = one.records.clone().unwrap_or_default();
                    take(state, asked, name, one.index, &records)
                }
            };
            let outcome = match (outcome, asked.refuse) {
                (Ok(_) | Err(_), Some(code)) => Err(refused(code, "")),
                (outcome, None) => outcome,
            };
            let place = name.as_deref().and_then(|name| state.partition(name, one.index));
            let log_start = place.map_or(-1, |place| place.log.start());
            let leader = place.map(|place| (place.leader, place.epoch));
            partitions.push(answer(asked, one.index, outcome, log_start, leader));
        }
        topics.push(
            TopicProduceResponse::default()
                .with_name(topic.name.clone())
                .with_topic_id(topic.topic_id)
                .with_partition_responses(partitions),
        );
    }
    let answer =
        ProduceResponse::default().with_responses(topics).with_throttle_time_ms(asked.throttle_ms);
    (request.acks != 0).then_some(answer)
}

fn answer(
    asked: &Asked,
    index: i32,
    outcome: Result<i64, Refusal>,
    log_start: i64,
    leader: Option<(i32, i32)>,
) -> PartitionProduceResponse {
    let one = PartitionProduceResponse::default().with_index(index).with_log_append_time_ms(-1);
    match outcome {
        Ok(base) => one.with_base_offset(base).with_log_start_offset(log_start),
        Err(Refusal { code, why, records }) => {
            let mut one = one.with_error_code(code).with_base_offset(-1).with_log_start_offset(-1);
            if asked.version >= 8 {
                let named = |index: &i32| {
                    BatchIndexAndErrorMessage::default()
                        .with_batch_index(*index)
                        .with_batch_index_error_message(Some(StrBytes::from_static_str(
                            "Compacted topic cannot accept message without key",
                        )))
                };
                one = one.with_record_errors(records.iter().map(named).collect());
                if !why.is_empty() {
                    one = one.with_error_message(Some(StrBytes::from_string(why)));
                }
            }
            if let (10.., 6 | 74, Some((node, epoch))) = (asked.version, code, leader) {
                let leader = LeaderIdAndEpoch::default()
                    .with_leader_id(BrokerId(node))
                    .with_leader_epoch(epoch);
                one = one.with_current_leader(leader);
            }
            one
        }
    }
}
