#!/usr/bin/env python3
"""Large I/Os simulated on a part of the channels against all of them: what differs, and what an I/O costs.

measure.py IODYNO [DEVICE ...] > raw.csv      (in this folder)
"""
import csv, json, os, re, subprocess, sys, tempfile

DEVICES = ["exflash-400g", "exflash-200g", "iodrive2-785g", "nvme-tlc-3840g", "nvme-qlc-2048g", "ssd-m2x2-mlc-512g",
           "ssd-pcie8-mlc-1400g", "ssd-sas12-mlc-800g", "ssd-sata3-emlc-800g", "ssd-sata3-mlc-200g", "ssd-sff8639-mlc-700g", "ssd-msata-mlc-128g"]
METHOD = """schema = 1
about = "large I/Os"
[[stages]]
do = "cells"
addresses = "{addresses}"
read = {reads}
depth = [1, 4, 32]
block = ["1MiB", "4MiB"]
time = "60s"
coarse = "{coarse}"
"""

def run(device, addresses, reads, coarse):
    with tempfile.TemporaryDirectory() as folder:
        method = os.path.join(folder, "large.toml")
        open(method, "w").write(METHOD.format(addresses=addresses, reads=json.dumps(reads), coarse=coarse))
        out = subprocess.run([sys.argv[1], "run", method, "--on", f"model:{device}", "--json"], capture_output=True)
        if not out.stdout:
            sys.exit(out.stderr.decode())
        return [c for c in json.loads(out.stdout)["cells"] if "simulated" in c["facts"]]

def cpu_ns(cell):
    rate, unit = re.match(r"([\d.]+) ?([kM]?) ?I/Os", cell["facts"]["simulated"]).groups()
    return 1e9 / (float(rate) * {"": 1, "k": 1e3, "M": 1e6}[unit])

rows = csv.writer(sys.stdout)
rows.writerow(["device", "cell", "block_bytes", "depth", "part", "operation", "ops", "rate_off", "mean_off", "p99_off", "cpu_us_whole", "cpu_us_part"])
for device in sys.argv[2:] or DEVICES:
    for addresses, reads in (("random", ["100%", "95%", "65%", "35%", "5%", "0%"]), ("sequential", ["100%", "0%"])):
        whole, part = (run(device, addresses, reads, coarse) for coarse in ("never", "all"))
        for a, b in zip(whole, part):
            assert a["name"] == b["name"]
            for operation in ("read", "write"):
                x, y = a[operation], b[operation]
                if x["ops"]:
                    off = lambda p, q: round(q / p - 1, 4) if p and q else ""
                    rows.writerow([device, a["name"], a["block_bytes"], a["depth"], b["facts"].get("simulated on", "").split(":")[0], operation, x["ops"],
                                   off(a["total"]["iops"], b["total"]["iops"]),
                                   off(x["latency_ns"]["mean"], y["latency_ns"]["mean"]),
                                   off(x["latency_ns"]["p99"], y["latency_ns"]["p99"]),
                                   round(cpu_ns(a) / 1e3, 2), round(cpu_ns(b) / 1e3, 2)])
        sys.stdout.flush()
