//! Floor 2: copying one partition, as a state machine. No I/O, no clock.

mod copier;
mod halt;
mod window;

pub use copier::{Copier, Counts, Effect, Outcome, Start, Terms, Wish};
pub use halt::{Doubt, HaltReason};
pub use window::WINDOW_BATCHES_MAX;
