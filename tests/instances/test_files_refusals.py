"""Refused instance and plan files: the message and the path of the field."""

import math
from copy import deepcopy
from typing import Any

import pytest

from instances import InputError
from instances.files import instance_from_json, plan_from_json, schemas
from tests.instances.file_parts import APPLICATION, JOB, W2

ABSENT = object()
READERS = [("instance", instance_from_json), ("plan", plan_from_json)]


def example(kind: str = "instance") -> Any:
    """Return the published example."""
    schema: Any = schemas()[kind]
    return schema["examples"][0]


def changed(data: Any, *changes: tuple[str, object]) -> Any:
    """Return ``data`` with the value at each dotted path replaced, or removed if it is ``ABSENT``."""
    data = deepcopy(data)
    for path, value in changes:
        *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
        inner = data
        for part in parents:
            inner = inner[part]
        if value is ABSENT:
            del inner[last]
        else:
            inner[last] = value
    return data


def refusal(read: Any, data: object) -> str:
    with pytest.raises(InputError) as caught:
        read(data, "mix.json")
    return str(caught.value)


@pytest.mark.parametrize(("kind", "read"), READERS)
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2, "version 2 is newer than this bench reads (1); update gpushare-bench"),
        (10**200, "version a number of more than 30 digits is newer than this bench reads (1); update gpushare-bench"),
        (0, "is 0; expected 1"),
        (1.0, "is 1.0; expected 1"),
        (True, "is true; expected 1"),
        ("1", 'is the text "1"; expected 1'),
        (None, "is null; expected 1"),
        (ABSENT, "is missing; expected 1"),
    ],
)
def test_wrong_version_is_refused(kind: str, read: Any, value: object, problem: str) -> None:
    assert refusal(read, changed(example(kind), ("version", value))) == f"mix.json: version: {problem}"


def test_newer_version_is_named_before_other_mistakes() -> None:
    data = changed(example(), ("version", 2), ("fresh", []), ("gpus", {}))
    assert refusal(instance_from_json, data).startswith("mix.json: version: version 2 is newer")


POSITIVE = "a finite number greater than 0"
RATE = "a number from 1e-200 to 1e+200"
WHOLE = "a whole number from 1 to 2147483647"
NAME = "text of 1 to 200 printable characters"


