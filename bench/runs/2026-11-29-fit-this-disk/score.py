#!/usr/bin/env python3
"""Scores twins across sessions. Usage: score.py SESSION.json...

For each pair of sessions and each held-out figure of both: the difference of the measurements, the error of the first
session's twin in the second session, and that of the first session's nearest measured cell. Prints medians.
"""
import json
import statistics
import sys

sessions = [json.load(open(path))["held_out"] for path in sys.argv[1:]]
of = [{(h["cell"], h["of"]["kind"], h["of"]["figure"]): h for h in session} for session in sessions]
for figures in (["mean"], ["p99"]):
    rows = []
    for first in of:
        for second in of:
            for key in first.keys() & second.keys():
                if first is second or key[2] not in figures:
                    continue
                measured = second[key]["of"]["measured_ns"]
                values = first[key]["of"]["measured_ns"], first[key]["predicted_ns"], first[key]["nearest_ns"]
                rows.append([abs(value / measured - 1) for value in values])
    own, twin, nearest = (statistics.median(column) for column in zip(*rows))
    print(f"{figures[0]}: {len(rows)} figures; disk {own:.0%}, twin {twin:.0%}, nearest cell {nearest:.0%}")
