"""Recovery of the intact rows of a damaged ledger into a new one."""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from bench.ledger.row import columns
from bench.ledger.sql import DIGEST, REACH, row_from_sql, row_to_sql, sql_columns
from bench.ledger.sqlite_pages import Record, Value, records
from bench.ledger.store import Ledger
from instances import InputError

_HASH = re.compile(r"[0-9a-f]{64}")
_COLUMN = re.compile(r'"(\w+)" (?:TEXT|REAL|INTEGER|JSON)')
_FEWEST_COLUMNS = 20
"""A run has many more, an instance and a chunk have three."""


@dataclass
class Salvaged:
    """What was found in a ledger.

    Attributes
    ----------
    runs, instances, chunks
        That are whole and in the new ledger.
    damaged
        Keys of runs that are not, where a key can be read; what is not even recognised is not counted.
    lost_instances
        Fingerprints of instances that whole runs refer to and that are lost.
    """

    runs: int = 0
    instances: int = 0
    chunks: int = 0
    damaged: list[str] = field(default_factory=list)
    lost_instances: list[str] = field(default_factory=list)


def salvage(source: Path, target: Path) -> Salvaged:
    """Move what is whole in the ledger ``source`` into the new ledger ``target``; ``source`` is not touched.

    A run is whole if its values are those that were written (see ``bench.ledger.sql.digest``). Runs of benches that
    wrote no digest are whole if every value can be read.

    Raises
    ------
    InputError
        If ``source`` cannot be read or nothing in it is whole, or if ``target`` exists or cannot be written.
    """
    if target.exists():
        raise InputError(str(target), "exists already; name a new file")
    orders = _column_orders(source)
    temporary = target.parent / f".{token_hex(8)}.tmp"
    try:
        with Ledger(temporary, create=True) as ledger:
            found = _move(source, orders, ledger)
        if found.runs == 0 and found.instances == 0:
            raise InputError(str(source), "holds nothing of a ledger that is whole")
        temporary.replace(target)
    except OSError as error:
        raise InputError(str(target), f"cannot be written: {error.strerror}") from None
    except InputError as error:
        if error.where == str(temporary):  # a name that nobody has asked for
            raise InputError(str(target), error.problem) from None
        raise
    finally:
        for leftover in ("", "-wal", "-shm"):
            with suppress(OSError):
                temporary.with_name(temporary.name + leftover).unlink(missing_ok=True)
    return found


def _move(source: Path, orders: Sequence[Sequence[str]], ledger: Ledger) -> Salvaged:
    """Copy whatever is whole; a record may be met twice, where pages were freed or moved."""
    found = Salvaged()
    damaged: dict[str, None] = {}
    needed: dict[str, None] = {}
    instances: set[str] = set()
    chunks: list[dict[str, Value]] = []
    with ledger.transaction():
        for record in records(source):
            match record.values:
                case [str(fingerprint), str(name), str(text)] if _is_hash(fingerprint) and _is_object(text):
                    ledger.insert("instances", {"hash": fingerprint, "name": name, "json": text})
                    instances.add(fingerprint)
                case [str(key), int(first), str(text)] if _is_hash(key) and _is_object(text):
                    chunks.append({"key": key, "first": first, "json": text})
                case [str(key), *rest] if _is_hash(key) and len(rest) >= _FEWEST_COLUMNS:
                    values = _whole(record, orders, str(source))
                    if values is None:
                        damaged[key] = None
                        continue
                    found.runs += ledger.insert("runs", {"rowid": record.rowid, **values})
                    needed[values["instance_hash"]] = None
        kept = ledger.keys()
        found.chunks = sum(ledger.insert("chunks", chunk) for chunk in chunks if chunk["key"] not in kept)
    found.instances = len(instances)
    found.damaged = [key for key in damaged if key not in kept]
    found.lost_instances = [fingerprint for fingerprint in needed if fingerprint not in instances]
    return found


def _whole(record: Record, orders: Sequence[Sequence[str]], where: str) -> dict[str, Any] | None:
    """Return what is stored of a run in columns of one of these ``orders``; ``None`` if it is whole in none.

    Where there are several only a digest can tell which it is.
    """
    for names in orders:
        values = _by_name(record, names)
        if len(orders) > 1 and values[DIGEST] is None:
            continue
        try:
            return row_to_sql(row_from_sql(values, where))
        except ValueError:  # also of a number that is too large to be written again
            continue
    return None


def _column_orders(source: Path) -> list[Sequence[str]]:
    """Return the columns of the table of runs in the order of the file; where it does not tell, in all there were."""
    for record in records(source):
        match record.values:
            case ["table", "runs", "runs", int(), str(statement)]:
                return [_COLUMN.findall(statement)]
    of_version_3 = [*(column.name for column in columns()), DIGEST]
    return [list(sql_columns()), [*of_version_3, REACH]]  # a record of version 3 ends before the last


def _by_name(record: Record, names: Sequence[str]) -> dict[str, Value]:
    """Return the values of a run by column; columns that were added after it was written are empty."""
    columns = sql_columns()
    values = dict.fromkeys(columns) | dict(zip(names, record.values, strict=False))
    # The file has whole numbers as integers, also where the column is of floats.
    return {n: float(v) if isinstance(v, int) and columns.get(n) == "REAL" else v for n, v in values.items()}


def _is_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
