import os

from iodyno._error import Error as Error
from iodyno._native import Comparison as Comparison
from iodyno._native import Histogram as Histogram
from iodyno._native import Notebook as Notebook
from iodyno._native import Run as Run
from iodyno._native import Runs
from iodyno._native import Table as Table
from iodyno._native import __version__ as __version__
from iodyno.command import CommandError as CommandError
from iodyno.command import run as run
from iodyno.disk import Control as Control
from iodyno.disk import Disk as Disk
from iodyno.disk import DiskError as DiskError
from iodyno.disk import NoEffect as NoEffect
from iodyno.disk import serve as serve

def compare(
    a: Runs,
    b: Runs,
    *,
    notebook: Notebook | str | os.PathLike[str] | None = None,
    metrics: list[str] | None = None,
    threshold: float | None = None,
    each_target: bool = False,
) -> Comparison: ...
