"""Disks that fail on command, for tests: starts `iodyno serve`, and speaks its control protocol
(docs/serving.md, docs/schema/control-v1.schema.json). Standard library only.

    import iodyno

    with iodyno.serve("exflash-400g", size="64MiB") as disk:
        run_my_program(disk.nbd)                     # an NBD URI; with fuse=True, disk.file
        disk.fault("error EIO flushes after 2 next 1")
        run_my_program(disk.nbd)
        assert disk.hits() == 1

`iodyno.pytest_plugin` has a pytest fixture.
"""

from __future__ import annotations

import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from typing import Any

from iodyno import command
from iodyno._error import Error

VERSION = 1
# Time that a server has to start or to stop, and to answer, s.
START_S, STOP_S, ANSWER_S = 60, 60, 30


class DiskError(Error):
    """The server did not start, or refused a request. `code` and `remedy` are those of the control protocol, or None."""

    def __init__(self, message: str, code: str | None = None, remedy: str | None = None) -> None:
        super().__init__(f"{message}: {remedy}" if remedy else message)
        self.message, self.code, self.remedy = message, code, remedy


class NoEffect(DiskError):
    """The fault was accepted, but changes nothing, so a test that relies on it would test nothing."""


class Control:
    """A connection to a control socket: of a disk that this module serves, or of another server, as in
    `Control(os.environ["IODYNO_CONTROL"])`. It may be used by one thread at a time."""

    def __init__(self, address: str) -> None:
        self.control = address
        self._socket: socket.socket | None = None

    def request(self, **keys: Any) -> dict[str, Any]:
        """Sends a request with these keys, such as `status=True`; returns the reply as a dict.

        Raises DiskError if the server refuses it, and OSError if no server answers."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(ANSWER_S)
            self._socket.connect(self.control.removeprefix("unix:"))
            self._lines = self._socket.makefile("r", encoding="utf-8")
        self._socket.sendall((json.dumps({"version": VERSION, **keys}) + "\n").encode())
        line = self._lines.readline()
        if not line:
            raise ConnectionResetError(f"{self.control}: the server has ended")
        reply: dict[str, Any] = json.loads(line)
        if not reply["ok"]:
            error = reply["error"]
            raise DiskError(error["message"], error["code"], error["remedy"])
        return reply

    def fault(self, command: str, may_have_no_effect: bool = False) -> dict[str, Any]:
        """Injects a fault, with the words of `iodyno fault`; returns the reply, with the keys `in_effect`, `no_effect`,
        `repaired_by` and `lost`.

        Raises NoEffect if nothing changes, unless `may_have_no_effect`."""
        reply = self.request(fault=command)
        if reply["no_effect"] is not None and not may_have_no_effect:
            raise NoEffect(f"`{command}` has no effect: {reply['no_effect']}")
        return reply

    def clear(self) -> dict[str, Any]:
        """Ends all faults."""
        return self.request(fault="clear")

    def status(self) -> dict[str, Any]:
        """The status, as `iodyno status --json` prints it."""
        status: dict[str, Any] = self.request(status=True)["status"]
        return status

    def metrics(self) -> str:
        """Metrics in the text format of Prometheus. Not for plain memory and native speed."""
        return str(self.request(metrics=True)["metrics"])

    def interface_faults(self, volume: int = 0) -> list[dict[str, Any]]:
        """The faults at a volume's interface: dicts with `fault`, `seen`, `applied` and `is_over`."""
        status = self.status()
        of_volume = status["volumes"][volume] if "volumes" in status else status
        return list(of_volume["interface_faults"])

    def hits(self, volume: int = 0) -> int:
        """Number of requests that met the last fault at a volume's interface."""
        faults = self.interface_faults(volume)
        return int(faults[-1]["applied"]) if faults else 0

    def close(self) -> None:
        """Ends the connection. The next request opens another."""
        if self._socket is not None:
            self._lines.close()
            self._socket.close()
            self._socket = None


class Disk(Control):
    """A served disk, and a context manager that stops it. Attributes: `nbd`, the NBD URI of the first volume; `file`, its
    file with `fuse=True`, else None; `control`, the address of the control socket; `environment`, with the variables that
    `iodyno serve DEVICE -- CMD` sets for a command."""

    def __init__(self, words: list[str], folder: pathlib.Path, fuse: bool) -> None:
        super().__init__(f"unix:{folder / 'control'}")
        self._folder = folder
        self._mount = folder / "mount" if fuse else None
        self._is_killed = False
        self.nbd = f"nbd+unix:///?socket={folder / 'nbd'}"
        self.file: str | None = None
        words += ["--nbd", f"unix:{folder / 'nbd'}", "--control", self.control]
        if self._mount:
            self._mount.mkdir()
            words += ["--fuse", str(self._mount)]
        read, write = os.pipe()
        with open(read, "rb") as ready:
            try:
                with open(folder / "log", "wb") as log:
                    self._server = subprocess.Popen(
                        words + ["--ready-fd", str(write)],
                        stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[write])
            finally:
                os.close(write)
            # The pipe ends without a line if the server ends.
            is_ready = bool(select.select([ready], [], [], START_S)[0]) and ready.readline() == b"ready\n"
        if not is_ready:
            self._server.kill()
            self._server.wait()
            raise DiskError(f"{' '.join(words)}: {(folder / 'log').read_text(errors='replace').strip()}")
        if self._mount:
            self.file = str(min(path for path in self._mount.iterdir() if path.name != "status.json"))
        self.environment = {"IODYNO_NBD": self.nbd, "IODYNO_CONTROL": self.control}
        if self.file:
            self.environment["IODYNO_FILE"] = self.file

    @property
    def log(self) -> str:
        """What the server has printed."""
        return (self._folder / "log").read_text(errors="replace")

    def stop(self) -> None:
        """Stops the server, which flushes first, and removes its folder. No-op if it is stopped.

        Raises DiskError if the server reports an error or does not end. A server that `kill` has ended is not an error."""
        if not self._folder.exists():
            return
        self.close()
        self._server.terminate()
        try:
            code = self._server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            code = self._server.wait()
        log = self.log
        if self._mount and os.path.ismount(self._mount):
            unmount = ["fusermount3", "-uz"] if shutil.which("fusermount3") else ["umount", "--lazy"]
            subprocess.run([*unmount, str(self._mount)], check=False)
        shutil.rmtree(self._folder)
        if code != 0 and not (self._is_killed and code == -signal.SIGKILL):
            raise DiskError(f"the server ended with exit code {code}: {log.strip()}")

    def kill(self) -> None:
        """Kills the server, as a crash of its host would. `--backing` then has what the modelled device would have kept."""
        self._is_killed = True
        self._server.kill()

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.stop()
        except DiskError:
            if error is None:
                raise


def serve(
    device: str,
    *flags: object,
    program: str | os.PathLike[str] | None = None,
    fuse: bool = False,
    **options: Any,
) -> Disk:
    """Serves a device of the catalog, a device file, or plain memory such as "ram:64MiB"; returns a Disk.

    `flags` and `options` are those of `iodyno serve`: `serve("exflash-400g", "--no-floor", size="64MiB")` or
    `serve("exflash-400g", no_floor=True, size="64MiB")`. `fuse`: serve a file, too. `program`: the path of iodyno; None for
    that of `iodyno.command.path`.

    Raises DiskError with the server's message if it does not start."""
    words = command.words("serve", device, *flags, program=program, **options)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="iodyno-"))
    try:
        return Disk(words, folder, fuse)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
