"""GPUs with MIG instances: layouts, the catalogue's table, instances with such GPUs, and their files."""

import csv
import os
import tomllib
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

from instances import (
    Gpulet,
    GpuPool,
    InputError,
    Instance,
    MigConfiguration,
    MigProfile,
    Objective,
    Partition,
    PlacedGpu,
    Plan,
    SloRule,
    Slot,
    Workload,
)
from instances.catalogue import gpu_type, gpu_type_from_toml, gpu_type_to_toml
from instances.files import instance_from_json, instance_to_json, plan_from_json, plan_to_json
from instances.mig import MIG_TABLE, MigSlice, layouts
from instances.suites import suite
from instances.view import View

A100 = gpu_type("a100-mig")
PARVAGPU = suite("parvagpu").build()


def profile() -> MigProfile:
    assert A100.mig is not None
    return A100.mig


# --- Layouts ---

# Start positions by size, and the one position that size 3 wastes, from NVIDIA's documentation of the A100.
STARTS = {1: range(7), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)}


def positions(units: int, start: int) -> set[int]:
    return set(range(start, start + units)) | ({3} if (units, start) == (3, 0) else set())


def possible(placed: tuple[tuple[int, int], ...]) -> bool:
    taken = list(chain.from_iterable(positions(*slice_) for slice_ in placed))
    return len(taken) == len(set(taken))


