"""Worker process of a replay: it loads the models of its executors and serves their requests in batches."""

import os
import select
import threading
from collections.abc import Iterator
from math import inf
from queue import SimpleQueue
from typing import Any

from bench.replay.batching import ExecutorQueues, SlotQueue
from bench.replay.device import batch_ms, loader, use_one_thread
from bench.replay.generator import SENT
from bench.replay.nets import TINY
from bench.replay.process import Channel, Clock, Message, pin_to_cores, run_child
from bench.replay.recording import DROPPED, SERVED, SharedRequests
from bench.replay.serving_plan import ServedSlot

_READ_BYTES = 2**16
"""Bytes per read; a multiple of the message size, so that a read never splits a message."""


class ExecutorThread(threading.Thread):
    """Thread of one executor, which does all its work on the device.

    Parameters
    ----------
    order, position
        First message of the driver, and the position of this executor in its list ``executors``.
    driver_ended
        Descriptor that becomes readable when the driver ends.
    """

    def __init__(
        self, order: Message, position: int, shared: SharedRequests, channel: Channel, driver_ended: int
    ) -> None:
        super().__init__(name=f"executor {position}", daemon=True)
        executor = order["executors"][position]
        self._order, self._requests, self._channel, self._driver_ended = order, shared.requests, channel, driver_ended
        self._number, self._inbox, self._share_pct = executor["number"], executor["inbox"], executor["share_pct"]
        self._slots = [ServedSlot.from_json(slot) for slot in executor["slots"]]
        self.serving = threading.Event()
        self.commands: SimpleQueue[Message] = SimpleQueue()

    def run(self) -> None:
        """Load the models, then follow the driver's commands until serving ends."""
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - every error is reported to the driver
            self._say(failed=f"{type(error).__name__}: {error}".splitlines()[0])

    def _run(self) -> None:
        """Load the models, time their batches when the driver orders it, and serve."""
        use_one_thread()
        with loader(self._order["device"], self._order["half"], self._order["graphs"], self._share_pct) as load:
            on_cpu = self._order["device"] == "cpu"
            nets = [load(TINY if on_cpu else slot.model, range(1, slot.batch + 1)) for slot in self._slots]
            for net, slot in zip(nets, self._slots, strict=True):
                net.run(slot.batch)
            self._say(ready=True)
            times_ms = [(0.0, 0.0)] * len(nets)
            # All executors measure at once, slot by slot; one without such a slot only answers. Then the clock is set.
            while "zero_ns" not in (command := self.commands.get()):
                position = command["measure"]
                if position < len(nets):
                    net, batch = nets[position], self._slots[position].batch
                    times_ms[position] = batch_ms(net, 1), batch_ms(net, batch)
                self._say(measured=position)
            queues = [
                SlotQueue(slot.batch, slot.timeout_ms(full_ms), slot.slo_ms, single_ms, full_ms)
                for slot, (single_ms, full_ms) in zip(self._slots, times_ms, strict=True)
            ]
            self.serving.set()
            self._say(serving=[(queue.timeout_ms, queue.full_ms) for queue in queues])
            self._serve(ExecutorQueues(queues, self._order["dropping"]), nets, Clock(command["zero_ns"]))
            self._say(done=True)

    def _serve(self, queues: ExecutorQueues, nets: list[Any], clock: Clock) -> None:
        """Serve until the generator has closed the inbox and no request waits, or the driver has ended."""
        sources = [self._inbox, self._driver_ended]
        while True:
            ready_ms, slot = queues.next()
            wait_ms = ready_ms - clock()
            if self._inbox not in sources and wait_ms == inf:
                return
            patience_s = None if wait_ms == inf else max(0.0, wait_ms) / 1000.0
            readable, _, _ = select.select(sources, [], [], patience_s)
            if self._driver_ended in readable:
                return
            if readable:
                if not self._enqueue_new(queues, clock):
                    sources.remove(self._inbox)
            elif (now_ms := clock()) >= ready_ms:
                self._start(queues, slot, now_ms, nets, clock)

    def _enqueue_new(self, queues: ExecutorQueues, clock: Clock) -> bool:
        """Put the new requests into their queues; return whether more requests can arrive."""
        data = os.read(self._inbox, _READ_BYTES)
        now_ms = clock()
        due_ms, taken_ms = self._requests["due_ms"], self._requests["taken_ms"]
        for request, slot in SENT.iter_unpack(data):
            taken_ms[request] = now_ms
            queues.queues[slot].waiting.append((request, float(due_ms[request])))
        return bool(data)

    def _start(self, queues: ExecutorQueues, slot: int, now_ms: float, nets: list[Any], clock: Clock) -> None:
        """Drop the late requests of a slot, and run its next batch if one is ready."""
        batch, dropped = queues.take(slot, now_ms)
        requests = self._requests
        requests["outcome"][dropped] = DROPPED
        if not batch:
            return
        upload_ms, compute_ms = nets[slot].run(len(batch))
        requests["started_ms"][batch] = now_ms
        requests["upload_ms"][batch], requests["compute_ms"][batch] = upload_ms, compute_ms
        requests["size"][batch] = len(batch)
        requests["done_ms"][batch] = clock()
        requests["outcome"][batch] = SERVED

    def _say(self, **message: object) -> None:
        self._channel.say(executor=self._number, **message)


def main(channel: Channel, messages: Iterator[Message]) -> None:
    """Serve the requests of the executors in the first message until all are served or the driver has ended."""
    order = next(messages)
    pin_to_cores(order["cores"])
    shared = SharedRequests(order["requests"])
    driver_ended, pipe_writer = os.pipe()
    executors = [
        ExecutorThread(order, position, shared, channel, driver_ended) for position in range(len(order["executors"]))
    ]

    def listen() -> None:
        for message in messages:
            for executor in executors:
                executor.commands.put(message)
        os.close(pipe_writer)
        if not all(executor.serving.is_set() for executor in executors):
            os._exit(1)  # an executor that still loads or measures does not watch the pipe

    threading.Thread(target=listen, name="listener", daemon=True).start()
    for executor in executors:
        executor.start()
    for executor in executors:
        executor.join()


if __name__ == "__main__":
    run_child(main)
