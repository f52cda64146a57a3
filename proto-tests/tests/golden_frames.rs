//! Answers of real brokers are read to their last byte, and nothing like them does harm.
//!
//! The frames in `golden/frames` are recorded by `cargo testbed tap`, the ApiVersions exchanges in
//! `golden/api-versions` by hand. `kafka-protocol` writes and reads the same messages here as a
//! second opinion.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use heliograph::wire::message::{decode, split_header};
use heliograph::wire::{
    Api, ErrorCode, FRAME_BYTES_MAX, Handshake, HandshakeError, HandshakeStep, Versions,
    decode_produce, fetch, frame_length,
};
use kafka_protocol::messages::{
    CreateAclsResponse, CreatePartitionsResponse, CreateTopicsResponse, DeleteAclsResponse,
    DescribeAclsResponse, DescribeConfigsResponse, DescribeGroupsResponse,
    DescribeProducersResponse, FetchRequest, FetchResponse, FindCoordinatorResponse,
    IncrementalAlterConfigsResponse, InitProducerIdResponse, ListGroupsResponse,
    ListOffsetsResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchResponse,
    OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};
use peak_alloc::PeakAlloc;
use proto_tests::golden::{self, Exchange};
use proto_tests::targets::{MESSAGES, reads};

/// Counts what this test binary holds, so that a count from outside cannot reserve unseen.
#[global_allocator]
static HELD: PeakAlloc = PeakAlloc;

/// Most that reading a few kilobytes may hold, all tests of this binary together.
const HELD_MIB_MAX: f32 = 64.0;

fn api(exchange: &Exchange) -> Api {
    Api::all().find(|api| api.name() == exchange.api).expect("an API that is used")
}

/// Every recorded answer: its name, API, version, and the body behind the response header.
fn answers() -> Vec<(String, Api, i16, Bytes)> {
    let out: Vec<_> = golden::exchanges()
        .iter()
        .map(|exchange| {
            let (api, version) = (api(exchange), exchange.version);
            let prefix = *exchange.answer.first_chunk().expect("a length");
            let length = frame_length(prefix, FRAME_BYTES_MAX).expect(&exchange.name);
            assert_eq!(length, exchange.answer.len() - 4, "{}", exchange.name);
            let body = split_header(api, version, &exchange.answer.slice(4..));
            (exchange.name.clone(), api, version, body.expect(&exchange.name))
        })
        .collect();
    assert!(out.len() > 200, "{} answers", out.len());
    out
}

/// A handshake that has come to the point of asking in `version`.
fn asked_in(version: i16) -> (Handshake, Vec<u8>) {
    let (mut handshake, first) = Handshake::new("gold");
    if first.version == version {
        return (handshake, first.to_vec());
    }
    let mut refusal = vec![0, 35, 0, 0, 0, 1, 0, 18, 0, 0];
    refusal.put_i16(version);
    match handshake.on_answer(&refusal) {
        Ok(HandshakeStep::Send(frame)) => {
            assert_eq!(frame.version, version);
            (handshake, frame.to_vec())
        }
        other => panic!("{other:?}"),
    }
}

