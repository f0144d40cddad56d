# PostgreSQL keeps all acknowledged transactions when the disk loses power under load, and stops on a failed fsync. As root,
# with e2fsprogs and Debian's postgresql:
#   iodyno serve nvme-tlc-3840g --size 1GiB --fuse -- sh postgresql.sh
set -eu
for folder in /usr/lib/postgresql/*/bin; do PATH=$PATH:$folder; done
fault() { ${IODYNO:-iodyno} fault "$@" --control "$IODYNO_CONTROL" > fault.log; }
as() { (cd mnt && setpriv --reuid postgres --regid postgres --clear-groups "$@"); }
sql() { as psql --host "$sockets" --quiet --tuples-only --no-align --dbname postgres "$@"; }
attach() {
    disk=$(losetup --find --show --direct-io=on "$IODYNO_FILE")
    trap 'stop; detach' EXIT
}
detach() {
    umount mnt
    losetup --detach "$disk"
    trap - EXIT
}
start() { as pg_ctl --pgdata data --log "$sockets/log" --options "-k $sockets -c listen_addresses=" --wait start > start.log; }
stop() { as pg_ctl --pgdata data --mode immediate stop > stop.log 2>&1 || true; }
sockets=$(mktemp --directory)
chown postgres "$sockets"
mkdir -p mnt
attach
mkfs.ext4 -q "$disk"
mount "$disk" mnt
chown postgres mnt
as initdb --pgdata data > initdb.log
start
as pgbench --host "$sockets" --initialize --quiet postgres 2> pgbench.log

echo "a loss of power under load"
sql --command 'create table acknowledged (n integer)'
for n in $(seq 200); do
    sql --command "insert into acknowledged values ($n)" || break
    echo "$n" > last
    test "$n" != 50 || fault power-off
done 2> client.log
stop
detach || true
fault power-on
attach
mount "$disk" mnt
# After a real loss of power no process has the old number.
rm mnt/data/postmaster.pid
start
found=$(sql --command 'select max(n) from acknowledged')
test "$found" -ge "$(cat last)" || { echo "acknowledged $(cat last), found $found"; exit 1; }

echo "an fsync that fails"
fault error EIO flushes next 1
if sql --command 'insert into acknowledged values (1000)' 2> client.log; then echo "the commit succeeded"; exit 1; fi
grep -q PANIC "$sockets/log" || { echo "PostgreSQL did not stop"; exit 1; }
stop
detach
rm -r "$sockets"
echo "PostgreSQL passed"
