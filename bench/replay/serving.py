"""Driver of a replay: it starts and times the workers, serves the requests, and switches to a second plan if asked."""

import fcntl
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Any

from bench.replay.backends import Backend, Crew
from bench.replay.nvml import Nvml, Sampler
from bench.replay.process import Child, ended_in_order
from bench.replay.recording import Failure, Recording, ReplayFailedError, ReplayOptions, SlotPlace
from bench.replay.requests import SharedRequests, draw
from bench.replay.serving_plan import Executor, Sheet
from bench.simulation.settings import Settings
from instances import InputError

START_LIMIT_S = 300.0
"""Time limit for all workers of a plan to load their models and warm up."""

DRAIN_LIMIT_S = 10.0
"""Time limit after the last request; requests not served by then count as unfinished."""

_HEAD_START_S = 0.3
_PATIENCE_S = 5.0
_PIPE_BYTES = 2**20
_SAMPLE_PERIOD_S = 0.1


def replay(
    sheets: Sequence[Sheet],
    backend: Backend,
    settings: Settings,
    options: ReplayOptions | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Recording:
    """Replay a plan and, if given, a second plan that replaces it; end all started processes in any case.

    Parameters
    ----------
    sheets
        One or two serving plans.
    backend
        Hardware, and how gpulets share it.
    settings
        Arrivals, seed, durations, and whether requests that already miss their SLO are dropped.
    options
        See ``ReplayOptions``.
    say
        Takes progress messages.

    Raises
    ------
    InputError
        If the host lacks something, or the two serving plans have different workloads or SLOs.
    ReplayFailedError
        If the first plan cannot be served at all.
    """
    options = options or ReplayOptions()
    _check(sheets, settings, options)
    backend.check(sheets)
    started = time.monotonic()
    shared = SharedRequests.holding(draw(sheets, settings, options.switch_at_s))
    try:
        with ExitStack() as stack:
            stack.enter_context(ended_in_order())
            variables = stack.enter_context(backend.running())
            stage = stack.enter_context(_Stage(sheets, backend, settings, options, shared, variables, say))
            stage.play()
    finally:
        os.close(shared.descriptor)
    course = stage.course
    course.requests = shared.requests.copy()
    course.wall_s = time.monotonic() - started
    return course


def _check(sheets: Sequence[Sheet], settings: Settings, options: ReplayOptions) -> None:
    if find_spec("torch") is None:
        raise InputError("replay", "needs PyTorch; install torch, or use --backend sim with a full installation")
    if len(sheets) == 1 and options.switch_at_s is not None:
        raise InputError("--switch-at", "needs a second plan; give it with --then")
    if len(sheets) > 1:
        first, second = ([(w.id, w.slo_ms) for w in sheet.workloads] for sheet in sheets)
        if first != second:
            raise InputError("--then", "its instance has other workloads or SLOs than that of the first plan")
        if options.switch_at_s is None or not 0.0 <= options.switch_at_s < settings.seconds:
            raise InputError("--switch-at", f"expected a time from 0 to {settings.seconds:g} s, the time measured")


class _Worker:
    """A worker and the messages of its executors so far, by kind of message."""

    def __init__(self, child: Child, executors: Sequence[int]) -> None:
        self.child, self.executors = child, executors
        self.said: dict[int, dict[str, Any]] = {executor: {} for executor in executors}


class _Stage:
    """Processes of a replay: the load generator and the workers.

    Parameters
    ----------
    sheets, backend, settings, options, say
        See ``replay``.
    shared
        The requests.
    variables
        Environment variables of all workers.
    """

    def __init__(
        self,
        sheets: Sequence[Sheet],
        backend: Backend,
        settings: Settings,
        options: ReplayOptions,
        shared: SharedRequests,
        variables: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._backend, self._options, self._shared = backend, options, shared
        self._variables, self._say = variables, say
        self._executors = [(s, executor) for s, sheet in enumerate(sheets) for executor in sheet.executors]
        places = [SlotPlace(s, executor, serving) for s, executor in self._executors for serving in executor.slots]
        self.course = Recording(sheets, settings, places, shared.requests)
        self._workers: list[_Worker] = []
        self._generator: Child | None = None
        self._inboxes: dict[int, int] = {}
        self._outboxes: dict[int, int] = {}
        cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
        self._generator_cores, self._worker_cores = cores[:1], cores[1:] or cores
        self._zero_ns = 0

    def __enter__(self) -> "_Stage":
        for number in range(len(self._executors)):
            self._inboxes[number], self._outboxes[number] = os.pipe()
            if sys.platform == "linux":
                with suppress(OSError):  # the system limits the large pipes of a user
                    fcntl.fcntl(self._outboxes[number], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return self

    def __exit__(self, *_: object) -> None:
        children = [worker.child for worker in self._workers]
        if self._generator is not None:
            children.append(self._generator)
        for child in children:
            child.hang_up()
        deadline = time.monotonic() + _PATIENCE_S
        for child in children:
            child.end(max(0.0, deadline - time.monotonic()))
        for descriptor in (*self._inboxes.values(), *self._outboxes.values()):
            os.close(descriptor)

    def play(self) -> None:
        """Serve all requests."""
        course, options, settings = self.course, self._options, self.course.settings
        self._start_generator()
        if not self._ready(0):
            failure = course.failures[0]
            raise ReplayFailedError(f"{_named(course.sheets[0], failure.executor)}: {failure.reason}")
        self._say(f"serving {settings.warmup_s + settings.seconds:g} s")
        self._zero_ns = time.monotonic_ns() + int(_HEAD_START_S * 1e9)
        self._serve(0)
        assert self._generator is not None
        self._generator.channel.say(zero_ns=self._zero_ns)
        with ExitStack() as stack:
            samplers = self._watch_gpus(stack)
            if len(course.sheets) > 1:
                self._change()
            self._listen_until(lambda: self._generator is None)
        begin_s = self._zero_ns / 1e9 + settings.warmup_s
        course.gpus = {gpu: one.between(begin_s, begin_s + settings.seconds) for gpu, one in samplers.items()}
        self._listen_until(lambda: not self._workers, DRAIN_LIMIT_S)
        for worker in self._workers:
            self._fail(worker, f"still busy {DRAIN_LIMIT_S:g} s after the last request")
        if options.switch_at_s is not None and course.switched_ms is None:
            self._say("the second plan was not ready before the end")

    def _change(self) -> None:
        """Prepare the workers of the second plan while the first plan serves, switch, and let the first workers end.

        These are the shadow processes of InSS (Sec. 5.5) and gpulet (Sec. 4.6).
        """
        course = self.course
        assert self._options.switch_at_s is not None
        at_ms = 1000.0 * (course.settings.warmup_s + self._options.switch_at_s)
        self._listen_until(lambda: self._now_ms() >= at_ms or self._generator is None)
        course.began_ms = self._now_ms()
        if not self._ready(1):
            return
        if self._generator is None:
            self._dismiss(1)
            return
        self._serve(1)
        self._shared.sheet = 1
        course.switched_ms = self._now_ms()
        self._say(f"the second plan took over after {(course.switched_ms - course.began_ms) / 1000.0:.1f} s")
        self._listen_until(lambda: not self._of(0) or self._generator is None)
        self._listen_until(lambda: not self._of(0), DRAIN_LIMIT_S)
        course.drained_ms = self._now_ms()

    def _now_ms(self) -> float:
        return (time.monotonic_ns() - self._zero_ns) / 1e6

    def _start_generator(self) -> None:
        first = len(self.course.sheets[0].executors)
        numbers = (range(first), range(first, len(self._executors)))
        placed = [(n, at) for n, (_, executor) in enumerate(self._executors) for at in range(len(executor.slots))]
        routes: list[list[list[tuple[int, float]]]] = [[[] for _ in sheet.workloads] for sheet in self.course.sheets]
        for slot, place in enumerate(self.course.places):
            routes[place.sheet][place.serving.workload].append((slot, place.serving.rate_rps))
        order = {
            "requests": self._shared.descriptor,
            "cores": self._generator_cores,
            "inboxes": [[(n, self._outboxes[n]) for n in sheet] for sheet in numbers],
            "places": placed,
            "routes": routes,
        }
        descriptors = (self._shared.descriptor, *self._outboxes.values())
        self._generator = Child("bench.replay.generator", order, descriptors)
        # Workers see the end of their requests when the generator closes its copy.
        while self._outboxes:
            os.close(self._outboxes.popitem()[1])

    def _ready(self, s: int) -> bool:
        """Start, warm up and time the workers of a serving plan; return whether all of them succeed."""
        first = sum(len(sheet.executors) for sheet in self.course.sheets[:s])
        crews = self._backend.crews(self.course.sheets[s])
        self._say(f"starting {len(crews)} workers")
        new = [self._started(crew, first) for crew in crews]
        self._hear(new, "ready", True)
        for place in range(max(len(executor.slots) for executor in self.course.sheets[s].executors)):
            # As during serving, all gpulets run at once, and the slots of a gpulet run one after the other.
            for worker in self._of(s):
                worker.child.channel.say(measure=place)
            self._hear(new, "measured", place)
        if any(failure.sheet == s for failure in self.course.failures):
            self._dismiss(s)
            return False
        return True

    def _of(self, s: int) -> list[_Worker]:
        """Return the live workers of a serving plan."""
        return [worker for worker in self._workers if self._executors[worker.executors[0]][0] == s]

    def _dismiss(self, s: int) -> None:
        """End the workers of a serving plan that serves no requests."""
        for worker in self._of(s):
            self._workers.remove(worker)
            worker.child.end(0.0)

    def _started(self, crew: Crew, first: int) -> _Worker:
        numbers = [first + executor for executor in crew.executors]
        order = {
            "device": self._backend.device,
            "half": self._options.half,
            "graphs": self._options.graphs,
            "dropping": self.course.settings.dropping,
            "requests": self._shared.descriptor,
            "cores": self._worker_cores,
            "executors": [
                {
                    "number": number,
                    "inbox": self._inboxes[number],
                    "share_pct": self._executors[number][1].share_pct,
                    "slots": [serving.to_json() for serving in self._executors[number][1].slots],
                }
                for number in numbers
            ],
        }
        descriptors = (self._shared.descriptor, *(self._inboxes[number] for number in numbers))
        child = Child("bench.replay.worker", order, descriptors, {**self._variables, **crew.environment})
        worker = _Worker(child, numbers)
        self._workers.append(worker)
        for number in numbers:
            os.close(self._inboxes.pop(number))
        return worker

    def _serve(self, s: int) -> None:
        """Start serving with the workers of a serving plan, and wait until all of them serve."""
        mine = self._of(s)
        for worker in mine:
            worker.child.channel.say(zero_ns=self._zero_ns)
        self._hear(mine, "serving", None)
        slots = iter(range(len(self.course.places)))
        for number, (_, executor) in enumerate(self._executors):
            own = [next(slots) for _ in executor.slots]
            for worker in mine:
                times_ms = worker.said.get(number, {}).get("serving", ())
                self.course.times_ms.update({slot: tuple(pair) for slot, pair in zip(own, times_ms, strict=False)})

    def _hear(self, workers: Sequence[_Worker], kind: str, wanted: object) -> None:
        """Wait until every executor of the live ``workers`` has sent ``kind``, with the value ``wanted`` if given."""

        def said(worker: _Worker) -> bool:
            return all(
                "failed" in told or (kind in told and wanted in (None, told[kind])) for told in worker.said.values()
            )

        def heard() -> bool:
            return all(worker not in self._workers or said(worker) for worker in workers)

        if not self._listen_until(heard, START_LIMIT_S):
            for worker in workers:
                if worker in self._workers and not said(worker):
                    self._fail(worker, f"was not ready after {START_LIMIT_S:g} s")

    def _listen_until(self, reached: Callable[[], bool], limit_s: float | None = None) -> bool:
        """Read messages until ``reached`` holds or the time is up; return whether it holds."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        while not reached():
            if deadline is not None and time.monotonic() > deadline:
                return False
            self._listen()
        return True

    def _listen(self) -> None:
        """Read messages of all processes for a moment, and note processes that ended."""
        talking = {worker.child.channel: worker for worker in self._workers}
        generator = [] if self._generator is None else [self._generator.channel]
        readable, _, _ = select.select([*talking, *generator], [], [], 0.05)
        for channel in readable:
            messages = channel.read()
            worker = talking.get(channel)
            if worker is None:
                if messages is None:
                    self._generator_ended()
            elif messages is None:
                self._worker_ended(worker)
            else:
                for message in messages:
                    number = message["executor"]
                    worker.said[number].update(message)
                    if "failed" in message:
                        self._note(number, message["failed"])

    def _generator_ended(self) -> None:
        assert self._generator is not None
        generator, self._generator = self._generator, None
        said = generator.log_tail()
        if (code := generator.end(_PATIENCE_S)) != 0:
            raise ReplayFailedError(f"the load generator {_death(code)}: {said}")

    def _worker_ended(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        tail = worker.child.log_tail()
        code = worker.child.end(_PATIENCE_S)
        self._fail(worker, f"its worker {_death(code)}{': ' if tail else ''}{tail}")

    def _fail(self, worker: _Worker, reason: str) -> None:
        """Note a failure for each executor of a worker that is neither done nor already failed."""
        for number, said in worker.said.items():
            if not {"done", "failed"} & said.keys():
                said["failed"] = reason
                self._note(number, reason)

    def _note(self, number: int, reason: str) -> None:
        s, executor = self._executors[number]
        self.course.failures.append(Failure(s, executor, reason))
        self._say(f"{_named(self.course.sheets[s], executor)}: {reason}")

    def _watch_gpus(self, stack: ExitStack) -> dict[int, Sampler]:
        """Sample the state of the GPUs, if there are any, until ``stack`` is closed."""
        found = {}
        if self._backend.device != "cpu":
            for gpu in range(len(self.course.sheets[0].gpu_types)):
                if (nvml := Nvml.open(gpu)) is not None:
                    stack.callback(nvml.close)
                    found[gpu] = stack.enter_context(Sampler(nvml, _SAMPLE_PERIOD_S))
        return found


def _named(sheet: Sheet, executor: Executor) -> str:
    """Return the name of an executor in messages, such as ``GPU 0, gpulet 1 (w2)``."""
    ids = ", ".join(sheet.workloads[slot.workload].id for slot in executor.slots)
    return f"GPU {executor.gpu}, gpulet {executor.gpulet} ({ids})"


def _death(code: int) -> str:
    if code >= 0:
        return f"exited with status {code}"
    with suppress(ValueError):
        return f"died of {signal.Signals(-code).name}"
    return f"died of signal {-code}"
