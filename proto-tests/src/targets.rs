//! The bodies of the fuzz targets. `fuzz/` calls them with made-up bytes, the test
//! `fuzz_corpora` with committed ones; each panics when a promise is broken.

use std::time::Duration;

use bytes::Bytes;
use heliograph::batch::{
    AbortedIndex, BatchHeader, Entry, HEADER_BYTES, Oversize, RawBatch, RebuildError, Shallow,
    Terms, control_type, disposition, is_whole, rebuild, restamp, verify,
};
use heliograph::model::{AbortedTransaction, Moment, Offset, ProducerIdentity, Secret, Sequence};
use heliograph::wire::message::{decode, split_header};
use heliograph::wire::sasl::{Credentials, Mechanism};
use heliograph::wire::{
    Api, AuthStep, Authentication, FRAME_BYTES_MAX, Handshake, HandshakeStep, Session, Versions,
    decode_produce, fetch, frame_length,
};
use kafka_protocol::messages::{
    CreateAclsResponse, CreatePartitionsResponse, CreateTopicsResponse, DeleteAclsResponse,
    DescribeAclsResponse, DescribeConfigsResponse, DescribeGroupsResponse,
    DescribeProducersResponse, FindCoordinatorResponse, IncrementalAlterConfigsResponse,
    InitProducerIdResponse, ListGroupsResponse, ListOffsetsResponse, MetadataResponse,
    OffsetCommitResponse, OffsetFetchResponse, OffsetForLeaderEpochResponse,
};

use crate::copy_run::{self, Piece, Step, seal};
use crate::golden::{self, Record, records};

/// A target: its name and its body.
pub type Target = (&'static str, fn(&[u8]));

/// Every target, in the order of their names.
pub const TARGETS: &[Target] = &[
    ("copier_ops", copier_ops),
    ("fetch_response", fetch_response),
    ("frame_stream", frame_stream),
    ("handshake", handshake),
    ("message_answers", message_answers),
    ("produce_response", produce_response),
    ("rebuild_equivalence", rebuild_equivalence),
    ("restamp_differential", restamp_differential),
    ("sasl_answers", sasl_answers),
    ("shallow_walk", shallow_walk),
];

/// The answers that go through `kafka-protocol`.
pub const MESSAGES: [Api; 17] = [
    Api::OffsetCommit,
    Api::OffsetFetch,
    Api::FindCoordinator,
    Api::ListGroups,
    Api::ListOffsets,
    Api::Metadata,
    Api::CreateTopics,
    Api::InitProducerId,
    Api::OffsetForLeaderEpoch,
    Api::DescribeConfigs,
    Api::CreatePartitions,
    Api::DescribeProducers,
    Api::IncrementalAlterConfigs,
    Api::DescribeAcls,
    Api::CreateAcls,
    Api::DescribeGroups,
    Api::DeleteAcls,
];

/// Takes bytes from the front; zeros once there are none.
struct Feed<'a>(&'a [u8]);

impl<'a> Feed<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

fn version_of(api: Api, byte: u8) -> i16 {
    let (min, max) = api.range();
    min + i16::from(byte) % (max - min + 1)
}

/// What a connection's reader makes of a stream that comes in the given pieces.
fn read_stream(stream: &[u8], pieces: &[usize]) -> Vec<String> {
    let now = Moment(Duration::ZERO);
    let mut session = Session::default();
    for (at, api) in [Api::ApiVersions, Api::Fetch, Api::Metadata, Api::Produce].iter().enumerate()
    {
        let sent = session.send((*api, api.range().1), at, now, Duration::from_secs(1));
        assert_eq!(sent.map_err(|(_, fault)| fault), Ok(i32::try_from(at).expect("small")));
    }
    let mut seen = Vec::new();
    let mut buffer: Vec<u8> = Vec::new();
    let mut rest = stream;
    let mut pieces = pieces.iter().copied().cycle();
    loop {
        while let Some(prefix) = buffer.first_chunk::<4>() {
            let length = match frame_length(*prefix, 4096) {
                Ok(length) => length,
                Err(error) => {
                    seen.push(format!("{error}"));
                    return seen;
                }
            };
            assert!((4..=4096).contains(&length));
            if buffer.len() < 4 + length {
                break;
            }
            let frame = Bytes::from(buffer.drain(..4 + length).skip(4).collect::<Vec<u8>>());
            let correlation = i32::from_be_bytes(*frame.first_chunk().expect("four bytes"));
            match session.on_answer(correlation) {
                Ok(ticket) => {
                    let body = split_header(ticket.api, ticket.version, &frame);
                    seen.push(format!("{} {body:?}", ticket.waiter));
                }
                Err(fault) => {
                    let again = session.send((Api::Fetch, 12), 9, now, Duration::ZERO);
                    assert_eq!(again, Err((9, fault.clone())), "nothing is sent after a fault");
                    seen.push(format!("{fault}; {} wait", session.close(fault.clone()).count()));
                    return seen;
                }
            }
        }
        if rest.is_empty() {
            return seen;
        }
        let (piece, after) = rest.split_at(pieces.next().unwrap_or(1).clamp(1, rest.len()));
        buffer.extend_from_slice(piece);
        rest = after;
    }
}

