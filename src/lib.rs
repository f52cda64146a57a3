//! Heliograph mirrors Apache Kafka clusters: MirrorMaker 2's job in one static binary.
//!
//! It reads MirrorMaker 2's own properties file and speaks the Kafka protocol itself. A record
//! batch travels from the source socket to the target socket as the bytes it arrived in, behind
//! a new 61-byte header. This page is the design; each module's page says more about its part.
//!
//! # The map
//!
//! Floors with a checked direction: a module imports from lower floors only, and modules on one
//! floor never import each other (`proto-tests/tests/floors.rs`). Below floor 3 nothing awaits,
//! reads a clock or opens a file.
//!
//! | floor | module | what it is |
//! |---|---|---|
//! | 8 | [`embed`] | the same inside another program, and questions about what a mirror has left |
//! | 7 | [`app`] | the program: arguments, wiring, signals, exit codes |
//! | 6 | [`config`] | from a properties file to settings, with every problem at its place |
//! | 6 | [`telemetry`] | what the process says about itself |
//! | 5 | [`mirror`] | the control plane, in rounds: topics, configs, ACLs, heartbeats; groups and their offsets |
//! | 4 | [`flow`] | the data plane: shards, lanes, positions, resuming |
//! | 3 | [`client`] | connections, metadata, routing; the first floor that may await |
//! | 2 | [`copy`] | copying one partition, as a state machine |
//! | 2 | [`policy`] | what to mirror and under which names; values in, decisions out |
//! | 1 | [`batch`] | record batches as bytes: walk, judge, restamp, rebuild |
//! | 1 | [`wire`] | frames and messages, bounded by the bytes that carry them |
//! | 1 | [`mm2`] | MirrorMaker 2's record formats and names |
//! | 0 | [`model`] | plain values: offsets, names, sequences |
//!
//! # The path of a batch
//!
//! 1. A [`client::Connection`]'s driver reads the length of a Fetch answer, asks the
//!    [`client::FrameBudget`] for that many bytes, and only then reads the body: a full process
//!    stops reading, and the source's broker sees a closed window.
//!    The socket is told how much is missing and wakes the process when that is there, not for each
//!    piece that a broker sends.
//! 2. The shard that asked gets the frame. [`wire::fetch::decode`] yields views into it.
//! 3. [`copy::Copier::on_fetched`] walks the batches ([`batch::Shallow`]), hides aborted ones
//!    ([`batch::AbortedIndex`]) and decides about each by its header ([`batch::disposition`]):
//!    forward, rebuild, drop or refuse.
//! 4. When a target node has credit, the shard takes one batch of each partition that it leads.
//!    The copier's window gives it a sequence and [`batch::restamp`] writes the new header; the
//!    checksum is amended by linearity, so the body is not read. Small batches that are ready
//!    together are merged first ([`batch::merge`]) where that costs less than sending each
//!    ([`copy::Merging`]).
//! 5. [`wire::encode_produce`] makes a list of segments, written with vectored writes. The body
//!    is still the slice of the frame it arrived in.
//! 6. The answer's base offset must be the one that the batches before it explain. The batch
//!    drops; with its last slice the frame gives its bytes back to the budget.
//!
//! A shard and the connections of its lanes share one thread ([`flow::Workers`]), so that all of
//! this happens in one core's cache; the control plane has the main thread. On a lane whose
//! shortest round trip is long, fetches grow up to a quarter of the memory budget, and the budget
//! up to four times its number.
//!
//! # Order, and nothing twice
//!
//! Every partition is produced under a producer id with its own sequences, at most five batches
//! in flight ([`copy::WINDOW_BATCHES_MAX`]), and what is sent again is a suffix of the window
//! with the sequences it had: the broker knows a batch that it has.
//!
//! That holds across restarts. Before the first batch of a partition goes out, an *anchor* is
//! acknowledged on the target (`mm2-heliograph-positions.<source>.internal`): everything before
//! upstream `S` is there, downstream `T` comes next, under producer id `P` from sequence `N`.
//! Anchors are renewed every second. At a start the target's log behind `T` is read by header
//! and found again in the source's log from `S` on; copying goes on behind the last batch found,
//! under the same producer id and the sequence that follows. A request that a killed process left
//! in a broker's socket is then either found, or recognised by its sequence when it lands late. What
//! the target's retention has taken behind `T` by then is counted, by the sequences of what is left.
//! No transaction and no marker is needed for that.
//!
//! Connect's offsets topic is written as MM2 writes it and read as MM2 reads it: whoever was
//! here last, the other goes on behind it. If MM2's connector runs in a Connect cluster, it is
//! that cluster's topic, on whichever Kafka cluster that is ([`mirror::MirrorFlow::set_connect`]).
//!
//! # Offsets of groups
//!
//! Upstream and downstream offsets run side by side but for *bends*: behind a hole, a marker, an
//! aborted batch. A copier knows them from what was acknowledged, [`flow`]'s book adds them to a
//! [`model::OffsetMap`] per partition, two bytes each, and a committer writes the map's chunks to
//! `mm2-heliograph-offset-map.<source>.internal` before the anchor that covers them; an anchor says
//! how many bends there are up to it, so a map with a piece missing is never taken for whole. What a
//! crash leaves behind the anchor is found again where batches are. Old chunks are let go of and
//! read again when a group that lags far asks ([`flow::Offsets`]). [`mirror`] turns committed
//! offsets into checkpoints and commits by it; only what MM2 copied before is translated by MM2's
//! own rule ([`policy::SyncStore`]).
//!
//! # Names
//!
//! [`policy::ReplicationPolicy`] is MM2's; [`policy::FlowNames`] puts a flow's rename rules before it, and
//! is the only place that makes a name on the target or reads one back. By construction it gives no two
//! topics one name: rules that could are refused ([`policy::Renames`]), and where a rule and the policy
//! meet, the topic without a rule has no name ([`policy::NoName`]). So a name leads back to one topic, and
//! [`policy::Origins`] can follow it through the flows of the whole file, those that are off or run
//! elsewhere included: a topic that came from the target is not taken back there. Progress is kept per
//! name, and what MM2 reads (Connect's offsets, offset syncs) speaks only of names that MM2 would give.
//!
//! # Rounds
//!
//! The control plane looks again and again ([`mirror::Rounds`]): at topics, then at their configs
//! and ACLs; heartbeats are rounds too, of pairs of clusters. A round observes both sides, asks
//! [`policy`] for the difference as a pure function, and sends only that. What a round owns on the
//! target is written down before it is changed (`mm2-heliograph-owned.<source>.internal`), with
//! the value before it, so that a process that dies in between can tell its own work from what was
//! made by hand. So are access rules, where the file asks for what goes beyond MM2
//! (`mm2-heliograph-owned-acls.<source>.internal`): flows that share a target read each other's
//! claims, so that a rule goes with the last of them, and a claim names the clusters that a rule
//! came through, so that none goes round and outlives who made it ([`policy::AclRules`]).
//!
//! # What stops what
//!
//! A partition stops with a [`copy::HaltReason`], a flow waits with a line that says for what,
//! and nothing else stands still with it. A partition that only *doubts* (its position is out of
//! range, the target does not know its sequences) has both logs looked at again by the rule that
//! is used at a start.
//!
//! # Getting in
//!
//! [`client::Security`] says what a cluster's connections need. A connection is dialled, wrapped in
//! TLS, introduced (ApiVersions), and logged in ([`wire::Authentication`] around
//! [`wire::sasl::Exchange`]), each within the connect timeout, before its driver task takes it over.
//! Stores, tokens and what config providers fill in are read again at the next connection or login; a
//! token that a server gives is refreshed by a task of its own, before it ends.
//! A session with an end (KIP-368) is renewed by the driver's write loop, behind the requests in
//! flight. After a refused login the whole cluster waits, for up to ten seconds; a secret is a
//! [`model::Secret`] wherever it goes.
//!
//! # Rights
//!
//! [`policy::RIGHTS`] is the one table of what a principal needs and what rests without it. Whoever is
//! refused says which row that was ([`mirror::Missing`]), on the flow's [`mirror::RoundBoard`]: log,
//! `/status` and metrics read it there. `heliograph check` asks instead of trying: brokers tell what may
//! be done with what exists (KIP-430), and a creation that only validates tells who may make what does
//! not. Where partitions would begin, [`flow::foresee`] decides by what a start itself decides by.
//!
//! # Looking inside
//!
//! Counts live in one place, the copier's [`copy::Counts`], and outlive a copier that is replaced.
//! [`flow::Probe`] asks the shards for them; [`telemetry`] makes `/status` and `/metrics` of the
//! same values at the moment of asking, so no second set of books can differ from the first. A
//! range that was lost is a [`model::Gap`]: counted once, remembered, told in one log line. `/readyz` is
//! judged by what a [`client::Pulse`] of each cluster says, and by whether any partition that has
//! something to copy moves ([`telemetry::ready`]).
//!
//! # Rules that bit us
//!
//! * Where a position goes back (a topic made anew, a source cut off), Connect's offset is set back
//!   before the new anchor is written: else the next start takes the old one for MM2's progress and
//!   skips the beginning of the new topic (`mirror_recreated`).
//! * A partition that stopped, or is in doubt, lets go of what it had in flight: its frames would be
//!   held for ever, and a few of them are the whole budget (simulation, seed 3741).
//! * What is fetched a second time, after frames were let go of, is counted the first time only.
//! * An answer to a Fetch is looked at only if it was asked from the present position: after a
//!   position moved back, what lies between would seem to be missing
//!   ([`copy::Copier::on_fetched`]).
//! * The supervisor waits only for what it has to write itself: while it waited for offset maps of
//!   other partitions, a partition that had just stopped was missing in the status (seed 3809).
//! * What a killed process copied behind its anchor may be gone from the source: whoever stands there
//!   goes on at the first record that may be meant (`flow::align`), or a record would be skipped.
//! * A partition is looked at again only when nothing of it is in flight; what is found in the
//!   target's log must be all there is (`flow::shard`).
//! * A partition that waits for its target lets go of its frames, or a few of them would hold the
//!   whole budget ([`copy::Copier::release`]).

// They end the process where what they print cannot be written; `telemetry::log::tell` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod app;
pub mod batch;
pub mod client;
pub mod config;
pub mod copy;
pub mod embed;
pub mod flow;
pub mod mirror;
pub mod mm2;
pub mod model;
pub mod policy;
pub mod telemetry;
pub mod wire;
