"""Benchmark of GPU sharing: ``bench.run``, ``bench.judge``, ``bench.simulate``, ``bench.figure`` and others.

Each of the names in ``__all__`` is imported at its first use, so that ``import bench`` and ``bench.api`` stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.ledger.store import Ledger
    from bench.session import judge, load, run, simulate, table
    from reports.from_ledger import figure

__all__ = ["Ledger", "figure", "judge", "load", "run", "simulate", "table"]

_MODULES = {"Ledger": "bench.ledger.store", "figure": "reports.from_ledger"}
"""Modules of the names that ``bench.session`` does not define."""


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__`` at its first use; see PEP 562."""
    if name not in __all__:
        raise AttributeError(f"module 'bench' has no attribute '{name}'")
    return getattr(import_module(_MODULES.get(name, "bench.session")), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
