"""Optional dependencies: the extra of this distribution that brings a module."""

EXTRAS = {
    "torch": "rl",
    "gymnasium": "rl",
    "dask": "cluster",
    "distributed": "cluster",
    "pyarrow": "parquet",
    "pynvml": "replay",
}


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """Return in one line how to install a missing module; ``None`` if no extra brings the module."""
    module = (error.name or "").partition(".")[0]
    return f'needs {module}: pip install "gpushare-bench[{EXTRAS[module]}]"' if module in EXTRAS else None
