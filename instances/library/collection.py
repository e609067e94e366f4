"""Folder of the library: an index, a file of GPU types, and a compressed file per entry."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from instances.errors import InputError, unknown_name
from instances.instance import Instance
from instances.library.benchmark import BENCHMARK, BenchmarkSet
from instances.library.difficulty import Difficulty, MeasuredDifficulty
from instances.library.entry import Credit, LibraryEntry, LibraryLine
from instances.library.history import HISTORY, LibraryFinding, extended, history_to_json, read_history

MARK = "library/"
"""Prefix of the names by which commands select entries: ``library/NAME`` or a pattern such as ``library/*``."""

VERSION = 1
"""Version of the entries' format."""

RENEWED, WITHDRAWN = "renewed.json", "withdrawn.json"
"""Names of the files of removed entries."""

INDEX, TYPES, ENTRY_SUFFIX = "index.json", "types.json.gz", ".json.gz"
"""Names of the index and of the file of GPU types, and ending of the files of entries."""


@dataclass(frozen=True)
class Library:
    """The library in a folder.

    ``index.json`` has a line for each entry. ``types.json.gz`` has the coefficients of each GPU type, by their digest.
    ``NAME.json.gz`` is an entry. The entry refers to its GPU types by digest, so that changes of the catalogue do not
    change the entry. ``renewed.json`` has the name of each removed entry and of the entry that replaced it;
    ``withdrawn.json`` has the names of entries without a successor, and why they were withdrawn. ``difficulty.json``
    has the measured difficulties, and ``benchmark.json`` the benchmark set.
    ``history.json`` has all findings, also those of removed entries.
    """

    folder: Path

    def summaries(self) -> list[LibraryLine]:
        """Return the lines of the index, in their order."""
        file = self.folder / INDEX
        if not file.is_file():
            return []
        return [LibraryLine(**line) for line in json.loads(file.read_text(encoding="utf-8"))]

    def renewed(self) -> dict[str, str]:
        """Return, by the name of each removed entry, the name of the entry that replaced it."""
        return self._record(RENEWED)

    def withdrawn(self) -> dict[str, str]:
        """Return the reason, by the name of each entry that was removed without a successor."""
        return self._record(WITHDRAWN)

    def difficulties(self) -> dict[str, MeasuredDifficulty]:
        """Return the measured difficulties by the names of the entries."""
        return {
            name: MeasuredDifficulty(Difficulty(data["difficulty"]), data["proven_s"], data["version"], data["date"])
            for name, data in self._record("difficulty.json").items()
        }

    @property
    def benchmark(self) -> BenchmarkSet | None:
        """The benchmark set; ``None`` if the library has none."""
        data = self._record("benchmark.json")
        return BenchmarkSet(**data) if data else None

    def removed(self, name: str) -> bool:
        """Return whether an entry called ``name`` was renewed or withdrawn."""
        return name in self.renewed() or name in self.withdrawn()

    def current(self, name: str) -> str:
        """Return the name of the entry that replaced an entry, or ``name`` itself."""
        renewed = self.renewed()
        while name in renewed:
            name = renewed[name]
        return name

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names of the entries that match a shell pattern, in the order of the index.

        The pattern ``benchmark`` stands for the benchmark set. A pattern may begin with ``MARK``.
        """
        pattern = pattern.removeprefix(MARK)
        if pattern == BENCHMARK and self.benchmark is not None:
            return list(self.benchmark.entries)
        return [line.name for line in self.summaries() if fnmatchcase(line.name, pattern)]

    def has(self, name: str) -> bool:
        """Return whether there is an entry called ``name``."""
        try:
            return name.isprintable() and "/" not in name and self._file(name).is_file()
        except OSError:  # no file can have such a name
            return False

    def instance(self, name: str) -> Instance:
        """Return the instance of an entry.

        Raises
        ------
        InputError
            If there is no such entry, or its file is damaged.
        """
        from instances.files import instance_from_json  # imported here, because it loads pydantic

        return instance_from_json(self._frozen(self._read(name)), self._where(name))

    def entry(self, name: str) -> LibraryEntry:
        """Return an entry, called ``NAME`` or ``library/NAME``; errors are those of ``instance``."""
        from instances.files import plan_from_json

        name = name.removeprefix(MARK)
        data, where = self._read(name), self._where(name)
        best, bound = data["best"] or {}, data["bound"] or {}
        return LibraryEntry(
            instance=self.instance(name),
            plan=plan_from_json(best["plan"], where) if best else None,
            value=best.get("value"),
            plan_credit=Credit(**best["credit"]) if best else None,
            claim=bound.get("claim"),
            proof=bound.get("proof"),
            proof_credit=Credit(**bound["credit"]) if bound else None,
            measured=self.difficulties().get(name),
        )

    def certificate(self, name: str) -> dict[str, Any] | None:
        """Return the certificate of an entry in the format of ``bench check``; ``None`` if it has no bound."""
        data = self._read(name.removeprefix(MARK))
        if data["bound"] is None:
            return None
        return {
            "version": 1,
            "instance": self._frozen(data),
            "plan": None if data["best"] is None else data["best"]["plan"],
            "claim": data["bound"]["claim"],
            "proof": data["bound"]["proof"],
        }

    def history(self, name: str) -> list[LibraryFinding]:
        """Return the findings of an entry, the oldest first."""
        return [finding for finding in read_history(self.folder) if finding.entry == name.removeprefix(MARK)]

    def write(self, entry: LibraryEntry) -> None:
        """Write an entry, its GPU types, its findings and its line of the index; each file is written atomically.

        Raises
        ------
        InputError
            If the name is that of a withdrawn entry, or the folder cannot be written.
        """
        from instances.files import instance_to_json, plan_to_json, write_bytes, write_json

        if entry.instance.name in self.withdrawn():
            raise InputError(self._where(entry.instance.name), "the name was used before; an entry gets a new one")
        frozen = instance_to_json(entry.instance, frozen=True)
        catalogue: Any = frozen.pop("catalogue")
        digests = {name: coefficients_digest(coefficients) for name, coefficients in catalogue.items()}
        coefficients_of = {digests[name]: coefficients for name, coefficients in catalogue.items()}
        if not coefficients_of.keys() <= self._types.keys():
            write_json(self.folder / TYPES, dict(self._types) | coefficients_of)
            del self.__dict__["_types"]
        best = bound = None
        if entry.plan is not None and entry.plan_credit is not None:
            best = {"value": entry.value, "credit": asdict(entry.plan_credit), "plan": plan_to_json(entry.plan)}
        if entry.proof_credit is not None:
            bound = {"credit": asdict(entry.proof_credit), "claim": entry.claim, "proof": entry.proof}
        data = {"version": VERSION, "types": digests, "instance": frozen, "best": best, "bound": bound}
        write_json(self._file(entry.instance.name), data)
        history = extended(read_history(self.folder), entry)
        write_bytes(self.folder / HISTORY, history_to_json(history).encode())
        self._write_line(entry)

    def record_difficulty(self, name: str, measured: MeasuredDifficulty) -> None:
        """Put the measured difficulty of an entry on record and into the index.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        self._write_record("difficulty.json", self._record("difficulty.json") | {name: asdict(measured)})
        self._write_line(self.entry(name))

    def replace(self, name: str, successor: LibraryEntry) -> None:
        """Remove an entry, and write its successor under another name.

        Raises
        ------
        InputError
            If the successor's name was used before, or the folder cannot be written.
        """
        new_name = successor.instance.name
        if new_name in self.renewed() or self.has(new_name):
            raise InputError(self._where(new_name), "the name was used before; an entry gets a new one")
        self.write(successor)
        self._write_record(RENEWED, self.renewed() | {name: new_name})
        self._write_index({line.name: line for line in self.summaries() if line.name != name})
        self._file(name).unlink()

    def withdraw(self, name: str, reason: str) -> None:
        """Remove an entry without a successor; its name is not used again.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        self._write_record(WITHDRAWN, self.withdrawn() | {name: reason})
        self._write_index({line.name: line for line in self.summaries() if line.name != name})
        self._file(name).unlink()

    def write_benchmark(self, benchmark: BenchmarkSet) -> None:
        """Write the benchmark set.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        self._write_record("benchmark.json", asdict(benchmark))

    def _write_line(self, entry: LibraryEntry) -> None:
        """Write the line of an entry, with its difficulty on record."""
        name = entry.instance.name
        recorded = replace(entry, measured=self.difficulties().get(name))
        self._write_index({line.name: line for line in self.summaries()} | {name: recorded.summary()})

    def _record(self, file_name: str) -> dict[str, Any]:
        """Return the content of a file of records; empty if the file does not exist."""
        file = self.folder / file_name
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}

    def _write_record(self, file_name: str, record: Mapping[str, Any]) -> None:
        """Write a file of records, sorted by name."""
        from instances.files import write_json

        write_json(self.folder / file_name, dict(sorted(record.items())))

    def _write_index(self, lines: Mapping[str, LibraryLine]) -> None:
        from instances.files import write_bytes

        index = ",\n".join(json.dumps(asdict(line)) for _, line in sorted(lines.items()))
        write_bytes(self.folder / INDEX, f"[\n{index}\n]\n".encode())

    @cached_property
    def _types(self) -> Mapping[str, Any]:
        from instances.files import read_json

        file = self.folder / TYPES
        types: Any = read_json(file) if file.is_file() else {}
        return types

    def _frozen(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the instance in an entry's data, with the coefficients of its GPU types."""
        if missing := [name for name, digest in data["types"].items() if digest not in self._types]:
            name = data["instance"]["name"]
            raise InputError(self._where(name), f"its coefficients of {missing[0]} are missing in {TYPES}")
        return {**data["instance"], "catalogue": {name: self._types[digest] for name, digest in data["types"].items()}}

    def _read(self, name: str) -> Any:
        from instances.files import read_json

        file = self._file(name)
        if not self.has(name):
            if name in self.renewed():
                raise InputError("library", f'the instance "{name}" was made again as "{self.current(name)}"')
            if name in self.withdrawn():
                raise InputError("library", f'the instance "{name}" was withdrawn: {self.withdrawn()[name]}')
            raise unknown_name("library", "instance of the library", name, self.names(), "`bench library` lists all")
        data: Any = read_json(file)
        if data.get("version") != VERSION:
            raise InputError(self._where(name), f"is of version {data.get('version')}; this bench reads {VERSION}")
        return data

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}{ENTRY_SUFFIX}"

    def _where(self, name: str) -> str:
        return f"{MARK}{name}"


def coefficients_digest(coefficients: object) -> str:
    """Return the SHA-256 under which the library keeps the coefficients of a GPU type."""
    return sha256(json.dumps(coefficients, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


LIBRARY = Library(Path(__file__).parent / "entries")
"""The library that comes with the bench."""
