"""Alternates builds over NBD: `old` is 8c25932, `again` the same binary once more (what the machine alone
does), `new` the build under test. Usage: pairs.py OLD NEW ROUNDS > raw.csv"""
import json, math, os, random, statistics, subprocess, sys, tempfile, time
OLD, NEW, ROUNDS = sys.argv[1], sys.argv[2], int(sys.argv[3])
BUILDS = {"old": OLD, "again": OLD, "new": NEW}
folder = tempfile.mkdtemp()
def rate_iops(binary, kind):
    socket = f"{folder}/{time.monotonic_ns()}.sock"
    server = subprocess.Popen([binary, "serve", "ram:256MiB", "--nbd", f"unix:{socket}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not os.path.exists(socket): time.sleep(0.005)
    target = f"nbd+unix:///?socket={socket}"
    out = subprocess.run([binary, "run", f"random-{kind}", "--on", target, "--destroy", target, "--depth", "32", "--threads", "4",
                          "--time", "800ms", "--ramp", "200ms", "--no-notebook", "--json", "-q"], capture_output=True, text=True)
    server.kill(); server.wait()
    return json.loads(out.stdout)["cells"][0][kind]["iops"]
random.seed(20)
print("kind,round,build,iops", flush=True)
table = {}
for r in range(ROUNDS):
    for kind in ("read", "write"):
        order = list(BUILDS); random.shuffle(order)
        for build in order:
            v = rate_iops(BUILDS[build], kind)
            table.setdefault((kind, build), []).append(v)
            print(f"{kind},{r},{build},{v:.0f}", flush=True)
geo = lambda v: math.exp(statistics.fmean(map(math.log, v)))
dice = random.Random(1)
for kind in ("read", "write"):
    for a, b in (("again", "old"), ("new", "old"), ("new", "again")):
        ratios = [x / y for x, y in zip(table[kind, a], table[kind, b])]
        drawn = sorted(geo(dice.choices(ratios, k=len(ratios))) for _ in range(4000))
        print(f"{kind} {a}/{b}: geometric mean {geo(ratios):.3f} [{drawn[100]:.3f}-{drawn[3899]:.3f}] median {statistics.median(ratios):.3f}", file=sys.stderr, flush=True)
