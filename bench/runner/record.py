"""Record of one run, made from the worker's messages and from the end of its process."""

import math
import signal
from dataclasses import dataclass, field

from bench.api import Bound, Proof, Status
from bench.ledger.row import JsonObject, Termination
from bench.runner.failures import exit_in_words, mentions_refused_memory
from bench.runner.messages import Message
from bench.scenarios import Tally
from bench.task import Task
from bench.then import Then
from instances import InputError

TRAJECTORY_POINTS = 50
"""Largest number of reported plans that are judged and stored per run; also that of reported bounds."""

_MAX_REPORTS = 16 * TRAJECTORY_POINTS
"""Largest number of reports in memory before every second one is dropped."""

_MAX_BYTES = 64 * 2**20
"""Size of the plans in memory above which only ``TRAJECTORY_POINTS`` reports stay."""

TIME_ALLOWANCE_S, TIME_ALLOWANCE_S_PER_BYTE = 0.25, 1e-6
"""Longest plausible time from the worker's reading of its clock to its sending of the message: fixed, and per byte."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """Report of a plan, a bound or both, ``t_s`` seconds after the clock started.

    The plan is a JSON text, which is parsed only if the plan is judged.
    """

    t_s: float
    plan_text: bytes | None
    bound: Bound | None


class _ReportSample:
    """Sample of reports, thinned as they arrive to limit memory; the last report always belongs to the sample."""

    def __init__(self) -> None:
        self._reports: list[Incumbent] = []
        self._bytes = 0
        self._stride = 1
        self._count = 0
        self._last: Incumbent | None = None

    def add(self, incumbent: Incumbent) -> None:
        if self._count % self._stride == 0:
            self._reports.append(incumbent)
            self._bytes += len(incumbent.plan_text or b"")
        self._count += 1
        self._last = incumbent
        while len(self._reports) > (_MAX_REPORTS if self._bytes <= _MAX_BYTES else TRAJECTORY_POINTS):
            self._reports = self._reports[::2]
            self._bytes = sum(len(report.plan_text or b"") for report in self._reports)
            self._stride *= 2

    def thinned(self) -> list[Incumbent]:
        """Return at most ``TRAJECTORY_POINTS`` reports at even distances, with the first and the last."""
        reports = self._reports
        if self._last is not None and reports[-1] is not self._last:
            reports = [*reports, self._last]
        if len(reports) <= TRAJECTORY_POINTS:
            return reports
        step = (len(reports) - 1) / (TRAJECTORY_POINTS - 1)
        return [reports[round(point * step)] for point in range(TRAJECTORY_POINTS)]


@dataclass
class RunRecord:
    """Current state of one run.

    Attributes
    ----------
    grace_s
        Time after the limit in which results still count. Then the run is killed.
    phase
        Last known phase of the worker.
    clock_started
        Start of the run's clock, as a time of the monotonic clock; ``None`` before. Every chunk of a scenario set
        starts the clock again.
    plan_text
        Final plan as a JSON text, which the scorer reads; ``None`` without one.
    tally
        Counts of the scenarios of a set so far.
    pausing
        Whether a chunk has arrived and the next chunk is not ordered yet.
    limited_by
        Mechanism of the memory limit: ``control group`` or ``address space``.
    roomier_text
        Plan of the second objective as a JSON text, or ``None``.
    slack_bound
        Slack that no plan of the same cost exceeds, according to the worker.
    then_started, then_s
        Start of the phase of the second objective on the monotonic clock, and its seconds; ``None`` without one.
    unread_since
        Time on the monotonic clock after which the worker wrote all messages that the bench has not read yet.
    """

    task: Task
    grace_s: float
    tally: Tally | None = None
    phase: str = "starting"
    pausing: bool = False
    limited_by: str = "address space"
    unread_since: float = -math.inf
    clock_started: float | None = None
    import_s: float | None = None
    warm_s: float | None = None
    decision_s: float | None = None
    wall_s: float = 0.0
    peak_memory_mb: float | None = None
    termination: Termination | None = None
    reason: str = ""
    status: Status = Status.UNKNOWN
    plan_text: bytes | str | None = None
    bound: Bound | None = None
    duals: Proof | None = None
    roomier_text: bytes | str | None = None
    slack_bound: float | None = None
    then_started: float | None = None
    then_s: float | None = None
    statistics: JsonObject = field(default_factory=dict)
    log_tail: str = ""
    _last_reported: Incumbent | None = None
    _false_claim: str = ""
    _plans: _ReportSample = field(default_factory=_ReportSample)
    _bounds: _ReportSample = field(default_factory=_ReportSample)

    @property
    def ended(self) -> bool:
        """Whether the termination of the run is known, and no phase of a second objective follows."""
        return self.termination is not None and not self.improving

    @property
    def improving(self) -> bool:
        """Whether the run has its decision, and its worker seeks plans of the second objective."""
        return self.then_started is not None and self.then_s is None

    def take(self, message: Message, now: float) -> Incumbent | None:
        """Process a message that had arrived at ``now``; return the reported plan or bound, if any.

        Raises
        ------
        InputError
            If the worker may not send this message now.
        """
        if self.ended:
            return None
        self.peak_memory_mb = max(self.peak_memory_mb or 0.0, message["peak_memory_mb"])
        if self.improving:
            self._improve(message, now)
            return None
        match message["type"]:
            case "phase":
                self.phase = message["phase"]
            case "clock":
                if self.clock_started is not None:
                    raise InputError("worker", "started its clock twice")
                self.phase = "scheduling"
                self.clock_started = self._start(message["at"], now)
                self.import_s, self.warm_s = message["import_s"], message["warm_s"]
            case "ended" if message["decision_s"] is None and self.clock_started is None:
                self.end(Termination(message["termination"]), message["reason"])
            case "report" | "chunk" | "done" | "ended":
                t_s = self._time(message, now)
                if t_s > self.task.time_limit_s + self.grace_s:
                    # The worker sent the message after the kill time; the bench was too busy to kill the run.
                    self.end_at_limit(t_s)
                elif message["type"] == "report":
                    return self._report(Incumbent(t_s, message["plan"], message["bound"]))
                elif message["type"] == "chunk":
                    self._chunk(message, t_s)
                elif message["type"] == "done":
                    self._done(message, t_s)
                    if self.task.then is not Then.NONE and message["plan"] is not None:
                        self.then_started = now
                else:
                    self.decision_s = t_s
                    self.end(Termination(message["termination"]), message["reason"])
        return None

    def _start(self, claimed: float, now: float) -> float:
        """Return the start of the clock: ``claimed`` or, if that is impossible, ``now``."""
        if self.unread_since - TIME_ALLOWANCE_S <= claimed <= now:
            return claimed
        self._false_claim = "the scheduler's clock did not start when its worker claimed"
        return now

    def _time(self, message: Message, now: float) -> float:
        """Return the time of a message since the start of the clock.

        A scheduler can falsify the time that its worker claims. If the claim lies in the future, or the worker cannot
        have sent the message at that time, the time of arrival counts.
        """
        if self.clock_started is None:
            raise InputError("worker", "sent a result before it started its clock")
        time_field = {"report": "t_s", "chunk": "elapsed_s"}.get(message["type"], "decision_s")
        claimed = message[time_field]
        observed_s = now - self.clock_started
        allowance_s = TIME_ALLOWANCE_S + TIME_ALLOWANCE_S_PER_BYTE * message.get("size_bytes", 0)
        if claimed is not None and self.unread_since - self.clock_started - allowance_s <= claimed <= observed_s + 1e-6:
            return float(claimed)
        self._note_false_claim(claimed, observed_s)
        return observed_s

    def _note_false_claim(self, claimed: float | None, observed_s: float) -> None:
        """Note a false claim about time, for the reason of the run."""
        claim = "no time" if claimed is None else f"{claimed:.3g} s"
        self._false_claim = (
            f"the scheduler's worker claimed {claim} where the bench saw {observed_s:.3g} s, which counts"
        )

    def _chunk(self, message: Message, elapsed_s: float) -> None:
        """Check the numbers and times of a chunk, and pause the run until the chunk is judged."""
        times = message["decision_s"]
        undecided = 0 if self.tally is None or self.pausing else len(self.tally.scenarios) - self.tally.decided
        if not 0 < len(message["plans"]) == len(times) <= undecided:
            raise InputError("worker", "sent a chunk with an impossible number of plans or times")
        # The worker spends the rest of the time on making the scenarios and writing their plans.
        if not elapsed_s / 2 - TIME_ALLOWANCE_S * len(times) <= math.fsum(times) <= elapsed_s + 1e-6:
            self._note_false_claim(math.fsum(times), elapsed_s)
            message["decision_s"] = [elapsed_s / len(times)] * len(times)
        self.phase, self.pausing = "waiting for the judge", True

    def resume_after_chunk(self, tally: Tally) -> None:
        """Record that a chunk is judged. The last chunk ends the run with a status for all scenarios."""
        if tally.decided == len(tally.scenarios) and not self.ended:
            self.end(Termination.FINISHED, "", Status.FEASIBLE if tally.all_accepted else Status.UNKNOWN)
        self.phase, self.pausing, self.clock_started = "starting a chunk", False, None

    def _report(self, incumbent: Incumbent) -> Incumbent:
        if incumbent.plan_text is not None:
            self._last_reported = incumbent
            self._plans.add(incumbent)
        else:
            self._bounds.add(incumbent)
        self.bound = incumbent.bound or self.bound
        return incumbent

    def _done(self, message: Message, decision_s: float) -> None:
        self.decision_s = decision_s
        self.statistics = message["statistics"]
        self.bound = message["bound"] or self.bound
        self.duals = message.get("duals")
        self.plan_text = message["plan"]
        if message["status"] == Status.INFEASIBLE:
            self._last_reported = None  # an infeasible instance has no plan, even if one was reported before
        self.end(Termination.FINISHED, message["reason"], Status(message["status"]))

    def _improve(self, message: Message, now: float) -> None:
        """Process a message of the second objective; ignore others, which are late reports of a scheduler's thread."""
        if message["type"] == "slack":
            self.roomier_text = message["plan"] or self.roomier_text
            self.slack_bound = self.slack_bound if message["slack_bound"] is None else message["slack_bound"]
            if message["ended"]:
                self.end_improving(now)

    def end_improving(self, now: float) -> None:
        """Record that the phase of the second objective is over; the decision stays as it is."""
        assert self.then_started is not None
        self.then_s = now - self.then_started

    def end(self, termination: Termination, reason: str, status: Status | None = None) -> None:
        """Record how the run ended. A run without a final plan gets its last reported plan."""
        if termination is Termination.INVALID_PLAN:
            self.plan_text = self._last_reported = None  # no earlier plan replaces the refused one
        if self.plan_text is None and self._last_reported is not None:
            self.plan_text, self._last_reported = self._last_reported.plan_text, None
        if self._false_claim not in reason:
            reason = f"{reason}; {self._false_claim}" if reason else self._false_claim
        self.termination = termination
        self.reason = reason.encode(errors="replace").decode()  # lone surrogates cannot be stored
        self.status = status or (Status.FEASIBLE if self.plan_text is not None else Status.UNKNOWN)

    def end_at_limit(self, elapsed_s: float) -> None:
        """Record that the run was killed ``elapsed_s`` seconds after its clock started."""
        self.decision_s = elapsed_s
        self.end(Termination.WALL_LIMIT, f"killed {elapsed_s:.2f} s into a time limit of {self.task.time_limit_s:g} s")

    def end_in_startup(self, limit_s: float) -> None:
        """Record that the run was killed before its clock started."""
        self.end(Termination.WALL_LIMIT, f"start-up took more than {limit_s:g} s ({self.phase})")

    def end_by_itself(
        self, exit_code: int | None, log_tail: str, elapsed_s: float | None, out_of_memory: bool = False
    ) -> None:
        """Record that the process died without a last message.

        Under a memory limit, the limit is the cause if the kernel reports it (``out_of_memory``) or the log has a
        message about refused memory, which an aborting allocator prints.
        """
        self.decision_s = elapsed_s
        limit_mb = self.task.memory_limit_mb
        end_text = "closed its connection to the bench" if exit_code is None else exit_in_words(exit_code)
        log_mentions_memory = exit_code != -signal.SIGKILL and mentions_refused_memory(log_tail)
        if limit_mb is not None and (log_mentions_memory or out_of_memory):
            self.end(Termination.MEMORY_LIMIT, f"limit {limit_mb:g} MiB: {end_text} while {self.phase}")
            return
        hint = ""
        if exit_code == -signal.SIGKILL:
            hint = "; not killed by the bench; the host may have run out of memory"
        elif limit_mb is not None:
            hint = f"; the memory limit of {limit_mb:g} MiB may be the cause"
        self.end(Termination.CRASHED, f"{end_text} while {self.phase}{hint}")

    def trajectory(self) -> list[Incumbent]:
        """Return the reports in order of time; many reports are thinned evenly."""
        reports = [*self._plans.thinned(), *self._bounds.thinned()]
        return sorted(reports, key=lambda incumbent: incumbent.t_s)