/// However a stream is cut into pieces, the same answers come out of it.
///
/// # Panics
///
/// If they do not.
pub fn frame_stream(data: &[u8]) {
    let mut feed = Feed(data);
    let count = usize::from(feed.byte() % 8) + 1;
    let pieces: Vec<usize> = (0..count).map(|_| usize::from(feed.byte())).collect();
    let whole = read_stream(feed.0, &[usize::MAX]);
    assert_eq!(read_stream(feed.0, &pieces), whole);
    assert_eq!(read_stream(feed.0, &[1]), whole);
    if let Some(prefix) = feed.0.first_chunk::<4>()
        && let Ok(length) = frame_length(*prefix, FRAME_BYTES_MAX)
    {
        assert!(length <= FRAME_BYTES_MAX);
    }
}

/// A Fetch answer is read within its bytes or refused.
///
/// # Panics
///
/// If more comes out than went in.
pub fn fetch_response(data: &[u8]) {
    let mut feed = Feed(data);
    let version = version_of(Api::Fetch, feed.byte());
    let body = Bytes::copy_from_slice(feed.0);
    let Ok(answer) = fetch::decode(version, &body) else { return };
    let records: usize = answer.partitions.iter().map(|part| part.records.len()).sum();
    let aborted: usize = answer.partitions.iter().map(|part| part.aborted.len()).sum();
    assert!(records + 16 * aborted + 30 * answer.partitions.len() <= body.len());
    let frame = body.as_ptr_range();
    for part in &answer.partitions {
        let inside = part.records.as_ptr_range();
        let shared = frame.start <= inside.start && inside.end <= frame.end;
        assert!(part.records.is_empty() || shared, "records stay where they are in the frame");
    }
}

/// A Produce answer is read within its bytes or refused.
///
/// # Panics
///
/// If more comes out than went in.
pub fn produce_response(data: &[u8]) {
    let mut feed = Feed(data);
    let version = version_of(Api::Produce, feed.byte());
    if let Ok(answer) = decode_produce(version, feed.0) {
        assert!(26 * answer.partitions.len() <= feed.0.len());
    }
}

/// A handshake ends after at most two answers, whatever they are.
///
/// # Panics
///
/// If it does not.
pub fn handshake(data: &[u8]) {
    let mut feed = Feed(data);
    let first = usize::from(feed.byte()) * 16 + usize::from(feed.byte());
    let answers = [feed.take(first), feed.0, feed.0];
    let (mut handshake, asked) = Handshake::new("fuzz");
    assert_eq!(asked.api, Api::ApiVersions);
    for (at, answer) in answers.iter().enumerate() {
        match handshake.on_answer(answer) {
            Ok(HandshakeStep::Send(frame)) => {
                assert!(at == 0, "it asks twice at most");
                assert!(frame.version < asked.version);
            }
            Ok(HandshakeStep::Ready(versions)) => {
                for api in Api::all() {
                    let (min, max) = api.range();
                    assert!(
                        versions.choose(api).is_ok_and(|v| (min..=max).contains(&v))
                            || versions.choose(api).is_err()
                    );
                }
                return;
            }
            Err(_) => return,
        }
    }
    unreachable!("the third answer is never asked for");
}

