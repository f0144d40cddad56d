#!/usr/bin/env python3
"""`ram:` targets of two builds of iodyno beside a bare memory loop, taking turns: random 4 KiB copies, 2 threads, 2 GiB.

usage: compare.py OLD NEW BENCH REPETITIONS > raw.csv
OLD and NEW are the programs `iodyno`, BENCH is `iodyno-bench`. The table goes to standard error."""
import json, statistics, subprocess, sys
old, new, bench, reps = *sys.argv[1:4], int(sys.argv[4])
def iodyno(program, kind):
    words = f"run random-{kind} --on ram:2GiB --threads 2 --depth 32 --time 600ms --ramp 200ms --no-notebook --json -q"
    cell = json.loads(subprocess.run([program, *words.split()], capture_output=True, text=True).stdout)["cells"][0]
    return cell[kind]["iops"]
def bare(buffers, lines):
    out = subprocess.run([bench, "bare-ram", str(2 << 30), "2", "0.6", str(buffers), str(lines)], capture_output=True, text=True)
    ops, seconds, *_ = map(float, out.stdout.split())
    return ops / seconds
CASES = {
    "bare, 1 buffer, 8 lines": lambda: bare(1, 8),
    "bare, 32 buffers, 8 lines": lambda: bare(32, 8),
    "bare, 1 buffer, none": lambda: bare(1, 0),
    "old reads": lambda: iodyno(old, "read"),
    "new reads": lambda: iodyno(new, "read"),
    "old writes": lambda: iodyno(old, "write"),
    "new writes": lambda: iodyno(new, "write"),
}
print("repetition,case,rate")
rows = []
for rep in range(reps):
    names = list(CASES) if rep % 2 == 0 else list(CASES)[::-1]
    row = {}
    for name in names:
        row[name] = CASES[name]()
        print(f'{rep},"{name}",{row[name]:.0f}', flush=True)
    rows.append(row)
first = next(iter(CASES))
for name in CASES:
    ratios = sorted(row[name] / row[first] for row in rows)
    rate = statistics.median(row[name] for row in rows)
    print(f"{name:26} {rate / 1e6:5.2f} M/s, {statistics.median(ratios):.2f} of the bare loop [{ratios[0]:.2f}-{ratios[-1]:.2f}]", file=sys.stderr)
for kind in ("reads", "writes"):
    ratios = sorted(row[f"new {kind}"] / row[f"old {kind}"] for row in rows)
    print(f"new / old {kind}: {statistics.median(ratios):.2f} [{ratios[0]:.2f}-{ratios[-1]:.2f}]", file=sys.stderr)
