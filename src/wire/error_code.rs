//! Error codes, and what each means for what we do next.

use std::fmt;

use super::Api;

/// A code from a response's error field. 0 is no error; every number is a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub i16);

/// Number and name of each code we may meet (`org.apache.kafka.common.protocol.Errors`).
const NAMES: &[(i16, &str)] = &[
    (-1, "UNKNOWN_SERVER_ERROR"),
    (0, "NONE"),
    (1, "OFFSET_OUT_OF_RANGE"),
    (2, "CORRUPT_MESSAGE"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION"),
    (5, "LEADER_NOT_AVAILABLE"),
    (6, "NOT_LEADER_OR_FOLLOWER"),
    (7, "REQUEST_TIMED_OUT"),
    (8, "BROKER_NOT_AVAILABLE"),
    (9, "REPLICA_NOT_AVAILABLE"),
    (10, "MESSAGE_TOO_LARGE"),
    (12, "OFFSET_METADATA_TOO_LARGE"),
    (13, "NETWORK_EXCEPTION"),
    (14, "COORDINATOR_LOAD_IN_PROGRESS"),
    (15, "COORDINATOR_NOT_AVAILABLE"),
    (16, "NOT_COORDINATOR"),
    (17, "INVALID_TOPIC_EXCEPTION"),
    (18, "RECORD_LIST_TOO_LARGE"),
    (19, "NOT_ENOUGH_REPLICAS"),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    (21, "INVALID_REQUIRED_ACKS"),
    (22, "ILLEGAL_GENERATION"),
    (23, "INCONSISTENT_GROUP_PROTOCOL"),
    (24, "INVALID_GROUP_ID"),
    (25, "UNKNOWN_MEMBER_ID"),
    (27, "REBALANCE_IN_PROGRESS"),
    (28, "INVALID_COMMIT_OFFSET_SIZE"),
    (29, "TOPIC_AUTHORIZATION_FAILED"),
    (30, "GROUP_AUTHORIZATION_FAILED"),
    (31, "CLUSTER_AUTHORIZATION_FAILED"),
    (32, "INVALID_TIMESTAMP"),
    (33, "UNSUPPORTED_SASL_MECHANISM"),
    (35, "UNSUPPORTED_VERSION"),
    (36, "TOPIC_ALREADY_EXISTS"),
    (37, "INVALID_PARTITIONS"),
    (38, "INVALID_REPLICATION_FACTOR"),
    (39, "INVALID_REPLICA_ASSIGNMENT"),
    (40, "INVALID_CONFIG"),
    (41, "NOT_CONTROLLER"),
    (42, "INVALID_REQUEST"),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT"),
    (44, "POLICY_VIOLATION"),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    (46, "DUPLICATE_SEQUENCE_NUMBER"),
    (47, "INVALID_PRODUCER_EPOCH"),
    (48, "INVALID_TXN_STATE"),
    (49, "INVALID_PRODUCER_ID_MAPPING"),
    (51, "CONCURRENT_TRANSACTIONS"),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    (54, "SECURITY_DISABLED"),
    (56, "KAFKA_STORAGE_ERROR"),
    (57, "LOG_DIR_NOT_FOUND"),
    (58, "SASL_AUTHENTICATION_FAILED"),
    (59, "UNKNOWN_PRODUCER_ID"),
    (60, "REASSIGNMENT_IN_PROGRESS"),
    (68, "NON_EMPTY_GROUP"),
    (69, "GROUP_ID_NOT_FOUND"),
    (70, "FETCH_SESSION_ID_NOT_FOUND"),
    (71, "INVALID_FETCH_SESSION_EPOCH"),
    (72, "LISTENER_NOT_FOUND"),
    (74, "FENCED_LEADER_EPOCH"),
    (75, "UNKNOWN_LEADER_EPOCH"),
    (76, "UNSUPPORTED_COMPRESSION_TYPE"),
    (77, "STALE_BROKER_EPOCH"),
    (78, "OFFSET_NOT_AVAILABLE"),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE"),
    (87, "INVALID_RECORD"),
    (88, "UNSTABLE_OFFSET_COMMIT"),
    (89, "THROTTLING_QUOTA_EXCEEDED"),
    (90, "PRODUCER_FENCED"),
    (91, "RESOURCE_NOT_FOUND"),
    (100, "UNKNOWN_TOPIC_ID"),
    (103, "INCONSISTENT_TOPIC_ID"),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR"),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE"),
    (110, "FENCED_MEMBER_EPOCH"),
    (113, "STALE_MEMBER_EPOCH"),
    (119, "BROKER_ID_NOT_REGISTERED"),
    (120, "TRANSACTION_ABORTABLE"),
    (129, "REBOOTSTRAP_REQUIRED"),
];

impl ErrorCode {
    /// No error.
    pub const NONE: Self = Self(0);

    /// Whether there is an error at all.
    #[must_use]
    pub fn is_error(self) -> bool {
        self != Self::NONE
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(code, _)| *code == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "error code {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} ({})", self.0)
    }
}

/// What an error code means for what we do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was done.
    Ok,
    /// Ask the same broker again after a pause; nothing has to be learnt first.
    Retry,
    /// Ask again once metadata says who leads now.
    FindLeader,
    /// The topic may be gone or made anew: look at its id before anything else.
    FindTopic,
    /// The position lies outside the log.
    OutOfRange,
    /// The fetch session is gone: start a full one.
    NewSession,
    /// The broker does not know our producer where it should: look at the log's end first.
    NewIdentity,
    /// The records themselves are refused; asking again changes nothing.
    Halt,
    /// A right is missing; it may be granted later.
    Denied,
}

/// What to do about `code` in an answer of `api`. Unknown codes are tried again: newer brokers
/// add codes mostly for passing conditions, and a partition that stops needs a person.
#[must_use]
pub fn verdict(api: Api, code: ErrorCode) -> Verdict {
    use Verdict as V;
    match (api, code.0) {
        (_, 0) => V::Ok,
        (_, 5 | 6 | 8 | 9 | 56 | 57 | 72 | 74 | 119) => V::FindLeader,
        (_, 3 | 100 | 103) => V::FindTopic,
        (_, 29 | 30 | 31 | 53) => V::Denied,
        (Api::Fetch, 1) => V::OutOfRange,
        (Api::Fetch, 70 | 71 | 106) => V::NewSession,
        (Api::Produce, 45 | 46 | 47 | 49 | 59 | 90) => V::NewIdentity,
        (Api::Produce, 2 | 10 | 17 | 18 | 21 | 32 | 43 | 48 | 76 | 87) => V::Halt,
        (Api::CreateTopics | Api::CreatePartitions, 17 | 36..=40 | 42 | 44) => V::Halt,
        (_, 35 | 42) => V::Halt,
        _ => V::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_verdict_for_every_api_and_zero_is_ok() {
        for api in Api::all() {
            for code in i16::MIN..=i16::MAX {
                let verdict = verdict(api, ErrorCode(code));
                assert_eq!(verdict == Verdict::Ok, code == 0, "{api} {code}");
            }
        }
    }

    #[test]
    fn retriable_produce_errors_never_halt_a_partition() {
        for code in [-1, 5, 6, 7, 13, 19, 20, 56, 89, 200] {
            let verdict = verdict(Api::Produce, ErrorCode(code));
            assert!(matches!(verdict, Verdict::Retry | Verdict::FindLeader), "{code}: {verdict:?}");
        }
    }
}
