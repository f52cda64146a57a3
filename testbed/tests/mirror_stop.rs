//! How the mirror ends: 0 when all is drained, 4 when a dead cluster keeps it from that, at once when told twice.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in its helpers")]

use std::fs::File;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use testbed::admin::Topic;
use testbed::cluster::Cluster;
use testbed::compare::Comparison;
use testbed::fill::{Codec, Fill};
use testbed::flow::FlowFile;
use testbed::mirror::{Mirror, heliograph_binary};
use testbed::scratch::Scratch;

const COPY_WAIT: Duration = Duration::from_secs(120);

/// With both clusters there, draining is a matter of seconds.
const DRAINED_WITHIN: Duration = Duration::from_secs(10);

/// With one of them dead, draining is given up.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(30);

/// "At once", on a loaded machine.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The exit code that says: not everything was drained.
const NOT_DRAINED: i32 = 4;

/// A mirror in the middle of live records.
fn running() -> (Cluster, Cluster, Mirror, testbed::fill::Filling) {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t").partitions(4)).unwrap();
    let live = Fill::new("t", 1_000_000).codec(Codec::Lz4).rate(5_000.0);
    let filling = source.fill_in_background(&live).unwrap();
    let mirror = Mirror::heliograph(&FlowFile::one_way(("s", &source), ("t", &target))).unwrap();
    target.await_end_offsets("s.t", 5_000, COPY_WAIT).unwrap();
    (source, target, mirror, filling)
}

#[test]
fn a_term_in_the_middle_of_a_copy_ends_with_0_within_ten_seconds_and_the_copy_goes_on_later() {
    let (source, target, mut mirror, filling) = running();

    let exit = mirror.terminate(DRAINED_WITHIN).unwrap();
    assert_eq!((exit.code, exit.signal), (Some(0), None), "{}", mirror.last_words());

    mirror.launch().unwrap();
    thread::sleep(Duration::from_secs(1));
    filling.stop().unwrap();
    Comparison::new(&source, "t", &target, "s.t")
        .wait(COPY_WAIT)
        .must_be_copied_by(&mirror)
        .unwrap();
}

#[test]
fn a_term_at_the_very_start_ends_with_0() {
    let (source, target) = Cluster::pair().unwrap();
    let mut mirror =
        Mirror::heliograph(&FlowFile::one_way(("s", &source), ("t", &target))).unwrap();
    // Long enough for its signal handler, not for much else.
    thread::sleep(Duration::from_millis(100));

    let exit = mirror.terminate(DRAINED_WITHIN).unwrap();

    assert_eq!((exit.code, exit.signal), (Some(0), None), "{}", mirror.last_words());
}

#[test]
fn with_a_dead_target_a_term_ends_with_4_within_thirty_seconds() {
    let (_source, mut target, mut mirror, filling) = running();
    target.kill9_all().unwrap();
    // The copy has something in flight for sure.
    thread::sleep(Duration::from_millis(500));

    let exit = mirror.terminate(GIVEN_UP_WITHIN).unwrap();

    assert_eq!((exit.code, exit.signal), (Some(NOT_DRAINED), None), "{}", mirror.last_words());
    filling.stop().unwrap();
}

#[test]
fn a_second_term_ends_it_at_once() {
    let (_source, mut target, mut mirror, filling) = running();
    target.kill9_all().unwrap();
    thread::sleep(Duration::from_millis(500));
    mirror.signal_term().unwrap();
    thread::sleep(Duration::from_secs(1));
    assert!(
        mirror.is_running(),
        "the first signal did not even try to drain. {}",
        mirror.last_words()
    );

    mirror.signal_term().unwrap();
    let exit = mirror.wait(AT_ONCE).unwrap();

    assert_ne!(exit.code, Some(0), "{}", mirror.last_words());
    filling.stop().unwrap();
}

/// A disk that is full, and a reader that has gone: neither is a reason to copy no more. SIGHUP ends it in order, also
/// with SIGTERM right behind it, as from a terminal that closes.
#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    let (source, target) = Cluster::pair().unwrap();
    source.create_topic(&Topic::new("t")).unwrap();
    let scratch = Scratch::new("no-log").unwrap();
    let flow = FlowFile::one_way(("s", &source), ("t", &target));
    let file = flow.write(scratch.path(), "mm2.properties").unwrap();
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    let mut copied = 0;
    for gone in [false, true] {
        let mut command = Command::new(heliograph_binary().unwrap());
        command.args(["--log", "debug", "run"]).arg(&file);
        command.stdout(full()).stderr(if gone { Stdio::piped() } else { full() });
        let mut mirror = command.spawn().unwrap();
        // Nobody reads what it says from here on.
        drop(mirror.stderr.take());
        source.fill(&Fill::new("t", 100).first(copied)).unwrap();
        copied += 100;
        target.await_end_offsets("s.t", copied, COPY_WAIT).unwrap();
        assert_eq!(mirror.try_wait().unwrap(), None, "gone: {gone}");
        let both = format!("kill -HUP {0}; kill -TERM {0}", mirror.id());
        assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
        assert_eq!(mirror.wait().unwrap().code(), Some(0), "drained; gone: {gone}");
    }
    let check = |stdout: Stdio| {
        let mut command = Command::new(heliograph_binary().unwrap());
        command.arg("check").arg(&file).stdout(stdout).output().unwrap()
    };
    let said = check(full());
    let words = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1), "{words}");
    assert!(words.contains("cannot be written") && !words.contains("panicked"), "{words}");
}
