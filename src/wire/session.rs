//! One connection's requests in flight: correlation, answer order, deadlines, poison.
//!
//! A broker answers the requests of one connection in their order. A session remembers what is
//! asked for and matches answers to it; it holds no socket and reads no clock. After the first
//! fault it is poisoned: nothing is sent any more, and every waiting ticket gets the fault.

use std::collections::VecDeque;
use std::time::Duration;

use super::{Api, Malformed};
use crate::model::Moment;

/// Whether a request that got no answer may have been carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Not a byte of it left: it was not carried out.
    Unsent,
    /// Some of it left, no answer came: it may have been carried out.
    Unknown,
    /// The broker said no.
    Refused,
}

/// What a correct broker would not do, or a connection that ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerFault {
    /// The answer belongs to another request.
    #[error("answer {found} came where answer {expected} was due")]
    Correlation {
        /// Correlation id of the oldest request in flight.
        expected: i32,
        /// Correlation id of the answer.
        found: i32,
    },
    /// An answer that nobody asked for.
    #[error("answer {0} came though nothing was asked")]
    Unsolicited(i32),
    /// A frame too short for its header.
    #[error("answer is cut short: {0}")]
    Short(Malformed),
    /// No answer in time.
    #[error("no answer to {api} within {waited_ms} ms")]
    Silent {
        /// The request that was not answered.
        api: Api,
        /// How long it was waited for.
        waited_ms: u128,
    },
}

/// A request in flight and who waits for it.
#[derive(Debug)]
pub struct Ticket<T> {
    /// Which request.
    pub api: Api,
    /// In which version.
    pub version: i16,
    /// Who waits.
    pub waiter: T,
    correlation: i32,
    sent: Moment,
    deadline: Moment,
}

/// The state of one connection, without its socket.
#[derive(Debug)]
pub struct Session<T> {
    next: i32,
    in_flight: VecDeque<Ticket<T>>,
    poison: Option<PeerFault>,
}

impl<T> Default for Session<T> {
    fn default() -> Self {
        Self { next: 0, in_flight: VecDeque::new(), poison: None }
    }
}

impl<T> Session<T> {
    /// Takes note of a request about to be written and gives its correlation id.
    ///
    /// # Errors
    ///
    /// The waiter back, with the fault, once the session is poisoned.
    pub fn send(
        &mut self,
        (api, version): (Api, i16),
        waiter: T,
        now: Moment,
        patience: Duration,
    ) -> Result<i32, (T, PeerFault)> {
        if let Some(fault) = &self.poison {
            return Err((waiter, fault.clone()));
        }
        let correlation = self.next;
        self.next = self.next.wrapping_add(1) & i32::MAX;
        let deadline = now.after(patience);
        self.in_flight.push_back(Ticket { api, version, waiter, correlation, sent: now, deadline });
        Ok(correlation)
    }

    /// Matches an answer by its first four bytes.
    ///
    /// # Errors
    ///
    /// The fault, by which the session is poisoned from here on.
    pub fn on_answer(&mut self, correlation: i32) -> Result<Ticket<T>, PeerFault> {
        let fault = match self.in_flight.front() {
            Some(oldest) if oldest.correlation == correlation => {
                return Ok(self.in_flight.pop_front().expect("`front` was there"));
            }
            Some(oldest) => {
                PeerFault::Correlation { expected: oldest.correlation, found: correlation }
            }
            None => PeerFault::Unsolicited(correlation),
        };
        self.poison = Some(fault.clone());
        Err(fault)
    }

    /// When [`Session::on_deadline`] wants to be called: the earliest deadline in flight.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Moment> {
        // At most a handful are in flight, and patience differs between them.
        self.in_flight.iter().map(|ticket| ticket.deadline).min()
    }

    /// Poisons the session if a request has waited too long.
    ///
    /// One late answer ends the connection: answers come in order, so everything behind it is
    /// late as well, and the broker may be gone without a word.
    pub fn on_deadline(&mut self, now: Moment) -> Option<PeerFault> {
        let late = self.in_flight.iter().find(|ticket| ticket.deadline <= now)?;
        let fault =
            PeerFault::Silent { api: late.api, waited_ms: now.since(late.sent).as_millis() };
        self.poison = Some(fault.clone());
        Some(fault)
    }

    /// How many requests are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Ends the session: every waiter that will get no answer, oldest first.
    pub fn close(&mut self, fault: PeerFault) -> impl Iterator<Item = Ticket<T>> {
        self.poison.get_or_insert(fault);
        self.in_flight.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    fn session() -> Session<&'static str> {
        let mut session = Session::default();
        for (waiter, sent) in [("first", 0), ("second", 10)] {
            session
                .send((Api::Fetch, 12), waiter, at(sent), Duration::from_millis(100))
                .expect("not poisoned");
        }
        session
    }

    #[test]
    fn answers_are_matched_in_the_order_of_requests() {
        let mut session = session();
        assert_eq!(session.on_answer(0).unwrap().waiter, "first");
        assert_eq!(session.on_answer(1).unwrap().waiter, "second");
        assert_eq!(session.on_answer(2).unwrap_err(), PeerFault::Unsolicited(2));
    }

    #[test]
    fn after_a_wrong_correlation_id_nothing_is_sent_any_more() {
        let mut session = session();
        let fault = session.on_answer(1).unwrap_err();
        assert_eq!(fault, PeerFault::Correlation { expected: 0, found: 1 });

        let sent = session.send((Api::Fetch, 12), "third", at(20), Duration::from_secs(1));
        assert_eq!(sent.unwrap_err(), ("third", fault.clone()));
        let left: Vec<_> = session.close(fault).map(|ticket| ticket.waiter).collect();
        assert_eq!(left, ["first", "second"]);
    }

    #[test]
    fn the_deadline_is_that_of_the_oldest_request() {
        let mut session = session();
        assert_eq!(session.next_deadline(), Some(at(100)));
        assert_eq!(session.on_deadline(at(99)), None);
        assert_eq!(
            session.on_deadline(at(100)),
            Some(PeerFault::Silent { api: Api::Fetch, waited_ms: 100 })
        );
        assert!(session.send((Api::Fetch, 12), "late", at(101), Duration::ZERO).is_err());
    }
}
