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
"""Problem of a worker that was lost with the forkserver; the scheduler is not at fault."""

_DISTURBED = "importing it disturbed the bench"
"""Beginning of the problem of a worker that sent an impossible answer."""

_MAX_LOST = 2
"""Number of lost workers after which the scheduler is blamed."""


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
        First paragraph of the docstring.
    error
        Reason why the scheduler cannot be used, or an empty text.
    class_name
        Name that the class declares.
    own_model
        Whether the scheduler predicts latencies with its own model.
    work_unit
        Unit of the work limit; empty without one.
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
        # The value of a file parameter identifies the file's content; the worker refuses a file that has changed.
        files = {
            parameter.name: str(parameter.value)
            for parameter in self.parameters
            if parameter.is_file and parameter.value is not None
        }
        overrides = self.overrides or {}
        return Stage(
            name=self.entry.name,
            target=self.entry.target,
            overrides={name: files.get(name, text) for name, text in overrides.items()},
            parameters={parameter.name: parameter.value for parameter in self.parameters},
            distribution=self.entry.distribution,
            version=self.entry.version,
        )


class _ImpossibleAnswerError(Exception):
    """An answer does not describe the scheduler that was asked about."""


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
    requests = [(entry, overrides.get(entry.name, {})) for entry in entries]
    return {info.entry.name: info for info in inspect_variants(requests, import_limit_s=import_limit_s)}


def inspect_variants(
    requests: Sequence[tuple[Entry, Mapping[str, str]]], *, import_limit_s: float = IMPORT_LIMIT_S
) -> list[SchedulerInfo]:
    """Return the descriptions of schedulers with overrides of their own, in the order of ``requests``.

    Raises
    ------
    InputError
        If overrides do not suit their scheduler.
    """
    infos: list[SchedulerInfo] = []
    remaining = list(requests)
    if not remaining:
        return infos
    start_forkserver()
    watchdog = Watchdog()
    lost_count, one_at_a_time = 0, False
    try:
        while remaining:
            new_infos, problem = _ask(remaining[:1] if one_at_a_time else remaining, watchdog, import_limit_s)
            infos += new_infos
            remaining = remaining[len(new_infos) :]
            if problem == _LOST and lost_count < _MAX_LOST:
                lost_count += 1
            elif problem.startswith(_DISTURBED) and not one_at_a_time:
                one_at_a_time = True  # with several answers, it is unknown which scheduler wrote into the pipe
            elif problem:  # the next scheduler is the cause; a new worker imports the later ones
                entry, overrides = remaining.pop(0)
                infos.append(SchedulerInfo(entry, overrides=overrides, error=problem))
                one_at_a_time = False
    finally:
        watchdog.close()
    return infos


def _ask(
    requests: Sequence[tuple[Entry, Mapping[str, str]]], watchdog: Watchdog, import_limit_s: float
) -> tuple[list[SchedulerInfo], str]:
    """Import the schedulers in turn in one worker.

    Return their descriptions. If the next scheduler has none, return the reason as well, otherwise an empty text.
    """
    worker = Worker(main, watchdog)
    infos: list[SchedulerInfo] = []
    problem = ""
    try:
        worker.order([(entry, dict(overrides)) for entry, overrides in requests])
        deadline = monotonic() + import_limit_s
        while len(infos) < len(requests):
            died = worker.sentinel in wait([worker.sentinel, *worker.readable], max(0.0, deadline - monotonic()))
            try:
                messages = _messages_of(worker)
                new_infos = [
                    _info(*request, answer) for request, answer in zip(requests[len(infos) :], messages, strict=False)
                ]
            except _ImpossibleAnswerError as error:
                problem = f"{_DISTURBED}: {error}"
                break
            infos += new_infos
            if new_infos:
                deadline = monotonic() + import_limit_s
            elif died and worker.lost:
                problem = _LOST
                break
            elif died or worker.silent:
                problem = f"importing it ended the process: {worker.log_tail.strip()[-500:] or 'without output'}"
                break
            elif monotonic() >= deadline:
                problem = f"importing it takes more than {import_limit_s:g} s"
                break
    finally:
        worker.end()
    return infos, problem


def _messages_of(worker: Worker) -> list[Message]:
    try:
        return worker.messages()
    except InputError as error:
        raise _ImpossibleAnswerError(error.problem) from None


def _info(entry: Entry, overrides: Mapping[str, str], answer: Message) -> SchedulerInfo:
    """Return the description of a scheduler from the worker's answer.

    The answer is untrusted: an imported module runs code, which can write into the worker's pipe.
    """
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
    raise misuse  # not inside ``try``, where it would become an _ImpossibleAnswerError


def _misuse(refusal: InputError) -> Message:
    """Return the answer about a scheduler that the user named or set wrongly."""
    where = refusal.where
    place = [where.field, where.suffix] if isinstance(where, FieldName) else where
    return {"type": "misuse", "where": place, "problem": refusal.problem}


def _place(data: object) -> str:
    """Return the place that ``_misuse`` sent."""
    return FieldName(*map(str, data)) if isinstance(data, list) else str(data)


def main(inbox: Connection, outbox: Connection, log: Connection) -> None:
    """Run the worker process: import the schedulers one after the other, and describe each of them."""
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
    """Import a scheduler and return the answer about it: ``description``, ``broken`` or ``misuse``."""
    if entry.problem:
        return {"type": "broken", "error": entry.problem}
    try:
        try:
            scheduler = registry.load(entry.target, entry.version)
        except InputError as refusal:
            if entry.distribution == registry.FILE:  # the command line names the class
                return _misuse(refusal)
            raise
        instance, error = None, ""
        try:
            instance = instantiate(scheduler, overrides, entry.name)
        except InputError as refusal:
            if overrides:
                return _misuse(refusal)
            error = str(refusal)  # a required parameter is missing; the scheduler is listed nevertheless
        return {
            "type": "description",
            "objectives": sorted(Objective(objective).value for objective in scheduler.objectives),
            "partitions": sorted(Partition(partition).value for partition in partitions(scheduler)),
            "parameters": [asdict(parameter) for parameter in describe_parameters(scheduler, instance)],
            "class_name": str(scheduler.name),
            "own_model": has_own_model(scheduler),
            "work_unit": work_unit(scheduler),
            "doc": " ".join(cleandoc(scheduler.__doc__ or "").partition("\n\n")[0].split()),
            "error": error,
        }
    except BaseException as failure:  # noqa: BLE001 - an exception in a plugin's module affects only that plugin
        return {"type": "broken", "error": " ".join(f"{type(failure).__name__}: {failure}".split())}
