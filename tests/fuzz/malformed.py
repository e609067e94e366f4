"""Hypothesis strategies of malformed files: some are wrong in one place or two, and some are arbitrary bytes."""

import copy
import gzip
import io
import json
import sqlite3
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tomli_w
from hypothesis import strategies as st

from bench.ledger.sql import DIGEST, digest, sql_columns
from tests.fuzz.formats import Format

NUMBERS = st.sampled_from(
    [0, -1, -0.0, 1, 2**31, 2**63, -(2**63), 10**30, 10**400, 1e308, 5e-324, float("nan"), float("inf"), -float("inf")]
)
TEXTS = st.sampled_from(
    [
        "",
        " ",
        "x" * 300,
        "a\nb",
        "\x00",
        "\x1b[31m",
        "\u2028",
        "../../etc/passwd",
        "__import__('os')",
        "\ud800",
        "NaN",
        "1",
    ]
)
ODD = st.one_of(
    NUMBERS,
    TEXTS,
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.lists(st.integers(-2, 2) | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
    st.integers(1, 60).map(lambda depth: _nested(depth)),
)


def _nested(depth: int) -> object:
    """Return 0 inside ``depth`` lists."""
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


def malformed(form: Format) -> st.SearchStrategy[bytes]:
    """Return a strategy of files of a kind, most of them wrong in up to three places."""
    good = form.good()
    structured: dict[str, Callable[[bytes], st.SearchStrategy[bytes]]] = {
        "json": lambda good: trees(json.loads(good)).map(_as_json),
        "toml": lambda good: trees(tomllib.loads(good.decode())).map(_as_toml),
        "csv": _lines,
        "csv.gz": lambda good: _lines(gzip.decompress(good)).map(gzip.compress),
        "ledger": _ledgers,
        "weights": _weights,
    }
    return st.one_of(structured[form.kind](good), structured[form.kind](good), damaged(good), st.binary(max_size=300))


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Change, delete, insert or repeat bytes, or cut off the end, in up to three places."""
    content = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, max(0, len(content) - 1)))
        end = draw(st.integers(begin, min(len(content), begin + 64)))
        match draw(st.sampled_from(["change", "cut", "insert", "repeat", "end"])):
            case "change":
                content[begin : begin + 1] = draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del content[begin:end]
            case "insert":
                content[begin:begin] = draw(
                    st.binary(max_size=8) | st.sampled_from([b"[" * 3000, b"\xef\xbb\xbf", b'"', b"9" * 5000])
                )
            case "repeat":
                content[begin:begin] = content[begin:end]
            case _:
                del content[begin:]
    return bytes(content)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) of a tree."""
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        for key, child in list(inner.items()) if isinstance(inner, dict) else list(enumerate(inner)):
            yield inner, key
            if isinstance(child, dict | list):
                waiting.append(child)


@st.composite
def trees(draw: st.DrawFn, good: Any) -> Any:
    """Change a JSON or TOML tree in up to three places."""
    tree = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(tree))
        if not places:
            return draw(ODD)
        container, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["replace", "replace", "replace", "remove", "add", "rename", "root"])):
            case "replace":
                container[key] = draw(ODD)
            case "remove":
                del container[key]
            case "add" if isinstance(container, dict):
                container[draw(TEXTS | st.text(max_size=8))] = draw(ODD)
            case "rename" if isinstance(container, dict):
                container[f"{key}x"] = container.pop(key)
            case "add" | "rename":
                container.append(draw(ODD))
            case _:
                return draw(ODD)
    return tree


def _as_json(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def _as_toml(tree: Any) -> bytes:
    writable = _without_null(tree)
    return tomli_w.dumps(writable if isinstance(writable, dict) else {"x": writable}).encode("utf-8", "surrogatepass")


def _without_null(value: Any) -> Any:
    """Return a tree without ``None``, which TOML cannot represent."""
    if isinstance(value, dict):
        return {key: _without_null(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [_without_null(child) for child in value if child is not None]
    return 0 if value is None else value


CELLS = st.sampled_from(["", "nan", "-1", "1e999", "x", "0", '"', "1,2", "9" * 5000, "\x00", "\u00e9"]) | st.text(
    max_size=5
)


@st.composite
def _lines(draw: st.DrawFn, good: bytes) -> bytes:
    """Change cells, rows or lines of a CSV file in up to three places."""
    rows = [line.split(",") for line in good.decode().split("\n")]
    for _ in range(draw(st.integers(1, 3))):
        row = rows[draw(st.integers(0, len(rows) - 1))]
        match draw(st.sampled_from(["cell", "cell", "cell", "drop", "add", "line"])):
            case "cell":
                row[draw(st.integers(0, len(row) - 1))] = draw(CELLS)
            case "drop" if len(row) > 1:
                row.pop()
            case "line" if len(rows) > 1:
                rows.remove(row)
            case _:
                row.append(draw(CELLS))
    return "\n".join(",".join(row) for row in rows).encode("utf-8", "surrogatepass")


@st.composite
def _ledgers(draw: st.DrawFn, good: bytes) -> bytes:
    """Change a ledger by one SQL statement, perhaps with digests that fit the changed rows."""
    names = [*sql_columns()]
    odd = st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.binary(max_size=5) | st.text(max_size=5)
    value = draw(odd | st.sampled_from(["[]", "{}", "{", "null", "[" * 3000, "9" * 5000]))
    value = value.encode(errors="replace").decode() if isinstance(value, str) else value
    name = draw(st.sampled_from(names))
    statements: list[tuple[str, list[Any]]] = [
        (f'UPDATE runs SET "{name}" = ?', [value]),
        (f'ALTER TABLE runs DROP COLUMN "{name}"', []),
        ("UPDATE instances SET json = ?", [value]),
        ("UPDATE chunks SET json = ?", [value]),
        ("DROP TABLE runs", []),
        ("DELETE FROM instances", []),
        ("ALTER TABLE instances RENAME COLUMN json TO data", []),
        (f"PRAGMA user_version = {draw(st.integers(-5, 5))}", []),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.sqlite")
        path.write_bytes(good)
        database = sqlite3.connect(path)
        try:
            database.execute(*draw(st.sampled_from(statements)))
            if draw(st.booleans()):  # a forger can compute digests
                database.row_factory = sqlite3.Row
                for row in map(dict, database.execute("SELECT * FROM runs").fetchall()):
                    database.execute(f"UPDATE runs SET {DIGEST} = ? WHERE key IS ?", [digest(row), row.get("key")])
            database.commit()
        except sqlite3.Error:  # the statement touches a key, or a column that may not be empty
            database.execute("PRAGMA user_version = 99")
        database.close()
        return path.read_bytes()


@st.composite
def _weights(draw: st.DrawFn, good: bytes) -> bytes:
    """Change one entry of a file of weights, or replace all of it."""
    import torch

    tree = torch.load(io.BytesIO(good), weights_only=True)
    key = draw(st.sampled_from(sorted(tree)))
    match draw(st.sampled_from(["replace", "replace", "remove", "add", "root"])):
        case "replace":
            tree[key] = draw(ODD)
        case "remove":
            del tree[key]
        case "add":
            tree[draw(st.text(max_size=5))] = draw(ODD)
        case _:
            tree = draw(ODD)
    buffer = io.BytesIO()
    torch.save(tree, buffer)
    return buffer.getvalue()


def hostile_pickle(command: str) -> bytes:
    """Return a file of weights that runs ``command`` if it is unpickled without checks."""
    import os

    import torch

    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (command,)

    buffer = io.BytesIO()
    torch.save({"weights": Runs()}, buffer)
    return buffer.getvalue()
