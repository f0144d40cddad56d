#!/usr/bin/env python3
"""The table of README.md from runs.csv."""
import csv, statistics, sys
rows = list(csv.DictReader(open(sys.argv[1] if len(sys.argv) > 1 else "runs.csv")))
print("| mode | sysbench, events/s | iodyno, events/s | ratio of pairs: median (least to most) | flushes of all events, sysbench, iodyno |\n|---|---|---|---|---|")
for mode in dict.fromkeys(row["mode"] for row in rows):
    of = lambda p, k: [float(r[k]) for r in rows if r["mode"] == mode and r["program"] == p]
    a, b = of("sysbench", "events_per_s"), of("iodyno", "events_per_s")
    ratios = sorted(y / x for x, y in zip(a, b))
    flushes = [100 * sum(of(p, "flushes_per_s")) / sum(of(p, "events_per_s")) for p in ("sysbench", "iodyno")]
    span = lambda v: "%.0f (%.0f to %.0f)" % (statistics.median(v), min(v), max(v))
    print("| %s | %s | %s | %.2f (%.2f to %.2f) | %.1f %%, %.1f %% |" % (mode, span(a), span(b), statistics.median(ratios), ratios[0], ratios[-1], *flushes))
