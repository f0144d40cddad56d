"""Pytest plugin: the fixture `iodyno_serve` serves disks, and stops them at the end of the test.

    def test_an_error_is_reported(iodyno_serve):
        disk = iodyno_serve("exflash-400g", size="64MiB")
        disk.fault("error EIO flushes next 1")
        ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from iodyno import disk


@pytest.fixture
def iodyno_serve() -> Iterator[Callable[..., disk.Disk]]:
    """Function with the arguments of `iodyno.serve`. A disk whose server reports an error fails the test."""
    with contextlib.ExitStack() as disks:
        yield lambda *words, **options: disks.enter_context(disk.serve(*words, **options))
