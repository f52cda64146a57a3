//! The real MirrorMaker 2, dedicated mode, as its start script runs it.

use std::path::Path;

use anyhow::Result;

use crate::java::{self, Archive, Jvm};
use crate::process::Spawn;
use crate::version::Version;

/// What `connect-mirror-maker.sh` of 4.3.1 gives the JVM unless told otherwise.
pub const SCRIPT_HEAP_MIB: u32 = 2_048;

/// The command; arguments such as `--clusters t` may follow.
pub(crate) fn command(file: &Path, log: &Path, jvm: Jvm) -> Result<Spawn> {
    let class = "org.apache.kafka.connect.mirror.MirrorMaker";
    let command = java::command("MirrorMaker 2", Version::CLIENTS, jvm, Archive::Mm2, class, log)?;
    Ok(command.arg(file.display().to_string()))
}
