//! What our principal may do, as brokers tell it (KIP-430): nothing has to be tried for that.

use std::collections::BTreeMap;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    DescribeGroupsRequest, GroupId, MetadataRequest, MetadataResponse, TopicName as WireName,
};
use kafka_protocol::protocol::StrBytes;

use super::cluster::{Cluster, RequestError, Route};
use crate::model::{NodeId, Operations, TopicName};
use crate::wire::ErrorCode;

/// Topics asked about in one request.
const TOPICS_PER_REQUEST: usize = 1_000;

/// Groups described in one request: an answer names every member with its assignment.
const GROUPS_PER_REQUEST: usize = 100;

/// Last version of `Metadata` that tells about the cluster itself; later, `DescribeCluster` does.
const CLUSTER_TOLD_UNTIL: i16 = 10;

impl Cluster {
    /// What may be done with each of these topics. `TOPIC_AUTHORIZATION_FAILED` stands for a topic
    /// that may not be described, whether it exists or not; `UNKNOWN_TOPIC_OR_PARTITION` for one
    /// that does not exist and could be described.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if no broker answers.
    pub async fn topic_operations(
        &self,
        topics: &[TopicName],
    ) -> Result<BTreeMap<TopicName, Result<Operations, ErrorCode>>, RequestError> {
        let mut found = BTreeMap::new();
        for chunk in topics.chunks(TOPICS_PER_REQUEST) {
            let topic = |name: &TopicName| {
                let name = StrBytes::from_string(name.as_str().to_owned());
                MetadataRequestTopic::default().with_name(Some(WireName(name)))
            };
            let request = MetadataRequest::default()
                .with_topics(Some(chunk.iter().map(topic).collect()))
                .with_allow_auto_topic_creation(false)
                .with_include_topic_authorized_operations(true);
            let answer: MetadataResponse = self.request(Route::Any, &request).await?;
            for topic in &answer.topics {
                let Some(name) = &topic.name else { continue };
                let code = ErrorCode(topic.error_code);
                // Without leaders it is a topic all the same.
                let told = if code.is_error() && code.0 != 5 {
                    Err(code)
                } else {
                    Ok(Operations(topic.topic_authorized_operations))
                };
                found.insert(TopicName::new(name.0.as_str()), told);
            }
        }
        Ok(found)
    }

    /// What may be done with the cluster itself. A broker tells nothing at all (no operation) to
    /// whom may not describe it.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if no broker answers.
    pub async fn cluster_operations(&self) -> Result<Operations, RequestError> {
        let request = MetadataRequest::default()
            .with_topics(Some(Vec::new()))
            .with_allow_auto_topic_creation(false)
            .with_include_cluster_authorized_operations(true);
        let patience = self.settings().request_timeout;
        let answer: MetadataResponse =
            self.request_at_most(Route::Any, &request, patience, CLUSTER_TOLD_UNTIL).await?;
        Ok(Operations(answer.cluster_authorized_operations))
    }

    /// What may be done with each of these groups, whether they exist or not.
    /// `GROUP_AUTHORIZATION_FAILED` stands for one that may not be described, `NOT_COORDINATOR` for one
    /// that may be and that no broker keeps: the cluster has no topic of offsets yet.
    ///
    /// Every broker is asked, instead of the one that keeps a group: the question who that is would
    /// make the topic of offsets where there is none.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if a broker does not answer.
    pub async fn group_operations(
        &self,
        groups: &[String],
    ) -> Result<BTreeMap<String, Result<Operations, ErrorCode>>, RequestError> {
        let mut told: BTreeMap<String, Result<Operations, ErrorCode>> = BTreeMap::new();
        let nodes: Vec<NodeId> = self.view().brokers.keys().copied().collect();
        for node in nodes {
            for chunk in groups.chunks(GROUPS_PER_REQUEST) {
                let name = |group: &String| GroupId(StrBytes::from_string(group.clone()));
                let request = DescribeGroupsRequest::default()
                    .with_groups(chunk.iter().map(name).collect())
                    .with_include_authorized_operations(true);
                let answer = self.request(Route::Node(node), &request).await?;
                for group in &answer.groups {
                    let code = ErrorCode(group.error_code);
                    let operations = Operations(group.authorized_operations);
                    let says = if code.is_error() { Err(code) } else { Ok(operations) };
                    let of = told.entry(group.group_id.as_str().to_owned()).or_insert(says);
                    if says.is_ok() {
                        *of = says;
                    }
                }
            }
        }
        Ok(told)
    }
}
