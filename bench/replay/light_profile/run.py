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
"""Function that shows a line to the user."""

FAILED, INTERRUPTED = 1, 130
"""Exit codes: a measurement failed; Ctrl-C or SIGTERM."""


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """Request for a profile.

    Attributes
    ----------
    folder
        Folder for the files; existing measurements there are kept.
    models
        Names of nets; the first net is also measured beside copies of itself.
    seconds
        Shortest measuring time per point.
    entry
        Facts about the GPU for its catalogue entry.
    """

    folder: Path
    models: Sequence[str]
    grid: Grid
    seconds: float
    entry: CatalogueFacts


def carry_out(settings: RigSettings, request: ProfileRequest, tell: Tell) -> int:
    """Measure on this host and return the exit code; SIGTERM acts like Ctrl-C.

    Raises
    ------
    InputError
        If the request is wrong or the host lacks something.
    """
    check_request(request)
    try:
        with ended_in_order(sigterm_as_sigint=True), HostRig(settings) as rig:
            return profile(rig, request, tell)
    except KeyboardInterrupt:
        return INTERRUPTED


def check_request(request: ProfileRequest) -> None:
    """Check the request and create its folder.

    Raises
    ------
    InputError
        If an option is wrong; the message names it.
    """
    if not request.models or len(set(request.models)) < len(request.models):
        raise InputError(FieldName("models"), "expected one or more model names without repetition")
    for model in request.models:
        input_shape(model, FieldName("models"))  # refuses unknown models
    if not 0.05 <= request.seconds <= 600.0:
        raise InputError(FieldName("seconds"), f"{request.seconds:g}; expected 0.05 to 600")
    if not 0.0 < request.entry.price_per_hour < float("inf"):
        raise InputError(
            FieldName("price_per_hour"), f"{request.entry.price_per_hour:g}; expected a finite number greater than 0"
        )
    if not request.entry.name:
        raise InputError(FieldName("name"), "is empty; expected a name for the catalogue entry")
    try:
        request.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(FieldName("folder", f" {request.folder}"), f"cannot be created: {error.strerror}") from None


def profile(rig: Rig, request: ProfileRequest, tell: Tell) -> int:
    """Measure, write the files, and return the exit code.

    A point that cannot be measured is reported and skipped; the next run tries it again. Ctrl-C writes the finished
    measurements before it ends the run.

    Raises
    ------
    InputError
        If the folder contains measurements of another device or cannot be written.
    """
    try:
        journal = Journal(request.folder, rig.device)
    except ChildError as error:
        raise InputError(FieldName("device"), f"does not work: {error}") from None
    try:
        code = max(_record_facts(rig, request, journal, tell), _measure(rig, request, journal, tell))
    except KeyboardInterrupt:
        code = INTERRUPTED
        count = len(journal.readings)
        tell(f"interrupted; {count} measured point{'s' * (count != 1)} kept; the same command continues from there")
    written = write_files(request.folder, journal, request.grid, request.models, request.entry)
    missing = "" if "profile.json" in written else " (no profile.json: a point or the power is missing)"
    command = command_line("profile fit", request.folder, o=f"{request.entry.name}.toml")
    tell(f"{request.folder}: wrote {', '.join(written)}; next: {command}{missing}")
    return code


def _record_facts(rig: Rig, request: ProfileRequest, journal: Journal, tell: Tell) -> int:
    """Record the facts of each model and the memory traffic of its batches, and return the exit code."""
    code = 0
    for model in request.models:
        if model not in journal.facts:
            try:
                journal.add_facts(model, rig.facts(model))
            except ChildError as error:
                code = FAILED
                tell(f"{model}: {error}")
    for model in request.models:
        for batch in request.grid.light_batches:
            # If one batch cannot be counted, no batch can.
            if (model, batch) not in journal.traffic and None not in journal.traffic.values():
                journal.add_traffic(model, batch, rig.traffic(model, batch))
    return code


def _measure(rig: Rig, request: ProfileRequest, journal: Journal, tell: Tell) -> int:
    """Measure the points that the journal lacks, and return the exit code."""
    points = dict.fromkeys(request.grid.all_points(request.models))
    missing = [point for point in points if point not in journal.readings]
    code, begin = 0, time.monotonic()
    for number, point in enumerate(missing, 1):
        try:
            reading = rig.measure(point, request.seconds)
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
