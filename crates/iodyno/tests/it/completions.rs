//! Completion of values, requested the way a shell does.

use crate::place::Place;
use std::path::Path;
use std::process::Command;

/// Completions that Bash offers for the last word of this line.
fn bash(place: &Place, line: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_iodyno"));
    // As readline calls it: words split at its breaks, and `$2` what follows the last of them.
    let script = r#"
        source ./completion
        COMP_LINE="$LINE" COMP_POINT=${#LINE}
        current="${LINE##*[[:space:]:=]}"
        _iodyno iodyno "$current" ""
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["-c", script])
        .current_dir(place.work())
        .env("LINE", line)
        .env("IODYNO_NOTEBOOK", place.notebook())
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .output()
        .unwrap();
    let words = String::from_utf8(output.stdout).unwrap();
    words.lines().filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_values() {
    let place = Place::new();
    let script = place.iodyno("completions bash").succeeds().stdout.clone();
    place.write("completion", script);
    place.write("a-file", "");
    place.iodyno("run random-read --on null: --ops 10 --ramp 0s -q --name before").succeeds();

    assert_eq!(bash(&place, "iodyno run x --engine "), ["uring", "libaio", "psync", "mmap"]);
    assert_eq!(bash(&place, "iodyno run x --engine=u"), ["uring"]);
    assert_eq!(bash(&place, "iodyno run four-c"), ["four-corners"]);
    // What stands before the colon is another word to Bash.
    assert_eq!(bash(&place, "iodyno run x --on model:exflash-4"), ["exflash-400g"]);
    assert_eq!(bash(&place, "iodyno run x --on sc"), ["scratch:"]);
    assert_eq!(bash(&place, "iodyno run x --on a-f"), ["a-file"]);
    assert_eq!(bash(&place, "iodyno size --device exflash-4"), ["exflash-400g"]);
    // Runs come before flags.
    let runs = bash(&place, "iodyno show ");
    assert!(runs[..2] == ["last", "before"] && runs[2].len() == 10, "{runs:?}");
    assert_eq!(bash(&place, "iodyno compare before la"), ["last"]);
    assert_eq!(bash(&place, "iodyno annotate la"), ["last"]);
    assert_eq!(bash(&place, "iodyno annotate ")[..3], runs[..3]);
    assert_eq!(bash(&place, "iodyno fit --from bef"), ["before"]);
    // `history` and `ls` take names and workloads; `history` the targets of runs.
    assert_eq!(bash(&place, "iodyno history ")[..2], ["before", "random-read"]);
    assert_eq!(bash(&place, "iodyno ls r"), ["random-read"]);
    // What stands before the colon is another word to Bash.
    assert_eq!(bash(&place, "iodyno history --on nu"), ["null:"]);
    assert!(bash(&place, "iodyno run x --max-e").contains(&"--max-errors".to_owned()));
}

/// Bash inserts completions as they are, so that Tab and Enter would run a command in the name of a run or a file.
#[test]
fn bash_completes_only_words_that_need_no_quotes() {
    const HOSTILE: [&str; 8] = [
        "nightly$(touch${IFS}pwned)",
        "night`touch${IFS}pwned`",
        "night;touch${IFS}pwned",
        "*star",
        "two words",
        "it's",
        "--destroy",
        "~root",
    ];
    let place = Place::new();
    let script = place.iodyno("completions bash").succeeds().stdout.clone();
    place.write("completion", script);
    let names = HOSTILE.iter().copied().chain(["night-1.2"]);
    for name in names {
        let mut command = place.command("run random-read --on null: --ops 10 --ramp 0s -q");
        assert!(command.arg(format!("--name={name}")).output().unwrap().status.success(), "{name}");
        place.write(&format!("f{name}"), "");
    }
    let notebook = rusqlite::Connection::open(place.notebook()).unwrap();
    notebook
        .execute("UPDATE targets SET name = 'null:$(touch${IFS}pwned)' WHERE run = 1", [])
        .unwrap();
    notebook.execute("UPDATE workloads SET name = 'night|sh' WHERE run = 1", []).unwrap();
    drop(notebook);

    let runs = bash(&place, "iodyno show ");
    assert_eq!(runs[..2], ["last", "night-1.2"]);
    // The others are named by their ids.
    assert!(runs[2..11].iter().all(|id| id.len() == 10), "{runs:?}");
    assert!(runs[11..].iter().all(|flag| flag.starts_with('-') && flag != "--destroy"), "{runs:?}");
    for (line, completions) in [
        ("iodyno show ni", vec!["night-1.2"]),
        ("iodyno compare last,ni", vec!["last,night-1.2"]),
        ("iodyno history ni", vec!["night-1.2"]),
        ("iodyno history --on nu", vec!["null:"]),
        ("iodyno run x --on f", vec!["f--destroy", "fnight-1.2", "f~root"]),
        ("iodyno run x --on=f", vec!["f--destroy", "fnight-1.2", "f~root"]),
        ("iodyno run fn", vec!["fnight-1.2"]),
        ("iodyno import fn", vec!["fnight-1.2"]),
        ("iodyno ls --notebook fn", vec!["fnight-1.2"]),
        ("iodyno report last -o fn", vec!["fnight-1.2"]),
    ] {
        assert_eq!(bash(&place, line), completions, "{line}");
    }
    // A shell that quotes completions gets all files.
    let mut command = place.command("-- iodyno run x --on f");
    command.env("IODYNO_COMPLETE", "zsh").env("_CLAP_COMPLETE_INDEX", "4");
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert_eq!(said.lines().count(), HOSTILE.len() + 1, "{said}");
}

/// The script of each shell calls the program, which answers in the form of that shell.
#[test]
fn every_shell_is_answered() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.iodyno(&format!("completions {shell}")).succeeds().stdout.clone();
        assert!(script.contains("IODYNO_COMPLETE"), "{shell}: {script}");
        let mut command = place.command("-- iodyno run x --engine");
        let output = command
            .arg("")
            .env("IODYNO_COMPLETE", shell)
            .env("_CLAP_COMPLETE_INDEX", "4")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("libaio") && !said.contains("--depth"), "{shell}: {said}");
    }
    place.iodyno("completions tcsh").exits(2);
}
