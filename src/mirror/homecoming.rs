//! Groups that used a copy, on their way home.
//!
//! A group that moved to the copy of a topic and read on there finds its place in the original,
//! where flows run both ways. But most of what groups have committed on a copy was put there by
//! the flow that made it. That must never travel back: two offsets of the original may be one in
//! the copy, and a group at home would be moved past records that it has not read, or set forward
//! again after somebody set it back.
//!
//! So a place goes home if somebody used it there, goes home once, and only for a group that stands
//! at home within what is copied and before what it read there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::client::Committed;
use crate::flow::Offsets;
use crate::model::{Offset, TopicPartition};

/// A group, and a partition that it has an offset of.
pub(super) type Place = (String, TopicPartition);

/// What a flow has put on its target, by place there; shared with the flow the other way.
#[derive(Clone, Debug, Default)]
pub struct Placed(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What was committed last, since the process began.
    put: BTreeMap<Place, Offset>,
    /// What is being committed, or may have been.
    putting: BTreeMap<Place, Offset>,
    /// What checkpoints said when they were read first; `None` while they are not known.
    checkpoints: Option<BTreeMap<Place, Offset>>,
}

/// Whose doing it is that a group stands where it does on a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Flows,
    Groups,
    /// A former process may have put it there.
    Unclear,
}

impl Placed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes notice of all checkpoints there were, the first time; says whether it is that.
    pub(super) fn know(&self, checkpoints: impl Iterator<Item = (Place, Offset)>) -> bool {
        let mut state = self.state();
        let first = state.checkpoints.is_none();
        state.checkpoints.get_or_insert_with(|| checkpoints.collect());
        first
    }

    /// These are about to be committed.
    pub(super) fn putting(&self, places: impl Iterator<Item = (Place, Offset)>) {
        self.state().putting.extend(places);
    }

    /// A commit was answered.
    pub(super) fn answered(&self, place: Place, done: bool) {
        let mut state = self.state();
        let offset = state.putting.remove(&place);
        if let Some(offset) = offset.filter(|_| done) {
            state.put.insert(place, offset);
        }
    }

    fn whose(&self, place: &Place, offset: Offset) -> Whose {
        let state = self.state();
        let put = state.put.get(place);
        let is_ours = |ours: Option<&Offset>| ours == Some(&offset);
        if is_ours(put) || is_ours(state.putting.get(place)) {
            return Whose::Flows;
        }
        if put.is_some() {
            return Whose::Groups;
        }
        match state.checkpoints.as_ref().map(|all| all.get(place)) {
            Some(Some(checkpoint)) if *checkpoint == offset => Whose::Flows,
            // Whatever was put there, its checkpoint would be there too.
            Some(None) if !state.putting.contains_key(place) => Whose::Groups,
            Some(_) | None => Whose::Unclear,
        }
    }
}

/// The flow that made the copies.
#[derive(Clone, Debug)]
pub struct WayThere {
    /// Where it put which offset.
    pub offsets: watch::Receiver<Option<Offsets>>,
    /// What it committed for groups.
    pub placed: Placed,
}

/// Which places were used, and which of them have gone home.
#[derive(Debug, Default)]
pub(super) struct Homecoming {
    /// Where groups stood on copies at the last look.
    seen: BTreeMap<Place, Offset>,
    /// Every group's offsets were seen at the last look.
    complete: bool,
    /// Places that somebody moved since the process began.
    moved: BTreeMap<Place, Offset>,
    /// What has gone home, by the place at home: where the group stood on the copy.
    done: BTreeMap<Place, Offset>,
}

impl Homecoming {
    /// Takes notice that this went home, in this process or one before it.
    pub(super) fn done(&mut self, home: Place, there: Offset) {
        self.done.insert(home, there);
    }

    pub(super) fn is_done(&self, home: &Place, there: Offset) -> bool {
        self.done.get(home) == Some(&there)
    }

    /// Whether the group has used its place on the copy since it was put there, as far as is known.
    ///
    /// Members of most clients say the leader epoch of what they read; the mirror says none. Where
    /// that is not said, a place counts as used if it was never put there, or if it was seen to
    /// move: what a former process may have put there does not.
    pub(super) fn is_used(&mut self, placed: &Placed, place: &Place, there: &Committed) -> bool {
        let before = self.seen.insert(place.clone(), there.offset);
        match placed.whose(place, there.offset) {
            Whose::Flows => {
                self.moved.remove(place);
                return false;
            }
            Whose::Groups => return true,
            Whose::Unclear => {}
        }
        if there.epoch.is_known() {
            return true;
        }
        let moved = match before {
            Some(before) => before != there.offset,
            None => self.complete,
        };
        if moved {
            self.moved.insert(place.clone(), there.offset);
        }
        self.moved.get(place) == Some(&there.offset)
    }

    /// A look at all groups came to its end; `complete` if each of them could be seen.
    pub(super) fn looked(&mut self, complete: bool) {
        self.complete = complete;
    }
}

