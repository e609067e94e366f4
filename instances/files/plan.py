"""Reading and writing of plans as JSON, alone or with the instance that they solve."""

import json
from collections.abc import Iterator
from pathlib import Path

from instances.files.instance import build_instance, instance_to_json, plain
from instances.files.models import VERSION, InstanceFile, PlanFile
from instances.files.problems import Problem, input_error, refuse_other_kind, validated, validated_text
from instances.files.text import read_json
from instances.instance import Instance
from instances.plan import Gpulet, Plan


def read_plan(path: Path) -> tuple[Plan, Instance | None]:
    """Return the plan in the JSON file at ``path``, and the instance that it embeds, if any.

    Raises
    ------
    InputError
        If the file cannot be read or is not a plan; the error names the file, the field and the expected value.
    """
    data = read_json(path)
    refuse_other_kind(data, str(path), "plan")
    return _built(validated(PlanFile, data, str(path)), str(path), path.parent)


def plan_from_json(data: object, where: str = "plan") -> Plan:
    """Return the plan in ``data``, the parsed content of a JSON file.

    Ids, GPU types and shares are not checked here: the judge checks the plan against its instance.

    Raises
    ------
    InputError
        If ``data`` is not a plan, or embeds an invalid instance; the error names ``where`` as the place.
    """
    refuse_other_kind(data, where, "plan")
    return _built(validated(PlanFile, data, where), where)[0]


def plan_from_text(text: bytes | str, where: str = "plan") -> Plan:
    """Return the plan in the JSON ``text``, such as ``plan_to_text`` writes; see ``plan_from_json``.

    Raises
    ------
    InputError
        If ``text`` is not the JSON of a plan; the error names ``where`` as the place.
    """
    return _built(validated_text(PlanFile, text, where), where)[0]


def plan_to_text(plan: Plan) -> str:
    """Return ``plan`` as JSON text, which a worker sends and a ledger stores.

    Raises
    ------
    TypeError, ValueError, RecursionError
        If a value has no JSON form.
    """
    return json.dumps(plan_to_json(plan), allow_nan=False)


def plan_to_json(plan: Plan, instance: Instance | None = None) -> dict[str, object]:
    """Return ``plan`` as JSON data, in the order of the published format; the data embeds ``instance`` if there is one.

    A plan that breaks the rules of the format is written unchanged, as evidence, although the reader refuses it.

    Raises
    ------
    InputError
        If the plan names another instance, or a file cannot represent ``instance``.
    """
    if instance is not None and instance.name != plan.instance:
        problem = f'the plan is for "{plan.instance}", not "{instance.name}"'
        raise input_error("plan", [(("instance",), problem)])
    return {
        "version": VERSION,
        "instance": plan.instance if instance is None else instance_to_json(instance),
        "gpus": [{"type": gpu.type, "gpulets": list(map(_gpulet_data, gpu.gpulets))} for gpu in plan.gpus],
    }


def _gpulet_data(gpulet: Gpulet) -> dict[str, object]:
    data: dict[str, object] = {"share_units": gpulet.share_units, "duty_cycle_ms": gpulet.duty_cycle_ms}
    if gpulet.start is not None:
        data["start"] = gpulet.start
    if gpulet.start is not None or gpulet.processes != 1:
        data["processes"] = gpulet.processes
    data["slots"] = [
        {"workload": slot.workload, "batch": slot.batch, "rate_rps": slot.rate_rps} for slot in gpulet.slots
    ]
    return {key: plain(value) for key, value in data.items()}


def _built(file: PlanFile, where: str, folder: Path = Path()) -> tuple[Plan, Instance | None]:
    instance = None
    if isinstance(file.instance, InstanceFile):
        instance = build_instance(file.instance, where, ("instance",), folder)
    name = file.instance.name if isinstance(file.instance, InstanceFile) else file.instance
    problems = list(_problems(file))
    if problems:
        raise input_error(where, problems)
    return Plan(name, file.gpus), instance


def _problems(file: PlanFile) -> Iterator[Problem]:
    """Yield the gpulets with several slots and no duty cycle."""
    for gpu_position, gpu in enumerate(file.gpus):
        for gpulet_position, gpulet in enumerate(gpu.gpulets):
            if len(gpulet.slots) > 1 and gpulet.duty_cycle_ms is None:
                problem = f"is missing; {len(gpulet.slots)} slots that take turns need a period in milliseconds"
                yield ("gpus", gpu_position, "gpulets", gpulet_position, "duty_cycle_ms"), problem
