"""Measured truth: GPU times of a plan's slots that were measured with exactly these configurations on one GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from instances import InputError, PlacedGpu
from instances.measurements import PAIRS_FILE, SOLO_FILE, Configuration, read_pairs, read_solo
from instances.model_error.cells import OTHER_SIDE_FILE, alone_ms
from instances.view import View

MEASURED_PREFIX = "measured:"
"""Begin of the name of a measured truth; the rest is a folder of measurements."""

MOST_RESIDENTS = 2
"""Largest number of gpulets on a GPU in a folder of measurements."""


@dataclass(frozen=True, slots=True)
class MeasuredTruth:
    """Measured latencies of one GPU type.

    Attributes
    ----------
    folder
        Name of the folder, for errors.
    latency_ms
        Whole inference time of the first configuration, alone or beside the second one.
    """

    folder: str
    latency_ms: Mapping[tuple[Configuration, ...], float]

    @classmethod
    def read(cls, folder: Path) -> "MeasuredTruth":
        """Read a folder of measurements; of repeated pairs the first counts.

        Raises
        ------
        InputError
            If ``solo.csv`` or ``pairs.csv`` is missing or wrong.
        """
        latency_ms: dict[tuple[Configuration, ...], float] = {
            (side,): time_ms for side, time_ms in alone_ms(read_solo(folder / SOLO_FILE)).items()
        }
        for file in (PAIRS_FILE, OTHER_SIDE_FILE):
            if file == PAIRS_FILE or (folder / file).exists():
                for sample in read_pairs(folder / file):
                    latency_ms.setdefault((sample.own, sample.other), sample.latency_ms)
        return cls(str(folder), latency_ms)

    def gpu_times_ms(self, position: int, gpu: PlacedGpu, view: View) -> list[float]:
        """Return the measured GPU time of each gpulet: its latency without the transfers of the performance model.

        Raises
        ------
        InputError
            If the GPU has more than two gpulets or slots that take turns, or if a latency was not measured.
        """
        where = f"plan: gpus[{position}]"
        slots = [gpulet.slots for gpulet in gpu.gpulets]
        if len(slots) > MOST_RESIDENTS or any(len(of_gpulet) > 1 for of_gpulet in slots):
            problem = f"has {sum(map(len, slots))} slots; {self.folder} has one or two configurations on a GPU"
            raise InputError(where, problem)
        rows = [int(view.model[view.instance.workload_index[slot.workload]]) for (slot,) in slots]
        names = list(view.gpu.models)
        sides = [
            Configuration(names[row], slot.batch, round(view.gpu.share_pct(gpulet.share_units), 6))
            for row, gpulet, (slot,) in zip(rows, gpu.gpulets, slots, strict=True)
        ]
        times_ms = []
        for number, (row, side) in enumerate(zip(rows, sides, strict=True)):
            others = sides[:number] + sides[number + 1 :]
            latency_ms = self.latency_ms.get((side, *others))
            if latency_ms is None:
                company = f"beside {others[0]}" if others else "alone"
                raise InputError(where, f"{side} {company} was not measured in {self.folder}; nothing is interpolated")
            times_ms.append(latency_ms - float(view.tables.transfer_ms[row, side.batch]))
        return times_ms
