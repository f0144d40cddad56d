#!/usr/bin/env python3
"""Writes, for each drive of the study ssd-iq, a file of printed figures for `iodyno fit --figures`, a device to start from,
and a copy of the study whose drives are the fitted ones. Usage: make.py TREE FOLDER

The start is the drive's file in the catalog with generic values in place of the fitted ones."""
import csv, os, re, sys
tree, folder = sys.argv[1], sys.argv[2]
GENERIC = {
    ("nand", "read"): "70us", ("nand", "program_fast"): "800us", ("nand", "program_slow"): "800us",
    ("buffer", "accept"): "5us", ("translation", "reserved"): "8%", ("variation", "suspend"): "60us",
}
figures = {}
for row in csv.DictReader(open(f"{tree}/catalog/published/ssd_iq.csv")):
    figures.setdefault(row["system"], {})[row["workload"], row["metric"]] = row["value"]
os.makedirs(folder, exist_ok=True)
fitted = []
for drive, of in figures.items():
    probe = next((w for w, _ in of if w.startswith("poisson 10000 writes/s") and "reads of" in w), None)
    if drive.startswith("zn540") or probe is None: continue
    lines = [f'schema = 1\ntitle = "{drive}, fitted columns of SSD-iq"']
    def row(name, workload, keys):
        lines.append(f'\n[[figures]]\nname = "{name}"\nworkload = "{workload}"\n' + keys)
    known = {("nand", "read"), ("buffer", "accept"), ("variation", "suspend")}
    if ("overwrite sequential", "bandwidth") in of:
        row("sequential overwrites", "seq-write", f'block = "4KiB"\nthreads = 4\ndepth = 128\nthroughput = "{of["overwrite sequential", "bandwidth"]} MB/s"')
        known |= {("nand", "program_fast"), ("nand", "program_slow")}
    if ("overwrite uniform", "bandwidth") in of:
        row("uniform overwrites", "random-write", f'block = "4KiB"\nthreads = 4\ndepth = 128\nthroughput = "{of["overwrite uniform", "bandwidth"]} MB/s"')
        known |= {("translation", "reserved")}
    # 10,000 writes a second beside a probe of 10,000 operations: one Poisson process of 20,000.
    read = 25 if "half reads" in probe else 10
    writes = probe.replace("reads of the probe", "writes of the probe")
    row("10,000 writes a second beside the probe", "random-write",
        f'block = "4KiB"\nthreads = 8\ndepth = 64\nread = "{read}%"\nrate = 20000\nread_p50 = "{of[probe, "latency_p50"]}us"\nread_p99 = "{of[probe, "latency_p99"]}us"\nwrite_p50 = "{of[writes, "latency_p50"]}us"')
    open(f"{folder}/{drive}.figures.toml", "w").write("\n".join(lines) + "\n")
    table, out = "", []
    for line in open(f"{tree}/catalog/devices/{drive}.toml"):
        found = re.match(r"\[(\w+)\]", line)
        if found: table = found[1]
        key = line.split(" = ")[0]
        if (table, key) in known:
            line = f'{key} = {{ is = "{GENERIC[table, key]}", from = "assumed: a generic value to start from" }}\n'
        out.append(line)
    open(f"{folder}/{drive}.start.toml", "w").writelines(out)
    fitted.append(drive)
study = open(f"{tree}/catalog/studies/ssd-iq.toml").read()
for drive in fitted:
    study = study.replace(f'device = "{drive}"', f'device = "./{drive}.toml"')
open(f"{folder}/ssd-iq-fitted.toml", "w").write(study)
print(*fitted)