fn versions(mut handshake: Handshake, body: &[u8]) -> Versions {
    match handshake.on_answer(body) {
        Ok(HandshakeStep::Ready(versions)) => versions,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handshake_with_each_broker_chooses_the_versions_both_sides_speak() {
    let expected = [
        ("2.8.2-broker", [9, 12, 6, 11, 3, 7, 4, 4, 4, 3, 0, 8, 7, 3, 4, 1, 2, 2, 2, 1, 2, 5]),
        ("3.9.2-broker", [11, 17, 9, 12, 4, 7, 5, 4, 4, 3, 0, 9, 9, 6, 5, 1, 3, 3, 3, 1, 2, 5]),
        ("4.3.1-broker", [12, 17, 10, 13, 4, 7, 5, 4, 4, 3, 0, 9, 9, 6, 5, 1, 3, 3, 3, 1, 2, 5]),
    ];
    let apis = [
        Api::Produce,
        Api::Fetch,
        Api::ListOffsets,
        Api::Metadata,
        Api::ApiVersions,
        Api::CreateTopics,
        Api::InitProducerId,
        Api::OffsetForLeaderEpoch,
        Api::DescribeConfigs,
        Api::CreatePartitions,
        Api::DescribeProducers,
        Api::OffsetCommit,
        Api::OffsetFetch,
        Api::FindCoordinator,
        Api::ListGroups,
        Api::IncrementalAlterConfigs,
        Api::DescribeAcls,
        Api::CreateAcls,
        Api::DeleteAcls,
        Api::SaslHandshake,
        Api::SaslAuthenticate,
        Api::DescribeGroups,
    ];
    assert_eq!(apis.len(), Api::all().count());
    let nodes = golden::api_versions();
    for (node, chosen) in expected {
        let recorded = nodes.iter().find(|one| one.node == node).expect("recorded");
        let mut asked = 0;
        for version in [0, 3, 4] {
            let Some(answer) = recorded.bytes("response", version) else { continue };
            let versions = versions(asked_in(version).0, &answer[4..]);
            let found = apis.map(|api| versions.choose(api).expect("a version"));
            assert_eq!(found, chosen, "{node}, asked in version {version}");
            asked += 1;
        }
        assert!(asked >= 2, "{node}");
    }
}

#[test]
fn a_controller_listener_offers_what_it_offers_and_no_more() {
    for one in golden::api_versions().iter().filter(|one| one.node.ends_with("controller")) {
        let answer = one.bytes("response", 3).expect("version 3");
        let versions = versions(asked_in(3).0, &answer[4..]);
        assert!(versions.choose(Api::Fetch).is_ok() && versions.choose(Api::CreateTopics).is_ok());
        let refused = versions.choose(Api::Metadata).expect_err("no metadata there");
        assert_eq!((refused.api, refused.broker), (Api::Metadata, None));
    }
}

#[test]
fn a_version_that_no_broker_knows_is_answered_with_the_range_it_does_know() {
    for one in golden::api_versions() {
        let answer = one.bytes("response", 99).expect("version 99");
        let (mut handshake, first) = Handshake::new("gold");
        match handshake.on_answer(&answer[4..]) {
            // A broker older than our newest version: asked again in its own.
            Ok(HandshakeStep::Send(frame)) => {
                assert!(one.node.starts_with("2.8"), "{}", one.node);
                assert_eq!(frame.version, 3);
            }
            // One that claims to know the version it refuses.
            Err(HandshakeError::NoVersion) => {
                assert!(!one.node.starts_with("2.8"), "{}", one.node);
                assert_eq!(first.version, 4);
            }
            other => panic!("{}: {other:?}", one.node),
        }
    }
    // An error other than 35 is told as it is.
    let (mut handshake, _) = Handshake::new("gold");
    let refused = handshake.on_answer(&[0, 58, 1, 0, 0, 0, 0, 0]).expect_err("refused");
    assert_eq!(refused, HandshakeError::Refused(ErrorCode(58)));
}

#[test]
fn our_api_versions_requests_are_those_of_any_other_client() {
    let software = |name: &str, version: &str| {
        let compact = |text: &str| {
            let length = u8::try_from(text.len() + 1).expect("a short text");
            [&[length], text.as_bytes()].concat()
        };
        [compact(name), compact(version)].concat()
    };
    let (theirs, ours) =
        (software("golden", "1"), software("heliograph", env!("CARGO_PKG_VERSION")));
    for one in golden::api_versions() {
        for version in [0, 3, 4] {
            let Some(mut expected) = one.bytes("request", version) else { continue };
            if version >= 3 {
                let at = expected.windows(theirs.len()).position(|found| found == theirs);
                let at = at.expect("the software's name");
                expected.splice(at..at + theirs.len(), ours.clone());
            }
            let (_, frame) = asked_in(version);
            let mut found = frame[4..].to_vec();
            found[4..8].copy_from_slice(&expected[4..8]); // correlation id
            assert_eq!(found, expected, "{} version {version}", one.node);
        }
    }
}

#[test]
fn every_answer_is_read_to_its_last_byte_and_not_beyond() {
    let mut seen = BTreeSet::new();
    for (name, api, version, body) in answers() {
        assert!(reads(api, version, &body), "{name}");
        let longer = Bytes::from([&body[..], &[0]].concat());
        assert!(!reads(api, version, &longer), "{name} with a byte too many");
        seen.insert((api, version));
    }
    // Every version that the table promises and the newest broker offers.
    // Logins are not recorded: each is different, and `wire::authentication` tests its own answers.
    let own = [Api::ApiVersions, Api::SaslHandshake, Api::SaslAuthenticate];
    for api in Api::all().filter(|api| !own.contains(api)) {
        let (min, max) = api.range();
        for version in min..=max {
            assert!(seen.contains(&(api, version)), "{api} version {version} is not recorded");
        }
    }
}

/// An answer cut anywhere is refused, never half read.
#[test]
fn an_answer_cut_at_any_byte_is_an_error() {
    for (name, api, version, body) in answers() {
        for end in 0..body.len() {
            assert!(!reads(api, version, &body.slice(..end)), "{name} cut at byte {end}");
        }
    }
    for one in golden::api_versions() {
        for version in [0, 3, 4] {
            let Some(answer) = one.bytes("response", version) else { continue };
            for end in 0..answer.len() - 4 {
                let (mut handshake, _) = asked_in(version);
                let cut = handshake.on_answer(&answer[4..4 + end]);
                assert!(cut.is_err(), "{} version {version} cut at byte {end}", one.node);
            }
        }
    }
}

/// Counts and lengths that promise gigabytes, in every place where one can stand.
#[test]
fn a_count_from_outside_never_reserves_what_the_bytes_cannot_hold() {
    let claims: [&[u8]; 4] = [
        &[0x7f, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff],
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0x07],
    ];
    HELD.reset_peak_usage();
    for (name, api, version, body) in answers() {
        for claim in claims {
            for at in 0..body.len().saturating_sub(claim.len()) {
                let mut bytes = body.to_vec();
                bytes[at..at + claim.len()].copy_from_slice(claim);
                let _ = reads(api, version, &Bytes::from(bytes));
                let held = HELD.peak_usage_as_mb();
                assert!(held < HELD_MIB_MAX, "{name}: {held} MiB for {claim:?} at byte {at}");
            }
        }
    }
    // Negative control: room for a count that was believed would have been seen.
    let believed: Vec<u8> = std::hint::black_box(Vec::with_capacity(80 << 20));
    assert!(HELD.peak_usage_as_mb() > HELD_MIB_MAX);
    drop(believed);
}

fn rewrites<T: Decodable + Encodable>(api: Api, version: i16, body: &Bytes) -> Bytes {
    let answer: T = decode(api, version, body).expect("an answer");
    let mut out = BytesMut::new();
    answer.encode(&mut out, version).expect("encodable");
    out.freeze()
}

#[test]
fn every_answer_that_the_codec_reads_it_writes_again_to_the_same_bytes() {
    let mut seen = BTreeSet::new();
    for (name, api, version, body) in answers() {
        let again = match api {
            Api::ListOffsets => rewrites::<ListOffsetsResponse>(api, version, &body),
            Api::Metadata => rewrites::<MetadataResponse>(api, version, &body),
            Api::CreateTopics => rewrites::<CreateTopicsResponse>(api, version, &body),
            Api::InitProducerId => rewrites::<InitProducerIdResponse>(api, version, &body),
            Api::OffsetForLeaderEpoch => {
                rewrites::<OffsetForLeaderEpochResponse>(api, version, &body)
            }
            Api::DescribeConfigs => rewrites::<DescribeConfigsResponse>(api, version, &body),
            Api::CreatePartitions => rewrites::<CreatePartitionsResponse>(api, version, &body),
            Api::DescribeProducers => rewrites::<DescribeProducersResponse>(api, version, &body),
            Api::OffsetCommit => rewrites::<OffsetCommitResponse>(api, version, &body),
            Api::OffsetFetch => rewrites::<OffsetFetchResponse>(api, version, &body),
            Api::FindCoordinator => rewrites::<FindCoordinatorResponse>(api, version, &body),
            Api::DescribeGroups => rewrites::<DescribeGroupsResponse>(api, version, &body),
            Api::ListGroups => rewrites::<ListGroupsResponse>(api, version, &body),
            Api::IncrementalAlterConfigs => {
                rewrites::<IncrementalAlterConfigsResponse>(api, version, &body)
            }
            Api::DescribeAcls => rewrites::<DescribeAclsResponse>(api, version, &body),
            Api::CreateAcls => rewrites::<CreateAclsResponse>(api, version, &body),
            Api::DeleteAcls => rewrites::<DeleteAclsResponse>(api, version, &body),
            Api::Fetch
            | Api::Produce
            | Api::ApiVersions
            | Api::SaslHandshake
            | Api::SaslAuthenticate => continue,
        };
        assert_eq!(again, body, "{name}");
        seen.insert(api);
    }
    assert_eq!(seen, MESSAGES.into_iter().collect());
}

#[test]
fn our_fetch_reader_sees_what_the_codec_sees() {
    let (mut hidden, mut refused, mut cut) = (0, 0, 0);
    for (name, api, version, body) in answers().into_iter().filter(|one| one.1 == Api::Fetch) {
        assert_eq!(api, Api::Fetch);
        let ours = fetch::decode(version, &body).expect(&name);
        let theirs = FetchResponse::decode(&mut body.clone(), version).expect(&name);
        assert_eq!(ours.throttle_ms, theirs.throttle_time_ms, "{name}");
        assert_eq!(ours.code.0, theirs.error_code, "{name}");
        assert_eq!(ours.session_id, theirs.session_id, "{name}");
        let flat: Vec<_> = theirs
            .responses
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
            .collect();
        assert_eq!(ours.partitions.len(), flat.len(), "{name}");
        for (ours, (topic, theirs)) in ours.partitions.iter().zip(flat) {
            match &ours.topic {
                fetch::TopicRef::Name(name) => assert_eq!(name.as_str(), topic.topic.as_str()),
                fetch::TopicRef::Id(id) => assert_eq!(&id.0, topic.topic_id.as_bytes()),
            }
            assert_eq!(ours.partition, theirs.partition_index, "{name}");
            assert_eq!(ours.code.0, theirs.error_code, "{name}");
            assert_eq!(ours.high_watermark.0, theirs.high_watermark, "{name}");
            assert_eq!(ours.last_stable_offset.0, theirs.last_stable_offset, "{name}");
            assert_eq!(ours.log_start.0, theirs.log_start_offset, "{name}");
            let preferred = ours.preferred_replica.map_or(-1, |node| node.0);
            assert_eq!(preferred, theirs.preferred_read_replica.0, "{name}");
            let aborted: Vec<_> =
                ours.aborted.iter().map(|one| (one.producer_id, one.first_offset.0)).collect();
            let expected = theirs.aborted_transactions.iter().flatten();
            assert!(expected.map(|one| (one.producer_id.0, one.first_offset)).eq(aborted.clone()));
            assert_eq!(ours.records, theirs.records.clone().unwrap_or_default(), "{name}");
            hidden += aborted.len();
            refused += usize::from(ours.code.is_error());
            let mut walk = heliograph::batch::Shallow::new(ours.records.clone());
            assert!(walk.by_ref().all(|entry| entry.is_ok()), "{name}");
            cut += usize::from(walk.cut_off().is_some());
        }
    }
    assert!(hidden > 0 && refused > 0 && cut > 0, "{hidden} {refused} {cut}");
}

#[test]
fn our_produce_reader_sees_what_the_codec_sees() {
    let mut codes = BTreeSet::new();
    let mut said = 0;
    for (name, _, version, body) in answers().into_iter().filter(|one| one.1 == Api::Produce) {
        let ours = decode_produce(version, &body).expect(&name);
        let theirs = ProduceResponse::decode(&mut body.clone(), version).expect(&name);
        assert_eq!(ours.throttle_ms, theirs.throttle_time_ms, "{name}");
        let flat: Vec<_> = theirs
            .responses
            .iter()
            .flat_map(|topic| topic.partition_responses.iter().map(move |one| (topic, one)))
            .collect();
        assert_eq!(ours.partitions.len(), flat.len(), "{name}");
        for (ours, (topic, theirs)) in ours.partitions.iter().zip(flat) {
            assert_eq!(ours.topic.as_str(), topic.name.as_str(), "{name}");
            assert_eq!(ours.partition, theirs.index, "{name}");
            assert_eq!(ours.code.0, theirs.error_code, "{name}");
            assert_eq!(ours.base_offset.0, theirs.base_offset, "{name}");
            let message = ours.message.as_deref().unwrap_or_default();
            if let Some(text) = &theirs.error_message {
                assert!(message.contains(text.as_str()), "{name}: {message}");
            }
            said += theirs.record_errors.len();
            codes.insert(ours.code.0);
        }
    }
    // Stored, corrupt, no such partition, and a record that the topic's rules refuse.
    assert_eq!(codes, [0, 2, 3, 87].into(), "recorded codes");
    assert!(said > 0, "a recorded answer names the refused records");
}

/// The encoders that are our own write what the codec would write.
#[test]
fn our_fetch_and_produce_requests_are_what_the_codec_writes() {
    fn again<T: Decodable + Encodable>(body: &Bytes, version: i16) -> Bytes {
        let mut rest = body.clone();
        let request = T::decode(&mut rest, version).expect("a request");
        assert!(rest.is_empty(), "to its last byte");
        let mut out = BytesMut::new();
        request.encode(&mut out, version).expect("encodable");
        out.freeze()
    }
    let mut seen = 0;
    for one in golden::exchanges() {
        let api = api(&one);
        // Length, key, version, correlation id, client id, and tagged fields if flexible.
        let client_id = usize::from(u16::from_be_bytes([one.request[12], one.request[13]]));
        let header = 14 + client_id + usize::from(api.is_flexible(one.version));
        let body = one.request.slice(header..);
        let expected = match api {
            Api::Fetch => again::<FetchRequest>(&body, one.version),
            Api::Produce => again::<ProduceRequest>(&body, one.version),
            _ => continue,
        };
        assert_eq!(body, expected, "{}", one.name);
        seen += 1;
    }
    assert!(seen > 60, "{seen} requests");
}
