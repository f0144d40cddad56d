#!/usr/bin/env python3
"""IOR and iodyno-mpi on one shared file of tmpfs, taking turns: the same blocks, ranks and file, for the same time.

Usage: compare.py IOR IODYNO-MPI [--folder /dev/shm] [--pairs 5] [--seconds 2] [--ranks 2] > compare.csv

Both write the file in place, then read it: each rank its own half, one transfer at a time, through the page cache, which on
tmpfs is the file. Ratios of iodyno-mpi to IOR go to standard error at the end.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile

arguments = argparse.ArgumentParser()
arguments.add_argument("ior")
arguments.add_argument("iodyno_mpi")
arguments.add_argument("--folder", default="/dev/shm")
arguments.add_argument("--pairs", type=int, default=5)
arguments.add_argument("--seconds", type=int, default=2)
arguments.add_argument("--ranks", type=int, default=2)
arguments.add_argument("--file-mib", type=int, default=256)
arguments.add_argument("--launcher", default="", help="more words for mpirun, of both")
ask = arguments.parse_args()
# Name, transfer, order.
CASES = [("1 MiB", 1 << 20, "sequential"), ("64 KiB", 64 << 10, "sequential"), ("4 KiB", 4 << 10, "random")]

work = tempfile.TemporaryDirectory(dir=ask.folder)
shared = os.path.join(work.name, "shared")


def run(line):
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=work.name)
    if done.returncode != 0:
        sys.exit(f"{' '.join(line)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def ior(transfer, order):
    """Bytes a second of writes and reads, as IOR reports them: from the first open to the last close."""
    report = os.path.join(work.name, "ior.json")
    block = ask.file_mib * (1 << 20) // ask.ranks
    line = ["mpirun", "--allow-run-as-root", *ask.launcher.split(), "-n", str(ask.ranks), ask.ior]
    # -E -k: in place; -g: barriers between its phases; -D: it stops after so long; and begins again until then.
    line += ["-a", "POSIX", "-w", "-r", "-E", "-k", "-g", "-b", str(block), "-t", str(transfer), "-o", shared]
    line += ["-D", str(ask.seconds), "-O", f"minTimeDuration={ask.seconds},summaryFile={report},summaryFormat=JSON"]
    run(line + (["-z"] if order == "random" else []))
    with open(report) as file:
        results = json.load(file)["tests"][0]["Results"]
    results = [result for of_repetition in results for result in (of_repetition if isinstance(of_repetition, list) else [of_repetition])]
    return {result["access"]: result["bwMiB"] * (1 << 20) for result in results}


def iodyno(transfer, order):
    addresses = '"sequential"' if order == "sequential" else '{ pattern = "uniform", once_per_pass = true }'
    found = {}
    for kind in ("write", "read"):
        workload = os.path.join(work.name, f"{kind}.toml")
        with open(workload, "w") as file:
            file.write(f'schema = 1\nblock = {transfer}\nmix = {{ {kind} = 1 }}\n[all]\naddresses = {addresses}\n[limits]\nramp = "0s"\ntime = "{ask.seconds}s"\n')
        line = [ask.iodyno_mpi, "run", workload, "--on", f"{shared}?size={ask.file_mib}MiB&direct=no", "--shared", "--json", "--no-notebook", "--quiet"]
        # The guard sees that another program wrote to the file.
        line += ["--destroy", shared]
        line += ["--ranks", str(ask.ranks), "--allow-run-as-root"] + (["--mpi-args", ask.launcher] if ask.launcher else [])
        merged = json.loads(run(line))["cells"][-1]
        found[kind] = merged[kind]["iops"] * transfer
    return found


# The file is there and full before either is timed.
ior(1 << 20, "sequential")
ratios = {}
print("transfer,order,pair,program,access,mib_s", flush=True)
for pair in range(ask.pairs):
    for name, transfer, order in CASES:
        programs = [("ior", ior), ("iodyno", iodyno)]
        rates = {}
        for program, measure in programs if pair % 2 == 0 else programs[::-1]:
            rates[program] = measure(transfer, order)
            for access, rate in rates[program].items():
                print(f"{name},{order},{pair},{program},{access},{rate / (1 << 20):.1f}", flush=True)
        for access in ("write", "read"):
            ratio = rates["iodyno"][access] / rates["ior"][access]
            ratios.setdefault((name, order, access), []).append(ratio)
for (name, order, access), of in ratios.items():
    low, middle, high = statistics.quantiles(of, n=4, method="inclusive") if len(of) > 1 else of * 3
    print(f"{name} {order} {access}: iodyno / IOR {middle:.3f} [{low:.3f}-{high:.3f}]", file=sys.stderr)
