"""Traces of a day: requests per second per service, or timestamps of requests, as rates in windows."""

import csv
import gzip
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.simulation.trace import MOST_SECONDS
from instances import InputError, Instance, ScenarioSet
from instances.arrays import Floats, Ints
from instances.errors import FieldName, printable
from instances.files.foreign import refuse_foreign
from instances.files.records import csv_text
from instances.special_files import refuse_special

PART_S = 60.0
"""Length of the parts of a window; the busiest part determines the rate of the window."""

STEP = 1.05
"""Rates are rounded up to powers of this factor. Windows with nearly the same rates then have the same plan."""

TIMESTAMP_COLUMNS = {
    "end_timestamp": "duration",  # Azure Functions 2021: the end of an invocation, and its duration
    "TIMESTAMP": "",  # Azure LLM 2023: date and time
    "timestamp": "",  # Mooncake, known by its column hash_ids: milliseconds; otherwise seconds
}
"""Timestamp columns of known trace formats, each with the column to subtract from it."""


COUNT_COLUMNS = ("requests", "count", "requests_per_s", "requests_per_second", "rate_rps", "rps", "qps")
"""Names of the last column of a trace that has the number of requests in each second."""


@dataclass(frozen=True, slots=True)
class DayOfTraffic:
    """Rates of the services in windows of ``window_s`` seconds.

    Attributes
    ----------
    rates_rps
        Rate of each service in the busiest part of each window, rounded up to a step of ``STEP``, shape (windows,
        services).
    words
        Description of the trace format.
    """

    window_s: float
    rates_rps: Floats
    words: str


def read_day_of_traffic(path: Path, instance: Instance, window_s: float) -> DayOfTraffic:
    """Read a trace; rates are rounded up to steps of ``STEP``.

    Three kinds of file are read. With a column ``time_s`` and a column for each service, a row has the requests per
    second. With the services' names in a column ``service`` or ``func``, a row is one request with a timestamp, or the
    number of ``requests`` at ``time_s``. A file that does not name the services has one curve over the day. Every
    service follows this curve, scaled so that the mean over the day is the service's rate in the instance.

    Raises
    ------
    InputError
        If a line is wrong, or a service has no requests; the error names file, line and column, or the service.
    """
    services = [workload.id for workload in instance.workloads]
    mean_rps = np.array([workload.rate_rps for workload in instance.workloads])
    rates, description = _read(path, services, mean_rps, window_s)
    for service, peak_rps in zip(services, rates.max(axis=0), strict=True):
        if peak_rps <= 0.0:
            raise InputError(printable(str(path)), f"has no requests of {printable(service)}; expected at least one")
    # Round up to powers of STEP times the services' own rates.
    steps = np.ceil(np.log(rates / mean_rps) / np.log(STEP) - 1e-9)
    return DayOfTraffic(window_s, mean_rps * STEP**steps, description)


def _read(path: Path, services: Sequence[str], mean_rps: Floats, window_s: float) -> tuple[Floats, str]:
    """Return the rates of the services in each window, and a description of the trace format."""
    name = printable(str(path))
    text = _text(path)
    refuse_foreign(text, name)
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise InputError(name, f"is not valid CSV: {error}") from None
    header = [cell.strip() for cell in rows[0]] if rows else []
    first_line = 2
    if any(_is_number(cell) for cell in header):
        header, first_line = [], 1
    rows = rows[first_line - 1 :]
    if not rows:
        raise InputError(f"{name}: line {2 if header else 1}, column 1", "is empty; expected a trace")
    named_services = [service for service in services if service in header]
    if named_services:
        if "time_s" not in header or len(named_services) < len(services):
            missing = ["time_s"] * ("time_s" not in header) + [
                service for service in services if service not in named_services
            ]
            raise InputError(
                f"{name}: line 1, column {missing[0]}", f"is missing; the trace lacks {', '.join(missing)}"
            )
        times = _column(rows, header.index("time_s"), "time_s", name)
        rates = np.stack([_column(rows, header.index(service), service, name) for service in services], axis=1)
        return _rates_of_windows(times, rates, window_s), "requests per second of every service"
    service_column = next((title for title in ("service", "func") if title in header), None)
    if "requests" in header and service_column is not None and "time_s" in header:
        times = _column(rows, header.index("time_s"), "time_s", name)
        weights = _column(rows, header.index("requests"), "requests", name)
        return _rates_from_counts(
            times, weights, _cells(rows, header.index(service_column)), services, mean_rps, window_s
        )
    time_column = next((title for title in TIMESTAMP_COLUMNS if title in header), None)
    if time_column is not None:
        times = _times(rows, header, time_column, name)
        service_of_row = _cells(rows, header.index(service_column)) if service_column is not None else [""] * len(rows)
        return _rates_from_counts(times, np.ones(len(times)), service_of_row, services, mean_rps, window_s)
    if header and header[-1] not in COUNT_COLUMNS:
        listed = f"{', '.join(map(printable, header[:6]))}{' and more' if len(header) > 6 else ''}"
        problem = f"has the columns {listed}, which are those of no known trace"
        expected = "expected time_s and the names of the services, or another trace of docs/plan.md"
        raise InputError(f"{name}: line 1", f"{problem}; {expected}")
    # One number a line, or the last column of several: requests in each second.
    columns = len(header) or max(1, *map(len, rows))
    counts = _column(rows, columns - 1, header[-1] if header else str(columns), name, first_line)
    return _rates_of_one_shape(np.arange(len(counts), dtype=float), counts, mean_rps, window_s)


