//! Errors in study files and files of published values are reported with their positions.

use crate::small;

use iodyno_catalog::{File, Problem};
use iodyno_study::published::{self, Relation};
use small::{FIGURES, HEADER, STUDY, study};

fn file(text: &str) -> File {
    File {
        origin: "my/figures.csv".to_owned(),
        name: "figures".to_owned(),
        text: text.into(),
        is_named_by_file: false,
    }
}

/// The error for a file of published values with these lines after the header.
#[track_caller]
fn refused(lines: &str) -> Problem {
    published::read(&file(&format!("{HEADER}{lines}"))).expect_err(lines)
}

const GOOD: &str = "Table 4,x,randread,4096,,,1,iops_max,=,142000,500,1/s,table,\n";

#[test]
fn figures_are_read() {
    let lines = "Table 4,x,randread,4096,,,1,iops_max,=,142000,500,1/s,table,\r\n\
                 \n\
                 prose,\"x, y\",\"a \"\"b\"\"\",,16,4,,latency_max,<=,5.35,,ms,prose,\"one, two\"";
    let figures = published::read(&file(&format!("{HEADER}{lines}"))).unwrap();
    let [one, two] = figures.as_slice() else { panic!("{figures:?}") };
    assert_eq!((one.value, one.rounding(), one.key.devices), (142_000.0, 500.0, Some(1)));
    assert_eq!((one.key.queue_depth, one.note.as_str()), (None, ""));
    assert_eq!((two.key.system.as_str(), two.key.workload.as_str()), ("x, y", "a \"b\""));
    assert_eq!((two.key.queue_depth, two.key.threads), (Some(16), Some(4)));
    assert_eq!(
        (two.relation, two.resolution, two.note.as_str()),
        (Relation::AtMost, None, "one, two")
    );
    assert!((two.rounding() - 0.005).abs() < 1e-15 && !two.is_flagged());
}

#[test]
fn figures_are_refused_with_line_and_column() {
    let error = |lines: &str| {
        let problem = refused(lines);
        (problem.line_column().unwrap(), problem.message().to_owned())
    };
    let changed = |from: &str, to: &str| error(&format!("{GOOD}{}", GOOD.replacen(from, to, 1)));
    for (from, to, column, message) in [
        ("4096", "4k", 20, "`block_bytes` must be a whole number above 0, not `4k`"),
        (",1,iops", ",0,iops", 27, "`devices` must be a whole number above 0, not `0`"),
        ("142000", "142 k", 40, "`value` must be a number, not `142 k`"),
        ("142000", "nan", 40, "`value` must be a number, not `nan`"),
        ("142000", "0", 40, "`value` must be above 0, not 0"),
        ("500", "-1", 47, "`resolution` (half of the last digit) must be 0 or more, not -1"),
        ("=", "<", 38, "`<` is not a relation"),
        ("1/s", "kIOPS", 51, "`kIOPS` is not a unit"),
        ("table", "picture", 55, "`picture` is not a kind"),
        ("Table 4", "", 1, "the field `figure` is empty"),
        ("iops_max", "", 29, "the field `metric` is empty"),
        ("randread", "\"rand", 11, "this quote is not closed"),
        ("randread", "\"rand\"read", 11, "this quote is not closed"),
        ("randread", "rand\u{1b}[2J", 11, "a field holds a control character"),
        ("table,", "table,,", 1, "the line must have 14 fields, not 15"),
        ("table,", "table", 1, "the line must have 14 fields, not 13"),
    ] {
        assert_eq!(changed(from, to), ((3, column), message.to_owned()), "{from} -> {to}");
    }
    assert_eq!(error(&format!("{GOOD}{GOOD}")), ((3, 1), "this figure is listed twice".to_owned()));
    let header = published::read(&file("figure,sistem\n")).unwrap_err();
    assert_eq!(header.line_column(), Some((1, 8)));
    assert!(published::read(&file(HEADER)).unwrap_err().message().contains("no figure"));
    assert!(published::read(&file("")).is_err());
    let drawn = refused("Table 4,x\n").to_string();
    assert!(drawn.contains("my/figures.csv:2:1"), "{drawn}");
}

