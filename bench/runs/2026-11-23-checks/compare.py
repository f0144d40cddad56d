#!/usr/bin/env python3
"""iodyno beside an earlier build of it, taking turns: rates of null:, /dev/zero, memory, model: and NBD.

usage: compare.py OLD NEW REPETITIONS > raw.csv
Each build serves and measures its own NBD exports. Prints a line a run. The table goes to standard error: the geometric mean
of the pairs' ratios (new / old) with its 95 % interval (bootstrap over pairs), and their median, least and most."""
import json, math, os, random, statistics, subprocess, sys, tempfile, time
old, new, reps = sys.argv[1], sys.argv[2], int(sys.argv[3])
place = tempfile.mkdtemp()
CASES = {
    "null": "random-read --on null:1GiB --depth 32",
    "null writes": "random-write --on null:1GiB --depth 32",
    "/dev/zero": "random-read --on /dev/zero?size=1GiB --engine psync --depth 1",
    "tmpfs": "random-read --on /dev/shm/compare.bin?size=256MiB --destroy /dev/shm/compare.bin --engine psync --depth 1",
    "ram reads": "random-read --on ram:1GiB --depth 32",
    "ram writes": "random-write --on ram:1GiB --depth 32",
    "model reads": "random-read --on model:exflash-400g --threads 4 --depth 32 --time 2s",
    "model writes": "random-write --on model:exflash-400g --threads 4 --depth 32 --time 2s",
    "model 67 %": "oltp-67-33 --on model:exflash-400g --threads 4 --depth 32 --time 2s",
    "32 models": "random-read --on model:exflash-400g*32@x3850-x6 --threads 4 --depth 32 --time 300ms",
    "nbd 1": "random-read --on NBD --depth 32 --threads 1",
    "nbd 4": "random-read --on NBD --depth 32 --threads 4",
    "nbd 1 writes": "random-write --on NBD --destroy NBD --depth 32 --threads 1",
    "nbd 4 writes": "random-write --on NBD --destroy NBD --depth 32 --threads 4",
}
def run(program, words):
    server = None
    if "NBD" in words:
        sock = f"{place}/{time.monotonic_ns()}.sock"
        server = subprocess.Popen([program, "serve", "ram:256MiB", "--nbd", f"unix:{sock}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(sock): time.sleep(0.01)
        words = words.replace("NBD", f"nbd+unix:///?socket={sock}")
    times = "" if "--time" in words else " --time 700ms --ramp 200ms"
    begin = time.monotonic()
    done = subprocess.run([program, "run", *(words + times).split(), "--no-notebook", "--json", "-q"], capture_output=True, text=True)
    wall = time.monotonic() - begin
    if server: server.kill(); server.wait()
    if not done.stdout: raise SystemExit(f"{program} {words}: {done.stderr}")
    cell = json.loads(done.stdout)["cells"][0]
    iops = sum(cell[k]["iops"] for k in ("read", "write") if k in cell and cell[k])
    # In virtual time: I/Os of the run by the time that the program took.
    return iops / wall if "model:" in words else iops
print("case,repetition,build,rate")
table = {}
for rep in range(reps):
    for case, words in CASES.items():
        pair = {}
        for build in ((old, new) if rep % 2 == 0 else (new, old)):
            pair[build] = run(build, words)
            print(f"{case},{rep},{'old' if build == old else 'new'},{pair[build]:.0f}", flush=True)
        table.setdefault(case, []).append(pair)
dice = random.Random(1)
geomean = lambda values: math.exp(statistics.fmean(map(math.log, values)))
for case, pairs in table.items():
    ratios = sorted(p[new] / p[old] for p in pairs)
    drawn = sorted(geomean(dice.choices(ratios, k=len(ratios))) for _ in range(4000))
    med = lambda b: statistics.median(p[b] for p in pairs)
    print(f"{case:14} old {med(old):12.0f} new {med(new):12.0f} geomean {geomean(ratios):.3f} [{drawn[100]:.3f}-{drawn[3899]:.3f}] "
          f"median {statistics.median(ratios):.3f} [{ratios[0]:.2f}-{ratios[-1]:.2f}]", file=sys.stderr)
