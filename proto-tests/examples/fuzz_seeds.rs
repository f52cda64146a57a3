//! Writes what the fuzz targets begin with: `cargo run -p proto-tests --example fuzz_seeds -- DIR`
//! makes `DIR/<target>/seed-<n>`.

use std::path::PathBuf;
use std::{env, fs, io};

use proto_tests::targets::{TARGETS, seeds};

fn main() -> io::Result<()> {
    let dir = PathBuf::from(env::args().nth(1).unwrap_or_else(|| "fuzz/seeds".to_owned()));
    for (target, _) in TARGETS {
        fs::create_dir_all(dir.join(target))?;
        for (at, seed) in seeds(target).iter().enumerate() {
            fs::write(dir.join(target).join(format!("seed-{at}")), seed)?;
        }
    }
    Ok(())
}
