//! `serve DEVICE -- CMD`: a command that finds the storage in its environment, and a server that ends with it and
//! leaves nothing.

use crate::place::{Place, RunOutput, Running, names};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program with `flags`, a folder for temporary files of its own, and a shell that runs `script`.
fn serve(place: &Place, flags: &str, script: &str) -> Command {
    let mut command = place.command(&format!("serve {flags} -- sh -c"));
    std::fs::create_dir_all(place.path("tmp")).unwrap();
    command
        .arg(script)
        .env("TMPDIR", place.path("tmp"))
        .env("IODYNO", env!("CARGO_BIN_EXE_iodyno"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs `serve` with a script to its end. Afterwards, no file of the server may be left.
fn run(place: &Place, flags: &str, script: &str) -> RunOutput {
    let output = Running::of(&mut serve(place, flags, script)).finish();
    assert_eq!(names(&place.path("tmp")), [""; 0], "{output:?}");
    output
}

#[test]
fn a_command_uses_the_storage_and_gives_the_exit_code() {
    let place = Place::new();
    let script = "qemu-io -f raw -c 'write -P 7 64k 4k' -c 'read -P 7 64k 4k' $IODYNO_NBD >&2 || exit 1; \
                  nbdinfo --size $IODYNO_NBD; exit 7";
    for (flags, size) in [
        ("ram:8MiB", "8388608"),
        ("exflash-400g --size 16MiB --speed native", "16777216"),
        ("exflash-400g --size 16MiB --no-floor", "16777216"),
    ] {
        let output = run(&place, flags, script);
        output.exits(7);
        assert_eq!(output.stdout.trim(), size, "{output:?}");
        // The server's own lines are not mixed with the command's.
        assert!(!output.stderr.contains("serving") && !output.stderr.contains("ready"));
    }
}

#[test]
fn a_command_injects_faults() {
    let script = "w() { qemu-io -f raw -c 'write 0 4k' $IODYNO_NBD; }; w || exit 1; \
                  $IODYNO fault error 100% writes --control $IODYNO_CONTROL || exit 2; w && exit 3; \
                  $IODYNO fault clear --control $IODYNO_CONTROL || exit 4; w";
    run(&Place::new(), "exflash-400g --no-floor", script).succeeds();
}

#[test]
fn addresses_that_are_given_are_used() {
    let place = Place::new();
    let script = "test \"$IODYNO_NBD\" = \"nbd+unix:///?socket=$PWD/a.sock\" && \
                  test \"$IODYNO_CONTROL\" = \"unix:$PWD/c.sock\" && test -z \"$IODYNO_FILE\" && test -S c.sock";
    run(&place, "ram:1MiB --nbd unix:a.sock --control unix:c.sock", script).succeeds();
    assert_eq!(place.names(), ["tmp"]);
}

#[test]
fn a_command_that_cannot_start_leaves_nothing() {
    let place = Place::new();
    let words = "serve exflash-400g --no-floor --backing data --record rec -- ./nowhere";
    place.iodyno(words).fails(2, &["./nowhere can't be started", "No such file"]);
    assert_eq!(place.names(), [""; 0]);
    place.iodyno("serve exflash-400g --fuse").fails(2, &["--fuse requires a folder"]);
}

/// SIGTERM ends the command and then the server; the data that the command wrote is kept.
#[test]
fn a_signal_ends_the_command_first() {
    let place = Place::new();
    let flags = "exflash-400g --size 16MiB --no-floor --backing data";
    let script = "trap 'qemu-io -f raw -c \"write -P 9 0 4k\" -c flush $IODYNO_NBD; exit 3' TERM; \
                  touch started; while :; do sleep 0.05; done";
    let mut server = Running::of(&mut serve(&place, flags, script));
    server.wait_until("the command runs", || place.path("started").exists());
    server.signal(libc::SIGTERM);
    server.finish().exits(3);
    run(&place, flags, "qemu-io -f raw -c 'read -P 9 0 4k' $IODYNO_NBD").succeeds();
}

/// Ctrl-C is the command's to handle, and a command that dies of a signal gives the exit code of a shell.
#[test]
fn an_interrupt_is_left_to_the_command() {
    let place = Place::new();
    let mut server = Running::of(&mut serve(
        &place,
        "ram:1MiB",
        "touch started; while [ ! -e go ]; do sleep 0.05; done; kill -INT $$",
    ));
    server.wait_until("the command runs", || place.path("started").exists());
    server.signal(libc::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    assert!(server.is_running());
    place.write("go", "");
    server.finish().exits(128 + libc::SIGINT);
}

#[test]
fn a_killed_servers_folder_is_removed_by_the_next() {
    let place = Place::new();
    let script = "touch started; while [ -e started ]; do sleep 0.05; done";
    let mut server = Running::of(&mut serve(&place, "ram:1MiB", script));
    server.wait_until("the command runs", || place.path("started").exists());
    server.signal(libc::SIGKILL);
    std::fs::remove_file(place.path("started")).unwrap();
    assert_eq!(server.finish().signal, Some(libc::SIGKILL));
    assert_eq!(names(&place.path("tmp")).len(), 1);
    run(&place, "ram:1MiB", "true").succeeds();
}

#[test]
fn readiness_is_reported() {
    let place = Place::new();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let script = "exec 7>ready; exec \"$IODYNO\" serve ram:1MiB --ready-fd 7 -- \
                  sh -c 'cat ready; echo \"${NOTIFY_SOCKET-none}\"; if echo x >&7; then echo open; fi'";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .current_dir(place.work())
        .env("NOTIFY_SOCKET", place.path("notify"));
    command.env("IODYNO", env!("CARGO_BIN_EXE_iodyno")).env_remove("HOME");
    let output = Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped())).finish();
    assert_eq!(output.succeeds().stdout, "ready\nnone\n");
    let mut message = [0; 100];
    let len = socket.recv(&mut message).unwrap();
    assert_eq!(&message[..len], b"READY=1");
    place.iodyno("serve ram:1MiB --ready-fd 99 -- true").fails(2, &["--ready-fd 99: no open file"]);
}

/// A factor that is a whole number.
fn whole_factor(factor: &serde_json::Value) -> u64 {
    factor.as_f64().unwrap() as u64
}

/// The factor of `--steady` is the same in each run, and flushed writes take at least the time that it asks for.
#[test]
fn a_steady_device_is_slower_by_a_constant_factor() {
    let place = Place::new();
    let script = "$IODYNO status --json --control $IODYNO_CONTROL > status; \
                  for i in 1 2 3; do qemu-io -f raw -c \"write ${i}k 4k\" -c flush $IODYNO_NBD >&2 || exit 1; done";
    let factor = || {
        let began = Instant::now();
        let flags = "exflash-400g --size 16MiB --no-floor --steady=100ms";
        let output = run(&place, flags, script);
        assert!(began.elapsed() > Duration::from_millis(300));
        assert!(output.succeeds().stderr.contains("the model's times × "), "{output:?}");
        let status = std::fs::read(place.path("status")).unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        whole_factor(&status["dilation"])
    };
    let first = factor();
    assert!(first > 1000, "{first}");
    assert_eq!(factor(), first);
    for (flags, says) in [
        ("--steady --speed native", "--steady is not available with --speed native"),
        ("--steady --dilate 2", "cannot be used with"),
        ("--steady=1us", "use a time from 100us to 1s"),
    ] {
        place.iodyno(&format!("serve exflash-400g {flags} -- true")).fails(2, &[says]);
    }
}

/// The time of the transport is measured once and then kept. The kept one of another program is not used.
#[test]
fn the_transports_time_is_kept() {
    let place = Place::new();
    let file = place.path("cache/iodyno/transport.json");
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    let start = || {
        let mut command = serve(&place, "exflash-400g", "true");
        command.env("XDG_CACHE_HOME", place.path("cache"));
        let began = Instant::now();
        Running::of(&mut command).finish().succeeds();
        began.elapsed()
    };
    // 100 pauses of 0.5 ms are a part of the measurement.
    let least = Duration::from_millis(50);
    assert!(start() > least);
    let first = text();
    assert!(first.contains("waking_ns"), "{first}");
    start();
    assert_eq!(text(), first);
    let foreign = first.replace("\"of\":\"", "\"of\":\"1");
    std::fs::write(&file, &foreign).unwrap();
    assert!(start() > least);
    assert_ne!(text(), foreign);
}
