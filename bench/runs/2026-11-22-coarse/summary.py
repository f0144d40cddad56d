#!/usr/bin/env python3
"""What raw.csv and sizes.csv say, by kind of load and by how many channels one stands for.

summary.py DEVICES      (in this folder; DEVICES: the catalog's folder of devices)
"""
import collections, csv, statistics, sys

rows = list(csv.DictReader(open("raw.csv")))
suspends = {d for d in {r["device"] for r in rows} if "suspend" in open(f"{sys.argv[1]}/{d}.toml").read()}

def kind(row):
    name = row["cell"]
    if "sequential" in name:
        return "in order, " + ("reads" if "100%" in name else "writes")
    if "=100%" in name:
        return "random reads"
    if "=0%" in name:
        return "random writes"
    return "mixes, reads " + ("suspend programs" if row["device"] in suspends else "wait for programs")

groups = collections.defaultdict(list)
for row in rows:
    groups[kind(row), int(row["part"].split()[-1])].append(row)
for (what, grain), of in sorted(groups.items()):
    def span(key, ops_min=0):
        all = [100 * float(r[key]) for r in of if r[key] and int(r["ops"]) >= ops_min]
        return f"{min(all):+.1f} to {max(all):+.1f}" if all else "-"
    cells = len({(r["device"], r["cell"]) for r in of})
    cost = statistics.median(float(r["cpu_us_whole"]) / float(r["cpu_us_part"]) for r in of)
    print(f"| {what} | {grain} | {cells} | {span('rate_off')} | {span('mean_off', 2000)} | {span('p99_off', 10000)} | {cost:.1f} |")

cost = collections.defaultdict(list)
for row in csv.DictReader(open("sizes.csv")):
    cost[row["device"], row["cell"].split()[1], row["coarse"], int(row["block_bytes"])].append(float(row["cpu_us"]))
for device, load, coarse in dict.fromkeys(key[:3] for key in cost):
    of = [cost[key] for key in sorted(cost) if key[:3] == (device, load, coarse)]
    print(f"| {device} | {load} | {coarse} | " + " | ".join(f"{statistics.median(x):.3g} [{min(x):.3g}-{max(x):.3g}]" for x in of) + " |")
