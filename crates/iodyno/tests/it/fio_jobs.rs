//! Job files of fio on the command line: `run` and `convert`. What an option becomes is tested in `exchange`.

use crate::place::{Place, cells, engines};

const TWO_GROUPS: &str = "[global]\nsize=4m\nruntime=200ms\ntime_based\ndirect=1\nioengine=psync\n\
                          [writes]\nrw=write\n[reads]\nrw=randread\n[after]\nstonewall\nrw=randwrite\nfdatasync=1\n";

/// A group is a cell, whose jobs run at the same time; groups run one after the other.
#[test]
fn jobs_of_a_group_run_at_once() {
    let place = Place::new();
    place.write("two.fio", TWO_GROUPS);
    for target in ["model:exflash-400g", "scratch:16MiB", "ram:16MiB"] {
        let document = place.document(&format!("run two.fio --on {target}"));
        let names: Vec<&str> =
            cells(&document).iter().map(|cell| cell["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["writes", "reads", "after"], "{target}");
    }
}

/// The job's engine and its use of the page cache are those of the run, unless the command line says otherwise.
#[test]
fn engine_and_page_cache_are_the_jobs() {
    let place = Place::new();
    let job = "[job]\nsize=4m\nruntime=100ms\ntime_based\nrw=randwrite\nfsync=1\n";
    place.write("cached.fio", job);
    place.write("direct.fio", format!("{job}ioengine=libaio\niodepth=4\ndirect=1\n"));
    let prints = |words: &str, expected: &[&str]| {
        let output = place.iodyno(&format!("{words} -q -v"));
        output.succeeds();
        for word in expected {
            assert!(output.stdout.contains(word), "{words}: {}", output.stdout);
        }
    };
    prints("run cached.fio --on scratch:16MiB", &["engine psync", "page cache"]);
    if engines(&place).contains(&"libaio") {
        prints("run direct.fio --on scratch:16MiB", &["engine libaio"]);
    }
    prints("run direct.fio --on scratch:16MiB --engine psync --depth 1", &["engine psync"]);
    place.write(
        "both.fio",
        "[a]\nsize=1m\nioengine=psync\n[b]\nstonewall\nsize=1m\nioengine=libaio\n",
    );
    let output = place.iodyno("run both.fio -q");
    output.exits(2).says(&["different engines", "--engine"]);
}

/// What is refused is drawn with its line, and nothing is measured or kept.
#[test]
fn refused_options_are_bad_input() {
    let place = Place::new();
    place.write("bad.fio", "[job]\nsize=4m\nioengine=rdma\niodpeth=4\n");
    for words in ["run bad.fio", "convert bad.fio", "run bad.fio --vary depth=1,2"] {
        let words = [words, "bad.fio:3:1", "rdma", "`iodepth`"];
        place.iodyno(words[0]).fails(2, &words[1..]);
    }
    place.iodyno("run none.fio").fails(2, &["none.fio"]);
    assert!(!place.notebook().exists(), "nothing was kept");
}

/// The workload that `convert` writes is the job: both make the same cell.
#[test]
fn a_converted_job_runs_as_the_job() {
    let place = Place::new();
    let job = "[job]\nsize=64m\nruntime=1\ntime_based\nrw=randrw\nrwmixread=70\nbs=8k\nrate_iops=700,300\n";
    place.write("job.fio", job);
    place.iodyno("convert job.fio -o job.toml").succeeds();
    let run = |name: &str| {
        let document = place.document(&format!("run {name} --on model:exflash-400g"));
        cells(&document)[0]["kinds"].clone()
    };
    assert_eq!(run("job.fio"), run("job.toml"));
    place.iodyno("run job.fio --on model:exflash-400g --vary rate=500,1000 -q").succeeds();
    // Several jobs are several files.
    place.write("two.fio", TWO_GROUPS);
    let several = place.iodyno("convert two.fio");
    several.exits(2).says(&["3 jobs", "--section", "-o FOLDER"]);
    place.iodyno("convert two.fio -o out").succeeds();
    for name in ["writes", "reads", "after"] {
        place.iodyno(&format!("run out/{name}.toml --on ram:16MiB -q")).succeeds();
    }
    let one = place.iodyno("convert two.fio --section reads");
    assert!(one.succeeds().stdout.contains("# two.fio:4: "), "{}", one.stdout);
    place.iodyno("convert two.fio --section none").fails(2, &["writes, reads, after"]);
    let lint = place.iodyno("convert two.fio --lint");
    assert!(lint.succeeds().stdout.contains("two.fio:9: reads of blocks"), "{}", lint.stdout);
}
