//! Programs and checkers that run in folders.

use crate::Fixture;
use iodyno_crashtest::{Change, Ended, Event, Program, Tree};
use std::time::{Duration, Instant};

fn program(words: &[&str], time_limit_s: u64) -> Program {
    Program {
        words: words.iter().map(Into::into).collect(),
        environment: vec![("GIVEN".into(), "value".into())],
        time_limit: Duration::from_secs(time_limit_s),
        stop: std::sync::Arc::default(),
    }
}

fn output(events: &[Event]) -> Vec<u8> {
    let bytes = events.iter().filter_map(|event| match event {
        Event::Output(bytes) => Some(bytes.as_slice()),
        _ => None,
    });
    bytes.collect::<Vec<_>>().concat()
}

#[test]
fn output_is_recorded_between_the_operations_around_it() {
    let fixture = Fixture::new();
    let folder = fixture.recording();
    let script = "
import os
f = os.open('log', os.O_WRONLY | os.O_CREAT, 0o640)
for i in range(500):
    os.pwrite(f, b'%5d' % i, 5 * i)
    os.fsync(f)
    os.write(1, b'%5d' % i)
assert os.environ['IODYNO_DIR'] == os.getcwd() and os.environ['GIVEN'] == 'value'
";
    let ended = program(&["python3", "-c", script], 60);
    let ran = ended.record(&fixture.folders, "recorded", &folder).unwrap();
    assert!(matches!(ran.ended, Ended::Exited(status) if status.success()));
    assert_eq!(ran.left_running, 0);
    let (_, events) = fixture.replayed();
    let (mut written, mut synced, mut expected) = (0, 0, Vec::new());
    for (number, event) in events.iter().enumerate() {
        match event {
            Event::Change(Change::Write { data, .. }) => {
                // All that was printed before this write comes before it.
                assert_eq!(output(&events[..number]), expected);
                assert_eq!(**data, *format!("{written:5}").as_bytes());
                expected.extend_from_slice(data);
                written += 1;
            }
            Event::Sync { .. } => synced += 1,
            Event::Output(_) => assert_eq!(synced, written, "printed before its fsync"),
            _ => {}
        }
    }
    assert_eq!((written, output(&events).len()), (500, 2500));
}

#[test]
fn long_output_needs_no_operation() {
    let fixture = Fixture::new();
    let folder = fixture.recording();
    let ended = program(&["sh", "-c", "head -c 3000000 /dev/zero; exit 3"], 60);
    let ran = ended.record(&fixture.folders, "recorded", &folder).unwrap();
    assert!(matches!(ran.ended, Ended::Exited(status) if status.code() == Some(3)));
    assert_eq!(output(&fixture.folders.take_events("recorded")).len(), 3_000_000);
}

/// A process in the background is killed and counted, even with a session of its own and elsewhere. One that ends at
/// once is not counted.
#[test]
fn processes_that_a_program_leaves_running_are_killed_and_counted() {
    let fixture = Fixture::new();
    let folder = fixture.recording();
    let script = "
(sleep 61; echo late > late) &
echo $!
cd /; setsid sleep 60 > /dev/null &
true &
sleep 0.2
";
    let began = Instant::now();
    let ran = program(&["sh", "-c", script], 60);
    let ran = ran.record(&fixture.folders, "recorded", &folder).unwrap();
    assert!(matches!(ran.ended, Ended::Exited(status) if status.success()));
    // The subshell and the sleep in it, and the other sleep.
    assert_eq!(ran.left_running, 3);
    assert!(began.elapsed() < Duration::from_secs(30));
    let events = fixture.folders.take_events("recorded");
    let is_write = |event: &Event| matches!(event, Event::Change(Change::Write { .. }));
    assert!(!events.iter().any(is_write), "{events:?}");
    let background = String::from_utf8(output(&events)).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", background.trim()));
    assert!(state.is_err() || state.unwrap().contains(") Z "));
}

#[test]
fn a_checker_gets_what_was_acknowledged_and_its_output_is_kept() {
    let fixture = Fixture::new();
    let folder = fixture.folders.add("state", Tree::default(), false, None);
    let acknowledged = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(acknowledged.path(), "committed 17").unwrap();
    let script = "cat $IODYNO_ACKNOWLEDGED; head -c 100000 /dev/zero >&2; [ $IODYNO_DIR = $PWD ]";
    let checked = program(&["sh", "-c", script], 60).check(&folder, acknowledged.path()).unwrap();
    assert!(matches!(checked.ended, Ended::Exited(status) if status.success()), "{checked:?}");
    assert_eq!(checked.output, b"committed 17");
    assert_eq!(checked.errors.len(), 64 << 10);
    let missing = program(&["/no/such/program"], 1).check(&folder, acknowledged.path());
    assert!(missing.unwrap_err().to_string().contains("/no/such/program"));
}

#[test]
fn the_process_group_is_killed_at_the_limit_and_at_the_end() {
    let fixture = Fixture::new();
    let acknowledged = tempfile::NamedTempFile::new().unwrap();
    let began = Instant::now();
    for (then, times_out) in [("wait", true), ("exit 0", false)] {
        let folder = fixture.folders.add(then, Tree::default(), false, None);
        let script = format!("(while true; do echo x >> grown; done) & echo $!; {then}");
        let checked = program(&["sh", "-c", &script], 1).check(&folder, acknowledged.path());
        let checked = checked.unwrap();
        assert_eq!(checked.ended == Ended::TimedOut, times_out);
        let background = String::from_utf8(checked.output).unwrap();
        let state = std::fs::read_to_string(format!("/proc/{}/stat", background.trim()));
        // Gone, or a zombie that its new parent has not waited for.
        assert!(state.is_err() || state.unwrap().contains(") Z "));
        assert!(fixture.folders.remove(then).is_some());
    }
    assert!(began.elapsed() < Duration::from_secs(30));
}
