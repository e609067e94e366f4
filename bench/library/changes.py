"""Changes of the library since a commit: checks of each changed entry, and of the files that all entries share."""

import gzip
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from bench.certificate.checking import check
from bench.certificate.patterns import Progress, ignore
from bench.library.review import RECORD, read_record
from bench.library.revision import Revision
from bench.library.submission import tighter, with_plan
from instances import InputError
from instances.files import read_json
from instances.library import Credit, Library, LibraryEntry
from instances.library.collection import ENTRY_SUFFIX, INDEX, RENEWED, TYPES, WITHDRAWN, coefficients_digest
from instances.library.entry import NONE, TIE, better
from instances.library.history import HISTORY, LibraryFinding, findings_of, history_from_json, latest, read_history

RENEWAL = "an entry never changes; `bench library renew` makes a new one"


def changed_entries(library: Library, revision: Revision) -> list[str]:
    """Return the names of the entries whose files differ from those of the commit, without removed entries."""
    changed = {name.removesuffix(ENTRY_SUFFIX) for name in revision.changed() if name.endswith(ENTRY_SUFFIX)}
    return sorted(changed & set(library.names()))


def problem_of_entry(library: Library, name: str, revision: Revision, progress: Progress = ignore) -> str:
    """Return why a changed entry is refused, or an empty text.

    The instance must be as before. A new plan must be accepted by the judge and better than the one before; a new bound
    must be proven by its certificate and tighter than the one before.
    """
    try:
        entry = library.entry(name)
        content = revision.content(f"{name}{ENTRY_SUFFIX}")
        before = None if content is None else json.loads(gzip.decompress(content))
        now: Any = read_json(library.folder / f"{name}{ENTRY_SUFFIX}")
        if before is None:
            problem = f"the name was used before; {RENEWAL}" if library.removed(name) else ""
            before = {"best": None, "bound": None}
        elif any(now[part] != before[part] for part in ("instance", "types")):
            problem = f"the instance was edited; {RENEWAL}"
        else:
            problem = ""
        if not problem and _with_full_credit(now["best"]) != _with_full_credit(before["best"]):
            problem = _problem_of_plan(entry, before["best"])
        if not problem and _with_full_credit(now["bound"]) != _with_full_credit(before["bound"]):
            problem = _problem_of_bound(library, entry, before["bound"], progress)
    except InputError as error:
        return str(error)
    except (KeyError, TypeError, ValueError, OSError) as error:
        return f"{name}: its file is damaged: {error!r}"
    return f"{name}: {problem}" if problem else ""


def _with_full_credit(finding: Mapping[str, Any] | None) -> object:
    """Return the plan or the bound of an entry's file with all fields of its credit; older files lack some of them."""
    return None if finding is None else {**finding, "credit": asdict(Credit(**finding["credit"]))}


def _problem_of_plan(entry: LibraryEntry, before: Mapping[str, Any] | None) -> str:
    """Return why a plan that was changed is refused, or an empty text."""
    if entry.plan is None or entry.value is None:
        return "its plan was removed"
    nobody = Credit("", "", "")
    submission, judged = with_plan(replace(entry, plan=None, value=None, claim=None), entry.plan, nobody)
    if judged.value is None:
        return submission.sentence.partition(": ")[2]
    if not math.isclose(judged.value, entry.value, rel_tol=TIE):
        return f"its plan has the value {judged.value:.10g}, and the entry states {entry.value:.10g}"
    objective = entry.instance.objective
    if before is not None and not better(judged.value, before["value"], objective):
        worse = better(before["value"], judged.value, objective)
        relation = "is worse than" if worse else "ties with"
        return f"its plan {relation} the one before, which stays: {judged.value:.10g} and {before['value']:.10g}"
    if entry.bound is not None and (entry.bound == NONE or better(judged.value, float(entry.bound), objective)):
        return f"its plan of value {judged.value:.10g} contradicts its bound {entry.bound}"
    return ""


def _problem_of_bound(
    library: Library, entry: LibraryEntry, before: Mapping[str, Any] | None, progress: Progress
) -> str:
    """Return why a bound that was changed is refused, or an empty text."""
    if entry.bound is None:
        return "its bound was removed"
    old_bound = None if before is None else str(before["claim"]["bound"])
    if not tighter(entry.bound, old_bound, entry.instance.objective):
        return f"its bound is not tighter than the one before, which stays: {entry.bound} and {old_bound}"
    verdict = check(library.certificate(entry.instance.name), entry.instance.name, progress)
    return "" if verdict.proven else f"its certificate is refused: {verdict.sentence}"


