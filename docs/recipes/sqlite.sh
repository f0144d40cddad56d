# SQLite keeps what it committed through ten losses of power. As root, with e2fsprogs and sqlite3:
#   iodyno serve ssd-msata-mlc-128g --size 256MiB --fuse -- sh sqlite.sh
# With `pragma synchronous=off` it fails. `full` may lose the last commit, as SQLite documents: it does not sync the folder
# after it has removed the journal.
set -eu
settings=${1:-pragma synchronous=extra}
fault() { ${IODYNO:-iodyno} fault "$@" --control "$IODYNO_CONTROL" > fault.log; }
attach() {
    disk=$(losetup --find --show --direct-io=on "$IODYNO_FILE")
    trap 'umount mnt; losetup --detach "$disk"' EXIT
}
detach() {
    umount mnt
    losetup --detach "$disk"
    trap - EXIT
}
mkdir -p mnt
attach
mkfs.ext4 -q "$disk"
mount "$disk" mnt
sqlite3 mnt/db 'create table t (n integer)'
for round in 1 2 3 4 5 6 7 8 9 10; do
    sqlite3 -cmd "$settings" mnt/db "insert into t values ($round)"
    fault power-off
    detach || true
    fault power-on
    attach
    mount "$disk" mnt
    test "$(sqlite3 mnt/db 'pragma integrity_check; select max(n) from t')" = "ok
$round" || { echo "commit $round is lost or the database is damaged"; exit 1; }
done
detach
echo "10 commits survived"
