"""``bench list``: names of instances, schedulers, figures, suites and GPU types."""

from typing import Annotated, Any

import typer

from bench.cli.options import Format, FormatOption
from bench.cli.terminal import listed, one_line, print_json
from bench.cli.views.tables import show, table
from bench.runner.inspection import inspect_schedulers
from bench.scenarios import OBJECTIVE
from bench.schedulers.registry import entries
from bench.selection import pool_in_words
from instances.catalogue import gpu_type, gpu_type_names
from instances.errors import unknown_name
from instances.suites import SCENARIO_SUITES, SUITES
from reports.papers import figure, figure_names, figures_not_drawn

EXAMPLES = (
    "bench list instances",
    "bench list schedulers --format json",
    "bench list figures",
)

_KINDS = ("instances", "schedulers", "figures", "suites", "gpus")

_ABOUT_FIGURES = ("title", "paper", "shows", "look_for", "cost", "command")
_ABOUT_NOT_DRAWN = ("title", "paper", "reason")

Entries = list[dict[str, Any]]


def list_things(
    kind: Annotated[str, typer.Argument(metavar="|".join(_KINDS), help="What to list.")],
    form: FormatOption = Format.TABLE,
) -> None:
    """List the instances, schedulers, figures, suites or GPU types that commands accept by name."""
    if kind not in _KINDS:
        raise unknown_name("KIND", "kind", kind, list(_KINDS))
    collect, columns = {
        "instances": (_instances, ["name", "objective", ">workloads", ">jobs", ">scenarios", "pool", "suites"]),
        "schedulers": (_schedulers, ["name", "from", "objectives", "parameters", "work_unit", "description"]),
        "figures": (_figures, [*_ABOUT_FIGURES]),
        "suites": (_suites, ["name", "instances", "description"]),
        "gpus": (_gpus, ["name", ">share_units", ">memory_mib", ">price_per_hour", "models", "source"]),
    }[kind]
    entries = collect()
    if form is Format.JSON:
        print_json(entries)
    elif kind == "figures":
        _show_figures(entries)
    else:
        _show(entries, columns)


def _show(entries: Entries, columns: list[str]) -> None:
    keys = [column.lstrip(">") for column in columns]
    show(table([c.replace("_", " ") for c in columns], [[_in_words(e[key]) for key in keys] for e in entries]))
    for entry in entries:
        if entry.get("error"):
            show(f"{one_line(entry['name'])} cannot be used: {one_line(entry['error'])}")


def _show_figures(entries: Entries) -> None:
    """Show the description of each figure in several lines, since its sentences do not fit into one table row."""
    lines, groups = [], []
    for entry in entries:
        about = _ABOUT_FIGURES if entry["reproducible"] else _ABOUT_NOT_DRAWN
        groups += [entry["name"]] * len(about)
        for number, key in enumerate(about):
            label = "not drawn" if key == "reason" else key.replace("_", " ")
            lines.append(["" if number else entry["name"], label, entry[key]])
    show(table(["name", "", ""], lines, groups))


def _in_words(value: object) -> object:
    """Return a value as a table cell; long lists are shortened."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return [f"{entry['name']}={entry['default']}" for entry in value]
        return listed(value)
    return value


def _instances() -> Entries:
    found: dict[str, dict[str, Any]] = {}
    for suite in SUITES.values():
        for instance in suite.build():
            entry = found.setdefault(
                instance.name,
                {
                    "name": instance.name,
                    "suite": suite.name,
                    "suites": [],
                    "objective": str(instance.objective),
                    "workloads": len(instance.workloads),
                    "jobs": len(instance.jobs),
                    "scenarios": None,
                    "pool": pool_in_words(instance),
                    "provenance": instance.provenance,
                },
            )
            entry["suites"].append(suite.name)
    return [*found.values(), *_scenario_sets()]


def _scenario_sets() -> Entries:
    return [
        {
            "name": scenarios.name,
            "suite": suite.name,
            "suites": [suite.name],
            "objective": OBJECTIVE,
            "workloads": len(scenarios.base.workloads),
            "jobs": len(scenarios.base.jobs),
            "scenarios": len(scenarios),
            "pool": pool_in_words(scenarios.base),
            "provenance": scenarios.base.provenance,
        }
        for suite in SCENARIO_SUITES.values()
        for scenarios in [suite.build()]
    ]


def _suites() -> Entries:
    suites = [
        {
            "name": suite.name,
            "instances": [instance.name for instance in suite.build()],
            "description": suite.description,
        }
        for suite in SUITES.values()
    ]
    sets = [
        {"name": scenarios.name, "instances": [scenarios.name], "description": scenarios.description}
        for scenarios in SCENARIO_SUITES.values()
    ]
    return [*suites, *sets]


def _gpus() -> Entries:
    return [
        {
            "name": gpu.name,
            "share_units": gpu.share_units,
            "memory_mib": gpu.memory_mib,
            "price_per_hour": gpu.price_per_hour,
            "models": gpu.model_names,
            "source": f"{gpu.provenance.kind}: {gpu.provenance.source}",
        }
        for gpu in map(gpu_type, gpu_type_names())
    ]


def _schedulers() -> Entries:
    return [
        {
            "name": name,
            "description": info.doc,
            "objectives": sorted(info.objectives),
            "parameters": [
                {"name": p.name, "type": p.type, "default": p.value, "required": p.required} for p in info.parameters
            ],
            "work_unit": info.work_unit or None,
            "distribution": info.entry.distribution,
            "version": info.entry.version,
            "from": f"{info.entry.distribution} {info.entry.version}",
            "error": info.error or None,
        }
        for name, info in inspect_schedulers(list(entries().values())).items()
    ]


def _figures() -> Entries:
    """Describe the figures that can be drawn, then the papers' figures that cannot."""
    found: Entries = []
    for name in figure_names():
        drawn = figure(name, "list")
        found.append(
            {
                "name": name,
                "title": drawn.title,
                "paper": drawn.paper,
                "shows": drawn.shows,
                "look_for": drawn.look_for,
                "cost": drawn.cost,
                "command": f"bench figures {name}",
                "runs": [need.command for need in drawn.needs],
                "reproducible": True,
                "reason": None,
            }
        )
    nothing: dict[str, Any] = {
        "shows": None,
        "look_for": None,
        "cost": None,
        "command": None,
        "runs": [],
        "reproducible": False,
    }
    found += [
        {"name": each.name, "title": each.title, "paper": each.paper, **nothing, "reason": each.reason}
        for each in figures_not_drawn().values()
    ]
    return found