def test_wrong_instance_is_refused(subtests: pytest.Subtests) -> None:
    for path, value, message in [
        # numbers
        ("workloads.0.slo_ms", -1, f"workloads[0].slo_ms: is -1; expected {POSITIVE}"),
        ("workloads.0.slo_ms", 0, f"workloads[0].slo_ms: is 0; expected {POSITIVE}"),
        ("workloads.0.slo_ms", math.nan, f"workloads[0].slo_ms: is NaN; expected {POSITIVE}"),
        ("workloads.0.rate_rps", 0.0, f"workloads[0].rate_rps: is 0.0; expected {RATE}"),
        ("workloads.0.rate_rps", math.inf, f"workloads[0].rate_rps: is Infinity; expected {RATE}"),
        ("workloads.0.rate_rps", "500", f'workloads[0].rate_rps: is the text "500"; expected {RATE}'),
        ("workloads.0.rate_rps", True, f"workloads[0].rate_rps: is true; expected {RATE}"),
        ("workloads.0.rate_rps", None, f"workloads[0].rate_rps: is null; expected {RATE}"),
        (
            "workloads.0.rate_rps",
            10**400,
            f"workloads[0].rate_rps: is a number of more than 30 digits; expected {RATE}",
        ),
        ("latency_buffer", 0, f"latency_buffer: is 0; expected {POSITIVE}"),
        ("seed", -1, "seed: is -1; expected a whole number from 0 to 9223372036854775807 or null"),
        ("gpus.0.count", 0, f"gpus[0].count: is 0; expected {WHOLE} or null"),
        ("gpus.0.count", 2.0, f"gpus[0].count: is 2.0; expected {WHOLE} or null"),
        ("gpus.0.count", False, f"gpus[0].count: is false; expected {WHOLE} or null"),
        # texts
        ("workloads.0.id", "", f'workloads[0].id: is the text ""; expected {NAME}'),
        ("workloads.0.id", "a\nb", f'workloads[0].id: is the text "a\\nb"; expected {NAME}'),
        ("workloads.0.id", "a\x7fb", f'workloads[0].id: is the text "a\\x7fb"; expected {NAME}'),
        ("workloads.0.id", "x" * 201, f'workloads[0].id: is the text "{"x" * 57}..."; expected {NAME}'),
        (
            "workloads.0.id",
            "\ud800",
            'workloads[0].id: has "\\ud800", which holds half a character; expected Unicode text',
        ),
        ("workloads.0.id", 3, f"workloads[0].id: is 3; expected {NAME}"),
        ("name", None, f"name: is null; expected {NAME}"),
        # choices and names
        ("objective", "costs", 'objective: unknown objective "costs"; did you mean "cost"?'),
        ("objective", 1, 'objective: is 1; expected one of "cost", "throughput", "scale", "colocation"'),
        (
            "objective",
            "goodput",
            'objective: is "goodput"; write "objective": "throughput", "throughput_of": "goodput"',
        ),
        ("objective", "throughput", 'throughput_of: is missing; objective "throughput" needs "capacity" or "goodput"'),
        ("throughput_of", "goodput", 'throughput_of: is given, but objective "cost" does not use it; remove it'),
        ("slo_rule", "half_slo", 'slo_rule: unknown slo_rule "half_slo"; did you mean "half-slo"?'),
        (
            "performance_model",
            "ignitr",
            'performance_model: unknown performance model "ignitr"; did you mean "igniter"?',
        ),
        ("gpus.0.type", "v10", 'gpus[0].type: unknown GPU type "v10"; did you mean "v100"?'),
        ("gpus.0.type", "../v100\u202e", 'gpus[0].type: unknown GPU type "../v100\\u202e"; did you mean "v100"?'),
        ("workloads.0.model", "alexnt", 'workloads[0].model: unknown model on v100 "alexnt"; did you mean "alexnet"?'),
        # missing fields
        ("objective", ABSENT, 'objective: is missing; expected one of "cost", "throughput", "scale", "colocation"'),
        ("slo_rule", ABSENT, 'slo_rule: is missing; expected one of "half-slo", "assembly", "duty-cycle", "p99"'),
        ("performance_model", ABSENT, "performance_model: is missing; known: "),
        ("gpus", ABSENT, "gpus: is missing; expected a list of at least 1: the GPU pool, one entry per type"),
        ("workloads", ABSENT, "workloads: is empty; expected at least one workload"),
        (
            "workloads.0.rate_rps",
            ABSENT,
            f"workloads[0].rate_rps: is missing; expected {RATE}: mean arrival rate, in requests per second",
        ),
        # unknown keys
        ("workloads.0.slo", 3, 'workloads[0].slo: unknown key "slo"; did you mean "slo_ms"?'),
        (
            "workloads.0.we ird\n",
            3,
            'workloads[0]["we ird\\n"]: unknown key "we ird\\n"; known: arrivals, id, model, rate_rps, slo_ms',
        ),
        ("workloads.0.\ud800", 3, 'workloads[0]: has "\\ud800", which holds half a character; expected Unicode text'),
        ("embedded", 3, "embedded: unknown key"),
        (
            "immediate_dispatch",
            True,
            "immediate_dispatch: is no longer a field: partial batches start at once; remove it from the file",
        ),
        # lists
        ("gpus", [], "gpus: is a list of 0; expected a list of at least 1"),
        ("gpus", {}, "gpus: is an object; expected a list of at least 1"),
        ("gpus", [{"type": "v100"}] * 2, 'gpus[1].type: "v100" is also gpus[0].type; expected each type once'),
        ("workloads", [], "workloads: is empty; expected at least one workload"),
        ("workloads", [W2, W2], 'workloads[1].id: "w2" is also workloads[0].id; expected each id once'),
        ("workloads", [[]], "workloads[0]: is a list of 0; expected an object"),
        # applications and jobs
        ("applications", [APPLICATION], 'applications[0].stages[1]: unknown workload "w2"; known: w1'),
        ("jobs", [JOB], 'jobs: has best-effort jobs, but objective "cost" does not use them; remove them'),
        ("objective", "colocation", 'jobs: is empty; objective "colocation" needs at least one job'),
    ]:
        with subtests.test(ascii(path), value=ascii(value)):
            refused = refusal(instance_from_json, changed(example(), (path, value)))
            assert refused.startswith(f"mix.json: {message}")
            assert "more)" not in refused


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("stages", [], "stages: is a list of 0; expected a list of at least 1"),
        ("stages", ["w1", "w2", "w1"], 'stages[2]: "w1" is a stage already; expected each workload once'),
        ("edges", [["w1"]], "edges[0]: is a list of 1; expected a list of 2"),
        ("edges", [["w1", "w3"]], 'edges[0][1]: unknown stage "w3"; known: w1, w2'),
        ("edges", [["w1", "w2"], ["w2", "w1"]], 'edges: has a cycle through "w'),
        ("edges", [["w1", "w1"]], 'edges: has a cycle through "w1"; expected pairs [before, after] without one'),
        ("slo_ms", 0, f"slo_ms: is 0; expected {POSITIVE}"),
    ],
)
def test_wrong_application_is_refused(path: str, value: object, message: str) -> None:
    good = changed(example(), ("workloads", [example()["workloads"][0], W2]), ("applications", [APPLICATION]))
    assert instance_from_json(good).applications
    bad = changed(good, (f"applications.0.{path}", value))
    assert refusal(instance_from_json, bad).startswith(f"mix.json: applications[0].{message}")
    twice = changed(good, ("applications", [APPLICATION, APPLICATION]))
    assert refusal(instance_from_json, twice).startswith(
        'mix.json: applications[1].id: "a1" is also applications[0].id'
    )
    with_workload_id = changed(good, ("applications", [APPLICATION | {"id": "w1"}]))
    assert refusal(instance_from_json, with_workload_id).startswith(
        'mix.json: applications[0].id: "w1" is also a workload'
    )
    shared = changed(good, ("applications", [APPLICATION, APPLICATION | {"id": "a2"}]))
    assert refusal(instance_from_json, shared).startswith(
        'mix.json: applications[1].stages[0]: "w1" is a stage of "a1" already'
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("model", "resnet5", 'model: unknown model on v100 "resnet5"; did you mean "resnet50"?'),
        ("batches", [4, 0], f"batches[1]: is 0; expected {WHOLE}"),
        ("batches", [4], "batch_weights: has 2 numbers; expected 1, one for each of batches"),
        ("batch_weights", [0, 0], "batch_weights: adds up to 0.0; expected a finite sum greater than 0"),
        ("interarrival_weights", [1e308, 1e308], "interarrival_weights: adds up to inf; expected a finite sum"),
        ("interarrival_ms", [-1, 2], "interarrival_ms[0]: is -1; expected a finite number of at least 0"),
    ],
)
def test_wrong_job_is_refused(path: str, value: object, message: str) -> None:
    good = changed(example(), ("objective", "colocation"), ("workloads", []), ("jobs", [JOB]))
    bad = changed(good, (f"jobs.0.{path}", value))
    assert refusal(instance_from_json, bad).startswith(f"mix.json: jobs[0].{message}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("attainment", 0.2)], "attainment: is 0.2; expected a number from 0.5 to 0.9999"),
        ([("attainment", 1)], "attainment: is 1; expected a number from 0.5 to 0.9999"),
        ([("arrivals", "gamma:11")], 'arrivals: is "gamma:11"; expected "poisson" or "gamma:CV" with a CV from 0.1 to'),
        ([("arrivals", "gamma")], 'arrivals: is "gamma"; expected "poisson" or "gamma:CV"'),
        (
            [("slo_rule", "half-slo"), ("arrivals", "gamma:2")],
            'arrivals: is given, but slo_rule "half-slo" does not use it; remove it or choose "attainment"',
        ),
        ([("slo_rule", "p99"), ("attainment", 0.9)], "attainment: is given, but slo_rule"),
        (
            [("workloads", [example()["workloads"][0], W2]), ("applications", [APPLICATION])],
            'slo_rule: is "attainment"; the arrivals at later stages of applications are not known',
        ),
        (
            [("objective", "colocation"), ("workloads", []), ("jobs", [JOB])],
            'slo_rule: is "attainment"; best-effort jobs have no SLO',
        ),
    ],
)
def test_wrong_terms_of_attainment_are_refused(changes: list[tuple[str, object]], message: str) -> None:
    good = changed(example(), ("slo_rule", "attainment"))
    assert instance_from_json(changed(good, ("arrivals", "gamma:2.5"))).arrivals == "gamma:2.5"
    assert refusal(instance_from_json, changed(good, *changes)).startswith(f"mix.json: {message}")


