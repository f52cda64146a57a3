//! Writes what the fuzz targets begin with: `cargo run -p proto-tests --example fuzz_seeds -- DIR`
//! makes `DIR/<target>/seed-<n>`.

use std::path::PathBuf;
use std::{env, fs, io};

use proto_tests::targets::TARGETS;

fn main() -> io::Result<()> {
    let dir = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "fuzz/seeds".to_owned()));
    for target in TARGETS {
        fs::create_dir_all(dir.join(target.name))?;
        for (at, seed) in (target.seeds)().iter().enumerate() {
            fs::write(dir.join(target.name).join(format!("seed-{at}")), seed)?;
        }
    }
    Ok(())
}
