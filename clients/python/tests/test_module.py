"""Tests of the module against the command: `python3 test_module.py`, or pytest. The command is the variable IODYNO, or
that of the package. pandas, Polars, pyarrow and DuckDB are tested where they are installed; all of them with
IODYNO_ALL=1."""

import csv
import html
import importlib
import io
import json
import os
import pathlib
import pickle
import re
import tempfile

import iodyno
from iodyno import command

FOLDER = tempfile.TemporaryDirectory(prefix="iodyno-module-")
NOTEBOOK = pathlib.Path(FOLDER.name) / "notebook.sqlite"
SHORT = {"time": "2s", "interval": "100ms"}


def made():
    """A notebook with closed loop, open loop, several targets and flushes; all in virtual time."""
    notebook = iodyno.Notebook(NOTEBOOK)
    if not NOTEBOOK.exists():
        two = ["model:exflash-400g"] * 2
        runs = [
            iodyno.run("random-read", on=two[0], notebook=notebook, **SHORT),
            iodyno.run("random-read", on=two, notebook=NOTEBOOK, rate="2k/s", **SHORT),
            iodyno.run("four-corners", on=two[0], notebook=NOTEBOOK, **SHORT),
        ]
        assert [run.status for run in runs] == ["finished"] * 3
    return notebook


def said(*words, **options):
    return command.call(*words, notebook=NOTEBOOK, **options)


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("IODYNO_ALL"):
            raise
        return None