/// A login ends after a few answers, whatever they are, and no answer proves a password that the
/// server does not know.
///
/// # Panics
///
/// If it does not end, or ends well with SCRAM.
pub fn sasl_answers(data: &[u8]) {
    let mut feed = Feed(data);
    let mechanism = Mechanism::ALL[usize::from(feed.byte()) % Mechanism::ALL.len()];
    let newest = i16::from(feed.byte() % 3);
    let ranges = [(Api::SaslHandshake.key(), (0, 1)), (Api::SaslAuthenticate.key(), (0, newest))];
    let credentials = match mechanism {
        Mechanism::OauthBearer => {
            Credentials::Bearer { token: Secret::new("a.b.c"), extensions: Vec::new() }
        }
        _ => Credentials::Password {
            user: "u".into(),
            password: Secret::new("p"),
            token: feed.byte() % 2 == 1,
        },
    };
    let versions = Versions::new(ranges.into_iter().collect());
    let (mut login, asked) = Authentication::begin(&versions, mechanism, &credentials, "fuzz")
        .expect("both are offered");
    // Where an answer holds this byte, the nonce that was sent takes its place.
    const NONCE: u8 = 0xff;
    let mut sent = asked.to_vec();
    for _ in 0..16 {
        let nonce: Vec<u8> = sent
            .windows(2)
            .position(|two| two == b"r=")
            .map(|at| sent[at + 2..].iter().copied().take_while(|byte| *byte != b',').collect())
            .unwrap_or_default();
        let length = usize::from(feed.byte());
        let mut answer = Vec::new();
        for byte in feed.take(length) {
            match *byte {
                NONCE if !nonce.is_empty() => answer.extend_from_slice(&nonce),
                byte => answer.push(byte),
            }
        }
        match login.on_answer(&answer) {
            Ok(AuthStep::Send(frame)) => sent = frame.to_vec(),
            Ok(AuthStep::Done(_)) => {
                assert!(
                    matches!(mechanism, Mechanism::Plain | Mechanism::OauthBearer),
                    "a signature without the password"
                );
                return;
            }
            Err(_) => return,
        }
    }
    unreachable!("a login has a last answer");
}

/// Reads an answer of `api` through the shape walk and the codec; whether it is one.
#[must_use]
pub fn reads(api: Api, version: i16, body: &Bytes) -> bool {
    match api {
        Api::ListOffsets => decode::<ListOffsetsResponse>(api, version, body).is_ok(),
        Api::Metadata => decode::<MetadataResponse>(api, version, body).is_ok(),
        Api::CreateTopics => decode::<CreateTopicsResponse>(api, version, body).is_ok(),
        Api::InitProducerId => decode::<InitProducerIdResponse>(api, version, body).is_ok(),
        Api::OffsetForLeaderEpoch => {
            decode::<OffsetForLeaderEpochResponse>(api, version, body).is_ok()
        }
        Api::DescribeConfigs => decode::<DescribeConfigsResponse>(api, version, body).is_ok(),
        Api::CreatePartitions => decode::<CreatePartitionsResponse>(api, version, body).is_ok(),
        Api::OffsetCommit => decode::<OffsetCommitResponse>(api, version, body).is_ok(),
        Api::OffsetFetch => decode::<OffsetFetchResponse>(api, version, body).is_ok(),
        Api::FindCoordinator => decode::<FindCoordinatorResponse>(api, version, body).is_ok(),
        Api::DescribeGroups => decode::<DescribeGroupsResponse>(api, version, body).is_ok(),
        Api::ListGroups => decode::<ListGroupsResponse>(api, version, body).is_ok(),
        Api::DescribeProducers => decode::<DescribeProducersResponse>(api, version, body).is_ok(),
        Api::IncrementalAlterConfigs => {
            decode::<IncrementalAlterConfigsResponse>(api, version, body).is_ok()
        }
        Api::DescribeAcls => decode::<DescribeAclsResponse>(api, version, body).is_ok(),
        Api::CreateAcls => decode::<CreateAclsResponse>(api, version, body).is_ok(),
        Api::DeleteAcls => decode::<DeleteAclsResponse>(api, version, body).is_ok(),
        Api::Fetch => fetch::decode(version, body).is_ok(),
        Api::Produce => decode_produce(version, body).is_ok(),
        Api::SaslHandshake | Api::SaslAuthenticate => false,
        Api::ApiVersions => Handshake::new("golden").0.on_answer(body).is_ok(),
    }
}

