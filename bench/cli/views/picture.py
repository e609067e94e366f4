"""Text picture of a plan: every GPU with one line per slot and a bar for each gpulet's share."""

import shutil
import sys
from collections.abc import Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from bench.cli.terminal import draws_unicode, one_line
from instances import Instance, Objective, PlacedGpu, Plan

_COLUMNS = ("GPU", "share", "", "workload", "model", "batch", "rate", "cycle")
_RIGHT = ("", "batch", "rate")
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
_WIDEST, _NARROWEST = 56, 10
_BESIDE_THE_BAR = 65
"""Terminal columns of everything but the bar if names are short."""


def plan_picture(plan: Plan, instance: Instance) -> Table:
    """Return a picture of ``plan`` in which bars are shares of the GPU, in the order of the plan.

    Under ``colocation`` all bars begin at the left, since every job can use the whole GPU.
    """
    gpus = [list(_gpulets(position, gpu, instance)) for position, gpu in enumerate(plan.gpus)]
    widths = [max((len(cells[column]) for lines in gpus for _, cells in lines), default=0) for column in range(8)]
    picture = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name, width in zip(_COLUMNS, widths, strict=True):
        picture.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=True, min_width=width)
    for lines in gpus:
        for colour, (gpu_name, bar, *cells) in lines:
            picture.add_row(gpu_name, Text(bar, style=colour), *cells)
        picture.add_section()
    return picture


def _gpulets(position: int, gpu: PlacedGpu, instance: Instance) -> Iterator[tuple[str, list[str]]]:
    """Yield the colour and the cells of every slot and of the free share."""
    pool = instance.pool(gpu.type)
    units = pool.type.share_units if pool is not None else max(1, gpu.share_units)
    full, free = ("█", "░") if draws_unicode() else ("#", ".")
    name, start = f"{position} {one_line(gpu.type)}", 0
    shared = instance.objective is Objective.COLOCATION
    for number, gpulet in enumerate(gpu.gpulets):
        bar = _bar(0 if shared else start, gpulet.share_units, units, full)
        share = _percent(gpulet.share_units, units)
        cycle = "" if gpulet.duty_cycle_ms is None else f"{gpulet.duty_cycle_ms:g} ms"
        start += gpulet.share_units
        for slot in gpulet.slots:
            model = one_line(instance.model_of.get(slot.workload, "-"))
            served = [one_line(slot.workload), model, str(slot.batch), f"{slot.rate_rps:,.5g} req/s", cycle]
            yield _COLOURS[number % len(_COLOURS)], [name, bar, share, *served]
            name = bar = share = cycle = ""  # shown once for all slots of a gpulet
    if start < units:
        left = units - start
        yield "dim", [name, _bar(start, left, units, free), _percent(left, units), "free", "", "", "", ""]


def _bar(start: int, width: int, units: int, block: str) -> str:
    scale = min(1.0, _bar_width() / units)
    first, end = round(start * scale), round((start + width) * scale)
    return " " * first + block * max(1, end - first)


def _bar_width() -> int:
    if not sys.stdout.isatty():
        return _WIDEST
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns - _BESIDE_THE_BAR))


def _percent(part: int, units: int) -> str:
    return f"{100.0 * part / units:.1f} %"
