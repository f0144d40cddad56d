"""The command `iodyno`: where it is, and runs that it makes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sysconfig
from typing import TYPE_CHECKING, Any

from iodyno._error import Error

if TYPE_CHECKING:
    from iodyno._native import Notebook, Run


# Exit codes of a run that is stored whole: a threshold was not held, a method failed.
STORED = (0, 6, 9)


class CommandError(Error):
    """The command failed. `code` is its exit code (docs/measuring.md), `message` what it printed on standard error."""

    def __init__(self, words: list[str], code: int, message: str) -> None:
        super().__init__(f"{' '.join(words)}: exit code {code}: {message}")
        self.words, self.code, self.message = words, code, message


def path() -> str:
    """Path of the command: the variable IODYNO, else the one installed with this package, else `iodyno` on the PATH."""
    chosen = os.environ.get("IODYNO")
    installed = pathlib.Path(sysconfig.get_path("scripts")) / "iodyno"
    return chosen or (str(installed) if installed.exists() else "iodyno")


def words(*arguments: object, program: str | os.PathLike[str] | None = None, **options: Any) -> list[str]:
    """The command line: `words("serve", "ram:1GiB", no_floor=True, size="64MiB")`. True is a flag without a value; None and
    False leave it out; a list repeats it."""
    line = [str(program or path()), *map(str, arguments)]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        for value in value if isinstance(value, (list, tuple)) else [value]:
            if value is True:
                line.append(flag)
            elif value is not None and value is not False:
                line += [flag, str(value)]
    return line


def call(*arguments: object, accepted: tuple[int, ...] = (0,), **options: Any) -> str:
    """Runs the command to its end, and returns its standard output.

    Raises CommandError if its exit code is not one of `accepted`."""
    line = words(*arguments, **options)
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in accepted:
        raise CommandError(line, done.returncode, done.stderr.strip())
    return done.stdout


def run(
    workload: str,
    *flags: object,
    on: str | list[str] | None = None,
    notebook: Notebook | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Run:
    """Runs a workload or a method, as `iodyno run WORKLOAD --on TARGET` does, and returns the stored Run.

    `on`: a target, or a list of them. `notebook`: a path or a Notebook; None for the default. Other flags are those of
    `iodyno run`: `run("random-read", on="/tmp/file", time="10s", require="p99<1ms")`. A threshold that is not held, and a
    method that fails, raise nothing: see `Run.document()["thresholds"]` and `Run.level`.

    Raises CommandError if the run fails. Nothing that asks for a confirmation is confirmed. `no_notebook` is refused, since
    the Run is read from the notebook: give `notebook` a path in a temporary folder instead."""
    if options.get("no_notebook") or "--no-notebook" in map(str, flags):
        raise Error("run() reads the Run that it returns from a notebook: leave no_notebook out, and give `notebook` a "
                    "path in a temporary folder if the run is not to be kept")
    # The output is read here.
    for name in ("json", "quiet", "series"):
        options.pop(name, None)
    from iodyno._native import Notebook

    notebook = notebook if isinstance(notebook, Notebook) else Notebook(notebook)
    output = call("run", workload, *flags, accepted=STORED, on=on, notebook=notebook.path,
                  json=True, quiet=True, **options)
    return notebook.run(json.loads(output)["run"]["id"])
