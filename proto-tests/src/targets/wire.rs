//! What peers send: frames, answers, handshakes, logins.

use std::time::Duration;

use bytes::Bytes;
use heliograph::model::{Moment, Secret};
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

use super::{Feed, with};
use crate::golden;

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
pub(super) fn frame_stream(data: &[u8]) {
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
pub(super) fn fetch_response(data: &[u8]) {
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
pub(super) fn produce_response(data: &[u8]) {
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
pub(super) fn handshake(data: &[u8]) {
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
pub(super) fn sasl_answers(data: &[u8]) {
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
pub(super) fn message_answers(data: &[u8]) {
    let mut feed = Feed(data);
    let api = MESSAGES[usize::from(feed.byte()) % MESSAGES.len()];
    let version = version_of(api, feed.byte());
    let _ = reads(api, version, &Bytes::copy_from_slice(feed.0));
}

/// Version and body of each recorded answer of an API, the version counted from the lowest.
fn answers(api: Api) -> impl Iterator<Item = (u8, Bytes)> {
    golden::exchanges().into_iter().filter(move |one| one.api == api.name()).map(move |one| {
        let body = split_header(api, one.version, &one.answer.slice(4..)).expect("a header");
        (u8::try_from(one.version - api.range().0).expect("in the table"), body)
    })
}

fn answers_of(api: Api) -> Vec<Vec<u8>> {
    answers(api).map(|(version, body)| with(&[version], &body)).collect()
}

pub(super) fn fetch_response_seeds() -> Vec<Vec<u8>> {
    answers_of(Api::Fetch)
}

pub(super) fn produce_response_seeds() -> Vec<Vec<u8>> {
    answers_of(Api::Produce)
}

pub(super) fn message_answers_seeds() -> Vec<Vec<u8>> {
    (0_u8..)
        .zip(MESSAGES)
        .flat_map(|(index, api)| answers(api).map(move |(v, body)| with(&[index, v], &body)))
        .collect()
}

pub(super) fn frame_stream_seeds() -> Vec<Vec<u8>> {
    [[0, 1, 2, 3], [0, 1, 3, 2]]
        .map(|order| {
            let frames = order.iter().flat_map(|correlation: &u8| {
                [&[0, 0, 0, 9, 0, 0, 0, *correlation], &b"\0body"[..]].concat()
            });
            [2, 3, 1, 50].into_iter().chain(frames).collect()
        })
        .into()
}

pub(super) fn handshake_seeds() -> Vec<Vec<u8>> {
    golden::api_versions()
        .iter()
        .flat_map(|one| {
            let answer = |version| one.bytes("response", version).map(|all| all[4..].to_vec());
            let refused = answer(99).expect("version 99");
            let head = [u8::try_from(refused.len() / 16).expect("short"), 10];
            let asked_again = [&head, &refused[..], &answer(3).expect("version 3")].concat();
            [answer(4).map(|all| with(&[255, 15], &all)), Some(asked_again)]
        })
        .flatten()
        .collect()
}

pub(super) fn sasl_answers_seeds() -> Vec<Vec<u8>> {
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
            let sized =
                |bytes: &[u8]| [&[u8::try_from(bytes.len()).expect("short")], bytes].concat();
            // The nonce makes the answer longer than its length says: that, fuzzing finds.
            [&[index, 0, 0], &sized(&taken(mechanism.name()))[..], &sized(&answer)].concat()
        })
        .collect()
}
