"""Values of ledger rows from the JSON that tests write, in which a plan may lack its version and its instance."""

from typing import Any

from bench.api import Scope
from bench.ledger.row_schema import from_json
from instances import Plan
from instances.files.models import PlanFile
from instances.files.problems import validated


def plan_of(data: dict[str, Any]) -> Plan:
    """Return the plan of ``{"gpus": [...]}``."""
    file = validated(PlanFile, {"version": 1, "instance": "mix"} | data, "plan")
    return Plan(str(file.instance), file.gpus)


def scope_of(data: dict[str, Any]) -> Scope:
    """Return the scope of a bound."""
    scope: Scope = from_json(Scope, data)
    return scope


def of_classes(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a row with its plan and the scope of its bound as a ``Plan`` and a ``Scope``."""
    converters = {"plan": plan_of, "bound_scope": scope_of}
    return {
        name: converters[name](value) if name in converters and isinstance(value, dict) else value
        for name, value in values.items()
    }
