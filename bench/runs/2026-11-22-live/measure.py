"""Measures `live:` in process and over NBD beside the model, taking turns: python3 measure.py IODYNO REPS > live.csv"""
import json, os, subprocess, sys, tempfile, time

iodyno, reps = sys.argv[1], int(sys.argv[2])
here = os.path.dirname(os.path.abspath(__file__))
folder = tempfile.mkdtemp()
os.environ["IODYNO_NOTEBOOK"] = folder + "/notebook"
uri = f"nbd+unix:///?socket={folder}/s"
kind = lambda w: "read" if "read" in w else "write"


def run(on, workload, depth):
    """Median, mean and p99 of latency, µs; IOPS; late p50 and p99 where it is told."""
    words = [iodyno, "run", workload, "--on", on, "--threads", "1", "--time", "4s", "--json"]
    words += ["--depth", str(depth)] + (["--destroy", on] if on == uri else [])
    cell = json.loads(subprocess.run(words, capture_output=True, text=True).stdout)["cells"][0]
    of = cell[kind(workload)]
    late = cell.get("facts", {}).get("late", "")
    took = of["latency_ns"]
    return [took["p50"] / 1e3, took["mean"] / 1e3, took["p99"] / 1e3, of["iops"], late.replace(",", ";")]


def fio(depth):
    words = f"fio --name=x --ioengine=nbd --rw=randread --bs=4k --iodepth={depth} --time_based --runtime=4 --ramp_time=1 --size=10G --randrepeat=0 --output-format=json".split()
    text = subprocess.run(words + ["--uri=" + uri], capture_output=True, text=True).stdout
    of = json.loads(text[text.index("{"):])["jobs"][0]["read"]
    took = of["clat_ns"]["percentile"]
    slat = of["slat_ns"]["mean"]
    return [(took["50.000000"] + slat) / 1e3, of["lat_ns"]["mean"] / 1e3, (took["99.000000"] + slat) / 1e3, of["iops"], ""]


print("case,contender,rep,p50_us,mean_us,p99_us,iops,late")


def tell(case, contender, rep, figures):
    cells = [f"{f:.2f}" if isinstance(f, float) else str(f) for f in figures]
    print(f"{case},{contender},{rep}," + ",".join(cells), flush=True)


for rep in range(reps):
    for name, workload in [("read", "random-read"), ("write", "random-write"), ("writenow", here + "/writenow.toml")]:
        for on in ["live:exflash-400g", "model:exflash-400g"]:
            tell(f"{name} depth 1", on.split(":")[0], rep, run(on, workload, 1))
for rep in range(reps):
    served = subprocess.Popen([iodyno, "serve", "exflash-400g", "--nbd", f"unix:{folder}/s"], stderr=subprocess.PIPE, text=True)
    for line in served.stderr:
        if line.startswith("time"):
            print(f"# {line.strip()}")
            break
    for depth in [1, 4, 8, 32]:
        tell(f"read depth {depth}", "nbd", rep, run(uri, "random-read", depth))
        tell(f"read depth {depth}", "model", rep, run("model:exflash-400g", "random-read", depth))
        tell(f"read depth {depth}", "fio nbd", rep, fio(depth))
    served.terminate()
    served.wait()
    os.unlink(folder + "/s") if os.path.exists(folder + "/s") else None
