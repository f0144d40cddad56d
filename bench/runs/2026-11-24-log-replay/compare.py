#!/usr/bin/env python3
"""Replays of a log larger than memory, in turn with a plain sequential read of its file: compare.py NEW OLD LOG ROUNDS > raw.csv.

A log that `iodyno log bench --on LOG` wrote, with bodies of 512 bytes. All processes run in the real-time class (`chrt -r 1`)."""
import json
import os
import re
import subprocess
import sys
import time

NEW, OLD, LOG, ROUNDS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
# A record: 32 bytes of header, the topic `bench`, and the body.
RECORD_BYTES = 32 + 5 + 512
SOCKET = "replay.sock"
REAL_TIME = ["chrt", "-r", "1"]


def finished(commands):
    """Runs all at once; seconds, and the processors' seconds, of them and of what they waited for."""
    began, before = time.monotonic(), os.times()
    running = [subprocess.Popen(REAL_TIME + it, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for it in commands]
    assert all(it.wait() == 0 for it in running)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - began, used


def row(round_number, case, bytes_read, seconds, used=""):
    print(round_number, case, bytes_read, f"{seconds:.3f}", used and f"{used:.2f}", sep=",", flush=True)


def sequential(round_number):
    words = [NEW, "run", "seq-read", "--on", LOG, "--time", "3s", "--no-notebook"]
    text = subprocess.run(REAL_TIME + words, capture_output=True, text=True, check=True).stdout
    gb = float(re.search(r"^seq-read  read .*? ([0-9.]+) GB/s", text, re.M).group(1))
    row(round_number, "sequential", int(gb * 3e9), 3.0)


def replay(where, number, count):
    return ["log", "replay", *where, "--bodies", "--from", str(number), "--count", str(count)]


def served(program, round_number, cases):
    server = subprocess.Popen(
        REAL_TIME + [program, "log", "serve", LOG, "--unix", SOCKET], stderr=subprocess.PIPE, text=True
    )
    began = time.monotonic()
    while server.stderr.readline() not in ("ready\n", ""):
        pass
    row(round_number, "start " + cases[0][0], os.path.getsize(LOG), time.monotonic() - began)
    for case, commands, messages in cases:
        seconds, used = finished([[program, *it] for it in commands])
        row(round_number, case, messages * RECORD_BYTES, seconds, used)
    server.terminate()
    server.wait()


def main():
    checked = json.loads(subprocess.run([NEW, "log", "check", LOG, "--json"], capture_output=True, text=True, check=True).stdout)
    first, messages = checked["first_message"], checked["messages"]
    print("round,case,bytes,seconds,client_cpu_s")
    at = ["--at", "unix:" + SOCKET]
    one, some, old_some = 10_000_000, 150_000, 3_000_000
    bookmarks = [first + (messages - some) * i // 63 for i in range(64)]
    for number in range(1, ROUNDS + 1):
        begin = first + (messages - one) * number // (ROUNDS + 1)
        sequential(number)
        seconds, used = finished([[NEW, *replay(["--on", LOG], begin, one)]])
        row(number, "target 1 reader", one * RECORD_BYTES, seconds, used)
        seconds, used = finished([[NEW, *replay(["--on", LOG], 0, messages)]])
        row(number, "target whole log", messages * RECORD_BYTES, seconds, used)
        sequential(number)
        served(NEW, number, [
            ("socket whole log", [replay(at, 0, messages)], messages),
            ("socket 1 reader", [replay(at, begin, one)], one),
            ("socket 64 readers", [replay(at, it, some) for it in bookmarks], 64 * some),
        ])
        sequential(number)
        served(OLD, number, [("socket before 1 reader", [replay(at, begin, old_some)], old_some)])


main()
