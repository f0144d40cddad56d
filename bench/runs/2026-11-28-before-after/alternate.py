#!/usr/bin/env python3
"""Two builds in turn on null, /dev/zero, memory, a model in virtual time and a served device: `alternate.py BEFORE AFTER`."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

before, after = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
folder = tempfile.mkdtemp()


def run(program, target, *flags):
    words = [program, "run", "random-read", "--on", target, "--threads", "1", "--depth", "32", "-q", "--json", *flags]
    output = subprocess.run([*words, "--notebook", f"{folder}/n.sqlite"], capture_output=True, text=True, check=True)
    return json.loads(output.stdout)["cells"][0]["read"]["iops"]


def virtual(program):
    start = time.monotonic()
    run(program, "model:exflash-400g", "--time", "20s", "--ramp", "1s")
    return 1 / (time.monotonic() - start)


def served(program):
    """IOPS of the same client over NBD."""
    serve = [program, "serve", "exflash-400g", "--dilate", "0.001", "--no-floor", "--size", "1GiB", "--ready-fd", "1"]
    at = [f"unix:{folder}/{name}.sock" for name in ("nbd", "control")]
    server = subprocess.Popen([*serve, "--nbd", at[0], "--control", at[1]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    server.stdout.readline()
    iops = run(before, f"nbd+unix:///?socket={folder}/nbd.sock", "--ops", "400000", "--ramp", "0s")
    subprocess.run([program, "fault", "stop", "--control", at[1]], check=True, capture_output=True)
    server.wait()
    return iops


def real(target):
    return lambda program: run(program, target, "--time", "1s", "--ramp", "0.2s")


for name, measure, rounds in [
    ("null:", real("null:"), 9),
    ("/dev/zero", real("/dev/zero?size=1GiB"), 9),
    ("ram:", real("ram:256MiB"), 9),
    ("model:", virtual, 9),
    ("served over NBD", served, 16),
]:
    ratios = []
    for number in range(rounds):
        pair = {program: measure(program) for program in ([before, after] if number % 2 else [after, before])}
        ratios.append(pair[after] / pair[before])
    low, _, high = statistics.quantiles(ratios, n=4)
    print(f"{name}: {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] of", *(f"{ratio:.3f}" for ratio in ratios), flush=True)
