#!/usr/bin/env python3
"""Two processes of iodyno at once, and two ranks of iodyno-mpi, taking turns: operations a second of each process.

Usage: measure.py FOLDER-OF-PROGRAMS ROUNDS > overhead.csv
"""
import json, statistics, subprocess, sys

programs, rounds = sys.argv[1], int(sys.argv[2])
FLAGS = ["--time", "2s", "--ramp", "500ms", "--json", "--no-notebook"]
MPI = ["--ranks", "2", "--allow-run-as-root", "--mpi-args", "--bind-to none"]


def processes(target, depth):
    line = [f"{programs}/iodyno", "run", "random-read", "--on", target, "--depth", depth, *FLAGS]
    both = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
    return [json.loads(p.communicate()[0])["cells"][0]["read"]["iops"] for p in both]


def ranks(target, depth):
    line = [f"{programs}/iodyno-mpi", "run", "random-read", "--on", target, "--depth", depth, *FLAGS, *MPI]
    out = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    return [c["read"]["iops"] for c in json.loads(out)["cells"] if not c["target"].startswith("all (")]


print("target,round,kind,iops")
for target, depth in [("null:1GiB", "32"), ("/dev/zero?size=1GiB", "32")]:
    ratios = []
    for turn in range(rounds):
        kinds = [("processes", processes), ("ranks", ranks)]
        found = {}
        for kind, run in kinds if turn % 2 == 0 else kinds[::-1]:
            found[kind] = statistics.mean(run(target, depth))
            print(f"{target},{turn},{kind},{found[kind]:.0f}", flush=True)
        ratios.append(found["ranks"] / found["processes"])
    ratios.sort()
    n = len(ratios)
    print(f"# {target}: ranks / processes {statistics.median(ratios):.4f} [{ratios[n // 4]:.4f}-{ratios[3 * n // 4]:.4f}]", flush=True)
