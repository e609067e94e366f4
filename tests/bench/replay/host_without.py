"""As ``sitecustomize`` it makes a host of this one on which only NumPy and PyTorch are installed."""

import sys
from collections.abc import Sequence

MISSING = {
    "gymnasium",
    "highspy",
    "matplotlib",
    "numba",
    "ortools",
    "pandas",
    "pydantic",
    "pyomo",
    "rich",
    "scipy",
    "typer",
}


class Blocker:
    """Finds none of the packages that a GPU host lacks."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> None:
        """Refuse the missing, leave others to others."""
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r} on this host", name=name)


sys.meta_path.insert(0, Blocker())  # type: ignore[arg-type] # a finder is what it does