def _rates_from_counts(
    times: Floats,
    weights: Floats,
    service_of_request: Sequence[str],
    services: Sequence[str],
    mean_rps: Floats,
    window_s: float,
) -> tuple[Floats, str]:
    """Return rates from request counts: by service if the trace names all services, otherwise one shape for all."""
    part = _parts(times)
    parts = int(part.max()) + 1
    begin_s = np.arange(parts, dtype=np.float64) * PART_S
    if set(services) <= set(service_of_request):
        position_of = {service: position for position, service in enumerate(services)}
        rates = np.zeros((parts, len(services)))
        for index_of_part, weight, service in zip(part, weights, service_of_request, strict=True):
            if service in position_of:
                rates[index_of_part, position_of[service]] += weight / PART_S
        return _rates_of_windows(begin_s, rates, window_s), "counted requests of every service"
    counts = np.bincount(part, weights=weights, minlength=parts).astype(np.float64)
    return _rates_of_one_shape(begin_s, counts, mean_rps, window_s)


def _rates_of_one_shape(times: Floats, counts: Floats, mean_rps: Floats, window_s: float) -> tuple[Floats, str]:
    """Return rates that all follow the same curve: the counts, scaled to the mean rate of each service."""
    shape = _rates_of_windows(times, counts[:, None], window_s) / max(counts.mean(), np.finfo(float).tiny)
    return shape * mean_rps[None, :], "one shape of the day for every service"


def _rates_of_windows(times: Floats, rates: Floats, window_s: float) -> Floats:
    """Return the rates in the busiest part of each window, at least a thousandth of the peak rate.

    ``times`` are in seconds, and ``rates`` has a row for each time and a column for each service.
    """
    part = _parts(times)
    entries_of_part = np.bincount(part).astype(float)
    part_rps = np.stack(
        [np.bincount(part, weights=column) / np.maximum(entries_of_part, 1.0) for column in rates.T], axis=1
    )
    window = (np.arange(len(part_rps)) * PART_S // window_s).astype(np.int64)
    busiest = np.zeros((int(window.max()) + 1, rates.shape[1]))
    np.maximum.at(busiest, window, part_rps)
    return np.maximum(busiest, busiest.max(axis=0) / 1000.0)


def _parts(times: Floats) -> Ints:
    """Return the index of the part of ``PART_S`` seconds that contains each time; part 0 begins at the first time."""
    duration_s = float(times.max() - times.min())
    if duration_s > MOST_SECONDS:
        raise InputError(FieldName("trace"), f"lasts {duration_s:.0f} s; expected at most {MOST_SECONDS:,} s")
    return ((times - times.min()) // PART_S).astype(np.int64)


def _text(path: Path) -> str:
    if path.suffix != ".gz":
        return csv_text(path)
    refuse_special(path)
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(printable(str(path)), f"cannot be read: {printable(str(error))}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _cells(rows: Sequence[Sequence[str]], column: int) -> list[str]:
    """Return the cells of a column; a cell that a row lacks is empty."""
    return [row[column] if column < len(row) else "" for row in rows]


def _column(rows: Sequence[Sequence[str]], column: int, title: str, name: str, first_line: int = 2) -> Floats:
    cells = [cell.strip() for cell in _cells(rows, column)]
    for line, text in enumerate(cells, first_line):
        if not _is_number(text) or not 0.0 <= float(text) < 1e12:
            where = f"{name}: line {line}, column {title}"
            raise InputError(where, f'is "{printable(text[:60])}"; expected a number of at least 0, below 10^12')
    return np.array([float(text) for text in cells])


def _times(rows: Sequence[Sequence[str]], header: Sequence[str], column: str, name: str) -> Floats:
    """Return the times at which the requests begin, in seconds after any common origin."""
    if column == "TIMESTAMP":
        seconds = []
        for line, text in enumerate(_cells(rows, header.index(column)), 2):
            try:
                moment = datetime.fromisoformat(text.strip()[:26])
            except ValueError:
                where = f"{name}: line {line}, column {column}"
                raise InputError(where, f'is "{printable(text[:60])}"; expected a date and time') from None
            # A time without a zone is read as UTC: local time would jump with daylight saving.
            seconds.append(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
        return np.array(seconds)
    times = _column(rows, header.index(column), column, name)
    if column == "timestamp" and "hash_ids" in header:
        return times / 1000.0
    if not (subtracted := TIMESTAMP_COLUMNS[column]):
        return times
    if subtracted not in header:
        where = f"{name}: line 1, column {subtracted}"
        raise InputError(where, f"is missing; requests begin at {column} minus {subtracted}")
    return times - _column(rows, header.index(subtracted), subtracted, name)


def window_instances(day: DayOfTraffic, instance: Instance) -> list[Instance]:
    """Return the instance of every window."""
    windows = ScenarioSet(instance, day.rates_rps)
    return [windows.scenario(number) for number in range(len(windows))]