/// Every other answer is refused, or read without panic and without room for what is not there.
pub fn message_answers(data: &[u8]) {
    let mut feed = Feed(data);
    let api = MESSAGES[usize::from(feed.byte()) % MESSAGES.len()];
    let version = version_of(api, feed.byte());
    let _ = reads(api, version, &Bytes::copy_from_slice(feed.0));
}

/// Makes bytes a batch that gets past header and checksum, so that what lies behind is reached.
/// The record count stays as it is, if it can.
fn as_batch(data: &[u8], dense: bool) -> Option<RawBatch> {
    let mut bytes = data.to_vec();
    let length = i32::try_from(bytes.len()).ok()?.checked_sub(12)?;
    if bytes.len() < HEADER_BYTES {
        return None;
    }
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[0] &= 0x3f;
    bytes[16] = 2;
    bytes[23] &= 0x7f;
    if dense {
        let delta = i32::from_be_bytes(*bytes[23..].first_chunk()?);
        bytes[57..61].copy_from_slice(&delta.checked_add(1)?.to_be_bytes());
    }
    seal(&mut bytes);
    RawBatch::new(Bytes::from(bytes)).ok()
}

/// A walk covers what it says it covers, and nothing in a batch makes a reader panic.
///
/// # Panics
///
/// If entries overlap, run past the end, or are not contiguous.
pub fn shallow_walk(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let mut walk = Shallow::new(bytes.clone());
    let list = vec![AbortedTransaction { first_offset: Offset(3), producer_id: 0 }];
    let mut aborted = AbortedIndex::new(list);
    let mut at = 0;
    let mut failed = false;
    for entry in walk.by_ref() {
        assert!(!failed, "an error ends the walk");
        match entry {
            Ok(Entry::Batch(batch)) => {
                assert_eq!(batch.bytes()[..], bytes[at..at + batch.bytes().len()]);
                at += batch.bytes().len();
                let position = Offset(batch.header().base_offset.0 / 2);
                let terms =
                    Terms { position, aborted: aborted.covers(&batch), batch_bytes_max: 1 << 20 };
                let _ = disposition(batch.header(), terms);
                let _ = control_type(&batch);
                let _ = verify(&batch);
                let _ = records(&batch);
            }
            Ok(Entry::Legacy { bytes: message, .. }) => at += message.len(),
            Err(_) => failed = true,
        }
        assert!(at <= bytes.len());
    }
    if !failed && let Some(whole) = walk.cut_off() {
        assert!(whole > bytes.len() - at, "what is whole is not cut off");
    }
}

/// A restamped batch has the right checksum if, and only if, the source's was right.
///
/// # Panics
///
/// If amending and recomputing differ.
pub fn restamp_differential(data: &[u8]) {
    let mut feed = Feed(data);
    let wrong = u32::from(feed.byte());
    let sequence = i32::from(feed.byte()).wrapping_mul(0x0101_0101) & i32::MAX;
    let id = i64::from_be_bytes([0, feed.byte(), 0, 0, feed.byte(), 0, 0, 1]);
    let identity = ProducerIdentity { id, epoch: i16::from(feed.byte()) };
    let Some(good) = as_batch(feed.0, true) else { return };
    let mut bytes = good.bytes().to_vec();
    let crc = good.header().crc ^ wrong;
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    let Ok(batch) = RawBatch::new(Bytes::from(bytes)) else { return };

    let sequence = Sequence::from_wire(sequence).unwrap_or_default();
    let out = restamp(&batch, identity, sequence);
    let stored = u32::from_be_bytes(*out.header[17..].first_chunk().expect("four bytes"));
    let full = crc32c::crc32c_append(crc32c::crc32c(&out.header[21..]), &out.body);
    assert_eq!(stored ^ full, wrong, "what was wrong is wrong in the same bits");
    assert_eq!(is_whole(&out), wrong == 0);
    assert!(std::ptr::eq(out.body.as_ptr(), batch.body().as_ptr()) || out.body.is_empty());

    let header = BatchHeader::parse(&out.header).expect("a header");
    let old = batch.header();
    assert_eq!((header.producer_id, header.producer_epoch), (identity.id, identity.epoch));
    assert_eq!(header.base_sequence, Some(sequence));
    assert_eq!((header.base_offset, header.count), (Offset(0), old.count));
    assert_eq!(header.base_timestamp, old.base_timestamp);
    assert_eq!(header.max_timestamp, old.max_timestamp);
    assert_eq!(header.attributes.0, old.attributes.0 & 0b111);
}

