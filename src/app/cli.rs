//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::report::{Exit, Failure};
use super::{check, run};
use crate::flow::GiveBack;
use crate::telemetry::log::{self, Format};

/// Mirrors Apache Kafka clusters: MirrorMaker 2's job, from MirrorMaker 2's own file.
#[derive(Debug, Parser)]
#[command(name = "heliograph", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// What to log: a level, or levels by module (`info`, `debug`, `heliograph::flow=debug`).
    /// Unless given, `run` logs at `info` and `check` nothing.
    #[arg(long, global = true, env = "HELIOGRAPH_LOG")]
    log: Option<String>,

    /// How log lines look.
    #[arg(long, global = true, default_value = "text", env = "HELIOGRAPH_LOG_FORMAT")]
    log_format: Format,
}

/// Rust's own exit code for a panic of the main thread.
const PANICKED: i32 = 101;

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the flows of a properties file until SIGTERM or SIGINT.
    ///
    /// Exit codes: 0 drained; 1 failed while running; 2 usage or configuration; 4 drained late,
    /// or not at all.
    Run {
        /// MirrorMaker 2 properties file.
        file: PathBuf,

        /// Run only the flows into these clusters.
        #[arg(long, value_name = "ALIAS", num_args = 1..)]
        clusters: Vec<String>,
    },

    /// Say what `run` would do, and what it may not, without changing anything.
    ///
    /// Reaches both clusters of each flow; says where each partition would begin and why; asks
    /// which rights the principal has, and names the kafka-acls commands for what is missing.
    ///
    /// Exit codes: 0 all is well; 2 usage or configuration; 3 something would not work.
    Check {
        /// MirrorMaker 2 properties file.
        file: PathBuf,

        /// Check only the flows into these clusters.
        #[arg(long, value_name = "ALIAS", num_args = 1..)]
        clusters: Vec<String>,

        /// Write JSON, with every partition.
        #[arg(long)]
        json: bool,
    },
}

/// A panic in any task or thread ends the process: half a mirror that looks alive is worse than
/// none, which whoever supervises the process starts again.
fn die_of_panics() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(PANICKED);
    }));
}

/// Runs the program with its arguments and gives its exit code. `give_back` gives memory that the
/// calling thread does not use back to the system.
#[must_use]
pub fn main(give_back: GiveBack) -> ExitCode {
    die_of_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(message) => {
            // Help and version are no errors. If nobody reads, nobody is told.
            let exit = if message.use_stderr() { Exit::Usage } else { Exit::Done };
            drop(message.print());
            return exit.into();
        }
    };
    let quiet = if matches!(cli.command, Command::Run { .. }) { "info" } else { "off" };
    let level = cli.log.as_deref().unwrap_or(quiet);
    let outcome = log::start(level, cli.log_format)
        .map_err(|error| Failure::usage(format!("--log {level}: {error}")))
        .and_then(|()| match cli.command {
            Command::Run { file, clusters } => run::run(&file, &clusters, give_back),
            Command::Check { file, clusters, json } => check::check(&file, &clusters, json),
        });
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            log::tell(&failure);
            failure.exit.into()
        }
    }
}
