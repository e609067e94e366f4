"""Run of a light profile: it measures the missing points, records each one, and writes the files."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.command_text import command_line
from bench.replay.light_profile.journal import Journal, Rig
from bench.replay.light_profile.machine import HostRig, RigSettings
from bench.replay.light_profile.points import Grid
from bench.replay.light_profile.writing import CatalogueFacts, write_files
from bench.replay.nets import input_shape
from bench.replay.process import ChildError
from bench.runner.interruption import ended_in_order
from instances.errors import FieldName, InputError

Tell = Callable[[str], None]

FAILED, INTERRUPTED = 1, 130
"""Exit codes."""


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """Request for a profile.

    Attributes
    ----------
    folder
        Folder for the files; existing measurements there are kept.
    models
        Names of nets; the first net also runs in copies.
    seconds
        Shortest measuring time per point.
    """

    folder: Path
    models: Sequence[str]
    grid: Grid
    seconds: float
    entry: CatalogueFacts


def carry_out(settings: RigSettings, order: ProfileOrder, tell: Tell) -> int:
    """Measure on this host and return the exit code; SIGTERM acts like Ctrl-C.

    Raises
    ------
    InputError
        If the request is wrong or the host lacks something.
    """
    check_order(order)
    try:
        with ended_in_order(sigterm_as_sigint=True), HostRig(settings) as rig:
            return profile(rig, order, tell)
    except KeyboardInterrupt:
        return INTERRUPTED


def check_order(order: ProfileOrder) -> None:
    """Check the request and create its folder.

    Raises
    ------
    InputError
        If an option is wrong; the message names it.
    """
    if not order.models or len(set(order.models)) < len(order.models):
        raise InputError(FieldName("models"), "expected one or more model names without repetition")
    for model in order.models:
        input_shape(model, FieldName("models"))
    if not 0.05 <= order.seconds <= 600.0:
        raise InputError(FieldName("seconds"), f"{order.seconds:g}; expected 0.05 to 600")
    if not 0.0 < order.entry.price_per_hour < float("inf"):
        raise InputError(
            FieldName("price_per_hour"), f"{order.entry.price_per_hour:g}; expected a finite number greater than 0"
        )
    if not order.entry.name:
        raise InputError(FieldName("name"), "is empty; expected a name for the catalogue entry")
    try:
        order.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(FieldName("folder", f" {order.folder}"), f"cannot be created: {error.strerror}") from None


def profile(rig: Rig, order: ProfileOrder, tell: Tell) -> int:
    """Measure, write the files, and return the exit code.

    A point that cannot be measured is reported and skipped; the next run tries it again. Ctrl-C writes the finished
    measurements before it ends the run.

    Raises
    ------
    InputError
        If the folder contains measurements of another device or cannot be written.
    """
    try:
        journal = Journal(order.folder, rig.device)
    except ChildError as error:
        raise InputError(FieldName("device"), f"does not work: {error}") from None
    try:
        code = max(_record_facts(rig, order, journal, tell), _measure(rig, order, journal, tell))
    except KeyboardInterrupt:
        code = INTERRUPTED
        count = len(journal.readings)
        tell(f"interrupted; {count} measured point{'s' * (count != 1)} kept; the same command continues from there")
    written = write_files(order.folder, journal, order.grid, order.models, order.entry)
    missing = "" if "profile.json" in written else " (no profile.json: a point or the power is missing)"
    command = command_line("profile fit", order.folder, o=f"{order.entry.name}.toml")
    tell(f"{order.folder}: wrote {', '.join(written)}; next: {command}{missing}")
    return code


def _record_facts(rig: Rig, order: ProfileOrder, journal: Journal, tell: Tell) -> int:
    """Record the facts and the traffic of each model, and return the exit code."""
    code = 0
    for model in order.models:
        if model not in journal.facts:
            try:
                journal.add_facts(model, rig.facts(model))
            except ChildError as error:
                code = FAILED
                tell(f"{model}: {error}")
    for model in order.models:
        for batch in order.grid.light_batches:
            # If one batch cannot be counted, no batch can.
            if (model, batch) not in journal.traffic and None not in journal.traffic.values():
                journal.add_traffic(model, batch, rig.traffic(model, batch))
    return code


def _measure(rig: Rig, order: ProfileOrder, journal: Journal, tell: Tell) -> int:
    missing = [point for point in dict.fromkeys(order.grid.all_points(order.models)) if point not in journal.readings]
    code, begin = 0, time.monotonic()
    for number, point in enumerate(missing, 1):
        try:
            reading = rig.measure(point, order.seconds)
        except ChildError as error:
            code, result = FAILED, str(error)
        else:
            journal.add(point, reading)
            result = ", ".join(f"{times.latency_ms:.3g} ms" for times in reading.times)
            if reading.power_w is not None:
                result += f", {reading.power_w:.0f} W"
        left_s = (time.monotonic() - begin) / number * (len(missing) - number)
        eta = f", about {left_s / 60.0:.0f} min left" if left_s >= 60.0 else f", about {left_s:.0f} s left"
        tell(f"[{number}/{len(missing)}] {' | '.join(map(str, point))}: {result}{eta if number < len(missing) else ''}")
    return code
