"""Folder of the library: an index, a file of GPU types, and a compressed file per entry."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from instances.errors import InputError, unknown_name
from instances.instance import Instance
from instances.library.entry import Credit, LibraryEntry, LibraryLine
from instances.library.history import HISTORY, LibraryFinding, extended, history_to_json, read_history

MARK = "library/"
"""Prefix of the names by which commands select entries: ``library/NAME`` or a pattern such as ``library/*``."""

VERSION = 1
"""Version of the entries' format."""

INDEX, TYPES, ENTRY_SUFFIX = "index.json", "types.json.gz", ".json.gz"
"""Names of the index and of the file of GPU types, and ending of the files of entries."""


@dataclass(frozen=True)
class Library:
    """The library in a folder.

    ``index.json`` has a line for each entry. ``types.json.gz`` has the coefficients of each GPU type, by their digest.
    ``NAME.json.gz`` is an entry. The entry refers to its GPU types by digest, so that changes of the catalogue do not
    change the entry. ``renewed.json`` has the name of each removed entry and of the entry that replaced it.
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
        file = self.folder / "renewed.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}

    def current(self, name: str) -> str:
        """Return the name of the entry that replaced an entry, or ``name`` itself."""
        renewed = self.renewed()
        while name in renewed:
            name = renewed[name]
        return name

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names of the entries that match a shell pattern, in the order of the index."""
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
        """Return an entry; errors are those of ``instance``."""
        from instances.files import plan_from_json

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
        )

    def certificate(self, name: str) -> dict[str, Any] | None:
        """Return the certificate of an entry in the format of ``bench check``; ``None`` if it has no bound."""
        data = self._read(name)
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
        return [finding for finding in read_history(self.folder) if finding.entry == name]

    def write(self, entry: LibraryEntry) -> None:
        """Write an entry, its GPU types, its findings and its line of the index; each file is written atomically.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        from instances.files import instance_to_json, plan_to_json, write_bytes, write_json

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
        self._write_index({line.name: line for line in self.summaries()} | {entry.instance.name: entry.summary()})

    def replace(self, name: str, successor: LibraryEntry) -> None:
        """Remove an entry, and write its successor under another name.

        Raises
        ------
        InputError
            If the successor's name was used before, or the folder cannot be written.
        """
        from instances.files import write_json

        new_name = successor.instance.name
        if new_name in self.renewed() or self.has(new_name):
            raise InputError(self._where(new_name), "the name was used before; an entry gets a new one")
        self.write(successor)
        write_json(self.folder / "renewed.json", dict(sorted((self.renewed() | {name: new_name}).items())))
        self._write_index({line.name: line for line in self.summaries() if line.name != name})
        self._file(name).unlink()

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
