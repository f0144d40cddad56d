#!/usr/bin/env bash
# steady.sh IODYNO ROUNDS PREFIX...: in turn, the median of 200 flushed writes with the model's times × 2000 and × 2100, a
# regression of 5 %. PREFIX starts the program, such as `chrt --rr 1`. Prints factor, median in ms, load average.
here=$(cd "$(dirname "$0")" && pwd)
iodyno=$1 rounds=$2
shift 2
mount=$(mktemp -d)
trap 'rmdir "$mount"' EXIT
for ((round = 0; round < rounds; round++)); do
  for time in 17ms 17.8ms; do
    said=$("$iodyno" serve exflash-400g --size 64MiB --steady=$time --fuse "$mount" -- "$@" python3 "$here/fsync.py" 2>&1)
    factor=$(sed -n 's/.*times × \([0-9]*\).*/\1/p' <<<"$said")
    echo "$factor $(grep -m1 -x '[0-9.]*' <<<"$said") $(cut -d ' ' -f 1 /proc/loadavg)"
  done
done
