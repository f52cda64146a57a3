//! Fetch: sessions (KIP-227), and what one partition answers (`FetchManager`, `Partition`,
//! `ReplicaManager.fetchMessages`).

use bytes::Bytes;
use kafka_protocol::messages::fetch_response::{
    AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
};
use kafka_protocol::messages::{BrokerId, FetchRequest, FetchResponse, ProducerId, TopicName};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::answers::Asked;
use super::state::State;

/// First version that names topics by id.
const IDS_FROM: i16 = 13;

/// A partition as a client names it: by name, or by id (the other is empty).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    name: String,
    id: [u8; 16],
    partition: i32,
}

/// What a session remembers of a partition: what was asked, and what was last answered.
#[derive(Clone, Debug)]
struct Cached {
    place: Place,
    offset: i64,
    bytes_max: i32,
    leader_epoch: i32,
    last_fetched_epoch: i32,
    high_watermark: i64,
    log_start: i64,
}

/// A fetch session.
#[derive(Clone, Debug)]
pub(super) struct Session {
    epoch: i32,
    ids: bool,
    partitions: Vec<Cached>,
}

/// A Fetch request that is being worked on.
#[derive(Clone, Debug)]
pub(super) struct Fetching {
    partitions: Vec<Cached>,
    session: i32,
    /// Only partitions with news are answered.
    incremental: bool,
    min_bytes: usize,
    max_bytes: usize,
    committed: bool,
    /// How long it may wait for data, milliseconds.
    pub(super) wait_ms: u64,
}

fn cached(place: Place, one: &kafka_protocol::messages::fetch_request::FetchPartition) -> Cached {
    Cached {
        place,
        offset: one.fetch_offset,
        bytes_max: one.partition_max_bytes,
        leader_epoch: one.current_leader_epoch,
        last_fetched_epoch: one.last_fetched_epoch,
        high_watermark: -1,
        log_start: -1,
    }
}

/// Finds or makes the session, and lists what has to be read.
///
/// # Errors
///
/// The code of an answer that is about the session.
pub(super) fn begin(
    state: &mut State,
    asked: &Asked,
    request: &FetchRequest,
) -> Result<Fetching, i16> {
    let ids = asked.version >= IDS_FROM;
    let place = |name: &TopicName, id: &Uuid, partition| Place {
        name: if ids { String::new() } else { name.0.to_string() },
        id: if ids { *id.as_bytes() } else { [0; 16] },
        partition,
    };
    let mut named = Vec::new();
    for topic in &request.topics {
        for one in &topic.partitions {
            named.push(cached(place(&topic.topic, &topic.topic_id, one.partition), one));
        }
    }
    let (id, epoch) = (request.session_id, request.session_epoch);
    let key = (asked.node, id);
    let mut fetching = Fetching {
        partitions: Vec::new(),
        session: 0,
        incremental: false,
        min_bytes: usize::try_from(request.min_bytes).unwrap_or(0),
        max_bytes: usize::try_from(request.max_bytes).unwrap_or(0),
        committed: request.isolation_level == 1,
        wait_ms: u64::try_from(request.max_wait_ms).unwrap_or(0),
    };
    if epoch <= 0 {
        // A full request; one with an id ends that session first.
        state.sessions.remove(&key);
        fetching.partitions.clone_from(&named);
        let of_node = state.sessions.keys().filter(|(node, _)| *node == asked.node).count();
        if epoch == 0 && of_node < state.sessions_max && !named.is_empty() {
            state.next_session += 1;
            fetching.session = state.next_session;
            let session = Session { epoch: 1, ids, partitions: named };
            state.sessions.insert((asked.node, fetching.session), session);
        }
        return Ok(fetching);
    }
    let session = state.sessions.get_mut(&key).ok_or(70_i16)?;
    if session.epoch != epoch {
        return Err(71);
    }
    if session.ids != ids {
        return Err(106);
    }
    for one in named {
        match session.partitions.iter_mut().find(|known| known.place == one.place) {
            Some(known) => {
                let (high_watermark, log_start) = (known.high_watermark, known.log_start);
                *known = Cached { high_watermark, log_start, ..one };
            }
            None => session.partitions.push(one),
        }
    }
    for topic in &request.forgotten_topics_data {
        for partition in &topic.partitions {
            let gone = place(&topic.topic, &topic.topic_id, *partition);
            session.partitions.retain(|known| known.place != gone);
        }
    }
    session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
    fetching.partitions.clone_from(&session.partitions);
    if session.partitions.is_empty() {
        // A session with nothing in it is closed.
        state.sessions.remove(&key);
        return Ok(fetching);
    }
    fetching.session = id;
    fetching.incremental = true;
    Ok(fetching)
}

