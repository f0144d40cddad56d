//! The recipes in `docs/recipes`, run as their first lines say, and shown to fail where they should.

use crate::place::{Place, RunOutput};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes").canonicalize().unwrap()
}

/// Runs a recipe on a device with the flags of its first lines; `more` are arguments of the recipe.
fn run(recipe: &str, more: &[&str]) -> RunOutput {
    let path = recipes().join(recipe);
    let text = std::fs::read_to_string(&path).unwrap();
    let said = text.lines().find_map(|line| line.strip_prefix("#   iodyno ")).unwrap();
    let (flags, command) = said.split_once(" -- ").unwrap();
    assert_eq!(command, format!("sh {recipe}"));
    let place = Place::new();
    let mut command = place.command(&format!("{flags} -- sh"));
    command.arg(&path).args(more).env("IODYNO", env!("CARGO_BIN_EXE_iodyno"));
    command.env("TMPDIR", place.work()).stdout(Stdio::piped()).stderr(Stdio::piped());
    crate::place::Running::of(&mut command).finish()
}

#[test]
#[ignore = "needs root and loop devices"]
fn sqlite_keeps_commits_unless_it_does_not_sync() {
    assert!(run("sqlite.sh", &[]).succeeds().stdout.contains("10 commits survived"));
    let output = run("sqlite.sh", &["pragma synchronous=off"]);
    assert!(output.exits(1).stdout.contains("lost or the database is damaged"), "{output:?}");
}

#[test]
#[ignore = "needs root, loop devices and PostgreSQL"]
fn postgresql_keeps_commits_and_stops_on_a_failed_fsync() {
    assert!(run("postgresql.sh", &[]).succeeds().stdout.contains("PostgreSQL passed"));
}

/// Commands of a job's steps, without those that install packages.
fn steps(job: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut lines = job.lines().peekable();
    while let Some(line) = lines.next() {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let Some((_, step)) = line.split_once("run: ") else { continue };
        if step != "|" {
            steps.push(step.to_owned());
            continue;
        }
        let mut script = String::new();
        while let Some(more) = lines.next_if(|more| indent(more) > indent(line)) {
            script += more.trim_start();
            script.push('\n');
        }
        steps.push(script);
    }
    steps.retain(|step| !step.contains("apt-get") && !step.starts_with("cargo install"));
    steps
}

/// The job passes on an equal device, and fails on a slower one.
#[test]
fn a_slower_device_fails_the_performance_job() {
    let job = std::fs::read_to_string(recipes().join("performance.yml")).unwrap();
    let made = job.lines().find_map(|line| line.strip_prefix("#   ")).unwrap();
    let steps = steps(&job);
    assert_eq!(steps.len(), 3, "{steps:?}");
    let place = Place::new();
    let disk = place.iodyno("catalog virtual-disk").succeeds().stdout.clone();
    let limit = |iops: &str| place.write("disk.toml", disk.replace("is = 10000,", iops));
    let program = Path::new(env!("CARGO_BIN_EXE_iodyno")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let shell = |script: &str, id: &str| {
        Command::new("bash")
            .args(["-e", "-c", script])
            .current_dir(place.work())
            .env("PATH", &path)
            .env("IODYNO_NOTEBOOK", "job.db")
            .env("TARGET", "model:./disk.toml")
            .env("GITHUB_RUN_ID", id)
            .output()
            .unwrap()
    };
    limit("is = 10000,");
    assert!(shell(made, "0").status.success());
    assert!(job.contains("IODYNO_NOTEBOOK: job.db"));
    // A job is repeated under its id, in a new checkout.
    for (iops, id, code) in
        [("is = 10000,", "1", 0), ("is = 10000,", "1", 0), ("is = 8000,", "2", 7)]
    {
        limit(iops);
        std::fs::remove_file(place.path("job.db")).unwrap();
        for step in &steps {
            let output = shell(step, id);
            let expected = if step.contains("compare") { code } else { 0 };
            assert_eq!(output.status.code(), Some(expected), "{step}: {output:?}");
        }
    }
}

#[test]
#[ignore = "needs root and loop devices"]
fn the_steps_of_the_ci_job_pass() {
    let job = std::fs::read_to_string(recipes().join("ci.yml")).unwrap();
    assert!(job.lines().count() <= 20, "{job}");
    let steps = steps(&job);
    assert_eq!(steps.len(), 2, "{steps:?}");
    let place = Place::new();
    // The job is that of a repository which has the recipes; here the user is root already.
    std::fs::create_dir(place.path("docs")).unwrap();
    std::os::unix::fs::symlink(recipes(), place.path("docs/recipes")).unwrap();
    place.write("sudo", "#!/bin/sh\nexec \"$@\"\n");
    let program = Path::new(env!("CARGO_BIN_EXE_iodyno")).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    for step in steps {
        let output = Command::new("bash")
            .args(["-e", "-c", &format!("chmod +x sudo; {step}")])
            .current_dir(place.work())
            .env("PATH", format!("{}:{}:{path}", program.display(), place.work().display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{step}: {output:?}");
    }
}
