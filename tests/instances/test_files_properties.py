"""Properties of files: written data are read back unchanged, and any data are accepted or refused in one line."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from instances.catalogue import gpu_type
from instances.files import (
    instance_from_json,
    instance_to_json,
    plan_from_json,
    plan_to_json,
    read_instance,
    read_plan,
    schemas,
    write_json,
)
from instances.workload import LEAST_RATE_RPS, MOST_RATE_RPS
from tests.instances.file_parts import APPLICATION, JOB, W2

names = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=20)
positive = st.floats(0, exclude_min=True, allow_nan=False, allow_infinity=False)
rates = st.floats(LEAST_RATE_RPS, MOST_RATE_RPS)
whole = st.integers(1, 2**31 - 1)
models = st.sampled_from(sorted(gpu_type("v100").models))


@st.composite
def job_lists(draw: st.DrawFn) -> list[Job]:
    jobs = []
    for job_id in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        batches = draw(st.lists(whole, min_size=1, max_size=3))
        gaps = draw(st.lists(st.floats(0, 1e9), min_size=1, max_size=3))
        weights = st.floats(1e-3, 1e3)
        of_batches = draw(st.lists(weights, min_size=len(batches), max_size=len(batches)))
        of_gaps = draw(st.lists(weights, min_size=len(gaps), max_size=len(gaps)))
        jobs.append(Job(job_id, draw(models), tuple(batches), tuple(of_batches), tuple(gaps), tuple(of_gaps)))
    return jobs


@st.composite
def applications(draw: st.DrawFn, ids: list[str]) -> Application:
    stages = draw(st.permutations(ids))[: draw(st.integers(1, len(ids)))]
    forward = [(before, after) for i, before in enumerate(stages) for after in stages[i + 1 :]]
    edges = draw(st.lists(st.sampled_from(forward), max_size=4)) if forward else []
    return Application(draw(names), tuple(stages), tuple(edges), draw(positive))


@st.composite
def random_instances(draw: st.DrawFn) -> Instance:
    objective = draw(st.sampled_from(Objective))
    colocation = objective is Objective.COLOCATION
    rule = draw(st.sampled_from([rule for rule in SloRule if not (colocation and rule is SloRule.ATTAINMENT)]))
    terms = {}
    if rule is SloRule.ATTAINMENT:
        arrivals = st.just("poisson") | st.floats(0.1, 10.0).map(lambda cv: f"gamma:{cv:.6f}")
        terms = {
            "attainment": draw(st.floats(0.5, 0.9999)),
            "arrivals": draw(arrivals),
        }
    ids = draw(st.lists(names, min_size=0 if colocation else 1, max_size=4, unique=True))
    rows = (Workload(i, draw(models), draw(positive), draw(rates), draw(st.none() | names)) for i in ids)
    cut = draw(st.integers(0, len(ids)))  # a workload belongs to at most one application
    graphs = [draw(applications(part)) for part in (ids[:cut], ids[cut:]) if part and draw(st.booleans())]
    graphs = list({graph.id: graph for graph in graphs if graph.id not in ids}.values())
    return Instance(
        name=draw(names),
        objective=objective,
        slo_rule=rule,
        performance_model="igniter",
        gpus=(GpuPool(gpu_type("v100"), draw(st.none() | whole)),),
        workloads=tuple(rows),
        applications=() if terms else tuple(graphs),
        jobs=tuple(draw(job_lists())) if colocation else (),
        latency_buffer=draw(positive),
        **terms,
        dropping=draw(st.booleans()),
        seed=draw(st.none() | st.integers(0, 2**63 - 1)),
        provenance=draw(names | st.just("") | st.just("two\n\tlines")),
    )


@st.composite
def random_plans(draw: st.DrawFn, name: str) -> Plan:
    slots = st.builds(Slot, names, whole, positive)
    single = st.builds(Gpulet, whole, st.tuples(slots), st.none() | positive)
    in_turns = st.builds(Gpulet, whole, st.lists(slots, min_size=2, max_size=3).map(tuple), positive)
    gpus = st.builds(PlacedGpu, names, st.lists(single | in_turns, max_size=3).map(tuple))
    return Plan(name, tuple(draw(st.lists(gpus, max_size=3))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@given(instance=random_instances(), data=st.data())
def test_files_are_read_back_unchanged(folder: Path, instance: Instance, data: st.DataObject) -> None:
    write_json(folder / "instance.json", instance_to_json(instance))
    read = read_instance(folder / "instance.json")
    assert read == instance
    assert read.fingerprint == instance.fingerprint
    plan = data.draw(random_plans(instance.name))
    embedded = data.draw(st.sampled_from([None, instance]))
    write_json(folder / "plan.json", plan_to_json(plan, embedded))
    assert read_plan(folder / "plan.json") == (plan, embedded)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 10**400, 10**4000, "v100", "cost", "w1", "embedded", "named"])
    | st.floats()
    | st.text(st.characters(), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
INSTANCE: Any = schemas()["instance"]
PLAN: Any = schemas()["plan"]
MIX, PLACED = INSTANCE["examples"][0], PLAN["examples"][0]
VALID = [
    MIX,
    MIX
    | {
        "objective": "throughput",
        "throughput_of": "goodput",
        "workloads": [*MIX["workloads"], W2],
        "applications": [APPLICATION],
    },
    MIX | {"objective": "colocation", "jobs": [JOB]},
    PLACED,
    PLACED | {"instance": MIX},
]


def refusal(read: Callable[..., object], *arguments: object) -> str | None:
    try:
        read(*arguments)
    except InputError as error:
        return str(error)
    return None


def test_unmutated_data_are_valid() -> None:
    assert [refusal(instance_from_json, data) for data in VALID[:3]] == [None] * 3
    assert [refusal(plan_from_json, data) for data in VALID[3:]] == [None] * 2


@st.composite
def mutated(draw: st.DrawFn) -> object:
    """Draw a valid document in which one to three values are replaced, removed, renamed or repeated."""
    data: Any = deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 3))):
        places = [(container, key) for container in containers(data) for key in keys(container)]
        if not places:
            break
        container, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "remove", "rename", "repeat"])):
            case "remove":
                del container[key]
            case "rename" if isinstance(container, dict):
                container[draw(st.text(st.characters(), max_size=8))] = container.pop(key)
            case "repeat" if isinstance(container, list):
                container.append(deepcopy(container[key]))
            case _:
                container[key] = draw(anything)
    return data


def containers(data: Any) -> list[Any]:
    if not isinstance(data, dict | list):
        return []
    return [data, *(inner for key in keys(data) for inner in containers(data[key]))]


def keys(container: Any) -> list[Any]:
    return list(container) if isinstance(container, dict) else list(range(len(container)))


@settings(max_examples=400)
@given(anything | mutated())
def test_any_data_are_read_or_refused_in_one_line(data: object) -> None:
    for read in (instance_from_json, plan_from_json):
        refused = refusal(read, data, "mix.json")
        assert refused is None or (refused.startswith("mix.json: ") and refused.isprintable())


@settings(max_examples=200)
@given(
    st.binary(max_size=40),
    st.sampled_from([json.dumps(valid) for valid in VALID]),
    st.integers(0, 300),
    st.integers(0, 20),
)
def test_any_text_is_read_or_refused_in_one_line(
    folder: Path, inserted: bytes, whole_text: str, start: int, length: int
) -> None:
    path = folder / "text.json"
    path.write_bytes(whole_text.encode()[:start] + inserted + whole_text.encode()[start + length :])
    for read in (read_instance, read_plan):
        refused = refusal(read, path)
        assert refused is None or (refused.startswith(f"{path}: ") and refused.isprintable())
