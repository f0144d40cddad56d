//! Every file that a user names is read with a limit, from a regular file or a pipe, without waiting for a pipe that
//! no program writes to. Nothing is printed of a file that another file names, and secrets are never sent unasked.

use crate::disks::run;
use crate::place::{Place, Running};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

/// Every option that takes a file, with `FILE` in its place.
const NAMING: [&str; 18] = [
    "run FILE/w.toml --on ram:1MiB --no-notebook",
    "run FILE.toml --on ram:1MiB --no-notebook",
    "run FILE.fio --on ram:1MiB --no-notebook",
    "run FILE.vdb --on ram:1MiB --no-notebook",
    "convert FILE.fio",
    "explain FILE.toml --on model:exflash-400g",
    "run random-read --on model:FILE.toml --no-notebook",
    "study FILE.toml",
    "size --workload oltp1 --rate 1k/s --p99 2ms --price FILE",
    "replay FILE",
    "replay FILE --on ram:1MiB --no-notebook",
    "import FILE",
    "serve exflash-400g --nbd unix:s --scenario FILE",
    "serve exflash-400g --nbd unix:s --image FILE",
    "serve exflash-400g --nbd unix:s --tls FILE,FILE",
    "serve raid5(ssd-msata-mlc-128g*3) --nbd unix:s --backing array/FILE",
    "log serve ram:16MiB --unix s --token-file FILE",
    "log status --at unix:s --token-file FILE",
];

/// Paths that do not lead to a file, and a pipe without a writer.
const KINDS: [&str; 4] = ["zero", "pipe", "folder", "socket"];

#[test]
fn devices_pipes_and_folders_are_no_files() {
    let place = Place::new();
    let suffixes = ["", ".toml", ".fio", ".vdb"];
    for suffix in suffixes {
        std::os::unix::fs::symlink("/dev/zero", place.path(&format!("zero{suffix}"))).unwrap();
        run("mkfifo", &[place.path(&format!("pipe{suffix}")).to_str().unwrap()]);
        std::fs::create_dir(place.path(&format!("folder{suffix}"))).unwrap();
        std::os::unix::net::UnixListener::bind(place.path(&format!("socket{suffix}"))).unwrap();
    }
    for kind in KINDS {
        let array = place.path(&format!("array/{kind}"));
        std::fs::create_dir_all(&array).unwrap();
        std::os::unix::fs::symlink(place.path(kind), array.join("array.json")).unwrap();
    }
    // All at once: each waits for a writer of its pipe for some seconds.
    let mut all = Vec::new();
    for line in NAMING {
        for kind in KINDS {
            // Also where the name that is given is a folder.
            if line.contains("FILE/") && kind != "zero" {
                continue;
            }
            let words = line.replace("FILE", &format!("./{kind}"));
            let mut command = place.command(&words);
            // Reading without a limit fails here.
            let limit = "ulimit -v 4000000; exec \"$0\" \"$@\"";
            let mut limited = std::process::Command::new("sh");
            limited.args(["-c", limit]).arg(command.get_program()).args(command.get_args());
            limited.current_dir(place.work());
            for (name, value) in command.get_envs() {
                if let Some(value) = value {
                    limited.env(name, value);
                }
            }
            command = limited;
            let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            all.push((words, Running::of(child)));
        }
    }
    for (words, running) in all {
        let output = running.finish();
        assert!(matches!(output.code, Some(2..=4)), "{words}: {output:?}");
        assert!(!output.stderr.contains("panicked"), "{words}: {output:?}");
    }
}

/// Uses of a pipe: a program that supplies a password, and a trace that is being unpacked.
#[test]
fn a_pipe_with_a_writer_is_read() {
    let place = Place::new();
    run("mkfifo", &[place.path("pipe").to_str().unwrap()]);
    let words = "replay pipe --on ram:1MiB --no-notebook --fast -q";
    let mut running = place.start(words);
    let path = place.path("pipe");
    let writer = std::thread::spawn(move || {
        std::fs::write(path, "fio version 2 iolog\n/d add\n/d open\n/d read 0 4096\n/d close\n")
            .unwrap();
    });
    assert!(running.is_running());
    running.finish().succeeds();
    writer.join().unwrap();
}

