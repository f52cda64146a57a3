//! What happens in a run, and when, from a seed.

use std::time::Duration;

use super::rng::Rng;
use super::seeded::Weather;
use super::world::Kind;
use crate::broker::Release;

/// Which cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that is read.
    Source,
    /// The one that is written.
    Target,
}

/// One thing that happens. Topics, partitions and nodes are numbers that are taken modulo what
/// there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// So many batches of up to so many records are written.
    Append(usize, usize, u64, u64),
    /// A transaction begins, or ends: committed or not.
    Transact(usize, usize, bool),
    /// The cleaner runs.
    Compact(usize, usize),
    /// Retention removes so many thousandths.
    Retain(usize, usize, u64),
    /// A new segment begins.
    Roll(usize, usize),
    /// A partition's leader moves.
    MoveLeader(Which, usize, usize, i32),
    /// A node stops.
    StopNode(Which, i32),
    /// It comes back.
    StartNode(Which, i32),
    /// A topic is deleted and made anew.
    Recreate(usize),
    /// A topic gets another partition.
    Grow(usize),
    /// An unclean election takes so many records away.
    Truncate(usize, usize, i64),
    /// A batch goes bad.
    Damage(usize, usize),
    /// The mirror is killed after so many more requests; so many events happen before the next
    /// one starts.
    Kill(u64, usize),
    /// The mirror is told to end; so many events happen before the next one starts.
    Drain(usize),
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Script {
    /// What the source claims to be, and how many nodes it has.
    pub source: (Release, i32),
    /// The target.
    pub target: (Release, i32),
    /// Topics: kind, and partitions at first.
    pub topics: Vec<(Kind, usize)>,
    /// Largest value, bytes.
    pub value_bytes_max: u64,
    /// Largest batch that the target's topics take, if less than the default.
    pub batch_bytes_max: Option<usize>,
    /// Most bytes of a fetch answer, and of one partition in it.
    pub fetch_bytes: (usize, usize),
    /// Whether fetches may grow.
    pub fetch_grows: bool,
    /// Most bytes sent in a second.
    pub bytes_per_second_max: Option<u64>,
    /// How long a fetch may wait.
    pub fetch_wait: Duration,
    /// Fetch sessions that a source node keeps.
    pub sessions_max: usize,
    /// The weather at the source and at the target.
    pub weather: (Weather, Weather),
    /// What happens.
    pub events: Vec<(Duration, Event)>,
}

impl Script {
    /// A run from its seed.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let rng = &mut Rng::new(seed, 1);
        let release = |rng: &mut Rng| {
            if rng.chance(600) { Release::V4_3 } else { *rng.pick(&Release::ALL) }
        };
        let nodes = |rng: &mut Rng| i32::try_from(rng.between(1, 3)).unwrap_or(1);
        let (source, target) = ((release(rng), nodes(rng)), (release(rng), nodes(rng)));
        let topics = (0..rng.between(1, 3)).map(|_| {
            let kind = *rng.pick(&[Kind::Plain, Kind::Plain, Kind::Compacted, Kind::Transactional]);
            (kind, rng.index(3) + 1)
        });
        let topics: Vec<(Kind, usize)> = topics.collect();
        let large = rng.chance(100);
        let value_bytes_max = if large { 30_000 } else { *rng.pick(&[20, 200, 1500]) };
        let partition_bytes = *rng.pick(&[600, 4_000, 60_000, 262_144]);
        let fetch_bytes = partition_bytes * (rng.index(3) + 1);
        let mut script = Self {
            source,
            target,
            topics,
            value_bytes_max,
            batch_bytes_max: rng.chance(150).then(|| *rng.pick(&[700, 3_000])).filter(|_| !large),
            fetch_bytes: (fetch_bytes, partition_bytes),
            fetch_grows: rng.chance(500),
            bytes_per_second_max: rng.chance(100).then_some(20_000),
            fetch_wait: Duration::from_millis(*rng.pick(&[20, 500])),
            sessions_max: *rng.pick(&[1000, 1000, 1, 0]),
            weather: (Weather::from_seed(rng), Weather::from_seed(rng)),
            events: Vec::new(),
        };
        if let Some(max) = script.batch_bytes_max {
            // A record must fit a batch, or its partition rightly stops.
            script.value_bytes_max = script.value_bytes_max.min(max as u64 - 200);
        }
        let events = rng.between(5, 60);
        let length_ms = *rng.pick(&[500, 5_000, 20_000]);
        let truncates = rng.chance(120);
        let traits = Traits {
            // Before Fetch named topics by id nobody can tell whose records an answer holds.
            recreates: rng.chance(150) && script.source.0.fetches_by_id(),
            truncates,
            damages: rng.chance(60),
            // A log that is cut off while the mirror is away is not noticed yet: see
            // `a_log_that_is_cut_off_while_the_mirror_is_away_is_noticed`.
            kills: rng.chance(600) && !truncates,
            moves: rng.chance(600),
            stops: rng.chance(250),
            retains: rng.chance(400),
        };
        for _ in 0..events {
            let at = Duration::from_millis(rng.below(length_ms));
            script.one(at, traits, rng);
        }
        script.events.sort_by_key(|(at, _)| *at);
        script
    }

    fn one(&mut self, at: Duration, traits: Traits, rng: &mut Rng) {
        let (topic, partition) = (rng.index(8), rng.index(8));
        let which = if rng.chance(500) { Which::Source } else { Which::Target };
        let node = i32::try_from(rng.below(3)).unwrap_or(0);
        let event = match rng.below(100) {
            0..40 => {
                let batches = if rng.chance(100) { 20 } else { rng.between(1, 4) };
                Event::Append(topic, partition, batches, rng.between(1, 12))
            }
            40..55 => Event::Transact(topic, partition, rng.chance(500)),
            55..62 => Event::Compact(topic, partition),
            62..67 if traits.retains => Event::Retain(topic, partition, rng.between(100, 1000)),
            67..70 => Event::Roll(topic, partition),
            70..78 if traits.moves => Event::MoveLeader(which, topic, partition, node),
            78..82 if traits.stops => {
                let back = at + Duration::from_millis(rng.between(1, 8_000));
                self.events.push((back, Event::StartNode(which, node)));
                Event::StopNode(which, node)
            }
            82..85 if traits.recreates => Event::Recreate(topic),
            85..87 => Event::Grow(topic),
            87..89 if traits.truncates => {
                Event::Truncate(topic, partition, i64::try_from(rng.between(1, 20)).unwrap_or(1))
            }
            89..91 if traits.damages => Event::Damage(topic, partition),
            91..96 if traits.kills => Event::Kill(rng.below(60), rng.index(4)),
            96..98 if traits.kills => Event::Drain(rng.index(4)),
            _ => Event::Append(topic, partition, 1, rng.between(1, 30)),
        };
        self.events.push((at, event));
    }
}

/// What a run has besides data.
#[derive(Clone, Copy, Debug)]
struct Traits {
    recreates: bool,
    truncates: bool,
    damages: bool,
    kills: bool,
    moves: bool,
    stops: bool,
    retains: bool,
}
