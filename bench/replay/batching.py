"""Queues and batches of an executor in real time, by the rules of ``bench.simulation.engine``."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf


@dataclass(slots=True)
class SlotQueue:
    """Queue of the requests of one slot.

    Attributes
    ----------
    single_ms, full_ms
        Measured times of a batch of one request and of a full batch; times of other sizes are interpolated linearly.
    waiting
        Number and due time (ms) of each waiting request, the earliest first.
    """

    batch: int
    timeout_ms: float
    slo_ms: float
    single_ms: float
    full_ms: float
    waiting: deque[tuple[int, float]] = field(default_factory=deque)

    @property
    def ready_ms(self) -> float:
        """Time at which the next batch is full, or at which its oldest request has waited for the timeout."""
        if not self.waiting:
            return inf
        ready_ms = self.waiting[0][1] + self.timeout_ms
        if len(self.waiting) >= self.batch:
            ready_ms = min(ready_ms, self.waiting[self.batch - 1][1])
        return ready_ms

    def expected_ms(self, size: int) -> float:
        """Return the expected time of a batch of ``size``."""
        fraction = (size - 1) / (self.batch - 1) if self.batch > 1 else 1.0
        return self.single_ms + (self.full_ms - self.single_ms) * fraction


class ExecutorQueues:
    """Queues of the slots of one executor: the batch that is ready first starts first.

    With ``dropping``, a request is dropped if its batch starts too late for its SLO.
    """

    def __init__(self, queues: Sequence[SlotQueue], dropping: bool) -> None:
        self.queues, self._dropping = queues, dropping

    def next(self) -> tuple[float, int]:
        """Return the time at which the next batch is ready, and the slot of the batch; infinity if no request waits."""
        return min((queue.ready_ms, slot) for slot, queue in enumerate(self.queues))

    def take(self, slot: int, now_ms: float) -> tuple[list[int], list[int]]:
        """Return the requests of the slot's batch that starts now, and the dropped requests.

        The batch is empty if requests were dropped and another slot now comes first, or no batch is ready.
        """
        queue = self.queues[slot]
        waiting = queue.waiting
        dropped = []
        while (
            self._dropping
            and waiting
            and now_ms + queue.expected_ms(min(len(waiting), queue.batch)) > waiting[0][1] + queue.slo_ms
        ):
            dropped.append(waiting.popleft()[0])
        if dropped:
            ready_ms, first_slot = self.next()
            if ready_ms > now_ms or first_slot != slot:
                return [], dropped
        return [waiting.popleft()[0] for _ in range(min(len(waiting), queue.batch))], dropped
