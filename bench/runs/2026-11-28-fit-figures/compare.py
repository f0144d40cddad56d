#!/usr/bin/env python3
"""Mean and median absolute errors of the predicted figures, by class. Usage: compare.py FITTED.json HAND.json"""
import json, statistics, sys
def rows(path):
    return {(r["system"], r["workload"], r["metric"]): r for r in json.load(open(path))["rows"]}
def kind(workload, metric):
    if "zones" in workload: return "zones"
    if metric == "write_amplification": return "write amplification"
    if workload.startswith("poisson writes"): return "knee"
    if "latency" in metric:
        fitted = "poisson 10000 " in workload and (metric == "latency_p50" or metric == "latency_p99" and "reads of" in workload)
        return "fitted" if fitted else f"{'reads' if 'reads of' in workload else 'writes'} under a load, {metric[8:]}"
    return "fitted" if workload in ("overwrite sequential", "overwrite uniform") else "skew and static data"
twin, hand = rows(sys.argv[1]), rows(sys.argv[2])
classes = {}
for key, row in twin.items():
    if key[0].startswith("zn540") or not row["value"] or row["ours"] is None: continue
    error = lambda r: abs(r["ours"] / row["value"] - 1) * 100
    classes.setdefault(kind(*key[1:]), []).append((error(row), error(hand[key])))
print("| class | figures | twin: mean, median | by hand: mean, median |\n|---|---|---|---|")
for name, errors in sorted(classes.items()):
    of = lambda i: f"{statistics.mean(e[i] for e in errors):.1f} %, {statistics.median(e[i] for e in errors):.1f} %"
    print(f"| {name} | {len(errors)} | {of(0)} | {of(1)} |")
