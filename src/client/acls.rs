//! Access rules on topics and groups: read, added, taken away.

use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};
use kafka_protocol::protocol::StrBytes;

use super::admin::{TopicError, outcome};
use super::cluster::{Cluster, RequestError, Route};
use crate::model::{AclBinding, AclOperation, AclPattern, AclPermission, AclResource};
use crate::wire::{Api, ErrorCode};

/// `ResourceType.TOPIC` and `GROUP`.
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
/// `PatternType.LITERAL` and `PREFIXED`.
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
/// `PatternType.ANY`, `AclOperation.ANY` and `AclPermissionType.ANY`, in filters.
const ANY: i8 = 1;
/// `AclPermissionType.DENY` and `ALLOW`.
const DENY: i8 = 2;
const ALLOW: i8 = 3;

/// What a broker that answers for fewer than were asked for has said of the rest.
const NOT_SAID: ErrorCode = ErrorCode(-1);

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn resource_type(resource: AclResource) -> i8 {
    match resource {
        AclResource::Topic => TOPIC,
        AclResource::Group => GROUP,
    }
}

fn pattern_type(pattern: AclPattern) -> i8 {
    match pattern {
        AclPattern::Literal => LITERAL,
        AclPattern::Prefixed => PREFIXED,
    }
}

fn permission_type(permission: AclPermission) -> i8 {
    match permission {
        AclPermission::Allow => ALLOW,
        AclPermission::Deny => DENY,
    }
}

impl Cluster {
    /// All access rules on topics, or on groups: on names and on prefixes. Needs DESCRIBE on the
    /// cluster.
    ///
    /// Rules that neither grant nor forbid, or whose name means something else, as a newer broker
    /// might have them, are left out.
    ///
    /// # Errors
    ///
    /// [`RequestError`]; [`RequestCause::Refused`](super::RequestCause::Refused) with
    /// `SECURITY_DISABLED` from a cluster without an authorizer, and with
    /// `CLUSTER_AUTHORIZATION_FAILED` without the right.
    pub async fn acls(&self, resource: AclResource) -> Result<Vec<AclBinding>, RequestError> {
        let kind = resource_type(resource);
        let request = DescribeAclsRequest::default()
            .with_resource_type_filter(kind)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(ANY)
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
        for found in answer.resources.iter().filter(|found| found.resource_type == kind) {
            let pattern = match found.pattern_type {
                LITERAL => AclPattern::Literal,
                PREFIXED => AclPattern::Prefixed,
                _ => continue,
            };
            for acl in &found.acls {
                acls.push(AclBinding {
                    resource,
                    pattern,
                    name: found.resource_name.as_str().to_owned(),
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
    pub async fn create_acls(
        &self,
        acls: &[AclBinding],
    ) -> Result<Vec<Result<(), TopicError>>, RequestError> {
        let one = |acl: &AclBinding| {
            AclCreation::default()
                .with_resource_type(resource_type(acl.resource))
                .with_resource_name(text(&acl.name))
                .with_resource_pattern_type(pattern_type(acl.pattern))
                .with_principal(text(&acl.principal))
                .with_host(text(&acl.host))
                .with_operation(acl.operation.0)
                .with_permission_type(permission_type(acl.permission))
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
        outcomes.resize_with(acls.len(), || outcome(NOT_SAID.0, None));
        Ok(outcomes)
    }

    /// Takes access rules away, each exactly as it stands; an outcome for each, in their order.
    /// One that is not there changes nothing. Needs ALTER on the cluster.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if the request as a whole got no answer.
    pub async fn delete_acls(
        &self,
        acls: &[AclBinding],
    ) -> Result<Vec<Result<(), TopicError>>, RequestError> {
        // No field is left open, so that a filter meets one rule or none.
        let one = |acl: &AclBinding| {
            DeleteAclsFilter::default()
                .with_resource_type_filter(resource_type(acl.resource))
                .with_resource_name_filter(Some(text(&acl.name)))
                .with_pattern_type_filter(pattern_type(acl.pattern))
                .with_principal_filter(Some(text(&acl.principal)))
                .with_host_filter(Some(text(&acl.host)))
                .with_operation(acl.operation.0)
                .with_permission_type(permission_type(acl.permission))
        };
        let request = DeleteAclsRequest::default().with_filters(acls.iter().map(one).collect());
        let answer = self.request(Route::Controller, &request).await?;
        let mut outcomes: Vec<_> = answer
            .filter_results
            .iter()
            .map(|result| {
                let message = |text: &Option<StrBytes>| text.as_ref().map(|text| text.to_string());
                outcome(result.error_code, message(&result.error_message))?;
                // The rule was met, and stayed.
                let mut met = result.matching_acls.iter();
                met.try_for_each(|acl| outcome(acl.error_code, message(&acl.error_message)))
            })
            .collect();
        outcomes.resize_with(acls.len(), || outcome(NOT_SAID.0, None));
        Ok(outcomes)
    }
}
