"""Command that prints a computed catalogue entry: ``python -m instances.calibration NAME MEASUREMENTS``."""

import sys
from pathlib import Path

from instances.calibration.a100_inss import a100_inss
from instances.calibration.a100_llm import a100_llm
from instances.calibration.rtx2080ti import rtx2080ti, rtx2080ti_arxiv
from instances.calibration.t4 import t4
from instances.calibration.v100_rapp import v100_rapp
from instances.catalogue import gpu_type_to_toml
from instances.errors import InputError, unknown_name

ENTRIES = {
    "t4": lambda _: t4(),
    "rtx2080ti": rtx2080ti,
    "rtx2080ti-arxiv": rtx2080ti_arxiv,
    "a100-inss": a100_inss,
    "a100-llm": a100_llm,
    "v100-rapp": v100_rapp,
}


def main(arguments: list[str]) -> int:
    """Print the entry with the name in ``arguments``; return the exit code."""
    try:
        if len(arguments) != 2:
            raise InputError(
                "arguments", f"expected the name of an entry ({', '.join(ENTRIES)}) and the folder of measurements"
            )
        name, folder = arguments
        if name not in ENTRIES:
            raise unknown_name("arguments", "calibrated entry", name, list(ENTRIES))
        sys.stdout.write(gpu_type_to_toml(ENTRIES[name](Path(folder))))
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