/// Which places at home stay as they are, and why, if that is to be told.
pub(super) type Staying = BTreeMap<Place, Option<String>>;

/// A group that may go home.
#[derive(Debug)]
pub(super) struct Returning {
    /// Its place at home.
    pub(super) place: Place,
    /// Where it stands there.
    pub(super) at: Offset,
    /// Where it stood on the copy.
    pub(super) there: Offset,
    /// What it has not read at home begins here on the copy; `None` where the copy does not reach
    /// back to it.
    pub(super) unread_at: Option<Offset>,
}

/// Which of these groups stay where they are at home: what they read on the copy lies before it, or
/// the copy does not reach back to where they are.
pub(super) fn staying(returning: Vec<Returning>) -> Staying {
    let stays = |one: Returning| match one.unread_at {
        Some(unread) if one.there > unread => None,
        Some(_) => Some((one.place, None)),
        None => {
            let why = format!(
                "{}: stays at {} of {}, though it read the copy up to {}: that does not reach back so \
                 far, and the group would miss what lies between",
                one.place.0, one.at, one.place.1, one.there
            );
            Some((one.place, Some(why)))
        }
    };
    returning.into_iter().filter_map(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LeaderEpoch;

    fn place(group: &str) -> Place {
        (group.to_owned(), TopicPartition::new("a.t", 0))
    }

    fn at(offset: i64, epoch: i32) -> Committed {
        Committed { offset: Offset(offset), epoch: LeaderEpoch(epoch), metadata: String::new() }
    }

    fn put(placed: &Placed, group: &str, offset: i64) {
        placed.putting([(place(group), Offset(offset))].into_iter());
        placed.answered(place(group), true);
    }

    #[test]
    fn what_the_flow_put_there_never_goes_home_and_what_a_member_read_does() {
        let (placed, mut home) = (Placed::default(), Homecoming::default());
        assert!(placed.know(std::iter::empty()));
        assert!(!placed.know([(place("g"), Offset(150))].into_iter()));
        put(&placed, "g", 100);
        assert!(!home.is_used(&placed, &place("g"), &at(100, -1)));
        // By whoever moves it, with an epoch or without.
        assert!(home.is_used(&placed, &place("g"), &at(150, -1)));
        assert!(home.is_used(&placed, &place("g"), &at(150, 3)));
        put(&placed, "g", 200);
        assert!(!home.is_used(&placed, &place("g"), &at(200, -1)));
        // A commit without an answer may be there all the same.
        placed.putting([(place("g"), Offset(300))].into_iter());
        assert!(!home.is_used(&placed, &place("g"), &at(300, -1)));
        // One that was refused is not; what is there is what was put before.
        placed.answered(place("g"), false);
        assert!(!home.is_used(&placed, &place("g"), &at(200, -1)));
    }

    #[test]
    fn what_a_former_process_put_there_does_not_go_home_even_if_it_was_set_back_since() {
        let (placed, mut home) = (Placed::default(), Homecoming::default());
        let known = [("g", 100), ("set back", 0), ("reader", 40)];
        let known = known.into_iter().map(|(group, at)| (place(group), Offset(at)));
        assert!(placed.know(known));
        for round in 0..3 {
            assert!(!home.is_used(&placed, &place("g"), &at(100, -1)), "{round}");
            assert!(!home.is_used(&placed, &place("set back"), &at(100, -1)), "{round}");
            // A member's commit says the epoch; a group that has no checkpoint was never put there.
            assert!(home.is_used(&placed, &place("reader"), &at(50, 7)), "{round}");
            assert!(home.is_used(&placed, &place("new"), &at(50, -1)), "{round}");
            home.looked(true);
        }
        // Without an epoch it is used once it is seen to move, and stays so.
        for _ in 0..2 {
            assert!(home.is_used(&placed, &place("set back"), &at(120, -1)));
        }
    }

    #[test]
    fn without_checkpoints_only_what_is_seen_to_move_is_used() {
        let (placed, mut home) = (Placed::default(), Homecoming::default());
        assert!(!home.is_used(&placed, &place("g"), &at(100, -1)));
        // A group that could not be seen has not come since.
        home.looked(false);
        assert!(!home.is_used(&placed, &place("hidden"), &at(100, -1)));
        home.looked(true);
        assert!(home.is_used(&placed, &place("came"), &at(100, -1)));
        assert!(home.is_used(&placed, &place("g"), &at(101, -1)));
    }

    #[test]
    fn a_group_stays_where_the_copy_does_not_reach_or_where_it_read_as_much_at_home() {
        let staying = |there, unread_at: Option<i64>| {
            let (at, there, unread_at) = (Offset(10), Offset(there), unread_at.map(Offset));
            staying(vec![Returning { place: place("g"), at, there, unread_at }]).remove(&place("g"))
        };
        assert_eq!(staying(30, Some(20)), None);
        assert_eq!(staying(20, Some(20)), Some(None));
        let told = staying(30, None).flatten();
        assert!(told.is_some_and(|why| why.contains("stays at 10 of a.t-0")));
    }
}
