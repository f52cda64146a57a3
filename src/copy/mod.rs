//! Floor 2: copying one partition, as a state machine. No I/O, no clock.

mod copier;
mod counts;
mod halt;
mod path;
mod window;

pub use copier::{Copier, Effect, Outcome, Start, Terms, Wish};
pub use counts::Counts;
pub use halt::{Doubt, HaltReason};
pub use path::{Merging, Path};
pub use window::WINDOW_BATCHES_MAX;
