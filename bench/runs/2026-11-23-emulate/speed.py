"""Simulated I/Os a CPU second of two builds, taking turns. Usage: speed.py OLD NEW ROUNDS; writes raw.csv"""
import subprocess, resource, statistics, sys, math, csv
A,B=sys.argv[1],sys.argv[2]
cases={
 'model read':'run random-read --on model:exflash-400g --time 8s --ramp 10ms',
 'model write':'run random-write --on model:exflash-400g --time 6s --ramp 10ms',
 'model mix':'run oltp1 --on model:exflash-400g --time 6s --ramp 10ms',
 '32 devices':'run oltp1 --on model:exflash-400g*32@x3850-x6 --time 400ms --ramp 10ms',
 'sata ssd mix':'run oltp1 --on model:ssd-sata3-emlc-800g --time 8s --ramp 10ms',
}
def t(b,c):
    r0=resource.getrusage(resource.RUSAGE_CHILDREN)
    p=subprocess.run([b]+c.split()+['--json','--no-notebook'],stdout=subprocess.PIPE,stderr=subprocess.DEVNULL)
    r1=resource.getrusage(resource.RUSAGE_CHILDREN)
    import json
    d=json.loads(p.stdout); c=d['cells'][-1]
    ops=sum(c[k]['ops'] for k in ('read','write') if c.get(k) and 'ops' in c[k])
    return ops/(r1.ru_utime-r0.ru_utime+r1.ru_stime-r0.ru_stime)
rounds=int(sys.argv[3])
with open('raw.csv','w') as f:
    w=csv.writer(f); w.writerow(['case','round','base_ops_per_cpu_s','new_ops_per_cpu_s'])
    for name,c in cases.items():
        rs=[]
        for i in range(rounds):
            if i%2: b=t(B,c); a=t(A,c)
            else: a=t(A,c); b=t(B,c)
            rs.append(b/a); w.writerow([name,i,round(a),round(b)])
        l=[math.log(x) for x in rs]; m=statistics.mean(l); se=statistics.stdev(l)/math.sqrt(len(l))
        print(f'{name:14} new/base ops per CPU s: median {statistics.median(rs):.3f} mean {math.exp(m):.3f} [{math.exp(m-2*se):.3f}-{math.exp(m+2*se):.3f}]  new {b:.0f}',flush=True)
