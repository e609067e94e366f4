"""The readers under atheris, which changes files towards code that was not reached yet: ``make fuzz``.

The first byte says which kind of file the rest is. Arguments go to libFuzzer, such as ``-max_total_time=60``.
"""

import os
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["instances.files", "instances.catalogue", "instances.measurements", "bench"]):
    from tests.fuzz.formats import FORMATS

from instances import InputError

FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))


def read(data: bytes) -> None:
    """Read a file: it is accepted, or refused in one line that names it; everything else ends the fuzzer."""
    if not data:
        return
    form = FORMATS[data[0] % len(FORMATS)]
    path = FOLDER / form.name
    path.write_bytes(data[1:])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            form.read(path)
    except InputError as error:
        told = str(error)
        if not told.startswith(str(path)) or "\n" in told:
            raise AssertionError(told) from error


def main() -> None:
    """Begin with a good file of every kind."""
    corpus = FOLDER / "corpus"
    corpus.mkdir()
    for kind, form in enumerate(FORMATS):
        (corpus / form.name).write_bytes(bytes([kind]) + form.good())
    # Where libFuzzer leaves the file that broke a reader.
    atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={os.getcwd()}/", *sys.argv[1:]], read)  # noqa: PTH109
    atheris.Fuzz()


if __name__ == "__main__":
    main()
