#!/usr/bin/env python3
"""sysbench's six modes, by sysbench itself and by iodyno on the same command line, in turn: events a second.
compare.py SYSBENCH_FOLDER IODYNO TARGET [OPTION …] > runs.csv"""
import json, re, subprocess, sys
folder, iodyno, target = sys.argv[1:4]
OPTIONS = " ".join(sys.argv[4:])
LINE = "sysbench fileio --file-num=16 --file-total-size=256M --file-extra-flags=direct --file-test-mode={} --time=1 " + OPTIONS + " {}"
print("mode,pair,program,events_per_s,reads_per_s,writes_per_s,flushes_per_s")
def theirs(mode):
    out = subprocess.run(LINE.format(mode, "run").split(), cwd=folder, capture_output=True, text=True).stdout
    of = lambda what: float(re.search(what + r"\s+([0-9.]+)", out).group(1))
    return of("number of events:") / of("total time:"), of("reads/s:"), of("writes/s:"), of("fsyncs/s:")
def ours(mode):
    command = [iodyno, "run", LINE.format(mode, "run"), "--on", target, "-q", "--json"]
    cell = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["cells"][0]
    rates = [cell.get(kind, {}).get("iops", 0.0) for kind in ("read", "write", "flush")]
    return sum(rates), *rates
for mode in ("rndrd", "rndwr", "rndrw", "seqrd", "seqrewr", "seqwr"):
    subprocess.run(LINE.format("rndrw", "prepare").split(), cwd=folder, capture_output=True)
    for pair in range(1, 6):
        for name, run in (("sysbench", theirs), ("iodyno", ours)):
            print(",".join([mode, str(pair), name] + ["%.1f" % x for x in run(mode)]), flush=True)
