#!/usr/bin/env python3
"""200 cells in virtual time by one process, by four ranks, and by two processes of one processor each that share nothing.

Usage: sweep.py FOLDER-OF-PROGRAMS [--rounds 3] [--times 300ms,1200ms] > sweep.csv

The kinds take turns. `ideal` is the processor time of two pinned processes, which have a shard each, divided by two: what two
processors are worth where nothing is waited for. `start` is four ranks with two cells of 1 ms: mpirun, MPI and iodyno's own
start. The efficiency of ranks is `ideal` over their time, with and without `start`.
"""
import argparse, os, resource, statistics, subprocess, sys, tempfile, time

arguments = argparse.ArgumentParser()
arguments.add_argument("programs")
arguments.add_argument("--rounds", type=int, default=3)
arguments.add_argument("--times", default="300ms,1200ms")
ask = arguments.parse_args()
work = tempfile.TemporaryDirectory()
DEPTHS = "1,2,3,4,6,8,12,16,20,24,32,40,48,56,64,80,96,112,120,128"
BLOCKS = "4KiB,8KiB,12KiB,16KiB,20KiB,24KiB,28KiB,32KiB,48KiB,64KiB"
RANKS = ["--ranks", "4", "--allow-run-as-root", "--mpi-args", "--oversubscribe --bind-to none"]


def line(program, time, *more, depths=DEPTHS, blocks=BLOCKS):
    words = f"run random-read --on model:ssd-sata3-mlc-200g --vary depth={depths} --vary block={blocks} --time {time} --json --no-notebook --quiet"
    return [f"{ask.programs}/{program}", *words.split(), *more]


def took(*lines):
    """Seconds from the start of the first to the end of the last, and their processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    running = [subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=work.name) for line in lines]
    for process in running:
        if process.wait() != 0:
            sys.exit(f"{' '.join(process.args)}: exit code {process.returncode}")
    seconds = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pinned(time):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    of = lambda cpu, shard: ["taskset", "-c", str(cpu), *line("iodyno", time, "--shard", f"{shard}/2")]
    return took(of(first, 1), of(second, 2))[1] / 2


KINDS = {
    "process": lambda time: took(line("iodyno", time))[0],
    "ranks": lambda time: took(line("iodyno-mpi", time, *RANKS))[0],
    "ideal": pinned,
    "start": lambda time: took(line("iodyno-mpi", "1ms", *RANKS, depths="1", blocks="4KiB,8KiB"))[0],
}
print("time,round,kind,seconds", flush=True)
for cell_time in ask.times.split(","):
    found = {kind: [] for kind in KINDS}
    for turn in range(ask.rounds):
        for kind, measure in KINDS.items():
            seconds = measure(cell_time)
            found[kind].append(seconds)
            print(f"{cell_time},{turn},{kind},{seconds:.3f}", flush=True)
    middle = {kind: statistics.median(seconds) for kind, seconds in found.items()}
    whole, without = middle["ideal"] / middle["ranks"], middle["ideal"] / (middle["ranks"] - middle["start"])
    print(
        f"{cell_time}: process {middle['process']:.2f} s ({middle['ideal'] / middle['process']:.3f} of the processors), "
        f"ranks {middle['ranks']:.2f} s ({whole:.3f}; without the start of {middle['start']:.2f} s {without:.3f})",
        file=sys.stderr,
    )
