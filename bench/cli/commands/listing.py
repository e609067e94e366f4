"""``bench list``: names of instances, schedulers, figures, suites and GPU types."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bench.cli.completion import completion_of
from bench.cli.options import FormatOption
from bench.cli.terminal import listed, one_line, print_json
from bench.cli.views.tables import show, table
from bench.runner.inspection import inspect_schedulers
from bench.scenarios import OBJECTIVE
from bench.schedulers.registry import entries as registered_schedulers
from bench.selection import pool_in_words
from instances import Instance
from instances.catalogue import gpu_type, gpu_type_names
from instances.errors import unknown_name
from instances.grouping import grouped
from instances.suites import SCENARIO_SUITES, SUITES
from reports.papers import figure, figure_names, figures_not_drawn

EXAMPLES = (
    "bench list instances",
    "bench list schedulers --format json",
    "bench list figures exact-gap     # what it shows, what it needs, how to read it",
)

_KINDS = ("instances", "schedulers", "figures", "suites", "gpus")

_ABOUT_FIGURES = ("title", "paper", "shows", "look_for", "cost", "command")
_ABOUT_NOT_DRAWN = ("title", "paper", "reason")

_GPU_COLUMNS = ["name", ">share_units", ">memory_mib", ">price_per_hour", "models"]

Entries = list[dict[str, Any]]


def list_things(
    kind: Annotated[
        str,
        typer.Argument(metavar="|".join(_KINDS), help="What to list.", autocompletion=completion_of(lambda: _KINDS)),
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Entries to show in full, or suites of instances.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all columns, and without NAME all entries.")] = False,
    form: FormatOption = "table",
) -> None:
    """List the instances, schedulers, figures, suites or GPU types that commands accept by name.

    Without NAME and --all, instances are listed by suite and figures by paper. JSON has all columns, of the entries
    named or, without NAME, of all.
    """
    if kind not in _KINDS:
        raise unknown_name("KIND", "kind", kind, list(_KINDS))
    collect, short_columns, columns = {
        "instances": (_instances, [], ["name", "objective", ">workloads", ">jobs", ">scenarios", "pool", "suites"]),
        "schedulers": (
            _schedulers,
            ["name", "description"],
            ["name", "from", "objectives", "parameters", "work_unit", "description"],
        ),
        "figures": (_figures, [], [*_ABOUT_FIGURES]),
        "suites": (_suites, ["name", "description"], ["name", "instances", "description"]),
        "gpus": (_gpus, _GPU_COLUMNS, [*_GPU_COLUMNS, "source"]),
    }[kind]
    entries = _named(collect(), names or [], kind)
    in_full = everything or bool(names)
    if form == "json":
        print_json(entries)
    elif kind == "figures" and in_full:
        _show_figures(entries)
    elif kind == "figures":
        _show_figures_by_paper(entries)
    elif kind == "instances" and not in_full:
        _show_instances_by_suite(entries)
    else:
        _show(entries, columns if in_full else short_columns, everything)
        if not in_full:
            show("", f"`bench list {kind} NAME` or --all tells more")


def _named(entries: Entries, names: Sequence[str], kind: str) -> Entries:
    """Return the entries with these names or in suites with these names; without names, all entries."""
    chosen = []
    for name in names:
        matches = [entry for entry in entries if name == entry["name"] or name in entry.get("suites", ())]
        if not matches:
            suites = {suite for entry in entries for suite in entry.get("suites", ())}
            accepted = [
                *dict.fromkeys(known for entry in entries for known in (entry["name"], *entry.get("suites", ())))
            ]
            raise unknown_name("NAME", kind.removesuffix("s"), name, accepted, sorted(suites) or accepted)
        chosen += matches
    return chosen if names else entries


def _show(entries: Entries, columns: list[str], every_line: bool) -> None:
    keys = [column.lstrip(">") for column in columns]
    cells = [[_in_words(entry[key]) for key in keys] for entry in entries]
    show(table([column.replace("_", " ") for column in columns], cells), every_line=every_line)
    for entry in entries:
        if entry.get("error"):
            show(f"{one_line(entry['name'])} cannot be used: {one_line(entry['error'])}")


def _show_instances_by_suite(entries: Entries) -> None:
    """Show a line per suite; an instance of several suites counts in each."""
    suites = grouped((suite, entry) for entry in entries for suite in entry["suites"])
    lines = []
    for suite, entries_of_suite in suites.items():
        sizes = [entry["workloads"] or entry["jobs"] for entry in entries_of_suite]
        count = entries_of_suite[0]["scenarios"]
        lines.append(
            [
                suite,
                f"{count:,} scenarios" if count else len(entries_of_suite),
                ", ".join(dict.fromkeys(entry["objective"] for entry in entries_of_suite)),
                f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,}–{max(sizes):,}",
            ]
        )
    show(table(["suite", ">instances", "objective", ">size"], lines), "")
    show("size: workloads or jobs; `bench list instances SUITE` lists those of a suite, --all lists all")


def _show_figures_by_paper(entries: Entries) -> None:
    papers = grouped((entry["paper"].partition(",")[0], entry["name"]) for entry in entries if entry["drawn"])
    show(table(["paper", "figures"], [[paper, "  ".join(sorted(names))] for paper, names in papers.items()]), "")
    not_drawn = sum(not entry["drawn"] for entry in entries)
    show(f"{not_drawn} more of the papers' figures are not drawn; `bench list figures NAME` or --all tells why")


def _show_figures(entries: Entries) -> None:
    """Show the description of each figure on several lines, since its sentences do not fit on one."""
    lines, groups = [], []
    for entry in entries:
        keys = _ABOUT_FIGURES if entry["drawn"] else _ABOUT_NOT_DRAWN
        groups += [entry["name"]] * len(keys)
        for number, key in enumerate(keys):
            label = "not drawn" if key == "reason" else key.replace("_", " ")
            lines.append(["" if number else entry["name"], label, entry[key]])
    show(table(["name", "", ""], lines, groups), every_line=True)


def _in_words(value: object) -> object:
    """Return a value as a table cell; long lists of names are shortened, lists of parameters are not."""
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return [f"{entry['name']}={entry['default']}" for entry in value]
        return listed(value)
    return value


def _instances() -> Entries:
    entries: dict[str, dict[str, Any]] = {}
    for suite in SUITES.values():
        for instance in suite.build():
            entry = entries.setdefault(instance.name, _description(instance, suite.name))
            entry["suites"].append(suite.name)
    for scenario_suite in SCENARIO_SUITES.values():
        scenarios = scenario_suite.build()
        description = _description(scenarios.base, scenario_suite.name)
        entries[scenarios.name] = description | {
            "name": scenarios.name,
            "suites": [scenario_suite.name],
            "objective": OBJECTIVE,
            "scenarios": len(scenarios),
        }
    return list(entries.values())


def _description(instance: Instance, suite: str) -> dict[str, Any]:
    """Describe an instance; ``suite`` is the first suite that has it, and the caller fills in ``suites``."""
    return {
        "name": instance.name,
        "suite": suite,
        "suites": [],
        "objective": str(instance.objective),
        "workloads": len(instance.workloads),
        "jobs": len(instance.jobs),
        "scenarios": None,
        "pool": pool_in_words(instance),
        "provenance": instance.provenance,
    }


def _suites() -> Entries:
    suites = [
        (suite.name, [instance.name for instance in suite.build()], suite.description) for suite in SUITES.values()
    ]
    suites += [(suite.name, [suite.name], suite.description) for suite in SCENARIO_SUITES.values()]
    return [dict(zip(("name", "instances", "description"), suite, strict=True)) for suite in suites]


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
                {
                    "name": parameter.name,
                    "type": parameter.type,
                    "default": parameter.value,
                    "required": parameter.required,
                }
                for parameter in info.parameters
            ],
            "work_unit": info.work_unit or None,
            "distribution": info.entry.distribution,
            "version": info.entry.version,
            "from": f"{info.entry.distribution} {info.entry.version}",
            "error": info.error or None,
        }
        for name, info in inspect_schedulers(list(registered_schedulers().values())).items()
    ]


def _figures() -> Entries:
    """Describe the figures that can be drawn, then the papers' figures that cannot."""
    drawn_figures = [figure(name, "list") for name in figure_names()]
    entries: Entries = [
        {
            "name": drawn_figure.name,
            "title": drawn_figure.title,
            "paper": drawn_figure.paper,
            "shows": drawn_figure.shows,
            "look_for": drawn_figure.look_for,
            "cost": drawn_figure.cost,
            "command": f"bench figures {drawn_figure.name}",
            "runs": [need.command for need in drawn_figure.needs],
            "drawn": True,
            "reason": None,
        }
        for drawn_figure in drawn_figures
    ]
    entry_not_drawn: dict[str, Any] = {**dict.fromkeys(entries[0]), "runs": [], "drawn": False}
    return entries + [
        entry_not_drawn
        | {
            "name": missing_figure.name,
            "title": missing_figure.title,
            "paper": missing_figure.paper,
            "reason": missing_figure.reason,
        }
        for missing_figure in figures_not_drawn().values()
    ]
