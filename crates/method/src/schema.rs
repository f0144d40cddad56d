//! Keys of a method file, each with the form of its value and the acts (kinds of stage) that allow it.
//! `docs/formats/method.md` defines the keys' meaning, and `rules.rs` builds a method from the values.

use iodyno_catalog::{Key, NUMBER, TIME, ValueType};

/// Top-level keys of a method file.
pub(crate) const METHOD: &[Key] = &[
    Key::optional("schema", ValueType::Header),
    Key::optional("about", ValueType::Text),
    Key::optional("standard", ValueType::Text),
    Key::optional("reuse", ValueType::Flag),
    // A list rather than a map, since the first one is the default.
    Key::optional("settings", ValueType::Tables(SETTING)),
    Key::optional("require", ValueType::List(&ValueType::Text)).such_as("[\"p99 < 5ms\"]"),
    Key::required("stages", ValueType::Tables(STAGE)),
];

const SETTING: &[Key] = &[
    Key::required("name", ValueType::Text),
    Key::optional("threads", ValueType::Scalar),
    Key::optional("depth", ValueType::Scalar),
    Key::optional("active", ValueType::Text),
];

const ACTS: &[&str] = &["purge", "fill", "wait", "cells", "rounds", "series", "points"];
const GRIDS: &[&str] = &["cells", "rounds", "series"];
const GRIDS_AND_FILL: &[&str] = &["cells", "rounds", "series", "fill"];
/// Duration of a measurement or a wait, at least 1 ns.
const SOME_TIME: ValueType = ValueType::Time(1, u64::MAX);

const fn axis(path: &'static str, of: &'static [&'static str]) -> Key {
    Key::optional(path, ValueType::OneOrMany(&ValueType::Scalar)).only(of)
}

const STAGE: &[Key] = &[
    Key::required("do", ValueType::Kind(ACTS, "a stage that does")),
    Key::optional("name", ValueType::Text),
    // Workload.
    Key::optional("io", ValueType::Record(iodyno_workload::KEYS)).only(GRIDS),
    Key::optional("addresses", ValueType::Word(&["random", "sequential"])).only(GRIDS),
    Key::optional("active", ValueType::Text).only(GRIDS_AND_FILL),
    Key::optional("state", ValueType::Word(&["own", "fresh", "carried"])).only(GRIDS),
    axis("workload", GRIDS),
    axis("read", GRIDS),
    axis("block", GRIDS_AND_FILL),
    axis("threads", GRIDS_AND_FILL),
    axis("depth", GRIDS_AND_FILL),
    axis("rate", GRIDS),
    axis("think", GRIDS),
    axis("fsync", GRIDS),
    axis("targets", GRIDS),
    axis("fill", GRIDS),
    axis("engine", GRIDS),
    // Duration, order and repeats.
    Key::required("time", SOME_TIME)
        .only(&["wait", "cells", "rounds", "series", "points"])
        .such_as("\"60s\""),
    Key::optional("ramp", TIME).only(GRIDS),
    Key::optional("order", ValueType::Word(&["given", "random", "abba"])).only(&["cells"]),
    Key::optional("repeats", ValueType::Count(1, 1000)).only(&["cells"]),
    Key::optional("settle", ValueType::Flag).only(&["cells", "rounds"]),
    // Up to three passes can be proven: the map counts to three.
    Key::optional("passes", ValueType::Count(1, 3)).only(&["fill"]),
    Key::optional("rounds", ValueType::Count(2, 10_000)).only(&["rounds"]),
    Key::optional("window", ValueType::Count(2, 1000)).only(&["rounds", "series"]),
    Key::optional("range", ValueType::Percent).only(&["rounds", "series"]),
    Key::optional("slope", ValueType::Percent).only(&["rounds", "series"]),
    Key::required("track", ValueType::Tables(TRACK))
        .only(&["rounds"])
        .such_as("[{ read = \"0%\", block = \"4KiB\", measure = \"iops\" }]"),
    Key::optional("before", ValueType::Table(BEFORE)).only(&["rounds", "points"]),
    // At most a day of seconds.
    Key::required("samples", ValueType::Count(1, 86_400)).only(&["series"]).such_as("60"),
    Key::optional("wait", SOME_TIME).only(&["series"]),
    Key::optional("fills", NUMBER).only(&["series"]),
    Key::optional("steady_every", ValueType::Count(1, 1000)).only(&["series"]),
    // For points, and for rates as shares.
    Key::optional("of", ValueType::Text).only(&["cells", "rounds", "series", "points"]),
    Key::required("choose", ValueType::OneOrMany(&ValueType::Word(&WHICH)))
        .only(&["points"])
        .such_as("[\"optimal\"]"),
    Key::optional("ceiling", ValueType::Map(&SOME_TIME)).only(&["cells", "rounds", "points"]),
];

const WHICH: [&str; 4] = ["max", "optimal", "mid", "min"];

/// Keys of one table in `track`: axis values that select a grid point, and `measure`, the quantity of this point that
/// must become steady.
const TRACK: &[Key] = &[
    Key::optional("workload", ValueType::Scalar),
    Key::optional("targets", ValueType::Scalar),
    Key::optional("fill", ValueType::Scalar),
    Key::optional("engine", ValueType::Scalar),
    Key::optional("read", ValueType::Scalar),
    Key::optional("block", ValueType::Scalar),
    Key::optional("threads", ValueType::Scalar),
    Key::optional("depth", ValueType::Scalar),
    Key::optional("rate", ValueType::Scalar),
    Key::optional("think", ValueType::Scalar),
    Key::optional("fsync", ValueType::Scalar),
    Key::optional("measure", ValueType::Text),
];

/// Keys that describe the random writes before each round or operating point.
const BEFORE: &[Key] = &[
    Key::required("before.time", SOME_TIME).such_as("\"60s\""),
    Key::optional("before.read", ValueType::Scalar),
    Key::optional("before.block", ValueType::Scalar),
    Key::optional("before.threads", ValueType::Scalar),
    Key::optional("before.depth", ValueType::Scalar),
];