def test_jobs_on_mig_instances_are_refused() -> None:
    good = changed(example(), ("objective", "colocation"), ("workloads", []), ("jobs", [JOB]))
    bad = changed(good, ("gpus.0.type", "a100-mig"), ("performance_model", "mig-table"))
    problem = 'objective: is "colocation": jobs share whole GPUs; a100-mig is cut into MIG instances'
    assert refusal(instance_from_json, bad).startswith(f"mix.json: {problem}")


def test_wrong_plan_is_refused(subtests: pytest.Subtests) -> None:
    for path, value, message in [
        ("instance", 3, f"instance: is 3; expected {NAME} or an object"),
        ("instance", ABSENT, f"instance: is missing; expected {NAME} or an object: the instance that the plan solves"),
        ("instance", {}, "instance.version: is missing; expected 1"),
        ("instance", example() | {"version": 2}, "instance.version: version 2 is newer than this bench reads (1)"),
        ("instance", example() | {"naem": "x"}, 'instance.naem: unknown key "naem"; did you mean "name"?'),
        ("instance", example() | {"embedded": 1}, "instance.embedded: unknown key"),
        ("instance", example() | {"workloads": []}, "instance.workloads: is empty; expected at least one workload"),
        ("gpus.0.gpulets.0.share_units", 0, f"gpus[0].gpulets[0].share_units: is 0; expected {WHOLE}"),
        ("gpus.0.gpulets.0.share_units", 7.5, f"gpus[0].gpulets[0].share_units: is 7.5; expected {WHOLE}"),
        ("gpus.0.gpulets.0.duty_cycle_ms", 0, f"gpus[0].gpulets[0].duty_cycle_ms: is 0; expected {POSITIVE} or null"),
        ("gpus.0.gpulets.0.duty_cycle_ms", math.nan, f"gpus[0].gpulets[0].duty_cycle_ms: is NaN; expected {POSITIVE}"),
        ("gpus.0.gpulets.0.slots", [], "gpus[0].gpulets[0].slots: is a list of 0; expected a list of at least 1"),
        (
            "gpus.0.gpulets.0.slots",
            [{"workload": "w1", "batch": 1, "rate_rps": 1}] * 2,
            "gpus[0].gpulets[0].duty_cycle_ms: is missing; 2 slots that take turns need a period in milliseconds",
        ),
        ("gpus.0.gpulets.0.slots.0.batch", 4.0, f"gpus[0].gpulets[0].slots[0].batch: is 4.0; expected {WHOLE}"),
        (
            "gpus.0.gpulets.0.slots.0.batch",
            2**31,
            f"gpus[0].gpulets[0].slots[0].batch: is 2147483648; expected {WHOLE}",
        ),
        ("gpus.0.gpulets.0.slots.0.rate_rps", -5, f"gpus[0].gpulets[0].slots[0].rate_rps: is -5; expected {POSITIVE}"),
        ("gpus.0.gpulets.0.slots.0.worklod", 1, "gpus[0].gpulets[0].slots[0].worklod: unknown key"),
    ]:
        with subtests.test(ascii(path), value=ascii(value)):
            refused = refusal(plan_from_json, changed(example("plan"), (path, value)))
            assert refused.startswith(f"mix.json: {message}")


