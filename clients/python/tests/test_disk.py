"""Tests of iodyno.disk and of the fixture. Without pytest: `python3 test_disk.py`. They need qemu-io."""

import os
import signal
import subprocess
import time

import iodyno


def qemu_io(disk, *commands):
    """Whether all commands succeed."""
    words = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(["qemu-io", "-f", "raw", *words, disk.nbd], capture_output=True, text=True)
    return done.returncode == 0


def raises(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_chosen_errors_and_silent_faults(iodyno_serve):
    for words in [("ram:8MiB",), ("exflash-400g", "--no-floor")]:
        disk = iodyno_serve(*words)
        assert qemu_io(disk, "write -P 1 0 64k", "flush")
        reply = disk.fault("error EIO flushes after 1 next 1")
        assert reply["in_effect"] == ["volume 0: flushes fail with EIO, after 1, the next 1"], reply
        assert not qemu_io(disk, "write -P 1 0 64k", "flush", "flush")
        disk.fault("lost next 1")
        assert qemu_io(disk, "write -P 2 0 4k", "read -P 1 0 4k")
        assert disk.hits() == 1
        disk.clear()
        assert disk.interface_faults() == []


def test_errors_have_codes_and_remedies(iodyno_serve):
    disk = iodyno_serve("exflash-400g?state=fresh", no_floor=True, size="64MiB")
    error = raises(iodyno.DiskError, lambda: disk.fault("explode"))
    assert error.code == "refused" and "power-cut" in error.remedy, error
    assert raises(iodyno.DiskError, lambda: disk.request(faults="x")).code == "request"
    error = raises(iodyno.NoEffect, lambda: disk.fault("latent 0"))
    assert "nothing is stored there" in str(error)
    assert disk.fault("latent 0", may_have_no_effect=True)["no_effect"] == "nothing is stored there"
    assert qemu_io(disk, "write 0 8M", "flush")
    deadline = time.monotonic() + 60
    while disk.status()["volumes"][0]["buffered_bytes"] > 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert disk.fault("latent 0")["repaired_by"] == "device"
    assert disk.fault("power-cut")["lost"][0]["dropped_writes"] == 0
    assert "iodyno" in disk.metrics()
    error = raises(iodyno.DiskError, lambda: iodyno.serve("no-such-device"))
    assert "no-such-device" in error.message


def test_a_file_and_data_that_outlive_the_server(iodyno_serve, tmp_path):
    backing = tmp_path / "disk"
    disk = iodyno_serve("exflash-400g", fuse=True, no_floor=True, backing=backing)
    folder = os.path.dirname(os.path.dirname(disk.file))
    with open(disk.file, "r+b") as file:
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())
    assert disk.environment["IODYNO_FILE"] == disk.file
    disk.stop()
    assert not os.path.exists(folder)
    with iodyno.serve("exflash-400g", "--no-floor", backing=backing) as disk:
        assert qemu_io(disk, "read -P 120 0 4k")
        folder = os.path.dirname(disk.control.removeprefix("unix:"))
        disk.kill()
    assert not os.path.exists(folder)


def test_a_server_that_ends_by_itself_is_an_error(iodyno_serve):
    disk = iodyno_serve("ram:1MiB")
    os.kill(disk._server.pid, signal.SIGKILL)
    assert "exit code -9" in str(raises(iodyno.DiskError, disk.stop))


if __name__ == "__main__":
    import contextlib
    import pathlib
    import tempfile

    for test in [test for name, test in list(globals().items()) if name.startswith("test_")]:
        with contextlib.ExitStack() as disks, tempfile.TemporaryDirectory() as folder:
            serve = lambda *words, **options: disks.enter_context(iodyno.serve(*words, **options))
            words = [serve, pathlib.Path(folder)]
            test(*words[: test.__code__.co_argcount])
