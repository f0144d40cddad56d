#!/bin/bash
# Measures a parallel file system from 8 nodes, 4 ranks on each, on one shared file.
#SBATCH --job-name=iodyno
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --time=00:30:00
set -euo pipefail
# Ranks beside the first keep what they measure on the local disk of their node until the run has ended well.
export TMPDIR=${SLURM_TMPDIR:-/tmp}
# `--mpi=pmix` where Slurm was built with it; see `srun --mpi=list`.
srun --mpi=pmix iodyno-mpi --notebook "$SLURM_SUBMIT_DIR/iodyno.sqlite" \
  run four-corners --on "/lustre/$USER/iodyno.img?size=1TiB" --shared