def test_mistyped_key_is_one_mistake_not_two() -> None:
    data = changed(example(), ("workloads.0.slo_ms", ABSENT), ("workloads.0.slo_m", 15))
    expected = 'mix.json: workloads[0].slo_m: unknown key "slo_m"; did you mean "slo_ms"?'
    assert refusal(instance_from_json, data) == expected


def test_further_mistakes_are_counted() -> None:
    wrong_values = changed(example(), ("workloads.0.slo_ms", 0), ("workloads.0.rate_rps", 0), ("gpus.0.count", 0))
    assert (
        refusal(instance_from_json, wrong_values)
        == f"mix.json: gpus[0].count: is 0; expected {WHOLE} or null (and 2 more)"
    )
    wrong_names = changed(example(), ("gpus.0.type", "v10"), ("performance_model", "x"))
    assert refusal(instance_from_json, wrong_names).endswith(" (and 1 more)")
    many = changed(example(), ("workloads", [None] * 1000))
    assert refusal(instance_from_json, many).endswith(" (and 999 more)")


def test_numbers_too_long_to_print_are_refused() -> None:
    data = changed(example(), ("workloads.0.rate_rps", 10**5000))
    expected = f"mix.json: workloads[0].rate_rps: is a number of more than 30 digits; expected {RATE}"
    assert refusal(instance_from_json, data) == expected


def test_keys_that_are_not_text_are_refused() -> None:
    assert refusal(instance_from_json, {5: 1}).startswith("mix.json: has the key 5; expected keys that are text")


def test_the_default_place_is_the_kind_of_file() -> None:
    with pytest.raises(InputError, match=r"^instance: is null; expected an object$"):
        instance_from_json(None)
    with pytest.raises(InputError, match=r"^plan: is a list of 0; expected an object$"):
        plan_from_json([])


@pytest.mark.parametrize(("kind", "read"), READERS)
def test_every_required_field_is_missed(kind: str, read: Any) -> None:
    schema: Any = schemas()[kind]
    for key in schema["required"]:
        assert f"mix.json: {key}: is missing" in refusal(read, changed(example(kind), (key, ABSENT)))
