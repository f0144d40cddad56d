#!/usr/bin/env python3
"""null: reads of two builds taking turns, on one processor. usage: null.py OLD NEW PAIRS"""
import json,math,random,statistics,subprocess,sys
B={'r':sys.argv[1],'s':sys.argv[2]}
def run(b):
    d=subprocess.run(["taskset","-c","1",B[b],"run","random-read","--on","null:1GiB","--depth","32","--time","400ms","--ramp","100ms","--no-notebook","--json","-q"],capture_output=True,text=True)
    c=json.loads(d.stdout)["cells"][0]
    return c["read"]["iops"]
rows=[]
for i in range(int(sys.argv[3])):
    x={}
    for b in ('rs' if i%2 else 'sr'): x[b]=run(b)
    rows.append(x)
r=sorted(x['s']/x['r'] for x in rows)
dice=random.Random(1)
geo=lambda v: math.exp(statistics.fmean(map(math.log,v)))
dr=sorted(geo(dice.choices(r,k=len(r))) for _ in range(4000))
print(f"r {statistics.median(x['r'] for x in rows)/1e6:.1f}M s {statistics.median(x['s'] for x in rows)/1e6:.1f}M geo {geo(r):.3f} [{dr[100]:.3f}-{dr[3899]:.3f}] med {statistics.median(r):.3f} max r {max(x['r'] for x in rows)/1e6:.1f} s {max(x['s'] for x in rows)/1e6:.1f}")
