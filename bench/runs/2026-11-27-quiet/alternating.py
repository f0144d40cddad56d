import subprocess,json,time,statistics,os,sys,csv
B={"base":"./iodyno-53e0ca6d","new":"./iodyno-new"}
N=int(sys.argv[1])
def doc(k,args):
    r=subprocess.run([B[k],"run"]+args.split()+["--json","-q","--notebook","%s.sqlite"%k],capture_output=True,text=True)
    assert r.returncode==0,r.stderr
    return json.loads(r.stdout)["cells"][0]
def rate(k,args):
    c=doc(k,args); return sum((c.get(x) or {}).get("iops",0) for x in("read","write"))
def sim(k,args):
    t=os.times(); doc(k,args); u=os.times(); return 1/((u.children_user-t.children_user)+(u.children_system-t.children_system))
cases={
 "null, 1 thread, depth 32 (IOPS)":(rate,"random-read --on null: --time 2s --ramp 500ms"),
 "null, 1 thread, depth 1":(rate,"random-read --on null: --depth 1 --time 2s --ramp 500ms"),
 "null, 2 threads, random writes":(rate,"random-write --on null: --threads 2 --time 2s --ramp 500ms"),
 "/dev/zero, depth 32":(rate,"random-read --on /dev/zero?size=8GiB --time 2s --ramp 500ms"),
 "/dev/zero, depth 1":(rate,"random-read --on /dev/zero?size=8GiB --depth 1 --time 2s --ramp 500ms"),
 "model:exflash-400g, random reads (runs a processor second)":(sim,"random-read --on model:exflash-400g --time 20s"),
 "model:exflash-400g, oltp1":(sim,"oltp1 --on model:exflash-400g --time 30s"),
}
w=csv.writer(open("alt.csv","w")); w.writerow(["case","pair","base","new"])
for name,(f,a) in cases.items():
    q=[]
    for i in range(N):
        ks=["base","new"] if i%2==0 else ["new","base"]
        v={k:f(k,a) for k in ks}; w.writerow([name,i,v["base"],v["new"]]); q.append(v["new"]/v["base"])
    q.sort(); print("%-60s median %.3f [%.3f-%.3f]"%(name,statistics.median(q),q[0],q[-1]),flush=True)
