"""Pictures of all figures from made-up rows, compared pixel by pixel with those of another version.

Draw with ``python -m tests.regression.pictures before`` in one checkout and ``... after`` in the other one, then
compare: ``python -m tests.regression.pictures after --with before``. Figures without runs are computed; published
measurements come from the folder in ``GPUSHARE_MEASUREMENTS``.
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
    for name in sorted({file.name for each in (folder, other) for file in each.glob("*.png")}):
        if not (folder / name).is_file() or not (other / name).is_file():
            lines.append(f"{name}: only in {folder if (folder / name).is_file() else other}")
            continue
        one, two = imread(folder / name), imread(other / name)
        if one.shape != two.shape:
            lines.append(f"{name}: {one.shape[1]} x {one.shape[0]} and {two.shape[1]} x {two.shape[0]} pixels")
        elif (changed := int(np.any(one != two, axis=-1).sum())) > 0:
            lines.append(f"{name}: {changed} pixels differ")
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--with", dest="other", type=Path)
    given = parser.parse_args()
    if given.other is None:
        draw_all(given.folder)
    else:
        print("\n".join(differences(given.folder, given.other)) or "all pictures are equal")