/// A batch whose records can be read is rebuilt to the same records, or one is too large.
///
/// # Panics
///
/// If a record is lost, changed or out of order.
pub fn rebuild_equivalence(data: &[u8]) {
    let mut feed = Feed(data);
    let limit = 100 + usize::from(feed.byte()) * 64;
    let skip = i64::from(feed.byte());
    let Some(batch) = as_batch(feed.0, false) else { return };
    let position = Offset(batch.header().base_offset.0.saturating_add(skip));
    let source = records(&batch);
    let built = rebuild(&batch, position, limit, Oversize::Refuse);
    let Ok(source) = source else {
        assert!(matches!(built, Err(RebuildError::Records(_))), "unreadable records are refused");
        return;
    };
    let wanted: Vec<Record> =
        source.iter().filter(|record| record.offset >= position.0).map(Record::content).collect();
    let pieces = match built {
        Ok(built) => built.pieces,
        Err(RebuildError::RecordTooLarge { bytes, max, .. }) => {
            assert!(bytes > max && max == limit);
            return;
        }
        Err(RebuildError::Records(error)) => panic!("readable records: {error}"),
    };
    let mut found = Vec::new();
    for piece in &pieces {
        assert!(piece.batch.bytes().len() <= limit && verify(&piece.batch));
        let inside = records(&piece.batch).expect("what was built is readable");
        let dense = (piece.upstream.start.0..).take(inside.len());
        assert!(inside.iter().map(|record| record.offset).eq(dense));
        found.extend(inside.iter().map(Record::content));
    }
    assert_eq!(found, wanted);
}

fn piece(feed: &mut Feed<'_>) -> Piece {
    let (kind, count) = (feed.byte(), feed.byte());
    match kind % 16 {
        0..=5 => Piece::Data(count, kind / 16),
        6 | 7 => Piece::Holes(count),
        8 => Piece::Emptied(count),
        9 => Piece::Missing(count),
        10 => Piece::AppendTime(count),
        11 | 12 => Piece::Transaction(count, kind & 16 == 0),
        13 | 14 => Piece::Interleaved(count),
        _ => Piece::Damaged(count),
    }
}

fn step(feed: &mut Feed<'_>) -> Step {
    let byte = feed.byte();
    let lane = byte >> 7;
    match byte % 32 {
        0..=4 => Step::Fetch(feed.byte(), byte),
        5 => Step::StaleFetch,
        6 => Step::FetchFails(byte / 32),
        7..=14 => Step::Take,
        15..=19 => Step::Serve(lane),
        20 => Step::Refuse(lane, byte / 32),
        21 => Step::StoreAndRefuse(lane, byte / 32),
        22..=26 => Step::Answer(lane),
        27 => Step::AnswerTwice,
        28 => Step::Lose(lane),
        29 => Step::Ghost,
        30 => Step::MoveLeader,
        _ => Step::Release,
    }
}

/// Whatever happens between a copier and its target, every record arrives once and in order.
///
/// # Panics
///
/// If it does not, with the first promise that was broken.
pub fn copier_ops(data: &[u8]) {
    let mut feed = Feed(data);
    let near_the_end = feed.byte() & 1 == 1;
    let count = feed.byte() % 12;
    let pieces: Vec<Piece> = (0..count).map(|_| piece(&mut feed)).collect();
    let mut steps = Vec::new();
    while !feed.is_empty() && steps.len() < 400 {
        steps.push(step(&mut feed));
    }
    let first_sequence = if near_the_end { i32::MAX - 3 } else { 0 };
    if let Err(what) = copy_run::run(&pieces, &steps, first_sequence) {
        panic!("{what}\npieces: {pieces:?}\nsteps: {steps:?}");
    }
}

