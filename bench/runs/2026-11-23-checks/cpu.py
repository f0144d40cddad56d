#!/usr/bin/env python3
"""CPU time of an NBD read or write, both ends together, of two builds taking turns: utime + stime of the server's and the client's process by operations.

usage: cpu.py OLD NEW REPETITIONS > raw.csv"""
import json, math, os, random, resource, statistics, subprocess, sys, tempfile, time
old, new, reps = sys.argv[1], sys.argv[2], int(sys.argv[3])
place = tempfile.mkdtemp()
def run(program, threads, kind):
    sock = f"{place}/{time.monotonic_ns()}.sock"
    server = subprocess.Popen([program, "serve", "ram:256MiB", "--nbd", f"unix:{sock}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(sock): time.sleep(0.01)
    target = f"nbd+unix:///?socket={sock}"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, "run", f"random-{kind}", "--on", target, "--destroy", target, "--depth", "32", "--threads", str(threads),
                           "--time", "1500ms", "--ramp", "200ms", "--no-notebook", "--json", "-q"], capture_output=True, text=True)
    server.kill(); server.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ops = json.loads(done.stdout)["cells"][0][kind]["iops"] * 1.7
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / ops * 1e9
print("threads,kind,repetition,old_ns,new_ns")
dice = random.Random(1)
geomean = lambda values: math.exp(statistics.fmean(map(math.log, values)))
for threads, kind in [(4, "read"), (4, "write"), (1, "read"), (1, "write")]:
    ratios = []
    for rep in range(reps):
        pair = {}
        for program in ((old, new) if rep % 2 else (new, old)): pair[program] = run(program, threads, kind)
        print(f"{threads},{kind},{rep},{pair[old]:.1f},{pair[new]:.1f}", flush=True)
        ratios.append(pair[new] / pair[old])
    drawn = sorted(geomean(dice.choices(ratios, k=len(ratios))) for _ in range(4000))
    print(f"nbd {threads} {kind}: CPU time an operation, new / old: geomean {geomean(ratios):.3f} [{drawn[100]:.3f}-{drawn[3899]:.3f}] median {statistics.median(ratios):.3f}", file=sys.stderr)
