#!/usr/bin/env bash
# run.sh IODYNO FOLDER [RUNS]: four-corners on honest storage, again and again: a scratch file, a direct loop device
# and QEMU's NBD server with direct I/O, all in FOLDER, which lies on a disk. Prints one line a run: the target, and
# the codes above a note, each with the number of cells. Needs root, losetup and qemu-nbd.
set -euo pipefail
iodyno=${1:?the program}
folder=${2:?a folder on a disk}
runs=${3:-20}
cd "$folder"
flags=(--time 500ms --ramp 100ms --no-notebook -q --json)
for name in loop nbd; do dd if=/dev/urandom of="$name.img" bs=1M count=512 status=none; done
sync
device=$(losetup --find --show --direct-io=on loop.img)
qemu-nbd -t -f raw --cache=none --aio=native -k "$PWD/socket" nbd.img &
server=$!
trap 'kill $server; losetup -d "$device"; rm -f loop.img nbd.img' EXIT
sleep 1
for ((i = 1; i <= runs; i++)); do
  for target in "scratch:512MiB" "$device" "nbd+unix:///?socket=$PWD/socket"; do
    destroy=(--destroy "${target#/dev/}")
    [ "${target%%:*}" = scratch ] && destroy=()
    "$iodyno" run four-corners --on "$target" "${destroy[@]}" "${flags[@]}" | python3 -c '
import collections, json, sys
cells = json.load(sys.stdin)["cells"]
grave = collections.Counter(
    v["code"] for c in cells for v in c["verdicts"] if v["level"] in ("warning", "invalid"))
least = min(r["device_read_bytes" if c["read"]["bytes"] else "device_written_bytes"]
            / r["issued_read_bytes" if c["read"]["bytes"] else "issued_written_bytes"]
            for c in cells for r in [c["evidence"]["storage"]["reached"]])
print(sys.argv[1], len(cells), "cells, least reached %.4f," % least, dict(grave) or "no warning")
' "${target%%[:?]*}"
  done
done
