//! What every fuzz target is made of: the bodies, and the allocator that counts for them.

use peak_alloc::PeakAlloc;

pub use proto_tests::targets::run;

/// Targets hold memory to the size of their input.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;
