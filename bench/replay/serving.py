"""Driver of a replay: it starts the workers and the load generator, and switches to a second plan if one is given."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import inf
from typing import Self

from bench.replay.backends import Backend, WorkerSpec
from bench.replay.gpus import GpuSensor, Sampler
from bench.replay.process import Child, Clock, Message, Supervisor
from bench.replay.recording import Failure, Recording, SharedRequests, SlotPlace, draw
from bench.replay.serving_plan import Executor, ServingPlan
from bench.replay.settings import ReplaySettings
from bench.runner.failures import exit_in_words
from bench.runner.interruption import ended_in_order
from bench.runner.worker_process import enlarge_pipe
from bench.simulation.routing import TURNS
from instances import InputError
from instances.errors import FieldName

START_LIMIT_S = 300.0
"""Time limit for all workers of a plan to load their models and warm up."""

DRAIN_LIMIT_S = 10.0
"""Time limit after the last request; requests not served by then count as unfinished."""

_HEAD_START_S = 0.3
"""Time from the setting of the clock to its zero; workers and generator get ready in this time."""

_LISTEN_S = 0.05
"""Longest wait for messages before the driver looks at its conditions again."""

_SAMPLE_PERIOD_S = 0.1
"""Time between two samples of a GPU's state."""


class ReplayFailedError(Exception):
    """Failure that ends a replay, such as a first plan that cannot be served."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay.

    Attributes
    ----------
    half, graphs
        Whether models run in half precision; whether batches run as CUDA graphs.
    switch_at_s
        Measured second at which the switch to the second plan begins.
    """

    half: bool = False
    graphs: bool = False
    switch_at_s: float | None = None