/// What one partition has to say.
#[derive(Clone, Debug, Default)]
struct Read {
    code: i16,
    high_watermark: i64,
    stable: i64,
    log_start: i64,
    diverging: Option<(i32, i64)>,
    leader: Option<(i32, i32)>,
    aborted: Option<Vec<(i64, i64)>>,
    records: Bytes,
}

fn failed(code: i16) -> Read {
    Read { code, high_watermark: -1, stable: -1, log_start: -1, ..Read::default() }
}

fn read(
    state: &State,
    asked: &Asked,
    one: &Cached,
    (committed, room, at_least_one): (bool, usize, bool),
) -> Read {
    if let Some(code) = asked.refuse {
        return failed(code);
    }
    let name = if asked.version >= IDS_FROM {
        match state.name_of(one.place.id) {
            Some(name) => name.to_owned(),
            None => return failed(100),
        }
    } else {
        one.place.name.clone()
    };
    let partition = match state.led_by(asked.node, &name, one.place.partition) {
        Ok(partition) => partition,
        Err(code) => {
            let known = state.partition(&name, one.place.partition);
            let leader = known.map(|known| (known.leader, known.epoch));
            return Read { leader, ..failed(code) };
        }
    };
    if let Err(code) = State::epoch_code(partition, one.leader_epoch) {
        return Read { leader: Some((partition.leader, partition.epoch)), ..failed(code) };
    }
    let log = &partition.log;
    if one.last_fetched_epoch >= 0 {
        let (epoch, end) = log.epoch_end(one.last_fetched_epoch);
        if epoch < 0 || end < 0 || one.offset < log.start() {
            return failed(1);
        }
        if epoch < one.last_fetched_epoch || end < one.offset {
            return Read {
                high_watermark: log.end(),
                stable: log.stable(),
                log_start: log.start(),
                diverging: Some((epoch, end)),
                ..Read::default()
            };
        }
    }
    if one.offset < log.start() || one.offset > log.end() {
        return failed(1);
    }
    let upper = if committed { log.stable() } else { log.end() };
    let bytes_max = usize::try_from(one.bytes_max).unwrap_or(0).min(room);
    let records = log.read(one.offset, upper, bytes_max, at_least_one);
    let aborted = committed.then(|| {
        let all = log.aborted_within(one.offset, &records);
        all.iter().map(|one| (one.producer, one.first)).collect()
    });
    Read {
        code: 0,
        high_watermark: log.end(),
        stable: log.stable(),
        log_start: log.start(),
        diverging: None,
        leader: None,
        aborted,
        records,
    }
}

/// Reads what is there now: the answer, if there is enough for one or if there must be one.
pub(super) fn attempt(
    state: &mut State,
    asked: &Asked,
    fetching: &Fetching,
    due: bool,
) -> Option<FetchResponse> {
    let mut total = 0;
    let mut urgent = false;
    let mut reads = Vec::with_capacity(fetching.partitions.len());
    for one in &fetching.partitions {
        let room = fetching.max_bytes.saturating_sub(total);
        let read = read(state, asked, one, (fetching.committed, room, total == 0));
        total += read.records.len();
        urgent |= read.code != 0 || read.diverging.is_some();
        reads.push(read);
    }
    let enough = urgent || total >= fetching.min_bytes || fetching.partitions.is_empty();
    if !enough && !due {
        return None;
    }
    Some(answer(state, asked, fetching, reads))
}

