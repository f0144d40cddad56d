#!/usr/bin/env python3
"""What large I/Os cost the emulator, of two builds, alternating.

measure.py OUT.csv REPETITIONS BEFORE AFTER     (two `iodyno` binaries)

A line a run: build, device, workload, repetition, I/Os, CPU ns an I/O as the cell says (fact `simulated`).
"""
import csv, json, re, subprocess, sys

DEVICES = ["exflash-400g", "nvme-tlc-3840g", "ssd-sata3-mlc-200g"]
LOADS = [
    "random-read --block 1MiB --depth 1", "random-read --block 1MiB --depth 32",
    "random-write --block 1MiB --depth 32", "oltp-67-33 --block 1MiB --depth 32",
    "random-read --block 64KiB --depth 32", "random-read --depth 32", "random-write --depth 32",
]

def simulated_ns(cell):
    rate, unit = re.match(r"([\d.]+) ?([kM]?) ?I/Os", cell["facts"]["simulated"]).groups()
    return 1e9 / (float(rate) * {"": 1, "k": 1e3, "M": 1e6}[unit])

out, repetitions, builds = sys.argv[1], int(sys.argv[2]), dict(zip(["before", "after"], sys.argv[3:5]))
with open(out, "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["build", "device", "workload", "repetition", "ios", "cpu_ns_per_io"])
    for repetition in range(repetitions):
        for device in DEVICES:
            for load in LOADS:
                time = "8s" if "MiB" in load else "1500ms"
                for name, binary in builds.items():
                    command = [binary, "run", *load.split(), "--on", f"model:{device}", "--time", time, "--json"]
                    cell = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["cells"][0]
                    ios = cell["read"]["ops"] + cell["write"]["ops"]
                    rows.writerow([name, device, load, repetition, ios, round(simulated_ns(cell), 1)])
        file.flush()