/// Changes to the small study, each with the expected error.
#[test]
fn studies_are_refused_at_their_place() {
    let figures = format!("{HEADER}{FIGURES}");
    for (from, to, line, message) in [
        (
            "schema = 1",
            "schema = 2",
            1,
            "this file has schema 2; this version of iodyno reads schema 1",
        ),
        ("kind = \"study\"", "kind = \"device\"", 2, "this file is a device, not a study"),
        ("figures.csv", "figure.csv", 5, "the printed figures: there is no such file"),
        ("figures.csv", "nothing", 5, "there is no publication named `nothing`"),
        ("host = \"rtp\"", "host = \"rpt\"", 9, "there is no system named `rpt`"),
        ("ramdisk-ddr3-16g", "ramdisk", 10, "there is no device named `ramdisk`"),
        (
            "host = \"rtp\"",
            "host = \"rtp\"\noccupancy = \"max\"",
            10,
            "`occupancy` sets driver threads",
        ),
        ("name = \"randwrite\"", "name = \"randread\"", 20, "`randread` is named twice"),
        ("ops = 2000", "ops = 2", 16, "`ops` must be from 100 to 1000000000"),
        ("read = \"100%\"", "read = \"1\"", 14, "is not a share"),
        ("ramp = \"1ms\"", "ramp = \"1\"", 17, ""),
        ("[\"randread\", \"randwrite\", \"mixed\"]", "[\"radread\"]", 36, "no workload `radread`"),
        ("block = [\"4KiB\"]", "block = []", 37, "`block` must have 1 to 64 values, not 0"),
        ("depth = [1, 2, 4]", "depth = [1, 1]", 38, "`depth` lists a value twice"),
        ("depth = [1, 2, 4]", "depth = [2, 1]", 38, "`depth` must be in ascending order"),
        ("depth = [1, 2, 4]", "depth = [0]", 34, "this workload can't be issued"),
        ("devices = [1, 2]", "devices = [0]", 39, "`devices` must be at least 1"),
        ("devices = [1, 2]", "devices = [100000]", 39, "can't be attached to `ram`"),
        ("\"iops_max\"", "\"iops_mix\"", 40, "`metrics` must be one of"),
        ("think = [\"0us\", \"16us\"]\n", "", 58, "needs an axis `think`"),
        ("figure = \"Figure 4\"", "figure = \"Table 1\"\ndepth2 = 1", 63, "unknown key `depth2`"),
        ("\"unbalanced_memory_slowdown\"", "\"speed\"", 83, "a server has no parameter `speed`"),
        ("is = \"fitted\"\nby = [\"memory.read\"]", "is = \"fitted\"", 86, "`by` is missing"),
        ("metrics = [\"latency_mean\"]", "metrics = [\"iops_low\"]", 49, "needs `together`"),
        ("metrics = [\"latency_mean\"]", "metrics = [\"oio\"]", 49, "needs `optimum_within`"),
        (
            "metrics = [\"latency_mean\"]",
            "optimum_within = \"1ms\"\nmetrics = [\"iops_max\"]",
            50,
            "the panel can't show",
        ),
        (
            "devices = [1, 2]\nmetrics = [\"latency_mean\"]",
            "devices = [1, 2]\nthreads = [2, 1]\nmetrics = [\"latency_mean\"]",
            49,
            "`threads` must be in ascending order",
        ),
        ("[\"iops_max\"]", "[\"messages_per_s\"]", 40, "the panel can't show `messages_per_s`"),
        ("[\"memory.read\"]", "[\"memory.reed\"]", 87, "has a parameter `memory.reed`"),
        ("devices = 1\n\n[[basis]]", "devices = 9\n\n[[basis]]", 86, "no printed figure matches"),
        ("device = \"ramdisk-ddr3-16g\"\n", "", 8, "either a `device` or `arrays`"),
        ("ramdisk-ddr3-16g", "raid7(ssd-gen3-emlc*3)", 10, "`raid7` is not a level of an array"),
        (
            "host = \"rtp\"",
            "host = \"rtp\"\noptions = \"cache=off\"",
            10,
            "only arrays take `options`",
        ),
        ("addresses = \"random\"\n", "", 13, "a workload must have `like`, or `spec`, or both"),
        ("read = \"100%\"", "like = \"oltp9\"", 14, "no workload named `oltp9`"),
        ("block = [\"4KiB\"]\n", "", 34, "`block` is missing"),
        ("depth = [1, 2, 4]\n", "", 34, "`depth` is missing"),
        ("devices = [1, 2]\n", "", 34, "`devices` is missing"),
        (
            "[[inputs]]",
            "[[claims]]\nfigure = \"prose\"\nsystem = \"a\"\nworkload = \"randread\"\nmetric = \"m\"\nof = \"ram\"\nof_figure = \"Table 1\"\nof_metric = \"iops_max\"\n\n[[inputs]]",
            84,
            "2 rows match `iops_max`",
        ),
        (
            "metric = \"unbalanced_memory_slowdown\"",
            "metric = \"max_ssds\"\nof = \"ram\"",
            84,
            "`ram` does not give `max_ssds`",
        ),
    ] {
        assert!(STUDY.contains(from), "{from}");
        let problem = study(&STUDY.replacen(from, to, 1), &figures).expect_err(to);
        let place = problem.line_column().unwrap_or_else(|| panic!("{problem}"));
        assert!(problem.message().contains(message), "{problem}");
        assert_eq!(place.0, line, "{problem}");
    }
    // Rows may not be told twice, and every printed figure needs a row.
    let twice = format!(
        "{STUDY}\n{}",
        &STUDY[STUDY.find("[[panels]]").unwrap()..STUDY.find("[[inputs]]").unwrap()]
    );
    assert!(
        study(&twice, &figures).unwrap_err().message().contains("has a row for `iops_max` twice")
    );
    let other =
        format!("{HEADER}{FIGURES}Table 9,ram,randread,4096,,,1,iops_max,=,1,,1/s,table,\n");
    let problem = study(STUDY, &other).unwrap_err();
    assert_eq!(problem.line_column(), Some((14, 1)), "{problem}");
    assert!(problem.message().contains("no row of the study matches this published value"));
    let unit = figures.replacen("500,1/s", "500,us", 1);
    assert_eq!(study(STUDY, &unit).unwrap_err().message(), "`iops_max` can't have the unit `us`");
}
