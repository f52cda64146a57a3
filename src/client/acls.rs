//! Access rules on topics, read and added.

use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::{CreateAclsRequest, DescribeAclsRequest};
use kafka_protocol::protocol::StrBytes;

use super::admin::{TopicError, outcome};
use super::cluster::{Cluster, RequestError, Route};
use crate::model::{AclOperation, AclPermission, TopicAcl, TopicName};
use crate::wire::{Api, ErrorCode};

/// `ResourceType.TOPIC`.
const TOPIC: i8 = 2;
/// `PatternType.LITERAL`.
const LITERAL: i8 = 3;
/// `AclOperation.ANY` and `AclPermissionType.ANY`, in filters.
const ANY: i8 = 1;
/// `AclPermissionType.DENY` and `ALLOW`.
const DENY: i8 = 2;
const ALLOW: i8 = 3;

impl Cluster {
    /// All access rules on literal topic names. Needs DESCRIBE on the cluster.
    ///
    /// Rules that neither grant nor forbid, as a newer broker might have them, are left out.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; [`RequestCause::Refused`](super::RequestCause::Refused) with
    /// `SECURITY_DISABLED` from a cluster without an authorizer, and with
    /// `CLUSTER_AUTHORIZATION_FAILED` without the right.
    pub async fn topic_acls(&self) -> Result<Vec<TopicAcl>, RequestError> {
        let request = DescribeAclsRequest::default()
            .with_resource_type_filter(TOPIC)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(LITERAL)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY);
        let answer = self.request(Route::Any, &request).await?;
        let code = ErrorCode(answer.error_code);
        if code.is_error() {
            return Err(self.refused(Api::DescribeAcls, 1, code));
        }
        let mut acls = Vec::new();
        for resource in &answer.resources {
            if (resource.resource_type, resource.pattern_type) != (TOPIC, LITERAL) {
                continue;
            }
            let topic = TopicName::new(resource.resource_name.as_str());
            for acl in &resource.acls {
                acls.push(TopicAcl {
                    topic: topic.clone(),
                    principal: acl.principal.as_str().to_owned(),
                    host: acl.host.as_str().to_owned(),
                    operation: AclOperation(acl.operation),
                    permission: match acl.permission_type {
                        ALLOW => AclPermission::Allow,
                        DENY => AclPermission::Deny,
                        _ => continue,
                    },
                });
            }
        }
        Ok(acls)
    }

    /// Adds access rules; an outcome for each, in their order. Adding one that is there changes
    /// nothing. Needs ALTER on the cluster.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the request as a whole got no answer.
    pub async fn create_topic_acls(
        &self,
        acls: &[TopicAcl],
    ) -> Result<Vec<Result<(), TopicError>>, RequestError> {
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let one = |acl: &TopicAcl| {
            AclCreation::default()
                .with_resource_type(TOPIC)
                .with_resource_name(text(acl.topic.as_str()))
                .with_resource_pattern_type(LITERAL)
                .with_principal(text(&acl.principal))
                .with_host(text(&acl.host))
                .with_operation(acl.operation.0)
                .with_permission_type(match acl.permission {
                    AclPermission::Allow => ALLOW,
                    AclPermission::Deny => DENY,
                })
        };
        let request = CreateAclsRequest::default().with_creations(acls.iter().map(one).collect());
        let answer = self.request(Route::Controller, &request).await?;
        let mut outcomes: Vec<_> = answer
            .results
            .iter()
            .map(|result| {
                let message = result.error_message.as_ref().map(|text| text.as_str().to_owned());
                outcome(result.error_code, message)
            })
            .collect();
        // A broker that answers for fewer has not said what became of the rest.
        outcomes.resize_with(acls.len(), || outcome(ErrorCode(-1).0, None));
        Ok(outcomes)
    }
}
