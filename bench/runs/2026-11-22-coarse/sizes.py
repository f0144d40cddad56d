#!/usr/bin/env python3
"""What an I/O costs the emulator by its size, simulated on all channels and on a part of them, taking turns.

sizes.py IODYNO REPEATS > sizes.csv      (in this folder)
"""
import csv, json, os, re, statistics, subprocess, sys, tempfile

SIZES = ["64KiB", "128KiB", "256KiB", "512KiB", "1MiB", "2MiB", "4MiB"]
METHOD = """schema = 1
about = "sizes"
[[stages]]
do = "cells"
read = ["100%", "65%", "0%"]
depth = 32
block = {sizes}
time = "20s"
coarse = "{coarse}"
"""

def run(device, coarse):
    with tempfile.TemporaryDirectory() as folder:
        method = os.path.join(folder, "sizes.toml")
        open(method, "w").write(METHOD.format(sizes=json.dumps(SIZES), coarse=coarse))
        out = subprocess.run(["taskset", "-c", "1", sys.argv[1], "run", method, "--on", f"model:{device}", "--json"],
                             capture_output=True, check=True)
        return [c for c in json.loads(out.stdout)["cells"] if "simulated" in c["facts"]]

def cpu_us(cell):
    rate, unit = re.match(r"([\d.]+) ?([kM]?) ?I/Os", cell["facts"]["simulated"]).groups()
    return 1e6 / (float(rate) * {"": 1, "k": 1e3, "M": 1e6}[unit])

rows = csv.writer(sys.stdout)
rows.writerow(["device", "repeat", "cell", "block_bytes", "coarse", "part", "cpu_us"])
for device in ["exflash-400g", "nvme-tlc-3840g"]:
    for repeat in range(int(sys.argv[2])):
        for coarse in ("never", "all"):
            for cell in run(device, coarse):
                part = cell["facts"].get("simulated on", "all").split(":")[0]
                rows.writerow([device, repeat, cell["name"], cell["block_bytes"], coarse, part, round(cpu_us(cell), 3)])
        sys.stdout.flush()
