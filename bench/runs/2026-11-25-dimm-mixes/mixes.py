#!/usr/bin/env python3
"""The dies, channels and read contexts of a flash DIMM in a closed loop, written independently of crates/emulate.

Each structure is fitted to the printed reads of 4 and 16 KiB (142 and 42 K/s) by the time of a page read and a second
parameter, and then predicts writes and mixes. Times are in us, units are of 4 KiB, two to a page."""

import heapq
import random
from collections import deque

DIES, CHANNELS, LANES, CONTEXTS, PROGRAMS_MAX, BUFFER = 128, 16, 2, 16, 64, 512
FAST, SLOW, ERASE, AMPLIFICATION = 400.0, 2075.0, 4000.0, 2.25


class Page:
    """A page read: of a host's request, or of garbage collection (`request` holds the pages still to come)."""

    def __init__(self, die, lane, units, request, is_first=False, copies=False):
        self.die, self.lane, self.units, self.request = die, lane, units, request
        self.is_first, self.copies, self.kind = is_first, copies, "read"


class Work:
    """A program or an erase."""

    def __init__(self, kind, die, freed=0):
        self.kind, self.die, self.freed = kind, die, freed


class Module:
    def __init__(self, block, read, depth, cells, split, channel=29.1, command=0.0, pools=1, pool=lambda page: 0,
                 frames=False, whole=False, copies_wait=False, one_die=False, seed=1):
        self.units, self.read, self.cells, self.split, self.channel = block // 4, read, cells, split, channel
        self.command, self.pool, self.frames, self.whole = command, pool, frames, whole
        self.copies_wait, self.one_die, self.rng = copies_wait, one_die, random.Random(seed)
        self.now, self.events, self.order = 0.0, [], 0
        self.busy, self.queues, self.programmed = [False] * DIES, [deque() for _ in range(DIES)], [0] * DIES
        self.free = {name: 0.0 for name in ["generator", "thread", *range(CHANNELS)]}
        self.in_use, self.waiting, self.most = [0] * pools, [deque() for _ in range(pools)], CONTEXTS // pools
        self.space, self.writes, self.drain, self.programs, self.next_die = BUFFER, deque(), 0, 0, 0
        self.credit, self.reading, self.ready, self.senses, self.erase_in = 0.0, 0, 0, 0.0, 256
        self.done = 0
        for _ in range(depth):
            self.submit()

    def at(self, time, action, *of):
        self.order += 1
        heapq.heappush(self.events, (time, self.order, action, of))

    def take(self, server, cost):
        self.free[server] = max(self.free[server], self.now) + cost
        return self.free[server]

    def rate(self, ops):
        """Completions a second, without the first quarter of so many."""
        begin = None
        while self.done < ops:
            self.now, _, action, of = heapq.heappop(self.events)
            action(*of)
            if begin is None and self.done >= ops // 4:
                begin = self.now
        return (ops - ops // 4) / (self.now - begin) * 1e6

    # The host.

    def submit(self):
        self.at(self.take("generator", 3.87), self.issue, self.rng.random() < self.read)

    def issue(self, is_read):
        copy = 0.0 if is_read else self.units * 4096 / 2600
        self.at(self.take("thread", 0.8 + copy), self.fork if is_read else self.write)

    def ended(self):
        self.done += 1
        self.submit()

    # Reads.

    def fork(self):
        request, pages, last = {"left": 0, "held": {}}, [], {}
        first_lane = self.rng.randrange(LANES) if self.units == 1 else 0
        die = self.rng.randrange(DIES)
        for unit in range(self.units):
            lane = (first_lane + unit) % LANES
            page = last.get(lane)
            if page and page.units < 2 and self.rng.random() >= self.split:
                page.units += 1
                continue
            on = die if self.one_die else self.rng.randrange(DIES)
            last[lane] = Page(on, lane, 1, request, is_first=lane not in last)
            pages.append(last[lane])
        request["left"], request["pages"] = len(pages), pages
        for page in pages:
            self.wait_for_context(page)

    def wait_for_context(self, page):
        pool = self.pool(page)
        if self.in_use[pool] == self.most:
            self.waiting[pool].append(page)
        else:
            self.in_use[pool] += 1
            self.has_context(page)

    def has_context(self, page):
        if page.is_first and self.command > 0 and not page.copies:
            self.at(self.now + self.command, self.wait_for_die, page)
        else:
            self.wait_for_die(page)

    def free_context(self, page):
        pool = self.pool(page)
        if self.waiting[pool]:
            self.has_context(self.waiting[pool].popleft())
        else:
            self.in_use[pool] -= 1

    def arrived(self, page):
        self.release(page.die)
        request = page.request
        if page.copies:
            if self.copies_wait:
                self.free_context(page)
            request["left"] -= 1
            if request["left"] == 0:
                self.reading, self.ready = self.reading - 1, self.ready + 1
                self.pump()
            return
        end = self.take("thread", page.units * 4096 / 1000) + 11.3
        if self.frames or self.whole:
            # (At most two units of a lane are read here: one frame.)
            of = None if self.whole else page.lane
            held = request["held"].setdefault(of, [])
            held.append(page)
            if len(held) == sum(of is None or other.lane == of for other in request["pages"]):
                for other in held:
                    self.free_context(other)
        else:
            self.free_context(page)
        request["left"] -= 1
        if request["left"] == 0:
            self.at(end, self.ended)

    # Dies: what comes first is first.

    def wait_for_die(self, work):
        if self.busy[work.die]:
            self.queues[work.die].append(work)
        else:
            self.begin(work)

    def begin(self, work):
        self.busy[work.die] = True
        channel = work.die % CHANNELS
        if work.kind == "read":
            self.at(self.now + self.cells, self.sensed, work)
        elif work.kind == "program":
            self.programmed[work.die] += 1
            time = FAST if self.programmed[work.die] % 2 else SLOW
            self.at(self.take(channel, 2 * self.channel) + time, self.program_ended, work)
        else:
            self.at(self.now + ERASE, self.release, work.die)

    def sensed(self, page):
        self.at(self.take(page.die % CHANNELS, page.units * self.channel), self.arrived, page)

    def release(self, die):
        self.busy[die] = False
        if self.queues[die]:
            self.begin(self.queues[die].popleft())

    # Writes, and garbage collection at a constant amplification.

    def write(self):
        self.writes.append(self.units)
        self.fill()
        self.pump()

    def fill(self):
        while self.writes and self.space > 0:
            taken = min(self.writes[0], self.space)
            self.writes[0] -= taken
            self.space, self.drain = self.space - taken, self.drain + taken
            if self.writes[0] == 0:
                self.writes.popleft()
                self.at(self.now + 2.63, self.ended)

    def collect(self):
        while self.credit >= 2 and self.reading < 2 * PROGRAMS_MAX:
            self.credit, self.reading = self.credit - 2, self.reading + 1
            # A page has two units that are valid alone (at 4 KiB), or together.
            self.senses += 1.444 if self.units == 1 else 1.0
            count = int(self.senses)
            self.senses -= count
            request = {"left": count}
            for _ in range(count):
                page = Page(self.rng.randrange(DIES), self.rng.randrange(LANES), 3 - count, request, copies=True)
                if self.copies_wait:
                    self.wait_for_context(page)
                else:
                    self.wait_for_die(page)

    def pump(self):
        self.collect()
        while self.programs < PROGRAMS_MAX:
            if self.ready > 0:
                self.ready -= 1
                self.program(0)
            elif self.drain >= 2 and self.credit < 2:
                self.drain, self.credit = self.drain - 2, self.credit + 2 * (AMPLIFICATION - 1)
                self.program(2)
                self.collect()
            else:
                return

    def program(self, freed):
        self.programs, self.next_die = self.programs + 1, (self.next_die + 1) % DIES
        self.wait_for_die(Work("program", self.next_die, freed))
        self.erase_in -= 1
        if self.erase_in == 0:
            self.erase_in = 256
            self.wait_for_die(Work("erase", self.rng.randrange(DIES)))

    def program_ended(self, work):
        self.release(work.die)
        self.programs, self.space = self.programs - 1, self.space + work.freed
        self.fill()
        self.pump()


def rate(block, read, ops, depth=128, **structure):
    return Module(block, read, depth, **structure).rate(ops)


def fitted(structure, by):
    """Fits the time of a page read to reads of 4 KiB, and `by` to those of 16 KiB."""
    p = {"cells": 73.2, "split": 0.5, **structure}
    for _ in range(8):
        small = rate(4, 1, 40_000, **p) / 142e3 - 1
        large = rate(16, 1, 20_000, **p) / 42e3 - 1
        if abs(small) < 0.004 and abs(large) < 0.004:
            break
        if by == "split":
            p["cells"] += 100 * small
            p["split"] = min(1.0, max(0.0, p["split"] + 2.2 * large))
        else:
            p["cells"] += 190 * large - 112 * small
            p["command"] = max(0.0, p["command"] + 224 * small - 190 * large)
    return p


STRUCTURES = [
    ("each page by itself", {}, "split"),
    ("frames: a lane's pages together", {"split": 0.36, "frames": True}, "split"),
    ("contexts of each controller", {"pools": LANES, "pool": lambda page: page.lane}, "split"),
    ("a context for each channel", {"pools": CHANNELS, "pool": lambda page: page.die % CHANNELS}, "split"),
    ("copies take contexts", {"copies_wait": True}, "split"),
    ("a read's pages together", {"split": 0.3, "whole": True}, "split"),
    ("a read's pages on one die", {"split": 0.1, "one_die": True}, "split"),
    ("a page for each unit, time a command", {"cells": 60.0, "split": 1.0, "command": 17.0}, "command"),
]

if __name__ == "__main__":
    print("K/s: reads, writes, 67 % reads of 4 KiB | of 8 KiB | of 16 KiB | reads of 4 KiB at depth 16")
    for name, structure, by in STRUCTURES:
        p = fitted(structure, by)
        figures = [
            " ".join(f"{rate(block, read, ops, **p) / 1e3:6.2f}" for read, ops in [(1, 40_000), (0, 15_000), (0.67, 100_000)])
            for block in [4, 8, 16]
        ]
        shallow = rate(4, 1, 30_000, depth=16, **p) / 1e3
        values = ", ".join(f"{key} {value:.3g}" for key, value in p.items() if isinstance(value, float))
        print(f"{name:38}{' | '.join(figures)} | {shallow:.0f}   ({values})", flush=True)
