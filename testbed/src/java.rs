//! How a JVM of the test bed is started: class path, flags, logging, class archive.

use std::path::PathBuf;

use anyhow::Result;

use crate::install;
use crate::process::Spawn;
use crate::version::Version;

/// What a JVM is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jvm {
    /// Quick to start and small: the first compiler only, one garbage collector thread, a class archive.
    Functional { heap_mib: u32 },
    /// For the agent: the best compiler and all processors, since fills and comparisons are long, and an archive.
    Agent { heap_mib: u32 },
    /// Writes the class archive of its program when it ends in an orderly way; `setup` does that once.
    Training,
    /// As fast as Kafka's own start scripts make it, for measuring.
    Measured { heap_mib: u32 },
}

impl Jvm {
    /// Smallest heap at which brokers of all versions run without care.
    pub const BROKER: Self = Self::Functional { heap_mib: 256 };

    fn flags(self) -> Vec<String> {
        let (heap_mib, flags): (u32, &[&str]) = match self {
            Self::Functional { heap_mib } => {
                (heap_mib, &["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            }
            Self::Agent { heap_mib } => (heap_mib, &["-XX:+UseParallelGC", "-Xshare:auto"]),
            Self::Training => {
                (384, &["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
            }
            // What `kafka-run-class.sh` of 4.3.1 passes, and no archive: users have none.
            Self::Measured { heap_mib } => (
                heap_mib,
                &[
                    "-server",
                    "-XX:+UseG1GC",
                    "-XX:MaxGCPauseMillis=20",
                    "-XX:InitiatingHeapOccupancyPercent=35",
                    "-XX:+ExplicitGCInvokesConcurrent",
                    "-XX:MaxInlineLevel=15",
                ],
            ),
        };
        let mut all = vec![format!("-Xmx{heap_mib}m")];
        all.extend(flags.iter().map(ToString::to_string));
        // An archive that does not fit this JVM is passed over; no line about that in a broker's log.
        all.extend(["-Xlog:disable", "-Xlog:all=error:stderr"].map(String::from));
        all
    }
}

/// Which class archive a JVM uses: one per program and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Archive {
    Broker,
    Agent,
    Mm2,
}

impl Archive {
    const fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Agent => "agent",
            Self::Mm2 => "mm2",
        }
    }

    pub(crate) fn path(self, version: Version) -> PathBuf {
        // The agent's goes with its jar: an archive of another jar would be of no use.
        if let (Self::Agent, Ok(dir)) = (self, install::agent_dir()) {
            return dir.join("agent.jsa");
        }
        install::cache().join("archives").join(format!("{}-{version}.jsa", self.name()))
    }

    /// Where a training run writes it; `setup` gives it its name.
    pub(crate) fn partial_path(self, version: Version) -> PathBuf {
        install::cache().join(format!("partial-archives/{}-{version}.jsa", self.name()))
    }
}

/// The command that runs `class` on the jars of `version`; the caller adds arguments.
pub fn command(
    name: impl Into<String>,
    version: Version,
    jvm: Jvm,
    archive: Archive,
    class: &str,
    log: impl Into<PathBuf>,
) -> Result<Spawn> {
    let kafka = install::kafka(version)?;
    let java = install::java_dir();
    let mut flags = jvm.flags();
    match jvm {
        Jvm::Measured { .. } => {}
        Jvm::Training => {
            flags.push(format!(
                "-XX:ArchiveClassesAtExit={}",
                archive.partial_path(version).display()
            ));
        }
        Jvm::Functional { .. } | Jvm::Agent { .. } => {
            let path = archive.path(version);
            if path.exists() {
                flags.push(format!("-XX:SharedArchiveFile={}", path.display()));
            }
        }
    }
    Ok(Spawn::new(name, "java", log)
        // In the environment rather than in the arguments: `ps` stays readable, and no shell sees a star.
        .env("CLASSPATH", kafka.class_path())
        .args(flags)
        .arg(format!("-Dlog4j2.configurationFile={}", java.join("log4j2.properties").display()))
        .arg(format!("-Dlog4j.configuration=file:{}", java.join("log4j.properties").display()))
        .arg(class))
}