def raises(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def agree(rows, text):
    """Rows as dicts equal a table in CSV. Numbers are compared as numbers, None is an empty field."""
    expected = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(expected) > 0
    for row, other in zip(rows, expected):
        assert list(row) == list(other)
        for name, value in row.items():
            shown = None if other[name] == "" else type(value)(other[name]) if value is not None else other[name]
            assert value == shown, (name, value, other[name])


def test_tables_equal_those_of_the_command():
    notebook = made()
    runs = notebook.runs().to_pylist()
    listed = json.loads(said("ls", "--json"))["runs"]
    assert [run["id"] for run in runs] == [run["id"] for run in listed]
    for run, other in zip(runs, listed):
        for name in ["status", "reason", "name", "targets", "cells", "level"]:
            assert run[name] == other[name], name
        for name in ["started", "ended"]:
            assert run[name].isoformat(timespec="milliseconds").replace("+00:00", "Z") == other[name]
    for run in listed:
        agree(notebook.cells(run["id"]).to_pylist(), said("export", run["id"], format="csv"))
        agree(notebook.intervals(run["id"]).to_pylist(), said("export", run["id"], format="csv-series"))
    together = notebook.intervals().to_pylist()
    assert together == [row for run in listed for row in notebook.run(run["id"]).intervals().to_pylist()]
    assert notebook.cells([]).to_pylist() == []
    last = notebook.run()
    assert notebook.cells(["last", last]).to_pylist() == last.cells().to_pylist()
    assert last.document(series=True) == json.loads(said("show", "last", "--json", "--series"))
    assert last.started.isoformat(timespec="milliseconds").replace("+00:00", "Z") == listed[-1]["started"]


def test_histograms_merge_and_give_the_percentiles_of_the_command():
    notebook = made()
    compared = 0
    for run in [notebook.run("last~1"), notebook.run()]:
        for cell in run.document()["cells"]:
            for kind in [kind for kind in ("read", "write", "flush") if cell[kind]["ops"]]:
                where = {"cell": cell["name"], "target": cell["target"], "kind": kind}
                merged = run.histogram(**where)
                for latency, key in [("response", "latency_ns"), ("service", "service_ns")]:
                    if key in cell[kind]:
                        histogram = run.histogram(latency=latency, **where)
                        for name, percent in [("p50", 50), ("p99", 99), ("p99_9", 99.9), ("p99_99", 99.99)]:
                            if name in cell[kind][key]:
                                assert histogram.percentile(percent) == cell[kind][key][name], (where, latency, name)
                                compared += 1
                # The sum of the intervals' histograms, by their buckets, and by `+`.
                rows = [row for row in run.histograms(each_interval=True).to_pylist()
                        if (row["cell"], row["target"], row["kind"], row["latency"])
                        == (cell["name"], cell["target"], kind, "response")]
                counts = {}
                for bucket in (bucket for row in rows for bucket in row["buckets"]):
                    counts[bucket["low_ns"]] = counts.get(bucket["low_ns"], 0) + bucket["count"]
                assert counts == {b["low_ns"]: b["count"] for b in merged.buckets().to_pylist()}
                assert sum(counts.values()) == merged.count == cell[kind]["ops"]
    assert compared > 20, compared
    a, b = (notebook.histogram(run, "random-read") for run in ("last~2", "last~1"))
    both = notebook.histogram(["last~2", "last~1"], "random-read")
    assert a + b == both == sum([b, a]) and both.count == a.count + b.count and a != b
    assert min(a.percentile(99), b.percentile(99)) <= both.percentile(99) <= max(a.percentile(99), b.percentile(99))
    assert pickle.loads(pickle.dumps(both)) == both
    assert iodyno.Histogram().percentile(50) is None and iodyno.Histogram().min_ns is None
    assert both.percentile(99.9999999) is None and both.percentile(99.9999999, unsupported=True) is not None


def test_a_long_table_has_several_batches():
    """A batch has at most 65,536 rows, so that 32-bit offsets can't overflow; none is lost at its end."""
    path = pathlib.Path(FOLDER.name) / "long.sqlite"
    run = iodyno.run("random-read", on="model:virtual-disk", notebook=path, time="140s", interval="2ms", depth=4)
    intervals, histograms = run.intervals(), run.histograms(each_interval=True)
    counts = [row["ops"] for row in intervals.to_pylist()]
    assert len(counts) == len(intervals) > 1 << 16
    rows = histograms.to_pylist()
    assert len(rows) == len(histograms) and len(rows) > 1 << 16
    assert [row["count"] for row in rows] == [count for count in counts if count]
    assert all(sum(bucket["count"] for bucket in row["buckets"]) == row["count"] for row in rows[65530:65540])
    assert len(iodyno.Notebook(path).histograms(each_interval=True)) == len(rows)
    if pyarrow := optional("pyarrow"):
        for table in [intervals, histograms]:
            assert [len(batch) for batch in pyarrow.table(table).to_batches()] == [1 << 16, len(table) - (1 << 16)]


def test_arrow_readers_get_the_same_values_without_a_copy():
    notebook = made()
    histograms, rows = notebook.histograms(), notebook.histograms().to_pylist()
    if pyarrow := optional("pyarrow"):
        assert pyarrow.table(histograms).to_pylist() == rows
        assert pyarrow.table(histograms).schema == pyarrow.schema(histograms)
        # The same buffers, however often the table is exported.
        places = [pyarrow.table(histograms)["buckets"].chunk(0).values.field("count").buffers()[1].address for _ in range(2)]
        assert places[0] == places[1]
        started = notebook.runs().to_pyarrow()["started"]
        assert str(started.type) == "timestamp[ms, tz=UTC]"
    if polars := optional("polars"):
        assert polars.DataFrame(histograms).to_dicts() == rows
    if duckdb := optional("duckdb"):
        found = duckdb.sql(
            "select kind, sum(b.count) from (select kind, unnest(buckets) b from histograms) group by 1 order by 1")
        counts = {}
        for row in rows:
            counts[row["kind"]] = counts.get(row["kind"], 0) + row["count"]
        assert found.fetchall() == sorted(counts.items())
    if optional("pandas") and pyarrow:
        frame, cells = notebook.cells().to_pandas(), notebook.cells().to_pylist()
        assert frame["iops"].tolist() == [row["iops"] for row in cells]
        assert frame["latency_p99_ns"].dropna().tolist() == [
            row["latency_p99_ns"] for row in cells if row["latency_p99_ns"] is not None]


def test_comparisons_and_pages_are_those_of_the_command():
    notebook = made()
    compared = iodyno.compare("last~2", "last~1", notebook=notebook, metrics=["iops"])
    words = ["compare", "last~2", "last~1", "--metric", "iops"]
    text = command.call(*words, json=True, notebook=NOTEBOOK, accepted=(0, 7, 8))
    assert compared.document() == json.loads(text)
    assert compared.finding in ("slower", "open", "clear")
    page = pathlib.Path(FOLDER.name) / "page.html"
    said("report", "last", "--without-data", "-o", page)
    run = notebook.run()
    assert run.html() == page.read_text()
    for shown in [run, compared]:
        frame = shown._repr_html_()
        source = frame.split('srcdoc="', 1)[1].split('"', 1)[0]
        assert html.unescape(source) == shown.html() and "<svg" in source


def test_errors_name_the_remedy():
    notebook = made()
    assert "zzzz" in raises(iodyno.Error, lambda: notebook.cells("zzzz"))
    assert "the cells are" in raises(iodyno.Error, lambda: notebook.histogram("last", "no-such-cell"))
    assert "read, write" in raises(iodyno.Error, lambda: notebook.histogram(kind="reads"))
    assert "0 to 100" in raises(ValueError, lambda: iodyno.Histogram().percentile(101))
    missing = iodyno.Notebook(pathlib.Path(FOLDER.name) / "missing.sqlite")
    assert "missing.sqlite" in raises(iodyno.Error, missing.runs)
    try:
        iodyno.run("no-such-workload", notebook=NOTEBOOK)
        raise AssertionError("a wrong workload was taken")
    except iodyno.CommandError as error:
        assert error.code == 2 and "no-such-workload" in error.message
    # A run that is not kept has no Run to return; it is refused before it is made.
    for call in [lambda: iodyno.run("random-read", on="null:", no_notebook=True),
                 lambda: iodyno.run("random-read", "--no-notebook", on="null:", notebook=NOTEBOOK)]:
        assert "temporary folder" in raises(iodyno.Error, call)
    # What the call sets itself may be given too.
    assert iodyno.run("random-read", on="null:", notebook=pathlib.Path(FOLDER.name) / "other.sqlite", ops=10, ramp="0s",
                      json=True, quiet=False).status == "finished"
    before = NOTEBOOK.stat().st_mtime_ns
    notebook.cells(), notebook.runs()
    assert NOTEBOOK.stat().st_mtime_ns == before


def test_the_examples_of_the_page():
    page = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
    blocks = re.findall("^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    os.environ["IODYNO_NOTEBOOK"] = str(NOTEBOOK.with_name("page.sqlite"))
    names = {}
    for block in blocks:
        if "polars" in block and not (optional("polars") and optional("pandas")):
            continue
        exec(block, names)
    assert names["merged"] == names["again"] and names["merged"].count > 0
    assert names["compared"].finding in ("slower", "open", "clear")


if __name__ == "__main__":
    with FOLDER:
        for test in [test for name, test in list(globals().items()) if name.startswith("test_")]:
            test()
            print(test.__name__)
