"""Instance and plan files: reading, writing and the published schemas."""

import json
import math
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import instances
from instances import (
    Application,
    Gpulet,
    GpuPool,
    InputError,
    Instance,
    Job,
    Objective,
    PlacedGpu,
    Plan,
    SloRule,
    Slot,
    Workload,
)
from instances.catalogue import gpu_type, gpu_type_names, gpu_type_to_toml
from instances.files import (
    MAX_BYTES,
    instance_from_json,
    instance_to_json,
    plan_from_json,
    plan_to_json,
    read_instance,
    read_json,
    read_plan,
    schemas,
    text,
    write_json,
)

INSTANCE_TEXT = """
{"version": 1, "name": "my-mix", "objective": "cost", "slo_rule": "half-slo", "performance_model": "igniter",
 "gpus": [{"type": "v100", "count": null}],
 "workloads": [{"id": "w1", "model": "alexnet", "slo_ms": 15, "rate_rps": 500}]}
"""
PLAN_TEXT = """
{"version": 1, "instance": "my-mix",
 "gpus": [{"type": "v100", "gpulets": [{"share_units": 15, "duty_cycle_ms": null,
            "slots": [{"workload": "w1", "batch": 4, "rate_rps": 500}]}]}]}
"""
INSTANCE = Instance(
    name="my-mix",
    objective=Objective.COST,
    slo_rule=SloRule.HALF_SLO,
    performance_model="igniter",
    gpus=(GpuPool(gpu_type("v100")),),
    workloads=(Workload("w1", "alexnet", 15.0, 500.0),),
)
PLAN = Plan("my-mix", (PlacedGpu("v100", (Gpulet(15, (Slot("w1", 4, 500.0),)),)),))


def example(kind: str = "instance") -> dict[str, Any]:
    data: dict[str, Any] = json.loads(INSTANCE_TEXT if kind == "instance" else PLAN_TEXT)
    return data


def test_published_instance_example_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text(INSTANCE_TEXT)
    assert read_instance(path) == INSTANCE


def test_published_plan_example_is_read(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(PLAN_TEXT)
    assert read_plan(path) == (PLAN, None)


def test_plan_with_embedded_instance_is_read_with_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    data = plan_to_json(PLAN, INSTANCE)
    write_json(path, data)
    assert read_plan(path) == (PLAN, INSTANCE)
    assert plan_from_json(data) == PLAN
    assert read_instance(path) == INSTANCE


@pytest.mark.parametrize("of", ["capacity", "goodput"])
def test_throughput_is_one_of_two_objectives(of: str) -> None:
    data = example() | {"objective": "throughput", "throughput_of": of}
    instance = instance_from_json(data)
    assert instance.objective is Objective(of)
    assert (instance_to_json(instance)["objective"], instance_to_json(instance)["throughput_of"]) == ("throughput", of)


def test_optional_fields_are_read() -> None:
    data = example() | {
        "latency_buffer": 1.1,
        "seed": 7,
        "provenance": "by hand",
        "gpus": [{"type": "v100", "count": 3}],
    }
    data["workloads"][0]["arrivals"] = "azure"
    data["workloads"].append({"id": "w2", "model": "vgg19", "slo_ms": 40, "rate_rps": 10})
    data["applications"] = [{"id": "a1", "stages": ["w1", "w2"], "edges": [["w1", "w2"]], "slo_ms": 100}]
    instance = instance_from_json(data)
    assert (instance.latency_buffer, instance.seed, instance.provenance) == (1.1, 7, "by hand")
    assert instance.gpus == (GpuPool(gpu_type("v100"), 3),)
    assert instance.workloads[0] == Workload("w1", "alexnet", 15.0, 500.0, "azure")
    assert instance.applications == (Application("a1", ("w1", "w2"), (("w1", "w2"),), 100.0),)


def test_colocation_needs_jobs_only() -> None:
    data = example() | {"objective": "colocation"}
    del data["workloads"]
    weights = {"batch_weights": [1, 3], "interarrival_weights": [0.5, 0.5]}
    data["jobs"] = [{"id": "j1", "model": "resnet50", "batches": [4, 8], "interarrival_ms": [0, 20.5]} | weights]
    assert instance_from_json(data).jobs == (Job("j1", "resnet50", (4, 8), (1.0, 3.0), (0.0, 20.5), (0.5, 0.5)),)


def test_integers_in_float_fields_do_not_change_the_fingerprint() -> None:
    decimal = example()
    decimal["workloads"][0] |= {"slo_ms": 15.0, "rate_rps": 500.0}
    assert instance_from_json(example()).fingerprint == instance_from_json(decimal).fingerprint


# Files


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "line 1, column 1: not valid JSON: expecting value"),
        (
            b'{\n "version": 1,,}',
            "line 2, column 15: not valid JSON: expecting property name enclosed in double quotes",
        ),
        (b'{"name": "\xff"}', "is not UTF-8 text (byte 10); save it as UTF-8"),
        (b"[" * 100_000, "is nested too deeply; instance and plan files have fewer than ten levels"),
        (
            b'{"version": 1' + b"0" * 5000 + b"}",
            "has a number of thousands of digits; expected numbers of ordinary size",
        ),
        (b'{"a": [0, {"b": 1, "c": {}, "b": 2}]}', "a[1].b: occurs twice; a key may occur once"),
        (b'{"a": {"x": 1, "x": 2}, "a": {"y": 1, "y": 2}}', "a: occurs twice; a key may occur once (and 1 more)"),
    ],
)
def test_text_that_is_not_json_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "mix.json"
    path.write_bytes(content)
    for read in (read_instance, read_plan):
        with pytest.raises(InputError) as caught:
            read(path)
        assert str(caught.value) == f"{path}: {problem}"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_non_finite_literals_are_refused(tmp_path: Path, literal: str) -> None:
    path = tmp_path / "mix.json"
    path.write_text(INSTANCE_TEXT.replace("15,", f"{literal},"))
    with pytest.raises(InputError, match=r"slo_ms: is -?(NaN|Infinity); expected a finite number greater than 0$"):
        read_instance(path)


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    path.write_text(INSTANCE_TEXT, encoding="utf-8-sig")
    assert read_instance(path) == INSTANCE


