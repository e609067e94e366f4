"""Modules that an installation may lack: optional dependencies, and required ones on a host prepared by hand."""

EXTRAS = {
    "torch": "rl",
    "gymnasium": "rl",
    "dask": "cluster",
    "distributed": "cluster",
    "pyarrow": "parquet",
    "pynvml": "replay",
}
"""Extra of this distribution that installs each optional module."""

REQUIRED = ("matplotlib", "ortools", "pyomo", "pyscipopt")
"""Modules of required distributions that a GPU host prepared by hand may lack: profiling and planning need none."""


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """Return in one line how to install a missing module; ``None`` if this distribution does not install it."""
    module = (error.name or "").partition(".")[0]
    return f"needs {module}: {install_command(module)}" if module in (*REQUIRED, *EXTRAS) else None


def install_command(module: str) -> str:
    """Return the command that installs a module of ``REQUIRED`` or ``EXTRAS``."""
    return f'pip install "gpushare-bench{f"[{EXTRAS[module]}]" if module in EXTRAS else ""}"'
