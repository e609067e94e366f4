"""Comparison of the pictures of all figures, drawn from made-up rows, with those of another version of the code.

Draw with ``python -m tests.regression.pictures before`` in one checkout and ``... after`` in the other one. Then
compare pixel by pixel: ``python -m tests.regression.pictures after --with before``. Figures without runs are computed.
Published measurements come from the folder in ``GPUSHARE_MEASUREMENTS``.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.image import imread

from reports.papers import figure, figure_names
from tests.reports.rows import rows_of


def draw_all(folder: Path) -> None:
    """Draw every figure into ``folder``."""
    for name in figure_names():
        figure(name).draw(rows_of(figure(name)), folder)


def differences(folder: Path, other: Path) -> list[str]:
    """Return a line for each picture that only one folder has, or that differs."""
    lines = []
    for name in sorted({file.name for file in (*folder.glob("*.png"), *other.glob("*.png"))}):
        if not (folder / name).is_file() or not (other / name).is_file():
            lines.append(f"{name}: only in {folder if (folder / name).is_file() else other}")
            continue
        new, old = imread(folder / name), imread(other / name)
        if new.shape != old.shape:
            lines.append(f"{name}: {new.shape[1]} x {new.shape[0]} and {old.shape[1]} x {old.shape[0]} pixels")
        elif (changed := int(np.any(new != old, axis=-1).sum())) > 0:
            lines.append(f"{name}: {changed} pixels differ")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--with", dest="other", type=Path)
    arguments = parser.parse_args()
    if arguments.other is None:
        draw_all(arguments.folder)
    else:
        print("\n".join(differences(arguments.folder, arguments.other)) or "all pictures are equal")