def test_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "mix.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(InputError, match="is larger than 64 MiB, the largest size that is read"):
        read_instance(path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs a file that is larger than its size")
def test_file_that_is_larger_than_its_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MAX_BYTES", 16)
    with pytest.raises(InputError, match=r"^/proc/self/status: is larger than 0 MiB"):
        read_json(Path("/proc/self/status"))


def test_unreadable_paths_are_refused(tmp_path: Path) -> None:
    for path, problem in [
        (tmp_path, "Is a directory"),
        (tmp_path / "absent.json", "No such file or directory"),
        (tmp_path / "a\0b", "this is not a valid file name"),
        (tmp_path / "line\nbreak", "No such file or directory"),
    ]:
        with pytest.raises(InputError) as caught:
            read_instance(path)
        assert str(caught.value).endswith(f": cannot be read: {problem}")
        assert str(caught.value).isprintable()


def test_written_file_is_laid_out_for_readers(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "plan.json"
    write_json(path, plan_to_json(PLAN, INSTANCE))
    assert path.read_text() == (
        "{\n"
        '  "version": 1,\n'
        '  "instance": {\n'
        '    "version": 1,\n'
        '    "name": "my-mix",\n'
        '    "objective": "cost",\n'
        '    "slo_rule": "half-slo",\n'
        '    "performance_model": "igniter",\n'
        '    "gpus": [{"type": "v100", "count": null}],\n'
        '    "workloads": [{"id": "w1", "model": "alexnet", "slo_ms": 15.0, "rate_rps": 500.0}]\n'
        "  },\n"
        '  "gpus": [\n'
        "    {\n"
        '      "type": "v100",\n'
        '      "gpulets": [\n'
        '        {"share_units": 15, "duty_cycle_ms": null, '
        '"slots": [{"workload": "w1", "batch": 4, "rate_rps": 500.0}]}\n'
        "      ]\n"
        "    }\n"
        "  ]\n"
        "}\n"
    )


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    write_json(path, [1])
    with pytest.raises(InputError, match="cannot be written as JSON"):
        write_json(path, {"x": math.nan})
    with pytest.raises(InputError, match="cannot be written as JSON"):
        write_json(path, {"x": "\ud800"})
    assert read_json(path) == [1]
    write_json(path, {"y": 2})
    assert read_json(path) == {"y": 2}
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def test_written_file_has_ordinary_permissions(tmp_path: Path) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    write_json(tmp_path / "plan.json", {})
    assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


def test_unwritable_paths_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "plan.json", tmp_path / "a\0b"):
        with pytest.raises(InputError, match="cannot be written: ") as caught:
            write_json(path, {})
        assert str(caught.value).isprintable()
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


# Catalogue entries, and instances that a file cannot hold


def test_a_changed_gpu_type_is_written_with_its_instance(tmp_path: Path) -> None:
    cheaper = replace(gpu_type("v100"), price_per_hour=0.01)
    repriced = replace(INSTANCE, gpus=(GpuPool(cheaper),))
    data = instance_to_json(repriced)
    assert data["gpus"] == [{"type": "v100", "count": None, "price_per_hour": 0.01}]
    assert instance_from_json(data) == repriced

    unknown = replace(INSTANCE, gpus=(GpuPool(replace(cheaper, name="v101", share_units=20)),))
    write_json(tmp_path / "plan.json", plan_to_json(PLAN, unknown))
    assert read_plan(tmp_path / "plan.json")[1] == unknown


def test_an_instance_names_a_catalogue_file_beside_it(tmp_path: Path) -> None:
    mine = replace(gpu_type("v100"), name="mine")
    (tmp_path / "mine.toml").write_text(gpu_type_to_toml(mine))
    data = instance_to_json(INSTANCE) | {"catalogue": "mine.toml", "gpus": [{"type": "mine"}]}
    write_json(tmp_path / "instance.json", data)
    assert read_instance(tmp_path / "instance.json").gpus == (GpuPool(mine),)
    for wrong, problem in (
        ({"catalogue": "nowhere.toml"}, r"nowhere.toml: cannot be read: No such file"),
        ({"catalogue": 3}, r"catalogue: expected a file, a folder"),
        ({"catalogue": {"mine": {"name": 3}}}, r"catalogue.mine: models: is missing"),
        ({"gpus": [{"type": "nine"}]}, r'unknown GPU type "nine"; did you mean "mine"'),
    ):
        with pytest.raises(InputError, match=problem):
            instance_from_json(data | wrong, "instance", tmp_path)


def test_the_environment_names_more_catalogue_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(gpu_type_to_toml(replace(gpu_type("t4"), name="mine")))
    monkeypatch.setenv("GPUSHARE_CATALOGUE", str(tmp_path))
    assert gpu_type("mine").memory_mib == gpu_type("t4").memory_mib
    assert "mine" in gpu_type_names()
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "t4.toml").write_text(gpu_type_to_toml(gpu_type("t4")))
    monkeypatch.setenv("GPUSHARE_CATALOGUE", str(tmp_path / "again"))
    with pytest.raises(InputError, match='"t4" is a GPU type of the package already; give it another name'):
        gpu_type("t4")


