"""Simulated I/Os a CPU second of two release builds of iodyno, in turn.

Usage: speed.py OLD NEW [PAIRS [CASE]]   (7 pairs by default, of the cases whose name contains CASE; writes raw.csv in
the working folder, prints the medians)

`explain` prints the rate of the simulation alone. Of `run`, the rate is of the whole program, start-up included.
Where `perf` can count, raw.csv has the instructions and cycles of the whole program in user mode too; else they are 0.
"""
import csv, json, math, re, resource, shutil, statistics, subprocess, sys, tempfile

SYSTEM = "57ce-pair-48ssd-raid5"
CASES = {
    "48 SSDs, RAID 5, oltp1": f"explain {SYSTEM} oltp1",
    "48 SSDs, RAID 5, random writes": f"explain {SYSTEM} random-write",
    "48 SSDs, RAID 5, oltp1, 4 s": f"run oltp1 --on model:{SYSTEM} --time 4s --ramp 10ms",
    "48 SSDs, RAID 5, random writes, 4 s": f"run random-write --on model:{SYSTEM} --time 4s --ramp 10ms",
    "one flash DIMM, reads": "run random-read --on model:exflash-400g --time 12s --ramp 10ms",
    "one flash DIMM, writes": "run random-write --on model:exflash-400g --time 12s --ramp 10ms",
    "one flash DIMM, oltp1": "run oltp1 --on model:exflash-400g --time 12s --ramp 10ms",
    "one SATA SSD, oltp1": "run oltp1 --on model:ssd-sata3-emlc-800g --time 16s --ramp 10ms",
    "32 flash DIMMs, oltp1": "run oltp1 --on model:exflash-400g*32@x3850-x6 --time 400ms --ramp 10ms",
}
UNITS = {"": 1, "k": 1e3, "M": 1e6}


def counts_events():
    try:
        probe = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
        out = subprocess.run(probe, capture_output=True, text=True)
        return out.returncode == 0 and out.stderr.split(",")[0].isdigit()
    except FileNotFoundError:
        return False


def once(build, case, perf):
    """The rate, and instructions and cycles, of one run."""
    command = [build] + case.split() + ([] if case.startswith("explain") else ["--json", "--no-notebook"])
    with tempfile.NamedTemporaryFile("r") as counted:
        if perf:
            command = ["perf", "stat", "-x,", "-o", counted.name, "-e", "instructions:u,cycles:u"] + command
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        lines = [line.split(",") for line in counted.read().splitlines() if line[:1].isdigit()]
    instructions, cycles = ([int(line[0]) for line in lines] + [0, 0])[:2]
    if case.startswith("explain"):
        number, unit = re.search(r"; ([\d.]+) ([kM]?) ?I/Os a CPU second", out).groups()
        return float(number) * UNITS[unit], instructions, cycles
    cell = json.loads(out)["cells"][-1]
    ops = sum(cell[kind]["ops"] for kind in ("read", "write") if cell.get(kind) and "ops" in cell[kind])
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return ops / cpu_s, instructions, cycles


def spread(ratios):
    logs = [math.log(r) for r in ratios]
    mean, error = statistics.mean(logs), statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else 0
    low, high = math.exp(mean - 2 * error), math.exp(mean + 2 * error)
    return f"{statistics.median(ratios):.3f} (mean {math.exp(mean):.3f} [{low:.3f}-{high:.3f}])"


def main():
    old, new = (shutil.which(build) or build for build in sys.argv[1:3])
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    part = sys.argv[4] if len(sys.argv) > 4 else ""
    perf = counts_events()
    with open("raw.csv", "w") as file:
        raw = csv.writer(file)
        raw.writerow(["case", "pair", "build", "ios_per_cpu_s", "instructions", "cycles"])
        for name, case in ((name, case) for name, case in CASES.items() if part in name):
            taken = []
            for pair in range(pairs):
                order = [("old", old), ("new", new)]
                of = {}
                for which, build in order if pair % 2 == 0 else order[::-1]:
                    of[which] = once(build, case, perf)
                    raw.writerow([name, pair, which, *(round(x) for x in of[which])])
                file.flush()
                taken.append(of)
            rates = spread([of["new"][0] / of["old"][0] for of in taken])
            rate = {which: statistics.median(of[which][0] for of in taken) for which in ("old", "new")}
            line = f"{name:36} new/old {rates}; old {rate['old']:,.0f}, new {rate['new']:,.0f} I/Os a CPU second"
            if perf:
                for at, what in ((1, "instructions"), (2, "cycles")):
                    line += f"; {what} {statistics.median(of['new'][at] / of['old'][at] for of in taken):.3f}"
            print(line, flush=True)


main()