/// A file that is named in another file may be one that the author of the other file must not read.
#[test]
fn nothing_is_shown_of_a_file_that_another_file_names() {
    let place = Place::new();
    let secret = place.path("secret.toml");
    let path = secret.to_str().unwrap();
    place.write("group.toml", format!("schema = 1\ngroup = [\"{path}\"]\n"));
    place.write(
        "method.toml",
        format!("schema = 1\n[[stages]]\ndo = \"cells\"\nworkload = \"{path}\"\ntime = \"1s\"\n"),
    );
    place.write("job.fio", format!("include {path}\n[a]\nrw=randread\n"));
    place.write("system.toml", format!("schema = 1\nkind = \"system\"\nbase = \"{path}\"\n"));
    // Valid TOML with wrong values, and invalid TOML.
    let toml = "schema = 1\nkind = \"xyzzy\"\nabout = \"xyzzy\"\n[xyzzy]\ntoken = \"xyzzy\"\n";
    for text in [toml.to_owned(), format!("{toml}root:xyzzy:0:0\n")] {
        std::fs::write(&secret, text).unwrap();
        for words in [
            "run group.toml --on ram:1MiB",
            "run method.toml --on ram:1MiB",
            "run job.fio --on ram:1MiB",
            "run random-read --on model:./system.toml",
            "convert job.fio",
        ] {
            let output = place.iodyno(words);
            assert_eq!(output.code, Some(2), "{words}: {output:?}");
            assert!(!(output.stdout.clone() + &output.stderr).contains("xyzzy"), "{output:?}");
        }
        // The user's own file is shown.
        place.iodyno(&format!("run {path} --on ram:1MiB")).fails(2, &["xyzzy"]);
    }
}

#[test]
fn a_token_goes_nowhere_in_the_clear_unasked() {
    let place = Place::new();
    place.write("token", "0123456789abcdef\n");
    let said = |mode: u32, words: &str| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("token"), permissions).unwrap();
        place.iodyno(&format!("log status --token-file token {words}"))
    };
    // Reserved for documentation: no host has it.
    said(0o600, "--at 192.0.2.1:9").fails(2, &["in the clear", "--tls", "--insist-on-plain"]);
    for local in ["127.0.0.1:1", "[::1]:1", "unix:none", "[::ffff:127.0.0.1]:1"] {
        let output = said(0o600, &format!("--at {local}"));
        assert!(!output.stderr.contains("in the clear"), "{output:?}");
        assert!(!output.stderr.contains("warning"), "{output:?}");
    }
    for mode in [0o644, 0o604, 0o620] {
        said(mode, "--at unix:none").says(&["warning: --token-file", "chmod 600"]);
    }
    // Private keys likewise, of clients and servers, before they are read.
    place.write("key", "");
    for (mode, is_shared) in [(0o644, true), (0o600, false)] {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(place.path("key"), permissions).unwrap();
        for words in [
            "log status --at 127.0.0.1:1 --tls key,key,key",
            "log serve ram:16MiB --unix s --tls key,key",
            "serve exflash-400g --nbd unix:s --tls key,key",
        ] {
            let output = place.iodyno(words);
            let is_said = output.stderr.contains("warning: --tls: other users can read key");
            assert_eq!(is_said, is_shared, "{words}: {output:?}");
        }
    }
}

/// Names that a server announces can't move the cursor or begin a line.
#[test]
fn names_in_a_banner_are_cleaned() {
    let place = Place::new();
    let name = "a\u{1b}[2Jb\nready";
    place.write(&format!("{name}.img"), vec![1; 1 << 20]);
    let socket = format!("unix:{}", place.path(name).display());
    for words in [
        vec!["serve", "exflash-400g", "--no-floor", "--nbd", "unix:s", "--control", &socket],
        vec!["log", "serve", "ram:16MiB", "--unix", name],
    ] {
        let mut command = place.command("");
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::of(&mut command);
        let path = place.path(name);
        running.wait_until("it listens", || path.exists());
        std::thread::sleep(std::time::Duration::from_millis(300));
        running.signal(libc::SIGTERM);
        let output = running.finish();
        assert!(output.stderr.contains("\\u{1b}[2Jb\\nready"), "{output:?}");
        assert!(!output.stderr.contains('\u{1b}'), "{output:?}");
    }
}