def replay(
    plans: Sequence[ServingPlan],
    backend: Backend,
    settings: ReplaySettings,
    options: ReplayOptions | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Recording:
    """Replay a plan and, if given, a second plan that replaces it; end all started processes, also after an error.

    Parameters
    ----------
    plans
        One or two serving plans.
    say
        Receiver of progress messages.

    Raises
    ------
    InputError
        If the host lacks something, or the two serving plans have different workloads or SLOs.
    ReplayFailedError
        If a worker of the first plan does not get ready, or the load generator fails.
    """
    options = options or ReplayOptions()
    _check(plans, settings, options)
    backend.check(plans)
    started = time.monotonic()
    shared = SharedRequests.in_new_file(draw(plans, settings, options.switch_at_s))
    try:
        with ExitStack() as stack:
            stack.enter_context(ended_in_order())
            variables = stack.enter_context(backend.running())
            run = stack.enter_context(_ReplayProcesses(plans, backend, settings, options, shared, variables, say))
            run.serve_all()
    finally:
        os.close(shared.descriptor)
    recording = run.recording
    recording.requests = shared.requests.copy()
    recording.wall_s = time.monotonic() - started
    return recording


def _check(plans: Sequence[ServingPlan], settings: ReplaySettings, options: ReplayOptions) -> None:
    """Refuse a replay without PyTorch, and a second plan that does not fit the first plan or the settings."""
    if find_spec("torch") is None:
        raise InputError("replay", 'needs PyTorch: pip install "gpushare-bench[replay]", or use `backend` sim')
    if len(plans) == 1 and options.switch_at_s is not None:
        raise InputError(FieldName("switch_at_s"), "needs a second plan; give it with `then`")
    if len(plans) > 1:
        first, second = ([(workload.id, workload.slo_ms) for workload in plan.workloads] for plan in plans)
        if first != second:
            raise InputError(FieldName("then"), "its instance has other workloads or SLOs than that of the first plan")
        if options.switch_at_s is None or not 0.0 <= options.switch_at_s < settings.seconds:
            problem = f"expected a time from 0 to {settings.seconds:g} s, before the measurement ends"
            raise InputError(FieldName("switch_at_s"), problem)


class _ReplayProcesses:
    """Processes of a replay: the load generator and the workers, which all have the environment ``variables``."""

    def __init__(
        self,
        plans: Sequence[ServingPlan],
        backend: Backend,
        settings: ReplaySettings,
        options: ReplayOptions,
        shared: SharedRequests,
        variables: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        self._backend, self._options, self._shared = backend, options, shared
        self._variables, self._say = variables, say
        self._executors = [
            (plan_number, executor) for plan_number, plan in enumerate(plans) for executor in plan.executors
        ]
        places = [
            SlotPlace(plan_number, executor, slot)
            for plan_number, executor in self._executors
            for slot in executor.slots
        ]
        self.recording = Recording(plans, settings, places, shared.requests)
        self._supervisor = Supervisor()
        self._workers: dict[Child, dict[int, Message]] = {}  # merged messages of each executor
        self._generator: Child | None = None
        self._generator_ready = False
        # Pipes to the executors, by number: workers read the inboxes, and the generator writes to the outboxes.
        self._inboxes: dict[int, int] = {}
        self._outboxes: dict[int, int] = {}
        cores = sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []
        self._generator_cores, self._worker_cores = cores[:1], cores[1:] or cores
        self._clock = Clock(0)

    def __enter__(self) -> Self:
        for number in range(len(self._executors)):
            self._inboxes[number], self._outboxes[number] = os.pipe()
            enlarge_pipe(self._outboxes[number])
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.end(self._supervisor.children)
        for descriptor in (*self._inboxes.values(), *self._outboxes.values()):
            os.close(descriptor)

    def serve_all(self) -> None:
        """Serve all requests."""
        recording, options, settings = self.recording, self._options, self.recording.settings
        self._start_generator()
        if not self._wait_until(lambda: self._generator_ready, START_LIMIT_S):
            raise ReplayFailedError(f"the load generator was not ready after {START_LIMIT_S:g} s")
        if not self._prepare(0):
            failure = recording.failures[0]
            raise ReplayFailedError(f"{_executor_name(recording.plans[0], failure.executor)}: {failure.reason}")
        self._say(f"serving {settings.warmup_s + settings.seconds:g} s")
        self._clock = Clock(time.monotonic_ns() + int(_HEAD_START_S * 1e9))
        self._serve(0)
        assert self._generator is not None
        self._generator.channel.say(zero_ns=self._clock.zero_ns)
        with ExitStack() as stack:
            samplers = self._sample_gpus(stack)
            if len(recording.plans) > 1:
                self._switch()
            self._wait_until(lambda: self._generator is None)
        begin_s = self._clock.zero_ns / 1e9 + settings.warmup_s
        recording.gpus = {
            gpu: sampler.between(begin_s, begin_s + settings.seconds) for gpu, sampler in samplers.items()
        }
        self._wait_until(lambda: not self._workers, DRAIN_LIMIT_S)
        for worker in self._workers:
            self._fail(worker, f"still busy {DRAIN_LIMIT_S:g} s after the last request")
        if options.switch_at_s is not None and recording.switched_ms is None:
            self._say("the second plan was not ready before the end")

    def _switch(self) -> None:
        """Prepare the workers of the second plan while the first plan serves, switch, and let the first workers end.

        InSS (Sec. 5.5) and gpulet (Sec. 4.6) call the workers of the second plan shadow processes.
        """
        recording = self.recording
        assert self._options.switch_at_s is not None
        at_ms = 1000.0 * (recording.settings.warmup_s + self._options.switch_at_s)
        self._wait_until(lambda: self._clock() >= at_ms or self._generator is None)
        recording.began_ms = self._clock()
        if not self._prepare(1):
            return
        if self._generator is None:
            self._dismiss(1)
            return
        self._serve(1)
        self._shared.plan = 1
        recording.switched_ms = self._clock()
        self._say(f"the second plan took over after {(recording.switched_ms - recording.began_ms) / 1000.0:.1f} s")
        self._wait_until(lambda: not self._workers_of(0) or self._generator is None)
        self._wait_until(lambda: not self._workers_of(0), DRAIN_LIMIT_S)
        recording.drained_ms = self._clock()

    def _start_generator(self) -> None:
        """Start the load generator with the pipes, slots and routing of all plans."""
        places = list(enumerate(self.recording.places))
        order = {
            "requests": self._shared.descriptor,
            "cores": self._generator_cores,
            "inboxes": [
                [
                    (number, descriptor)
                    for number, descriptor in self._outboxes.items()
                    if self._executors[number][0] == plan_number
                ]
                for plan_number in range(len(self.recording.plans))
            ],
            "places": [
                (number, position)
                for number, (_, executor) in enumerate(self._executors)
                for position in range(len(executor.slots))
            ],
            "slots": [
                [
                    (number, place.slot.workload, place.slot.rate_rps)
                    for number, place in places
                    if place.plan == plan_number
                ]
                for plan_number in range(len(self.recording.plans))
            ],
            "routing_seeds": [
                self.recording.settings.seed if plan.random_routing else TURNS for plan in self.recording.plans
            ],
        }
        descriptors = (self._shared.descriptor, *self._outboxes.values())
        self._generator = self._supervisor.start("bench.replay.generator", order, descriptors, {})
        # The generator has the only open copies now; workers read the end of their requests when it closes them.
        while self._outboxes:
            os.close(self._outboxes.popitem()[1])

    def _prepare(self, plan_number: int) -> bool:
        """Start, warm up and time the workers of a serving plan; return whether all of them succeed."""
        plan = self.recording.plans[plan_number]
        first_executor = sum(len(earlier.executors) for earlier in self.recording.plans[:plan_number])
        specs = self._backend.worker_specs(plan)
        self._say(f"starting {len(specs)} workers")
        new_workers = [self._start_worker(spec, first_executor) for spec in specs]
        self._wait_for(new_workers, "ready", True)
        for position in range(max(len(executor.slots) for executor in plan.executors)):
            # As during serving, all gpulets run at once, and the slots of a gpulet run one after the other.
            for worker in self._workers_of(plan_number):
                worker.channel.say(measure=position)
            self._wait_for(new_workers, "measured", position)
        if any(failure.plan == plan_number for failure in self.recording.failures):
            self._dismiss(plan_number)
            return False
        return True

    def _workers_of(self, plan_number: int) -> list[Child]:
        """Return the live workers of a serving plan."""
        return [
            worker
            for worker, received in self._workers.items()
            if self._executors[next(iter(received))][0] == plan_number
        ]

    def _dismiss(self, plan_number: int) -> None:
        """End the workers of a serving plan that serves no requests."""
        workers = self._workers_of(plan_number)
        for worker in workers:
            del self._workers[worker]
        self._supervisor.end(workers, 0.0)

    def _start_worker(self, spec: WorkerSpec, first_executor: int) -> Child:
        """Start a worker of the serving plan whose first executor has the number ``first_executor``."""
        numbers = [first_executor + executor for executor in spec.executors]
        order = {
            "device": self._backend.device,
            "half": self._options.half,
            "graphs": self._options.graphs,
            "dropping": self.recording.settings.dropping,
            "requests": self._shared.descriptor,
            "cores": self._worker_cores,
            "executors": [
                {
                    "number": number,
                    "inbox": self._inboxes[number],
                    "share_pct": self._executors[number][1].share_pct,
                    "slots": [asdict(slot) for slot in self._executors[number][1].slots],
                }
                for number in numbers
            ],
        }
        descriptors = (self._shared.descriptor, *(self._inboxes[number] for number in numbers))
        environment = {**self._variables, **spec.environment}
        worker = self._supervisor.start("bench.replay.worker", order, descriptors, environment)
        self._workers[worker] = {number: {} for number in numbers}
        for number in numbers:
            os.close(self._inboxes.pop(number))
        return worker

    def _serve(self, plan_number: int) -> None:
        """Start serving with the workers of a serving plan, and wait until all of them serve."""
        workers = self._workers_of(plan_number)
        received = {number: message for worker in workers for number, message in self._workers[worker].items()}
        for worker in workers:
            worker.channel.say(zero_ns=self._clock.zero_ns)
        self._wait_for(workers, "serving", None)
        slots = iter(range(len(self.recording.places)))
        for number, (_, executor) in enumerate(self._executors):
            slots_of_executor = [next(slots) for _ in executor.slots]
            times_ms = received.get(number, {}).get("serving", ())
            self.recording.times_ms.update(
                {slot: tuple(pair) for slot, pair in zip(slots_of_executor, times_ms, strict=False)}
            )

    def _wait_for(self, workers: Sequence[Child], kind: str, value: object) -> None:
        """Wait until all executors of the live ``workers`` failed or sent ``kind`` with ``value`` (any if ``None``)."""

        def has_sent(worker: Child) -> bool:
            return worker not in self._workers or all(
                "failed" in message or (kind in message and value in (None, message[kind]))
                for message in self._workers[worker].values()
            )

        if not self._wait_until(lambda: all(map(has_sent, workers)), START_LIMIT_S):
            for worker in workers:
                if not has_sent(worker):
                    self._fail(worker, f"was not ready after {START_LIMIT_S:g} s")

    def _wait_until(self, is_reached: Callable[[], bool], limit_s: float = inf) -> bool:
        """Handle messages until ``is_reached()`` is true or the time is up; return whether it became true."""
        deadline = time.monotonic() + limit_s
        while not is_reached():
            if time.monotonic() > deadline:
                return False
            for child, message in self._supervisor.received(_LISTEN_S):
                self._handle(child, message)
        return True

    def _handle(self, child: Child, message: Message | None) -> None:
        """Store a message, or handle the end of a process."""
        if message is None:
            code, last_line = self._supervisor.collect(child)
            if child is self._generator:
                self._generator = None
                if code != 0:
                    raise ReplayFailedError(f"the load generator {exit_in_words(code)}: {last_line}")
            else:
                self._fail(child, f"its worker {exit_in_words(code)}{': ' if last_line else ''}{last_line}")
                del self._workers[child]
        elif child is self._generator:
            self._generator_ready = True
        elif child in self._workers:
            number = message["executor"]
            self._workers[child][number].update(message)
            if "failed" in message:
                self._add_failure(number, message["failed"])

    def _fail(self, worker: Child, reason: str) -> None:
        """Store a failure for each executor of a worker that is neither done nor already failed."""
        for number, received in self._workers[worker].items():
            if not {"done", "failed"} & received.keys():
                received["failed"] = reason
                self._add_failure(number, reason)

    def _add_failure(self, number: int, reason: str) -> None:
        plan_number, executor = self._executors[number]
        self.recording.failures.append(Failure(plan_number, executor, reason))
        self._say(f"{_executor_name(self.recording.plans[plan_number], executor)}: {reason}")

    def _sample_gpus(self, stack: ExitStack) -> dict[int, Sampler]:
        """Sample the state of the GPUs, if there are any, until ``stack`` is closed."""
        samplers = {}
        if self._backend.device != "cpu":
            for gpu in range(len(self.recording.plans[0].gpu_types)):
                if (sensor := GpuSensor.open(gpu)) is not None:
                    stack.callback(sensor.close)
                    samplers[gpu] = stack.enter_context(Sampler(sensor, _SAMPLE_PERIOD_S))
        return samplers


def _executor_name(plan: ServingPlan, executor: Executor) -> str:
    """Return the name of an executor in messages, such as ``GPU 0, gpulet 1 (w2)``."""
    ids = ", ".join(plan.workloads[slot.workload].id for slot in executor.slots)
    return f"GPU {executor.gpu}, gpulet {executor.gpulet} ({ids})"
