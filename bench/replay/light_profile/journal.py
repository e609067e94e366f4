"""Journal of measurements, one line of JSON each; an interrupted profile resumes from it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.replay.light_profile.points import Point, Tenant
from bench.replay.light_profile.rig import Device, ModelFacts, Reading, Times
from instances.errors import InputError

JOURNAL = "readings.jsonl"

Traffic = tuple[float, float] | None
"""L2 and DRAM utilisation of a batch, each times its duration, in percent ms; ``None`` if they cannot be counted."""


class Journal:
    """The measurements of one device.

    Parameters
    ----------
    folder
        Folder of the journal; earlier runs may have written one.
    device
        The measured device.

    Attributes
    ----------
    facts, traffic, readings
        By model, by model and batch, by point.

    Raises
    ------
    InputError
        If the journal cannot be read or belongs to another device.
    """

    def __init__(self, folder: Path, device: Device) -> None:
        self.file = folder / JOURNAL
        self.device = device
        self.facts: dict[str, ModelFacts] = {}
        self.traffic: dict[tuple[str, int], Traffic] = {}
        self.readings: dict[Point, Reading] = {}
        if self.file.exists():
            self._read()
        else:
            self._append({"device": asdict(device)})

    def add_facts(self, model: str, facts: ModelFacts) -> None:
        """Record the facts of a model."""
        self.facts[model] = facts
        self._append({"model": model, "facts": asdict(facts)})

    def add_traffic(self, model: str, batch: int, traffic: Traffic) -> None:
        """Record the memory traffic of a batch."""
        self.traffic[model, batch] = traffic
        self._append({"model": model, "batch": batch, "traffic": traffic})

    def add(self, point: Point, reading: Reading) -> None:
        """Record a measured point."""
        self.readings[point] = reading
        self._append({"tenants": [asdict(tenant) for tenant in point], **asdict(reading)})

    def _append(self, entry: dict[str, Any]) -> None:
        try:
            with self.file.open("a", encoding="utf-8") as journal:
                journal.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise InputError(str(self.file), f"cannot be written: {error.strerror}") from None

    def _read(self) -> None:
        try:
            text = self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(str(self.file), f"cannot be read: {error}") from None
        whole, _, cut = text.rpartition("\n")
        for number, line in enumerate(whole.split("\n"), 1):
            try:
                self._take(json.loads(line))
            except InputError:
                raise
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                where = f"{self.file}: line {number}"
                raise InputError(where, f"is not a measurement: {type(error).__name__} {error}") from None
        if cut:  # a line that a crash left unfinished
            self.file.write_text(f"{whole}\n", encoding="utf-8")

    def _take(self, entry: dict[str, Any]) -> None:
        if "device" in entry:
            measured = Device(**entry["device"])
            if measured.identity != self.device.identity:
                now, then = (" ".join(map(str, d.identity)) for d in (self.device, measured))
                raise InputError(str(self.file), f'belongs to "{then}", not to "{now}"; use another folder')
            self.device = measured
        elif "facts" in entry:
            self.facts[entry["model"]] = ModelFacts(**entry["facts"])
        elif "traffic" in entry:
            counted = entry["traffic"]
            self.traffic[entry["model"], entry["batch"]] = None if counted is None else (counted[0], counted[1])
        else:
            point = tuple(Tenant(**tenant) for tenant in entry["tenants"])
            times = tuple(Times(**one) for one in entry["times"])
            self.readings[point] = Reading(times, entry["power_w"], entry["frequency_mhz"])