def contained(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return inner != outer and not Counter(inner) - Counter(outer)


def test_layouts_are_those_of_brute_force() -> None:
    slices = [(units, start) for units, starts in STARTS.items() for start in starts]
    all_layouts = {
        tuple(sorted(units for units, _ in placed))
        for size in range(8)
        for placed in combinations(slices, size)
        if possible(placed)
    }
    largest = {sizes for sizes in all_layouts if not any(contained(sizes, other) for other in all_layouts)}

    found = [tuple(sorted(units for units, _ in layout)) for layout in profile().layouts()]

    assert sorted(found) == sorted(largest)
    assert len(all_layouts) == 38
    assert len(found) == 12


def test_layouts_can_be_placed() -> None:
    for layout in profile().layouts():
        assert possible(layout)
        assert all(start in STARTS[units] for units, start in layout)
        assert [start for _, start in layout] == sorted(start for _, start in layout)


def test_layouts_of_a_gpu_whose_small_slices_leave_a_rest() -> None:
    # Two positions: size 1 fits at position 0 only, size 2 takes both.
    assert layouts((MigSlice(1, 1, (0,)), MigSlice(2, 2, (0,)))) == (((1, 0),), ((2, 0),))


# --- The table ---


def test_the_fastest_configuration_within_a_latency_is_found() -> None:
    assert profile().fastest("bert", 1, 12.9) is None
    assert profile().fastest("bert", 1, 13.0) == MigConfiguration(1, 1, 1, 74.408, 13.0)
    assert profile().fastest("bert", 1, 31.9) == MigConfiguration(1, 1, 3, 119.751, 25.0)
    assert profile().fastest("bert", 5, 1e9) is None


def test_no_configuration_beats_another() -> None:
    for rows in profile().models.values():
        for first, second in combinations(rows, 2):
            if first.units == second.units:
                product_of_differences = (first.throughput_rps - second.throughput_rps) * (
                    first.latency_ms - second.latency_ms
                )
                assert product_of_differences > 0.0, (first, second)


def test_every_model_has_every_size() -> None:
    sizes = {mig_slice.units for mig_slice in profile().slices}

    assert len(profile().models) == 11
    for rows in profile().models.values():
        assert {row.units for row in rows} == sizes


MEASUREMENTS = Path(os.environ.get("GPUSHARE_MEASUREMENTS", "")) / "a100-mig-parvagpu" / "profile.csv"


@pytest.mark.skipif(not MEASUREMENTS.is_file(), reason="GPUSHARE_MEASUREMENTS names no folder that holds the profile")
def test_the_table_holds_the_best_published_rows() -> None:
    measured: dict[str, set[MigConfiguration]] = {}
    with MEASUREMENTS.open(newline="") as file:
        for row in csv.DictReader(file):
            processes, latency_s = int(row["processes"]), Fraction(row["latency_s"])
            if latency_s:
                measured.setdefault(row["model"], set()).add(
                    MigConfiguration(
                        int(row["mig_gpcs"]),
                        int(row["batch"]),
                        processes,
                        float(processes * Fraction(row["throughput_per_process_ips"])),
                        float(1000 * latency_s),
                    )
                )

    assert set(profile().models) == set(measured)
    for model, rows in measured.items():
        in_table = set(profile().models[model])
        assert in_table <= rows
        for dominated in rows - in_table:
            assert any(
                other.units == dominated.units
                and other.throughput_rps >= dominated.throughput_rps
                and other.latency_ms <= dominated.latency_ms
                for other in in_table
            )


# --- Instances ---


def test_parvagpus_mixes_are_the_published_ones() -> None:
    assert [instance.name for instance in PARVAGPU] == [f"parvagpu-{mix}" for mix in range(1, 7)]
    assert [len(instance.workloads) for instance in PARVAGPU] == [6, 11, 11, 11, 11, 11]
    assert {instance.partition for instance in PARVAGPU} == {Partition.MIG}
    assert PARVAGPU[0].workloads[0] == Workload("bert", "bert", 6434.0, 19.0)
    assert PARVAGPU[4].workloads[2] == Workload("densenet169", "densenet169", 83.5, 3507.0)
    assert [sum(w.rate_rps for w in instance.workloads) for instance in PARVAGPU] == [
        2692.0,
        4360.0,
        8716.0,
        13071.0,
        26229.0,
        39342.0,
    ]


def test_the_partition_belongs_to_the_whole_pool() -> None:
    (shares,) = suite("igniter-3").build()

    assert shares.partition is Partition.SHARES


def test_an_unknown_model_gets_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        replace(PARVAGPU[0], workloads=(Workload("w", "resnet51", 100.0, 10.0),))

    assert str(caught.value) == (
        'parvagpu-1: workloads[0].model: unknown model on a100-mig "resnet51"; did you mean "resnet50"?'
    )


V100 = gpu_type("v100")
MISMATCHES: list[tuple[dict[str, Any], str]] = [
    (
        {"gpus": (GpuPool(A100), GpuPool(V100))},
        "gpus: mixes GPUs cut into MIG instances (a100-mig) with others; expected one or the other",
    ),
    (
        {"performance_model": "igniter"},
        'performance_model: is "igniter"; GPUs cut into MIG instances need "mig-table"',
    ),
    ({"slo_rule": SloRule.ASSEMBLY}, 'slo_rule: is "assembly"; GPUs cut into MIG instances need "half-slo"'),
    ({"gpus": (GpuPool(V100),)}, 'performance_model: is "mig-table"; v100 is not cut into MIG instances'),
]
MIX = Instance(
    "mix",
    Objective.COST,
    SloRule.HALF_SLO,
    MIG_TABLE,
    (GpuPool(A100, 2),),
    (Workload("w1", "resnet50", 100.0, 50.0),),
)


@pytest.mark.parametrize(("changed", "message"), MISMATCHES, ids=[next(iter(changed)) for changed, _ in MISMATCHES])
def test_settings_that_do_not_suit_the_partition_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(MIX, **changed)

    assert str(caught.value) == f"mix: {message}"


@pytest.mark.parametrize(("changed", "message"), MISMATCHES, ids=[next(iter(changed)) for changed, _ in MISMATCHES])
def test_files_refuse_such_settings_with_the_same_message(changed: dict[str, Any], message: str) -> None:
    data = instance_to_json(MIX)
    for key, value in changed.items():
        data[key] = [{"type": pool.type.name, "count": None} for pool in value] if key == "gpus" else str(value)

    with pytest.raises(InputError) as caught:
        instance_from_json(data, "mix.json")

    assert str(caught.value) == f"mix.json: {message}"


def test_the_table_has_no_view_of_shares() -> None:
    with pytest.raises(InputError, match='"mig-table" is a table of MIG instances'):
        View.of(MIX, A100)


# --- Files ---


@pytest.mark.parametrize(
    ("written", "broken"),
    [
        ("[1, 1, 1, 74.408, 13.0]", "[1, 1, 1, 74.408]"),
        ("[1, 1, 1, 74.408, 13.0]", '[1, 1, "one", 74.408, 13.0]'),
        ("span = 1", "width = 1"),
        ("[mig.models]", "[mig.model]"),
    ],
)
def test_a_broken_table_is_refused(written: str, broken: str) -> None:
    text = gpu_type_to_toml(A100)
    assert written in text

    with pytest.raises(InputError, match=r"^a100\.toml: mig\."):
        gpu_type_from_toml(tomllib.loads(text.replace(written, broken)), "a100.toml")


@pytest.mark.parametrize("instance", [*PARVAGPU, MIX], ids=lambda instance: instance.name)
def test_instances_round_trip_through_files(instance: Instance) -> None:
    restored = instance_from_json(instance_to_json(instance))

    assert restored == instance
    assert restored.fingerprint == instance.fingerprint


def test_plans_round_trip_through_files() -> None:
    plan = Plan(
        "mix",
        (
            PlacedGpu(
                "a100-mig",
                (
                    Gpulet(3, (Slot("w1", 64, 30.0),), start=0, processes=2),
                    Gpulet(1, (Slot("w1", 1, 20.0),), start=4),
                ),
            ),
        ),
    )
    data: Any = plan_to_json(plan, MIX)

    assert plan_from_json(data) == plan
    assert data["gpus"][0]["gpulets"] == [
        {
            "share_units": 3,
            "duty_cycle_ms": None,
            "start": 0,
            "processes": 2,
            "slots": [{"workload": "w1", "batch": 64, "rate_rps": 30.0}],
        },
        {
            "share_units": 1,
            "duty_cycle_ms": None,
            "start": 4,
            "processes": 1,
            "slots": [{"workload": "w1", "batch": 1, "rate_rps": 20.0}],
        },
    ]


def test_gpulets_of_shares_are_written_without_mig_fields() -> None:
    plan = Plan("mix", (PlacedGpu("v100", (Gpulet(15, (Slot("w1", 4, 500.0),)),)),))
    data: Any = plan_to_json(plan)

    assert list(data["gpus"][0]["gpulets"][0]) == ["share_units", "duty_cycle_ms", "slots"]


@pytest.mark.parametrize(("key", "value"), [("start", -1), ("start", 1.5), ("processes", 0), ("processes", None)])
def test_impossible_starts_and_processes_are_refused(key: str, value: object) -> None:
    gpulet = {"share_units": 1, "slots": [{"workload": "w1", "batch": 1, "rate_rps": 1.0}], key: value}
    data = {"version": 1, "instance": "mix", "gpus": [{"type": "a100-mig", "gpulets": [gpulet]}]}

    with pytest.raises(InputError, match=rf"^plan: gpus\[0\]\.gpulets\[0\]\.{key}: is "):
        plan_from_json(data)