fn answer(
    state: &mut State,
    asked: &Asked,
    fetching: &Fetching,
    reads: Vec<Read>,
) -> FetchResponse {
    let ids = asked.version >= IDS_FROM;
    let mut topics: Vec<FetchableTopicResponse> = Vec::new();
    let mut session = state.sessions.get_mut(&(asked.node, fetching.session));
    let mut served = Vec::new();
    for (one, read) in fetching.partitions.iter().zip(reads) {
        let known = session.as_deref_mut().and_then(|session| {
            session.partitions.iter_mut().find(|known| known.place == one.place)
        });
        if let Some(known) = known {
            let news = !read.records.is_empty()
                || known.high_watermark != read.high_watermark
                || known.log_start != read.log_start
                || read.code != 0
                || read.diverging.is_some();
            let bad = read.code != 0 || read.diverging.is_some();
            known.high_watermark = if bad { -1 } else { read.high_watermark };
            known.log_start = read.log_start;
            if fetching.incremental && !news {
                continue;
            }
        }
        if !read.records.is_empty() {
            served.push(one.place.clone());
        }
        let data = partition_data(asked, one.place.partition, read);
        let same = |topic: &FetchableTopicResponse| {
            if ids {
                *topic.topic_id.as_bytes() == one.place.id
            } else {
                topic.topic.0.as_str() == one.place.name
            }
        };
        match topics.last_mut().filter(|topic| same(topic)) {
            Some(topic) => topic.partitions.push(data),
            None => {
                let topic = if ids {
                    FetchableTopicResponse::default().with_topic_id(Uuid::from_bytes(one.place.id))
                } else {
                    let name = StrBytes::from_string(one.place.name.clone());
                    FetchableTopicResponse::default().with_topic(TopicName(name))
                };
                topics.push(topic.with_partitions(vec![data]));
            }
        }
    }
    if let Some(session) = session {
        // Who was served goes to the back, so that all have their turn.
        let (back, front): (Vec<_>, Vec<_>) =
            session.partitions.drain(..).partition(|known| served.contains(&known.place));
        session.partitions = front;
        session.partitions.extend(back);
    }
    FetchResponse::default()
        .with_throttle_time_ms(asked.throttle_ms)
        .with_session_id(fetching.session)
        .with_responses(topics)
}

/// The answer to a request whose session is at fault.
pub(super) fn session_error(asked: &Asked, code: i16) -> FetchResponse {
    FetchResponse::default().with_throttle_time_ms(asked.throttle_ms).with_error_code(code)
}

fn partition_data(asked: &Asked, index: i32, read: Read) -> PartitionData {
    let aborted = read.aborted.map(|all| {
        let one = |(producer, first): (i64, i64)| {
            AbortedTransaction::default()
                .with_producer_id(ProducerId(producer))
                .with_first_offset(first)
        };
        all.into_iter().map(one).collect()
    });
    let mut data = PartitionData::default()
        .with_partition_index(index)
        .with_error_code(read.code)
        .with_high_watermark(read.high_watermark)
        .with_last_stable_offset(read.stable)
        .with_log_start_offset(read.log_start)
        .with_aborted_transactions(aborted)
        .with_preferred_read_replica(BrokerId(-1))
        .with_records(Some(read.records));
    if asked.version >= 12
        && let Some((epoch, end)) = read.diverging
    {
        let diverging = EpochEndOffset::default().with_epoch(epoch).with_end_offset(end);
        data = data.with_diverging_epoch(diverging);
    }
    if asked.version >= 16
        && let Some((node, epoch)) = read.leader
    {
        let leader =
            LeaderIdAndEpoch::default().with_leader_id(BrokerId(node)).with_leader_epoch(epoch);
        data = data.with_current_leader(leader);
    }
    data
}
