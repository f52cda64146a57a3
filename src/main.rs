//! The `heliograph` program.

use std::process::ExitCode;

/// musl's own allocator takes one lock for everything: measured sixteen times slower on small
/// objects in two threads, and two hundred times on frames of a megabyte.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[cfg(target_env = "musl")]
#[expect(unsafe_code, reason = "the crate that we have the allocator from has no other way to it")]
fn give_back() {
    // SAFETY: it takes no pointer and gives none, and may be called by any thread at any time; it
    // frees nothing that is in use.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// Other allocators are left to themselves.
#[cfg(not(target_env = "musl"))]
fn give_back() {}

fn main() -> ExitCode {
    heliograph::app::main(give_back)
}
