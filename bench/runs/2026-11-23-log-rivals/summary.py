#!/usr/bin/env python3
"""The tables of README.md from quiet.csv and busy.csv."""
import csv
from statistics import median


def rows(path):
    return [r for r in csv.DictReader(open(path)) if r["kept"] == "kept"]


def us(text):
    if not text:
        return "–"
    value = float(text)
    return f"{value / 1e3:.2f} ms" if value >= 1e3 else f"{value:.0f} µs"


def rate(value):
    return f"{value / 1e3:.3g} k" if value < 1e6 else f"{value / 1e6:.3g} M"


quiet = {(r["batch"], r["contender"]): r for r in rows("quiet.csv") if float(r["others_cpu"]) <= 0.15}
busy = {}
for r in rows("busy.csv"):
    busy.setdefault((r["batch"], r["contender"]), {})[r["round"]] = float(r["messages_per_s"])
names = ["bare", "ours", "redb", "fjall", "sqlite", "nats-atomic", "nats-single"]
print("| N | | quiet: messages/s | ours to it | p50 | p99 | busy: messages/s, median of 5 | ours to it, median [least-most] |")
print("|---|---|---|---|---|---|---|---|")
for batch in ["1", "16", "128", "1024"]:
    ours = quiet[batch, "ours"]
    for name in names:
        r = quiet.get((batch, name))
        cells = ["not measured", "", "", ""]
        if r:
            ratio = float(ours["messages_per_s"]) / float(r["messages_per_s"])
            ratio = "" if name == "ours" else f"{ratio:.2f}"
            cells = [rate(float(r["messages_per_s"])), ratio, us(r["p50_us"]), us(r["p99_us"])]
        rates = busy[batch, name]
        ratios = [busy[batch, "ours"][k] / v for k, v in rates.items()]
        spread = "" if name == "ours" else f"{median(ratios):.2f} [{min(ratios):.2f}-{max(ratios):.2f}]"
        cells += [rate(median(rates.values())), spread]
        print(f"| {batch} | {name} | {' | '.join(cells)} |")
