"""Measures how long 1,000 runs with series take into pandas, beside sqlite3 by hand: `measure.py FOLDER`."""

import os
import random
import sqlite3
import statistics
import subprocess
import sys
import time

import iodyno
import pandas

RUNS, REPEATS = 1000, 7
path = os.path.join(sys.argv[1], "thousand.sqlite")


def copied(db, table, number, key, **changes):
    """Copies the rows of a table whose `key` is `number`, with other values of some columns."""
    names = [row[1] for row in db.execute(f"pragma table_info({table})") if row[1] != "number"]
    chosen = ", ".join(":" + name if name in changes else name for name in names)
    return db.execute(f"insert into {table} ({', '.join(names)}) select {chosen} from {table} where {key} = :of",
                      {**changes, "of": number}).lastrowid


if not os.path.exists(path):
    # A mixed load of 60 intervals of 1 s, in virtual time.
    iodyno.run("random-read", on="model:exflash-400g", read="70%", time="60s", interval="1s", notebook=path)
    random.seed(1)
    db = sqlite3.connect(path)
    (cell,) = db.execute("select number from cells").fetchone()
    for _ in range(RUNS - 1):
        name = "".join(random.choices("0123456789abcdefghjkmnpqrstvwxyz", k=10))
        run = copied(db, "runs", 1, "number", id=name)
        copied(db, "targets", 1, "run", run=run)
        copied(db, "workloads", 1, "run", run=run)
        copied(db, "intervals", cell, "cell", cell=copied(db, "cells", cell, "number", run=run))
    db.commit()
    db.close()


def by_hand():
    """Counts and bytes of all intervals, without latencies, which are blobs."""
    db = sqlite3.connect(path)
    return pandas.read_sql("select runs.id, cells.name, cells.target, intervals.position, kind, intervals.ops, intervals.bytes "
                           "from intervals join cells on cells.number = intervals.cell join runs on runs.number = cells.run", db)


notebook = iodyno.Notebook(path)
one = notebook.histogram("last")
ways = {
    "runs": lambda: notebook.runs().to_pandas(),
    "cells": lambda: notebook.cells().to_pandas(),
    "intervals": lambda: notebook.intervals().to_pandas(),
    "intervals into Polars": lambda: notebook.intervals().to_polars(),
    "histograms of cells": lambda: notebook.histograms().to_pyarrow(),
    "merge of all latencies": lambda: [notebook.histogram()],
    "intervals by sqlite3, no latencies": by_hand,
    "iodyno export csv-series of one run": lambda: subprocess.run(
        [iodyno.command.path(), "export", "last", "--format", "csv-series", "--notebook", path], capture_output=True,
        check=True).stdout.splitlines(),
}
print(f"{RUNS} runs, {os.path.getsize(path) / 1e6:.1f} MB, {os.cpu_count()} processors, pandas {pandas.__version__}")
for name, way in ways.items():
    seconds, processor = [], time.process_time()
    for _ in range(REPEATS):
        start = time.perf_counter()
        rows = len(way())
        seconds.append(time.perf_counter() - start)
    print(f"{name}: {rows} rows, median {statistics.median(seconds):.3f} s of", *(f"{s:.3f}" for s in seconds),
          f"; {(time.process_time() - processor) / REPEATS:.3f} s of processor time each")
