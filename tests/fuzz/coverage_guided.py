"""Fuzzing of the file readers by atheris, which changes files so that they reach new code: ``make fuzz``.

The first byte of an input names the kind of file, and the other bytes are the file. Arguments go to libFuzzer, such as
``-max_total_time=60``.
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
    """Read an input: the file must be accepted, or refused in one line that names it. Otherwise the fuzzer ends."""
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
        message = str(error)
        if not message.startswith(str(path)) or "\n" in message:
            raise AssertionError(message) from error


def main() -> None:
    """Run the fuzzer, starting from a good file of every kind."""
    corpus = FOLDER / "corpus"
    corpus.mkdir()
    for kind, form in enumerate(FORMATS):
        (corpus / form.name).write_bytes(bytes([kind]) + form.good())
    # ``artifact_prefix`` is the folder in which libFuzzer leaves the input that broke a reader.
    atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={os.getcwd()}/", *sys.argv[1:]], read)  # noqa: PTH109
    atheris.Fuzz()


if __name__ == "__main__":
    main()
