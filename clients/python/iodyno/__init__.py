"""iodyno, a dynamometer for block storage: stored runs as Arrow, histograms that merge, runs, served disks.

    import iodyno

    notebook = iodyno.Notebook()
    frame = notebook.cells().to_polars()
    run = iodyno.run("random-read", on="model:exflash-400g")

`iodyno.log` has the client of the message log, `iodyno.pytest_plugin` the fixture `iodyno_serve`.
"""

from iodyno._error import Error
from iodyno.command import CommandError, run
from iodyno.disk import Control, Disk, DiskError, NoEffect, serve

_NATIVE = ("Comparison", "Histogram", "Notebook", "Run", "Table", "__version__")
__all__ = ["CommandError", "Comparison", "Control", "Disk", "DiskError", "Error", "Histogram", "NoEffect", "Notebook",
           "Run", "Table", "compare", "run", "serve"]


def __getattr__(name):
    # The extension is loaded when it is used: served disks and the log's client need none.
    if name not in _NATIVE:
        raise AttributeError(f"module 'iodyno' has no attribute '{name}'")
    from iodyno import _native

    return getattr(_native, name)


def _notebook(notebook):
    from iodyno._native import Notebook

    return notebook if isinstance(notebook, Notebook) else Notebook(notebook)


def compare(a, b, *, notebook=None, metrics=None, threshold=None, each_target=False):
    """Compares runs `b` with runs `a`: see `Notebook.compare`. `notebook`: a path or a Notebook; None for the default."""
    return _notebook(notebook).compare(a, b, metrics=metrics, threshold=threshold, each_target=each_target)
