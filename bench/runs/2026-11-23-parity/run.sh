#!/bin/sh
# Builds the benchmark and runs it, with the raw data beside this script. ISA-L: apt-get install libisal2
set -e
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."
cargo build --release -p iodyno-bench
"${CARGO_TARGET_DIR:-target}/release/iodyno-bench" parity --rounds 9 --out "$here"
