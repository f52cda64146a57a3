//! The `heliograph` program.

fn main() {}
