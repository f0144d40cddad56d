# 200 cells in virtual time: one process with both processors, four ranks, one thread alone; taking turns.
P=$1
S="run random-read --on model:ssd-sata3-mlc-200g --vary depth=1,2,3,4,6,8,12,16,20,24,32,40,48,56,64,80,96,112,120,128 --vary block=4KiB,8KiB,12KiB,16KiB,20KiB,24KiB,28KiB,32KiB,48KiB,64KiB --time 300ms --json --no-notebook --quiet"
echo "round,kind,seconds"
for round in 1 2 3; do
  for kind in process ranks one; do
    case $kind in
      process) C="$P/iodyno $S" ;;
      ranks) C="$P/iodyno-mpi $S --ranks 4 --allow-run-as-root --mpi-args --oversubscribe" ;;
      one) C="taskset -c 0 $P/iodyno $S" ;;
    esac
    a=$(date +%s.%N); $C > $kind.json 2>/dev/null; b=$(date +%s.%N)
    echo "$round,$kind,$(python3 -c "print(round($b-$a,3))")"
  done
done
