//! Records exchanges about consumer groups, for `proto-tests/golden/frames`.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use heliograph::wire::Api;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    DescribeGroupsRequest, FindCoordinatorRequest, GroupId, ListGroupsRequest, OffsetCommitRequest,
    OffsetFetchRequest,
};

use crate::tap::{MISSING, PLAIN, Tap, name, text};

const GROUP: &str = "tap-group";
const NOBODY: &str = "tap-nobody";

/// How long a coordinator may take until it knows its groups.
const LOADED_WITHIN: Duration = Duration::from_secs(30);

/// From here on several groups can be named in one request.
const FIND_SEVERAL: i16 = 4;
const FETCH_SEVERAL: i16 = 8;

impl Tap<'_> {
    pub(super) fn record_groups(&mut self) -> Result<()> {
        for version in self.versions_of(Api::FindCoordinator)? {
            let request = FindCoordinatorRequest::default();
            let request = if version >= FIND_SEVERAL {
                request.with_coordinator_keys(vec![text(GROUP), text(NOBODY)])
            } else {
                request.with_key(text(GROUP))
            };
            self.record_call("found", version, &request)?;
        }
        for version in self.versions_of(Api::OffsetCommit)? {
            self.commits(version)?;
        }
        for version in self.versions_of(Api::OffsetFetch)? {
            let of = |group: &str| {
                let request = OffsetFetchRequest::default();
                if version < FETCH_SEVERAL {
                    return request.with_group_id(GroupId(text(group))).with_topics(None);
                }
                let one = |group: &str| {
                    OffsetFetchRequestGroup::default()
                        .with_group_id(GroupId(text(group)))
                        .with_topics(None)
                };
                request.with_groups(vec![one(group), one(NOBODY)])
            };
            self.record_call("committed", version, &of(GROUP))?;
            self.record_call("nobody", version, &of(NOBODY))?;
        }
        for version in self.versions_of(Api::DescribeGroups)? {
            let groups = [GROUP, NOBODY].map(|group| GroupId(text(group)));
            let request = DescribeGroupsRequest::default()
                .with_groups(groups.to_vec())
                .with_include_authorized_operations(true);
            // The first question about a group has the topic of offsets made.
            let begun = Instant::now();
            while self.call(&request)?.groups.iter().any(|group| group.error_code != 0) {
                ensure!(begun.elapsed() < LOADED_WITHIN, "no coordinator");
                thread::sleep(Duration::from_millis(100));
            }
            self.record_call("described", version, &request)?;
        }
        for version in self.versions_of(Api::ListGroups)? {
            self.record_call("listed", version, &ListGroupsRequest::default())?;
        }
        Ok(())
    }

    fn commits(&mut self, version: i16) -> Result<()> {
        let partition = |partition, offset| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(offset)
                .with_committed_metadata(Some(text("by hand")))
        };
        let topic = |topic: &str| {
            OffsetCommitRequestTopic::default()
                .with_name(name(topic))
                .with_partitions(vec![partition(0, 2), partition(9, 1)])
        };
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(GROUP)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic(PLAIN), topic(MISSING)]);
        self.record_call("idle", version, &request)?;
        let of_a_member = request.with_generation_id_or_member_epoch(7).with_member_id(text("me"));
        self.record_call("no-member", version, &of_a_member)
    }
}