def test_instance_out_of_range_is_not_written() -> None:
    with pytest.raises(InputError, match=r"^instance: workloads\[0\].rate_rps: is NaN"):
        instance_to_json(replace(INSTANCE, workloads=(replace(INSTANCE.workloads[0], rate_rps=math.nan),)))
    with pytest.raises(InputError, match=r"^instance: workloads: is empty"):
        instance_to_json(replace(INSTANCE, workloads=()))


def test_instance_with_values_of_the_wrong_type_is_not_written() -> None:
    workload_list: Any = list(INSTANCE.workloads)
    with pytest.raises(InputError, match='"my-mix" has values of the wrong type: a file would change them'):
        instance_to_json(replace(INSTANCE, workloads=workload_list))


def test_plan_embeds_only_its_own_instance() -> None:
    with pytest.raises(InputError, match=r'^plan: instance: the plan is for "my-mix", not "other"$'):
        plan_to_json(PLAN, replace(INSTANCE, name="other"))


def test_broken_plan_can_be_written_but_not_read() -> None:
    broken = Plan("my-mix", (PlacedGpu("v100", (Gpulet(0, (Slot("w1", -1, 500.0),)),)),))
    with pytest.raises(InputError):
        plan_from_json(json.loads(json.dumps(plan_to_json(broken))))


def test_numpy_numbers_are_written_as_plain_ones() -> None:
    units: Any = np.int64(15)
    batch: Any = np.int32(4)
    plan = Plan("my-mix", (PlacedGpu("v100", (Gpulet(units, (Slot("w1", batch, np.float64(500)),)),)),))
    assert json.dumps(plan_to_json(plan)) == json.dumps(plan_to_json(PLAN))


# Schemas

SCHEMA_FOLDER = Path(instances.__file__).parent / "schema"
REGENERATE = (
    'the schema files are out of date; run: python -c "from pathlib import Path; from instances.files import *; '
    "[write_json(Path(f'instances/schema/{name}.schema.json'), schema) for name, schema in schemas().items()]\""
)


@pytest.mark.parametrize("name", ["instance", "plan"])
def test_schema_files_are_up_to_date(name: str) -> None:
    assert json.loads((SCHEMA_FOLDER / f"{name}.schema.json").read_text()) == schemas()[name], REGENERATE


@pytest.mark.parametrize("name", ["instance", "plan"])
def test_schemas_document_every_field(name: str) -> None:
    schema: Any = schemas()[name]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for kind in (schema, *schema["$defs"].values()):
        assert kind["additionalProperties"] is False
        assert kind["title"]
        assert kind["description"]
        for key, field in kind["properties"].items():
            assert field["title"]
            assert field["description"], key
            if key.endswith("_ms"):
                assert "milliseconds" in field["description"]
            if key.endswith("_rps"):
                assert "requests per second" in field["description"]


def test_schema_examples_are_the_published_ones() -> None:
    by_name: Any = schemas()
    assert by_name["instance"]["examples"] == [example()]
    assert by_name["plan"]["examples"] == [example("plan")]


def test_pydantic_is_loaded_only_with_files() -> None:
    code = "import sys, instances, instances.catalogue; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
