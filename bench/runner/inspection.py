"""Inspection of registered schedulers: a separate process imports them and reads objectives and parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from inspect import cleandoc
from multiprocessing.connection import Connection, wait
from pickle import loads
from time import monotonic
from typing import Any

from bench.api import has_own_model, partitions, work_unit
from bench.runner.forkserver import start_forkserver
from bench.runner.messages import Message
from bench.runner.watchdog import Watchdog
from bench.runner.worker import Report, wait_to_be_killed
from bench.runner.worker_limits import become_worker
from bench.runner.worker_process import Worker
from bench.schedulers import registry
from bench.schedulers.parameters import Parameter, describe_parameters, instantiate
from bench.schedulers.registry import Entry
from bench.task import Stage
from instances import InputError, Objective, Partition
from instances.errors import FieldName

IMPORT_LIMIT_S = 120.0
"""Time limit for the import of one scheduler."""

_LOST = "the bench's forkserver was killed"
_DISTURBED = "importing it disturbed the bench"
_MOST_LOST = 2


@dataclass(frozen=True, slots=True)
class SchedulerInfo:
    """Self-description of a registered scheduler.

    Attributes
    ----------
    parameters
        Parameters with their values: the defaults, or the values of ``--param``.
    overrides
        Values of ``--param`` as text.
    doc
        First paragraph of its docstring.
    error
        Reason why it cannot be used, or an empty text.
    class_name
        Name that its class declares.
    own_model
        Whether it predicts latencies with its own model.
    work_unit
        Unit of its work limit; empty if it has none.
    """

    entry: Entry
    objectives: frozenset[Objective] = frozenset()
    parameters: tuple[Parameter, ...] = ()
    overrides: Mapping[str, str] | None = None
    doc: str = ""
    error: str = ""
    partitions: frozenset[Partition] = frozenset({Partition.SHARES})
    class_name: str = ""
    own_model: bool = False
    work_unit: str = ""

    @property
    def stage(self) -> Stage:
        """The scheduler as a stage of a task; a scheduler with an ``error`` gets a row with that error."""
        # The value of a file parameter identifies the file's content; the worker refuses a file that changed meanwhile.
        files = {one.name: str(one.value) for one in self.parameters if one.is_file and one.value is not None}
        given = self.overrides or {}
        return Stage(
            name=self.entry.name,
            target=self.entry.target,
            overrides={name: files.get(name, text) for name, text in given.items()},
            parameters={parameter.name: parameter.value for parameter in self.parameters},
            distribution=self.entry.distribution,
            version=self.entry.version,
        )


class _ImpossibleAnswerError(Exception):
    """Error of an answer that is not the description of the scheduler in question."""


def inspect_schedulers(
    entries: Sequence[Entry],
    overrides: Mapping[str, Mapping[str, str]] | None = None,
    *,
    import_limit_s: float = IMPORT_LIMIT_S,
) -> dict[str, SchedulerInfo]:
    """Import ``entries`` in a worker process and return their descriptions by name.

    A scheduler that cannot be imported, ends its process or takes too long has an ``error``; the others are unaffected.

    Raises
    ------
    InputError
        If ``overrides`` (see ``bench.schedulers.parameters``) do not suit a scheduler.
    """
    overrides = overrides or {}
    asked = [(entry, overrides.get(entry.name, {})) for entry in entries]
    return {info.entry.name: info for info in inspect_variants(asked, import_limit_s=import_limit_s)}


def inspect_variants(
    asked: Sequence[tuple[Entry, Mapping[str, str]]], *, import_limit_s: float = IMPORT_LIMIT_S
) -> list[SchedulerInfo]:
    """Return the descriptions of schedulers with overrides of their own, in the order of ``asked``.

    Raises
    ------
    InputError
        If overrides do not suit their scheduler.
    """
    found: list[SchedulerInfo] = []
    waiting = list(asked)
    if not waiting:
        return found
    start_forkserver()
    watchdog = Watchdog()
    lost, alone = 0, False
    try:
        while waiting:
            answered, problem = _ask(waiting[:1] if alone else waiting, watchdog, import_limit_s)
            found += answered
            waiting = waiting[len(answered) :]
            if problem == _LOST and lost < _MOST_LOST:
                lost += 1
            elif problem.startswith(_DISTURBED) and not alone:
                alone = True  # answers that arrived together do not show which scheduler wrote into the pipe
            elif problem:  # the next scheduler is the cause; a new worker imports those after it
                entry, given = waiting.pop(0)
                found.append(SchedulerInfo(entry, overrides=given, error=problem))
                alone = False
    finally:
        watchdog.close()
    return found


def _ask(
    asked: Sequence[tuple[Entry, Mapping[str, str]]], watchdog: Watchdog, import_limit_s: float
) -> tuple[list[SchedulerInfo], str]:
    """Import the schedulers in turn in one worker.

    Return their descriptions and the reason, if any, why the scheduler after the last described one has none.
    """
    worker = Worker(main, watchdog)
    answers: list[SchedulerInfo] = []
    problem = ""
    try:
        worker.order([(entry, dict(given)) for entry, given in asked])
        due = monotonic() + import_limit_s
        while len(answers) < len(asked):
            died = worker.sentinel in wait([worker.sentinel, *worker.readable], max(0.0, due - monotonic()))
            try:
                heard = _heard(worker)
                new = [_info(*one, answer) for one, answer in zip(asked[len(answers) :], heard, strict=False)]
            except _ImpossibleAnswerError as error:
                problem = f"{_DISTURBED}: {error}"
                break
            answers += new
            if new:
                due = monotonic() + import_limit_s
            elif died and worker.lost:
                problem = _LOST
                break
            elif died or worker.silent:
                problem = f"importing it ended the process: {worker.log_tail.strip()[-500:] or 'without output'}"
                break
            elif monotonic() >= due:
                problem = f"importing it takes more than {import_limit_s:g} s"
                break
    finally:
        worker.end()
    return answers, problem


def _heard(worker: Worker) -> list[Message]:
    try:
        return worker.messages()
    except InputError as error:
        raise _ImpossibleAnswerError(error.problem) from None


def _info(entry: Entry, overrides: Mapping[str, str], answer: Message) -> SchedulerInfo:
    # Modules run code when they are imported, which can write into the worker's pipe.
    try:
        if answer["scheduler"] != entry.name:
            raise ValueError("an answer for another scheduler")
        if answer["type"] == "misuse":
            misuse = InputError(_place(answer["where"]), str(answer["problem"]))
        elif answer["type"] == "broken":
            return SchedulerInfo(entry, overrides=overrides, error=str(answer["error"]))
        else:
            return SchedulerInfo(
                entry,
                frozenset(Objective(name) for name in answer["objectives"]),
                tuple(Parameter(**parameter) for parameter in answer["parameters"]),
                overrides,
                str(answer["doc"]),
                str(answer["error"]),
                frozenset(Partition(name) for name in answer["partitions"]),
                str(answer["class_name"]),
                bool(answer["own_model"]),
                str(answer["work_unit"]),
            )
    except (KeyError, TypeError, ValueError) as error:
        raise _ImpossibleAnswerError(f"{type(error).__name__}: {error}") from None
    raise misuse


def _misuse(refusal: InputError) -> Message:
    where = refusal.where
    place = [where.field, where.suffix] if isinstance(where, FieldName) else where
    return {"type": "misuse", "where": place, "problem": refusal.problem}


def _place(sent: object) -> str:
    """Return the place that ``_misuse`` sent."""
    return FieldName(*map(str, sent)) if isinstance(sent, list) else str(sent)


def main(inbox: Connection, outbox: Connection, log: Connection) -> None:
    """Run the worker process: import the schedulers one after the other and describe each."""
    become_worker(log)
    try:
        order: list[tuple[Entry, dict[str, str]]] = loads(inbox.recv_bytes())  # noqa: S301 - the bench sent it
    except EOFError:
        return
    report = Report(outbox.fileno())
    for entry, overrides in order:
        report.send({"scheduler": entry.name, **_describe(entry, overrides)})
    wait_to_be_killed(inbox)


def _describe(entry: Entry, overrides: Mapping[str, str]) -> dict[str, Any]:
    if entry.problem:
        return {"type": "broken", "error": entry.problem}
    try:
        try:
            scheduler = registry.load(entry.target, entry.version)
        except InputError as refusal:
            if entry.distribution == registry.FILE:  # the command line names the class
                return _misuse(refusal)
            raise
        made, error = None, ""
        try:
            made = instantiate(scheduler, overrides, entry.name)
        except InputError as refusal:
            if overrides:
                return _misuse(refusal)
            error = str(refusal)  # a required parameter is missing; the scheduler is listed nevertheless
        return {
            "type": "description",
            "objectives": sorted(Objective(objective).value for objective in scheduler.objectives),
            "partitions": sorted(Partition(one).value for one in partitions(scheduler)),
            "parameters": [asdict(parameter) for parameter in describe_parameters(scheduler, made)],
            "class_name": str(scheduler.name),
            "own_model": has_own_model(scheduler),
            "work_unit": work_unit(scheduler),
            "doc": " ".join(cleandoc(scheduler.__doc__ or "").partition("\n\n")[0].split()),
            "error": error,
        }
    except BaseException as failure:  # noqa: BLE001 - an exception in a plugin's module affects only that plugin
        return {"type": "broken", "error": " ".join(f"{type(failure).__name__}: {failure}".split())}
