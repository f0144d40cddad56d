import subprocess,json,time,sys,os,statistics as st
P='./final'
chk=json.loads(subprocess.run([P,'log','check','big.log','--json'],capture_output=True,text=True).stdout)
R=549; N=chk['messages']; F=chk['first_message']; B=N*R/1e9
print(N,B,os.path.getsize('big.log'),flush=True)
out=open('larger.csv','w'); out.write('round,case,gb_per_s\n')
def seq():
    t=subprocess.run([P,'run','seq-read','--on','big.log','--time','8s','--ramp','0s','--no-notebook','--json'],capture_output=True,text=True)
    return json.loads(t.stdout)['cells'][0]['total']['iops']*(1<<20)/1e9
def many(cmds,bytes_):
    t=time.monotonic(); ps=[subprocess.Popen([P,'log','replay',*c,'--bodies'],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL) for c in cmds]
    assert all(p.wait()==0 for p in ps); return bytes_/1e9/(time.monotonic()-t)
K=150000
for i in range(1,int(sys.argv[1])+1):
    row={'seq-read':seq(),'on':many([['--on','big.log']],N*R)}
    s=subprocess.Popen([P,'log','serve','big.log','--unix','r.sock'],stderr=subprocess.PIPE,text=True)
    while s.stderr.readline() not in ('ready\n',''): pass
    row['at']=many([['--at','unix:r.sock']],N*R)
    row['64 readers']=many([['--at','unix:r.sock','--from',str(F+j*(N//65)),'--count',str(K)] for j in range(64)],64*K*R)
    s.terminate(); s.wait()
    row['seq-read again']=seq()
    m=(row['seq-read']+row['seq-read again'])/2
    for c,v in row.items(): out.write(f'{i},{c},{v:.3f}\n')
    out.flush(); print({c:(round(v,2),round(v/m,2)) for c,v in row.items()},flush=True)
