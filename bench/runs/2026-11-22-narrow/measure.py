#!/usr/bin/env python3
"""A device against a part of its channels, with I/Os that are smaller in proportion: what differs, and what it costs.

measure.py IODYNO > raw.csv      (in this folder)
"""
import csv, json, re, subprocess, sys

def cell(target, load, block, depth):
    command = [sys.argv[1], "run", load, "--block", block, "--depth", str(depth), "--on", target, "--time", "30s", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["cells"][0]

def cpu_ns(cell):
    rate, unit = re.match(r"([\d.]+) ?([kM]?) ?I/Os", cell["facts"]["simulated"]).groups()
    return 1e9 / (float(rate) * {"": 1, "k": 1e3, "M": 1e6}[unit])

rows = csv.writer(sys.stdout)
rows.writerow(["load", "depth", "part", "operation", "rate_off", "mean_off", "p99_off", "cpu_ratio"])
for load in ["random-read", "random-write", "oltp-67-33", "seq-read", "seq-write"]:
    for depth in (1, 4, 32):
        whole = cell("model:nvme-tlc-3840g", load, "1MiB", depth)
        for part, block in ((2, "512KiB"), (4, "256KiB")):
            narrow = cell(f"model:./nvme-tlc-3840g-n{part}.toml", load, block, depth)
            for operation in ("read", "write"):
                a, b = whole[operation], narrow[operation]
                if a["ops"]:
                    off = lambda x, y: round(y / x - 1, 4)
                    rows.writerow([load, depth, f"1/{part}", operation, off(a["iops"], b["iops"]),
                                   off(a["latency_ns"]["mean"], b["latency_ns"]["mean"]),
                                   off(a["latency_ns"]["p99"], b["latency_ns"]["p99"]),
                                   round(cpu_ns(whole) / cpu_ns(narrow), 1)])
