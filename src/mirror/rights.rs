//! Rights that are missing, and the commands that grant them.

use std::fmt;

use crate::client::{Cluster, RequestCause, RequestError};
use crate::wire::ErrorCode;

/// What a right is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum On<'a> {
    /// The cluster itself.
    Cluster,
    /// One topic.
    Topic(&'a str),
}

/// The command that grants a right, for people to copy. Which principal this process has, only
/// the broker knows; its authorizer's log names it.
pub(super) fn grant(cluster: &Cluster, operation: &str, on: On<'_>) -> String {
    let settings = cluster.settings();
    let server = settings.bootstrap.first().map_or_else(String::new, ToString::to_string);
    let on: &dyn fmt::Display = match &on {
        On::Cluster => &"--cluster",
        On::Topic(topic) => &format_args!("--topic '{topic}'").to_string(),
    };
    format!(
        "kafka-acls --bootstrap-server {server} --add --allow-principal User:NAME --operation \
         {operation} {on}"
    )
}

/// Whether a code says that a right is missing.
pub(super) fn is_denied(code: ErrorCode) -> bool {
    matches!(code.0, 29..=31)
}

/// The code that a broker answered as a whole with.
pub(super) fn refusal(error: &RequestError) -> Option<ErrorCode> {
    match error.cause {
        RequestCause::Refused(code) => Some(code),
        _ => None,
    }
}