def disagreements(library: Library) -> Iterator[str]:
    """Yield a line for each entry that differs from its line in the index, or from its latest findings on record."""
    history, lines = read_history(library.folder), {line.name: line for line in library.summaries()}
    files = {file.name.removesuffix(ENTRY_SUFFIX) for file in library.folder.glob(f"*{ENTRY_SUFFIX}")}
    files.discard(TYPES.removesuffix(ENTRY_SUFFIX))
    yield from (f"{name}: is missing in {INDEX}" for name in sorted(files - lines.keys()))
    by_entry: dict[str, list[LibraryFinding]] = {}
    for finding in history:
        by_entry.setdefault(finding.entry, []).append(finding)
    for name, line in lines.items():
        try:
            entry = library.entry(name)
        except InputError as error:
            yield str(error)
            continue
        except (KeyError, TypeError, ValueError, OSError) as error:
            yield f"{name}: its file is damaged: {error!r}"
            continue
        if entry.summary() != line:
            yield f"{name}: its line in {INDEX} states something else than the entry"
        elif findings_of(entry) != latest(by_entry.get(name, []), name):
            yield f"{name}: its last findings in {HISTORY} are not the plan and the bound of the entry"


def problems_of_files(library: Library, revision: Revision) -> Iterator[str]:
    """Yield the problems of the files that entries share: lines of the commit that were edited or removed."""
    changed = revision.changed()
    if INDEX in changed:
        names_before = {line["name"] for line in json.loads(revision.content(INDEX) or b"[]")}
        for name in sorted(names_before - set(library.names())):
            if not library.removed(name):
                yield f"{name}: was removed, but neither renewed.json nor withdrawn.json lists it"
    for file_name, names_now in ((RENEWED, library.renewed()), (WITHDRAWN, library.withdrawn())):
        before = json.loads(revision.content(file_name) or b"{}") if file_name in changed else {}
        for name in sorted(name for name, value in before.items() if names_now.get(name) != value):
            yield f"{name}: its line in {file_name} was edited or removed; old names are never used again"
    if HISTORY in changed:
        yield from _problems_of_history(library, history_from_json((revision.content(HISTORY) or b"[]").decode()))
    if RECORD in changed:
        now = read_record(library)
        for name, digest in json.loads(revision.content(RECORD) or b"{}").items():
            if now.get(name) != digest and library.has(name):
                yield f"{name}: its digest in {RECORD} was replaced or removed; {RENEWAL}"
    if TYPES in changed:
        types: Any = read_json(library.folder / TYPES)
        for digest, coefficients in types.items():
            if coefficients_digest(coefficients) != digest:
                yield f"{TYPES}: the coefficients of {digest[:12]} were edited; {RENEWAL}"


def _problems_of_history(library: Library, before: list[LibraryFinding]) -> Iterator[str]:
    """Yield a line for each entry that lost a finding, or has a new one that is no improvement."""
    now, objectives = read_history(library.folder), {line.name: line.objective for line in library.summaries()}
    for name in sorted({finding.entry for finding in [*before, *now]}):
        old, new = ([finding for finding in findings if finding.entry == name] for findings in (before, now))
        if new[: len(old)] != old:
            yield f"{name}: findings in {HISTORY} were edited or removed; lines are only added"
        elif name in objectives and not _improves(library, new, len(old)):
            yield f"{name}: a new finding in {HISTORY} is no improvement on the one before"


def _improves(library: Library, findings: list[LibraryFinding], known: int) -> bool:
    """Return whether each new finding improves on the previous finding of its kind; the first ``known`` are not new."""
    if len(findings) == known:
        return True
    objective = library.instance(findings[0].entry).objective
    return all(
        better(float(new.value), float(old.value), objective)
        if kind == "plan"
        else tighter(str(new.value), str(old.value), objective)
        for kind in ("plan", "bound")
        for old, new in pairwise([finding for finding in findings if finding.kind == kind])
        if new in findings[known:]
    )
