//! What is done to requests, from a seed.

use std::time::Duration;

use super::rng::Rng;
use crate::broker::{Action, Arrived, Faults, Plan, api};

/// How rough a run is: how many requests of a thousand something happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Requests that are answered late.
    pub slow: u64,
    /// Requests whose connection ends.
    pub broken: u64,
    /// Requests that are refused.
    pub refused: u64,
    /// Requests that get no answer.
    pub silent: u64,
    /// Calls that are refused.
    pub unreachable: u64,
}

impl Weather {
    /// Nothing happens.
    pub const CALM: Self = Self { slow: 0, broken: 0, refused: 0, silent: 0, unreachable: 0 };

    /// Some weather.
    pub fn from_seed(rng: &mut Rng) -> Self {
        match rng.below(4) {
            0 => Self::CALM,
            1 => Self { slow: 50, broken: 5, refused: 10, silent: 0, unreachable: 10 },
            2 => Self { slow: 100, broken: 30, refused: 40, silent: 3, unreachable: 50 },
            _ => Self { slow: 30, broken: 100, refused: 100, silent: 10, unreachable: 200 },
        }
    }
}

/// A seeded source of faults.
#[derive(Debug)]
pub struct Seeded {
    rng: Rng,
    weather: Weather,
}

impl Seeded {
    /// Faults of this weather.
    #[must_use]
    pub fn new(rng: Rng, weather: Weather) -> Self {
        Self { rng, weather }
    }
}

/// Codes that a broker answers for passing reasons, without having done anything.
fn passing(api: i16) -> &'static [i16] {
    match api {
        api::PRODUCE => &[3, 5, 6, 7, 19, 56],
        api::FETCH => &[3, 5, 6, 9, 56, 70, 71, 74, 75, 78],
        api::LIST_OFFSETS => &[5, 6, 9, 74, 75, 78],
        api::METADATA => &[5],
        api::CREATE_TOPICS | api::CREATE_PARTITIONS => &[7, 41, 89],
        api::INIT_PRODUCER_ID => &[14, 15, 16],
        api::DESCRIBE_CONFIGS => &[-1],
        _ => &[],
    }
}

/// Codes that may come although the request was carried out.
fn doubtful(api: i16) -> &'static [i16] {
    match api {
        api::PRODUCE => &[7, 20],
        _ => &[],
    }
}

impl Faults for Seeded {
    fn plan(&mut self, request: Arrived) -> Plan {
        let (rng, weather) = (&mut self.rng, self.weather);
        let mut plan = Plan::PASS;
        if rng.chance(weather.slow) {
            let most = *rng.pick(&[5, 50, 500, 4000]);
            let wait = Duration::from_millis(rng.below(most));
            if rng.chance(500) { plan.before = wait } else { plan.after = wait }
        }
        plan.action = if rng.chance(weather.broken) {
            match rng.below(5) {
                0 => Action::Close,
                1 | 2 => Action::ApplyThenClose,
                3 => Action::Cut(rng.index(60)),
                _ => Action::AnswerThenClose,
            }
        } else if rng.chance(weather.refused) {
            let (passing, doubtful) = (passing(request.api), doubtful(request.api));
            if !doubtful.is_empty() && rng.chance(500) {
                Action::ApplyThenRefuse(*rng.pick(doubtful))
            } else if passing.is_empty() {
                Action::Pass
            } else {
                Action::Refuse(*rng.pick(passing))
            }
        } else if rng.chance(weather.silent) {
            if rng.chance(500) { Action::Silence } else { Action::ApplyThenSilence }
        } else if rng.chance(weather.slow / 4) {
            let throttles = matches!(
                request.api,
                api::PRODUCE | api::FETCH | api::LIST_OFFSETS | api::INIT_PRODUCER_ID
            );
            let ms = i32::try_from(rng.below(800)).unwrap_or(0);
            if throttles { Action::Throttle(ms) } else { Action::Pass }
        } else {
            Action::Pass
        };
        plan
    }

    fn refuses_call(&mut self, _node: i32) -> bool {
        self.rng.chance(self.weather.unreachable)
    }

    fn left_behind(&mut self) -> Option<Duration> {
        let rng = &mut self.rng;
        let wait = Duration::from_millis(rng.below(2000));
        (!rng.chance(200)).then_some(wait)
    }
}
