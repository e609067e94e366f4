"""Measured truth: GPU times of a plan's slots that were measured with exactly these configurations on one GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from instances import GpuPool, GpuType, InputError, Instance, Partition, PlacedGpu, Plan, Slot
from instances.errors import FieldName
from instances.gpu import Company, DnnModel
from instances.measurements import MEASURED_RESIDENTS, PAIRS_FILE, SOLO_FILE, Configuration, read_pairs, read_solo
from instances.model_error.cells import OTHER_SIDE_FILE
from instances.model_error.cells import alone_ms as latencies_alone_ms
from instances.performance.hybrid import HybridModel
from instances.performance.model import alone_ms as profiled_gpu_ms
from instances.performance.model import transfers_ms
from instances.view import View

MEASURED_PREFIX = "measured:"
"""Prefix of the name of a measured truth; a folder of measurements follows it."""


class UnmeasuredError(InputError):
    """Plan with a time that was not measured: a correct plan that measurements cannot judge."""


@dataclass(frozen=True, slots=True)
class MeasuredTruth:
    """Measured latencies of one GPU type.

    Attributes
    ----------
    folder
        Name of the folder, for errors.
    latency_ms
        Whole inference time of a configuration alone, by ``(configuration,)``; beside another one, by
        ``(configuration, other)``.
    content_hash
        SHA-256 of the folder's files, if the truth was found by its name.
    """

    folder: str
    latency_ms: Mapping[tuple[Configuration, ...], float]
    content_hash: str = ""

    @classmethod
    def read(cls, folder: Path) -> "MeasuredTruth":
        """Read a folder of measurements. If a pair of configurations was measured several times, the first time counts.

        Raises
        ------
        InputError
            If ``solo.csv`` or ``pairs.csv`` is missing or wrong.
        """
        latency_ms: dict[tuple[Configuration, ...], float] = {
            (configuration,): time_ms
            for configuration, time_ms in latencies_alone_ms(read_solo(folder / SOLO_FILE)).items()
        }
        for file in (PAIRS_FILE, OTHER_SIDE_FILE):
            if file == PAIRS_FILE or (folder / file).exists():
                for sample in read_pairs(folder / file):
                    latency_ms.setdefault((sample.own, sample.other), sample.latency_ms)
        return cls(str(folder), latency_ms)

    @classmethod
    def named(cls, truth: str | None) -> "MeasuredTruth | None":
        """Return the truth that ``measured:FOLDER`` names; ``None`` for another name or none."""
        if truth is None or not truth.startswith(MEASURED_PREFIX):
            return None
        folder = Path(truth.removeprefix(MEASURED_PREFIX))
        return _read(folder, _content_hash(folder))

    def check(self, instance: Instance) -> None:
        """Check that measured times can judge plans for an instance.

        Raises
        ------
        InputError
            If the instance has MIG instances, language-model services or jobs.
        """
        if instance.partition is Partition.MIG or instance.services or instance.jobs:
            raise InputError(FieldName("truth"), "is measured; expected plans of shares whose workloads have SLOs")

    def gpu_times_ms(self, position: int, gpu: PlacedGpu, view: View) -> list[float]:
        """Return the measured GPU time of each gpulet: its latency without the transfers of the performance model.

        Raises
        ------
        UnmeasuredError
            If the GPU has more than two gpulets or slots that take turns, or if a latency was not measured.
        """
        rows = [
            int(view.model[view.instance.workload_index[slot.workload]])
            for _, slot in self._shares_and_slots(position, gpu)
        ]
        configurations = self._configurations(position, gpu, view.instance, view.gpu)
        return [
            self._beside_ms(position, configurations, number) - float(view.tables.transfer_ms[row, configuration.batch])
            for number, (row, configuration) in enumerate(zip(rows, configurations, strict=True))
        ]

    def simulated(self, plan: Plan, instance: Instance) -> tuple[Plan, Instance, Instance]:
        """Return a plan, its instance, and the instance with the measured truth, for simulations.

        In all three, every GPU of the plan has a GPU type of its own, and every workload a model of its own. A full
        batch takes its measured time, alone or beside the neighbour. Smaller batches, which start when fewer requests
        wait, were not measured. Their times in the solo profile are multiplied by the factors that turn the full
        batch's profiled time into its measured times.

        Raises
        ------
        UnmeasuredError
            If a latency was not measured.
        InputError
            As for ``check``.
        """
        self.check(instance)
        planned_pools, true_pools, gpus = [], [], []
        for position, gpu in enumerate(plan.gpus):
            pool = instance.pool(gpu.type)
            if pool is None:
                raise InputError(f"plan: gpus[{position}].type", f'is "{gpu.type}", which the instance does not have')
            models = {w.id: replace(pool.type.model(w.model), name=w.id) for w in instance.workloads}
            renamed = replace(pool.type, name=f"{gpu.type}-{position}", models=models)
            planned_pools.append(GpuPool(renamed, 1))
            true_pools.append(GpuPool(self._true_type(position, gpu, instance, renamed), 1))
            gpus.append(replace(gpu, type=renamed.name))
        workloads = tuple(replace(workload, model=workload.id) for workload in instance.workloads)
        with_own_models = replace(instance, gpus=tuple(planned_pools), workloads=workloads)
        truth = replace(with_own_models, gpus=tuple(true_pools), performance_model=HybridModel.name)
        return replace(plan, gpus=tuple(gpus)), with_own_models, truth

    def _true_type(self, position: int, gpu: PlacedGpu, instance: Instance, renamed: GpuType) -> GpuType:
        """Return the type of one GPU of a plan with the measured times of its workloads.

        The models of other workloads keep the times of their profiles.
        """
        models = {name: _with_fixed_times(model, renamed.name, 1.0, 1.0) for name, model in renamed.models.items()}
        configurations = self._configurations(position, gpu, instance, renamed)
        for number, ((_, slot), configuration) in enumerate(
            zip(self._shares_and_slots(position, gpu), configurations, strict=True)
        ):
            model, batch = renamed.models[slot.workload], np.array(float(configuration.batch))
            transfer_ms = float(sum(transfers_ms(renamed, model, batch)))
            own_ms = self._latency_ms(position, (configuration,)) - transfer_ms
            beside_ms = self._beside_ms(position, configurations, number) - transfer_ms
            profile_ms = float(profiled_gpu_ms(model.profiled(renamed.name), batch, np.array(configuration.share_pct)))
            models[slot.workload] = _with_fixed_times(
                model, renamed.name, min(own_ms, beside_ms) / profile_ms, max(1.0, beside_ms / own_ms)
            )
        hardware = replace(renamed.hardware, alpha_f=0.0, alpha_sch=0.0, beta_sch=0.0)
        return replace(renamed, models=models, hardware=hardware)

    def _shares_and_slots(self, position: int, gpu: PlacedGpu) -> list[tuple[int, Slot]]:
        """Return the share units and the slot of each gpulet; refuse GPUs with more gpulets or slots than measured."""
        slots_by_gpulet = [gpulet.slots for gpulet in gpu.gpulets]
        if len(slots_by_gpulet) > MEASURED_RESIDENTS or any(len(slots) > 1 for slots in slots_by_gpulet):
            slot_count = sum(map(len, slots_by_gpulet))
            problem = f"has {slot_count} slots; {self.folder} has one or two configurations on a GPU"
            raise UnmeasuredError(f"plan: gpus[{position}]", problem)
        return [(gpulet.share_units, gpulet.slots[0]) for gpulet in gpu.gpulets]

    def _configurations(
        self, position: int, gpu: PlacedGpu, instance: Instance, gpu_type: GpuType
    ) -> list[Configuration]:
        """Return the configuration of each gpulet of a GPU."""
        return [
            Configuration(instance.model_of[slot.workload], slot.batch, round(gpu_type.share_pct(units), 6))
            for units, slot in self._shares_and_slots(position, gpu)
        ]

    def _beside_ms(self, position: int, configurations: Sequence[Configuration], number: int) -> float:
        """Return the latency of one of the configurations on a GPU beside the others."""
        return self._latency_ms(
            position, (configurations[number], *configurations[:number], *configurations[number + 1 :])
        )

    def _latency_ms(self, position: int, configurations: tuple[Configuration, ...]) -> float:
        latency_ms = self.latency_ms.get(configurations)
        if latency_ms is None:
            condition = f"beside {configurations[1]}" if configurations[1:] else "alone"
            problem = f"{configurations[0]} {condition} was not measured in {self.folder}; nothing is interpolated"
            raise UnmeasuredError(f"plan: gpus[{position}]", problem)
        return latency_ms


def _content_hash(folder: Path) -> str:
    """Return the SHA-256 of the measurements in a folder."""
    content = sha256()
    for name in (SOLO_FILE, PAIRS_FILE, OTHER_SIDE_FILE):
        file = folder / name
        content.update(sha256(file.read_bytes()).digest() if file.is_file() else b"-")
    return content.hexdigest()


@lru_cache(maxsize=4)
def _read(folder: Path, content_hash: str) -> MeasuredTruth:
    """Read a folder of measurements, once for every content."""
    return replace(MeasuredTruth.read(folder), content_hash=content_hash)


def _with_fixed_times(model: DnnModel, gpu: str, alone: float, beside: float) -> DnnModel:
    """Return a model with ``alone`` times its solo times; any neighbour multiplies these by ``beside``."""
    solo = model.profiled(gpu)
    times_ms = tuple(tuple(alone * time_ms for time_ms in row) for row in solo.gpu_ms)
    beside_ms = tuple(tuple(beside * time_ms for time_ms in row) for row in times_ms)
    return replace(
        model, solo=replace(solo, gpu_ms=times_ms), company=Company(beside_ms, 0.0, 0.0), kernels=0, power=(0.0, 0.0)
    )
