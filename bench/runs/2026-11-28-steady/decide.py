"""decide.py FILE: each pair of runs by the rule "slower by more than 2.5 %": alarms among pairs of one factor, misses among
pairs of both; then the same by the medians of groups of three runs."""
import itertools, statistics, sys

THRESHOLD = 1.025
runs = {}
for line in open(sys.argv[1]):
    factor, p50, _ = line.split()
    runs.setdefault(factor, []).append(float(p50))
(_, before), (_, after) = sorted(runs.items())
for size in 1, 3:
    if min(len(before), len(after)) < 2 * size:
        continue
    groups = [[statistics.median(all[i:i + size]) for i in range(0, len(all) - size + 1, size)] for all in (before, after)]
    alike = [pair for group in groups for pair in itertools.permutations(group, 2)]
    alarms = sum(b > a * THRESHOLD for a, b in alike)
    differ = list(itertools.product(*groups))
    misses = sum(b <= a * THRESHOLD for a, b in differ)
    print(f'{size} run(s) a side: {alarms} false alarms of {len(alike)} ({alarms / len(alike):.1%}), '
          f'{misses} misses of {len(differ)} ({misses / len(differ):.1%})')
for factor, all in sorted(runs.items()):
    mean = statistics.mean(all)
    print(f'× {factor}: {len(all)} runs, mean {mean:.3f} ms, CoV {statistics.stdev(all) / mean:.2%}, {min(all):.3f} to {max(all):.3f}')