/// What a target begins with: made from the recordings.
///
/// # Panics
///
/// If the target has no such name, or the recordings cannot be read.
#[must_use]
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let with = |head: &[u8], body: &[u8]| [head, body].concat();
    let sets = || golden::record_sets().into_iter().map(|set| set.bytes);
    let batches = || {
        sets().flat_map(Shallow::new).filter_map(|entry| match entry {
            Ok(Entry::Batch(batch)) => Some(batch.bytes().clone()),
            _ => None,
        })
    };
    // Version and body of each recorded answer of an API, the version counted from the lowest.
    let answers = |api: Api| {
        golden::exchanges().into_iter().filter(move |one| one.api == api.name()).map(move |one| {
            let body = split_header(api, one.version, &one.answer.slice(4..)).expect("a header");
            (u8::try_from(one.version - api.range().0).expect("in the table"), body)
        })
    };
    match target {
        "copier_ops" => (0..4_u8)
            .map(|first| {
                let pieces =
                    (0..11_u8).flat_map(|at| [at.wrapping_mul(37).wrapping_add(first), at]);
                let steps = [0, 7, 7, 7, 7, 7, 15, 22, 20, 16, 28, 30, 143, 150, 29];
                [first, 11].into_iter().chain(pieces).chain(steps.repeat(6)).collect()
            })
            .collect(),
        "fetch_response" => answers(Api::Fetch).map(|(v, body)| with(&[v], &body)).collect(),
        "produce_response" => answers(Api::Produce).map(|(v, body)| with(&[v], &body)).collect(),
        "message_answers" => (0_u8..)
            .zip(MESSAGES)
            .flat_map(|(index, api)| {
                answers(api).map(move |(v, body)| with(&[index, v], &body)).collect::<Vec<_>>()
            })
            .collect(),
        "frame_stream" => [[0, 1, 2, 3], [0, 1, 3, 2]]
            .map(|order| {
                let frames = order.iter().flat_map(|correlation: &u8| {
                    [&[0, 0, 0, 9, 0, 0, 0, *correlation], &b"\0body"[..]].concat()
                });
                [2, 3, 1, 50].into_iter().chain(frames).collect()
            })
            .into(),
        "handshake" => golden::api_versions()
            .iter()
            .flat_map(|one| {
                let answer = |version| one.bytes("response", version).map(|all| all[4..].to_vec());
                let refused = answer(99).expect("version 99");
                let head = [u8::try_from(refused.len() / 16).expect("short"), 10];
                let asked_again = [&head, &refused[..], &answer(3).expect("version 3")].concat();
                [answer(4).map(|all| with(&[255, 15], &all)), Some(asked_again)]
            })
            .flatten()
            .collect(),
        "rebuild_equivalence" => batches().map(|batch| with(&[255, 0], &batch)).collect(),
        "restamp_differential" => batches().map(|batch| with(&[0, 9, 1, 2, 3], &batch)).collect(),
        "sasl_answers" => {
            let taken = |name: &str| {
                let length = u8::try_from(name.len()).expect("short");
                [&[0, 0, 0, 0, 0, 1, 0, length], name.as_bytes()].concat()
            };
            let challenge = b"r=\xffserver,s=c2FsdA==,i=4096";
            (0_u8..)
                .zip(Mechanism::ALL)
                .map(|(index, mechanism)| {
                    let scram = mechanism.name().starts_with("SCRAM");
                    let said: &[u8] = if scram { challenge } else { b"" };
                    let length = u8::try_from(said.len()).expect("short");
                    let answer = [&[0, 0, 0xff, 0xff, 0, 0, 0, length], said].concat();
                    let sized = |bytes: &[u8]| {
                        [&[u8::try_from(bytes.len()).expect("short")], bytes].concat()
                    };
                    // The nonce makes the answer longer than its length says: that, fuzzing finds.
                    [&[index, 0, 0], &sized(&taken(mechanism.name()))[..], &sized(&answer)].concat()
                })
                .collect()
        }
        "shallow_walk" => sets().map(Vec::from).collect(),
        other => panic!("no target {other}"),
    }
}
