#!/bin/bash
# Shares a sweep in virtual time out by a job array. Afterwards: iodyno merge shard-*.sqlite
#SBATCH --job-name=iodyno-sweep
#SBATCH --array=1-64
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
iodyno --notebook "shard-$SLURM_ARRAY_TASK_ID.sqlite" run oltp1 --on model:57ce-pair-48ssd-raid5 \
  --vary depth=1..256 --vary threads=1..64 --shard "$SLURM_ARRAY_TASK_ID/64"
