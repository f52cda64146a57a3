//! Every other message, through `kafka-protocol` and one pair of functions.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    CreateAclsRequest, CreateAclsResponse, CreatePartitionsRequest, CreatePartitionsResponse,
    CreateTopicsRequest, CreateTopicsResponse, DeleteAclsRequest, DeleteAclsResponse,
    DescribeAclsRequest, DescribeAclsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    DescribeGroupsRequest, DescribeGroupsResponse, DescribeProducersRequest,
    DescribeProducersResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListGroupsRequest, ListGroupsResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable};

use super::frame::OutFrame;
use super::shape::prove;
use super::{Api, Malformed, Reader};

/// A request that goes through `kafka-protocol`, and what answers it.
pub trait Call: Encodable {
    /// Which API it belongs to.
    const API: Api;
    /// Its answer.
    type Answer: Decodable;
}

macro_rules! calls {
    ($($request:ident => $answer:ident: $api:ident,)*) => {$(
        impl Call for $request {
            const API: Api = Api::$api;
            type Answer = $answer;
        }
    )*};
}

calls! {
    CreateAclsRequest => CreateAclsResponse: CreateAcls,
    CreatePartitionsRequest => CreatePartitionsResponse: CreatePartitions,
    CreateTopicsRequest => CreateTopicsResponse: CreateTopics,
    DeleteAclsRequest => DeleteAclsResponse: DeleteAcls,
    DescribeAclsRequest => DescribeAclsResponse: DescribeAcls,
    DescribeConfigsRequest => DescribeConfigsResponse: DescribeConfigs,
    DescribeGroupsRequest => DescribeGroupsResponse: DescribeGroups,
    DescribeProducersRequest => DescribeProducersResponse: DescribeProducers,
    IncrementalAlterConfigsRequest => IncrementalAlterConfigsResponse: IncrementalAlterConfigs,
    InitProducerIdRequest => InitProducerIdResponse: InitProducerId,
    ListOffsetsRequest => ListOffsetsResponse: ListOffsets,
    FindCoordinatorRequest => FindCoordinatorResponse: FindCoordinator,
    ListGroupsRequest => ListGroupsResponse: ListGroups,
    OffsetCommitRequest => OffsetCommitResponse: OffsetCommit,
    OffsetFetchRequest => OffsetFetchResponse: OffsetFetch,
    MetadataRequest => MetadataResponse: Metadata,
    OffsetForLeaderEpochRequest => OffsetForLeaderEpochResponse: OffsetForLeaderEpoch,
}

/// Splits an answer into correlation id and body.
///
/// # Errors
///
/// [`Malformed`] if it is shorter than its header.
pub fn split_header(api: Api, version: i16, frame: &Bytes) -> Result<Bytes, Malformed> {
    // ApiVersions answers never have tagged fields in their header (KIP-511).
    let flexible = api.is_flexible(version) && api != Api::ApiVersions;
    let mut reader = Reader::new(frame, flexible);
    let _correlation = reader.i32()?;
    reader.skip_tagged()?;
    Ok(frame.slice(reader.at()..))
}

/// Writes a request.
///
/// # Errors
///
/// The codec's own words if a field is set that `version` does not have: a mistake of ours.
pub fn encode<C: Call>(version: i16, client_id: &str, request: &C) -> Result<OutFrame, String> {
    let mut body = BytesMut::new();
    request.encode(&mut body, version).map_err(|error| format!("{error:#}"))?;
    let mut frame = OutFrame::new(C::API, version, client_id, body.len());
    frame.small().extend_from_slice(&body);
    Ok(frame.seal())
}

/// Reads an answer's body, behind the response header.
///
/// The bytes are walked along the message's shape first: the codec would reserve room for any
/// count.
///
/// # Errors
///
/// [`Malformed`] if the bytes are not exactly such an answer.
pub fn decode<T: Decodable>(api: Api, version: i16, body: &Bytes) -> Result<T, Malformed> {
    prove(api, version, body)?;
    let mut rest = body.clone();
    T::decode(&mut rest, version).map_err(|error| Malformed {
        at: body.len() - rest.len(),
        expected: api.name(),
        found: format!("{error:#}"),
    })
}
