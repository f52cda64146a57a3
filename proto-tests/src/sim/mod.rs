//! Simulation: a whole flow between two scripted clusters, under a seeded script and seeded
//! faults, on a clock that jumps; and the judge of what came out.
//!
//! | what | where |
//! |---|---|
//! | the one source of chance | [`rng`] |
//! | what the source holds, and what became of every record | [`world`] |
//! | what happens, and when, from a seed | [`script`] |
//! | what is done to requests, from a seed | [`seeded`] |
//! | what the mirror says | [`capture`] |
//! | a run from its first record to its last commit | [`run()`] |
//! | the invariants | [`judge()`] |
//!
//! One thread and a paused clock: the same seed gives the same trace, request by request
//! (`the_same_seed_gives_the_same_trace`). A mirror is killed by dropping the runtime it runs on.

pub mod capture;
pub mod judge;
pub mod rng;
pub mod run;
pub mod script;
pub mod seeded;
pub mod world;

pub use judge::{Evidence, Violation, judge};
pub use rng::Rng;
pub use run::{Options, Outcome, run};
