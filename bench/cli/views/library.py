"""Entries of the library on a terminal."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from bench.cli.options import Format
from bench.cli.terminal import print_json, say
from bench.cli.views.tables import Fitted, show
from bench.formatting import percent, worth
from bench.library.difficulty import LIMITS_S
from bench.library.review import Review
from instances import InputError
from instances.files import instance_to_json, plan_to_json, write_json
from instances.library import LIBRARY, Credit, Library, LibraryEntry, LibraryFinding, LibraryLine
from instances.library.difficulty import UNMEASURED, counted
from instances.library.entry import NONE


def write_part(
    library: Library, name: str | None, part: Literal["instance", "plan", "certificate"], file: Path | None
) -> None:
    """Write the instance of the entry ``name`` with its coefficients, or its plan or certificate, to a file.

    Raises
    ------
    InputError
        Without a name or a file, if the library has no such entry, or if the entry has no plan or no bound.
    """
    if file is None:
        raise InputError("--part", "chooses what -o writes; add -o FILE")
    if name is None:
        raise InputError("-o", "writes a part of one entry; add --instance NAME")
    entry = library.entry(name)
    match part:
        case "instance":
            data = instance_to_json(entry.instance, frozen=True)
        case "plan":
            data = {} if entry.plan is None else plan_to_json(entry.plan, entry.instance)
        case "certificate":
            data = library.certificate(name) or {}
    if not data:
        raise InputError("--part", f"{entry.instance.name} has no {part}")
    write_json(file, data)
    say(f"wrote {file}")


def open_library(folder: Path | None, *, written: bool = False) -> Library:
    """Return the library in a folder, by default the library of the checkout.

    Raises
    ------
    InputError
        If the folder has no library, or if the library will be written (``written``) and the folder is read-only.
    """
    library = LIBRARY if folder is None else Library(folder)
    if not (library.folder / "index.json").is_file():
        raise InputError("--library", f'"{library.folder}" is no library: it has no index.json')
    if written and not os.access(library.folder, os.W_OK):
        raise InputError("--library", f'"{library.folder}" cannot be written; use a clone of the repository, or a copy')
    return library


def show_lines(lines: Sequence[LibraryLine]) -> None:
    """Print a table of entries."""
    closed = sum(line.closed for line in lines)
    columns = ["name", "objective", ">size", "GPUs", ">best", ">bound", ">gap", "found by", "bound by", "difficulty"]
    rows = [
        [
            line.name,
            line.objective,
            line.workloads,
            ", ".join(f"{'' if count is None else f'{count} '}{gpu}" for gpu, count in line.gpus.items()),
            worth(line.value, line.objective).partition(" ")[0],
            _without_unit(line.bound, line.objective),
            percent(line.gap),
            line.plan_by,
            line.proof_by,
            line.difficulty or UNMEASURED,
        ]
        for line in lines
    ]
    spare = ("GPUs", "objective", "bound by", "found by", "bound")
    show(Fitted(columns, rows, groups=None, spare=spare))
    show(
        f"{len(lines)} entries: {closed} proven best, {len(lines) - closed} open",
        f"difficulty: {counted(line.difficulty for line in lines)}",
    )


def show_reviews(reviews: Sequence[Review]) -> None:
    """Print the checks of each entry that failed one, and the number of entries that failed none (they stay)."""
    words = {True: "same", False: "changed", None: "-"}
    changed = [review for review in reviews if not review.stays]
    if changed:
        rows = [
            [review.name, words[review.plan], words[review.budgets], words[review.certificate]] for review in changed
        ]
        show(Fitted(["name", "plan", "budgets", "certificate"], rows, groups=None, spare=()))
    show(f"{len(reviews) - len(changed)} of {len(reviews)} entries stay")


def show_entry(entry: LibraryEntry, history: Sequence[LibraryFinding], form: Format) -> None:
    """Print one entry and its history."""
    line = entry.summary()
    if form == "json":
        credited = {
            "plan_credit": entry.plan_credit and asdict(entry.plan_credit),
            "proof_credit": entry.proof_credit and asdict(entry.proof_credit),
        }
        plan = entry.plan and plan_to_json(entry.plan)
        findings = [asdict(finding) for finding in history]
        proven_s = None if entry.measured is None else entry.measured.proven_s
        details = {"proven_s": proven_s, "claim": entry.claim, "plan": plan, "history": findings}
        print_json(asdict(line) | credited | details)
        return
    instance = entry.instance
    show(
        f"{line.name}: {'proven best' if entry.closed else 'open'}" + _measured(entry),
        f"  {line.objective} of {line.workloads} workloads; {line.slo_rule}, {line.performance_model}",
        "  GPUs: "
        + ", ".join(f"{'any number of' if count is None else count} {gpu}" for gpu, count in line.gpus.items()),
        f"  best: {worth(line.value, line.objective)}{_credited(entry.plan_credit)}",
        f"  bound: {_without_unit(line.bound, line.objective)}{_credited(entry.proof_credit)}"
        + ("" if line.proof is None else f", proof: {line.proof}"),
        f"  gap: {percent(line.gap)}",
        *([] if line.why_open is None else [f"  why open: {line.why_open}"]),
        f"  origin: {instance.provenance}",
    )
    if history:
        columns = ["date", "found", ">value", "by", "version", "machine", "work", "accepted by"]
        rows = [
            [
                finding.date,
                finding.kind,
                _without_unit(str(finding.value), line.objective),
                finding.by,
                finding.version,
                finding.machine,
                finding.work,
                finding.accepted_by,
            ]
            for finding in history
        ]
        show(Fitted(columns, rows, groups=None, spare=("version", "machine", "work")))


def _credited(credit: Credit | None) -> str:
    return "" if credit is None else f", found by {credit.by} (version {credit.version}, {credit.date})"


def _measured(entry: LibraryEntry) -> str:
    """Return the difficulty of a proven entry, and the work with which each reference scheduler proves it."""
    if not entry.closed:
        return ""
    if entry.measured is None:
        return f", difficulty {UNMEASURED}"
    work = (
        f"{name} not in {max(LIMITS_S)} s" if limit_s is None else f"{name} in {limit_s} s"
        for name, limit_s in entry.measured.proven_s.items()
    )
    return f", {entry.measured.difficulty}: {', '.join(work)}"


def _without_unit(number: str | None, objective: str) -> str:
    """Return a value or a bound without its unit; the bound ``NONE`` stays."""
    if number is None:
        return "-"
    return NONE if number == NONE else worth(float(number), objective).partition(" ")[0]
