//! What is done to the two clusters and the mirror while records flow, from a seed.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Bed;
use crate::admin::At;

/// A node is back and in sync within seconds; on a loaded machine within tens.
const SETTLE_WAIT: Duration = Duration::from_secs(180);

/// An orderly end of the mirror.
const STOP_WAIT: Duration = Duration::from_secs(60);

/// SplitMix64: the same seed does the same deeds at the same places.
#[derive(Debug)]
pub(super) struct Dice {
    state: u64,
}

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap_or(1)).unwrap_or(0)
    }

    fn pause(&mut self, ms_max: usize) -> Duration {
        Duration::from_millis(u64::try_from(self.below(ms_max)).unwrap_or(0))
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Target,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    /// Several times, at different moments after its start.
    KillMirror,
    StopMirror,
    KillBroker(Side),
    MoveLeaders(Side),
    /// Records are deleted that a mirror that is away has not copied.
    Overtake,
    /// A topic is deleted and made anew.
    Recreate,
}

impl Deed {
    const ALL: [Self; 8] = [
        Self::KillMirror,
        Self::StopMirror,
        Self::KillBroker(Side::Source),
        Self::KillBroker(Side::Target),
        Self::MoveLeaders(Side::Source),
        Self::MoveLeaders(Side::Target),
        Self::Overtake,
        Self::Recreate,
    ];

    /// All of them once, in some order.
    pub(super) fn round(dice: &mut Dice) -> [Self; 8] {
        let mut all = Self::ALL;
        dice.shuffle(&mut all);
        all
    }

    pub(super) fn perform(self, bed: &mut Bed, dice: &mut Dice) -> Result<()> {
        let done = match self {
            Self::KillMirror => kill_mirror(bed, dice),
            Self::StopMirror => stop_mirror(bed, dice),
            Self::KillBroker(side) => kill_broker(bed, side, dice),
            Self::MoveLeaders(side) => move_leaders(bed, side, dice),
            Self::Overtake => overtake(bed, dice),
            Self::Recreate => bed.recreate(),
        };
        done.with_context(|| format!("{self:?}"))?;
        bed.mirror.must_be_running()
    }
}

fn kill_mirror(bed: &mut Bed, dice: &mut Dice) -> Result<()> {
    for _ in 0..3 {
        bed.mirror.kill9()?;
        thread::sleep(dice.pause(500));
        bed.mirror.launch()?;
        thread::sleep(dice.pause(3_000));
    }
    Ok(())
}

fn stop_mirror(bed: &mut Bed, dice: &mut Dice) -> Result<()> {
    bed.mirror.terminate(STOP_WAIT)?;
    thread::sleep(dice.pause(3_000));
    bed.mirror.launch()
}

fn kill_broker(bed: &mut Bed, side: Side, dice: &mut Dice) -> Result<()> {
    let node = 1 + dice.below(3);
    bed.cluster_mut(side).kill9(node)?;
    thread::sleep(Duration::from_secs(2) + dice.pause(8_000));
    bed.cluster_mut(side).restart(node)?;
    await_in_sync(bed, side)
}

fn await_in_sync(bed: &Bed, side: Side) -> Result<()> {
    for topic in bed.topic_names(side) {
        if bed.cluster(side).describe_topic(&topic)?.is_some() {
            bed.cluster(side).await_in_sync(&topic, SETTLE_WAIT)?;
        }
    }
    Ok(())
}

fn move_leaders(bed: &mut Bed, side: Side, dice: &mut Dice) -> Result<()> {
    for topic in bed.topic_names(side) {
        let cluster = bed.cluster(side);
        let Some(described) = cluster.describe_topic(&topic)? else { continue };
        for partition in described.partitions {
            let mut replicas: Vec<u32> = partition
                .replicas
                .iter()
                .map(|node| u32::try_from(*node))
                .collect::<Result<_, _>>()?;
            replicas.rotate_left(1 + dice.below(2));
            cluster.reassign(&topic, partition.partition, &replicas)?;
        }
        cluster.elect_preferred_leaders(&topic)?;
        thread::sleep(dice.pause(1_000));
    }
    Ok(())
}

fn overtake(bed: &mut Bed, dice: &mut Dice) -> Result<()> {
    bed.mirror.kill9()?;
    thread::sleep(Duration::from_secs(2) + dice.pause(2_000));
    let topics = bed.topic_names(Side::Source);
    let topic = &topics[dice.below(topics.len())];
    let stable = bed.source.offsets(topic, At::Stable)?;
    let start = bed.source.offsets(topic, At::Earliest)?;
    let partition = dice.below(stable.len());
    // Up to the last few records that a reader sees.
    let few = i64::try_from(dice.below(40)).unwrap_or(0);
    let upto = (stable[partition] - few).max(start[partition]);
    bed.source.delete_records(topic, u32::try_from(partition)?, upto)?;
    bed.mirror.launch()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself_and_a_round_leaves_nothing_out() {
        let (one, two) = (Deed::round(&mut Dice::new(7)), Deed::round(&mut Dice::new(7)));
        assert_eq!(one, two);
        assert!(Deed::ALL.iter().all(|deed| one.contains(deed)));
        let others: Vec<_> = (0..20).map(|seed| Deed::round(&mut Dice::new(seed))).collect();
        assert!(others.iter().any(|other| *other != one));
    }
}
