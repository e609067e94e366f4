"""Worker process of the profile: it runs the batches of its tenants on a share of the device and reports the times."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from statistics import fmean, pstdev
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from bench.replay.device import batch_ms, loader
from bench.replay.gpus import GpuSensor
from bench.replay.light_profile.points import Tenant
from bench.replay.nets.building import example_input, initialised_net
from bench.replay.process import Channel, Message, run_child

COPIED_BYTES = 2**26
"""Size of the copy that measures the bandwidth to the device."""

MEASURED_COPIES = 5
"""Number of copies of ``COPIED_BYTES`` to the device; the fastest one counts."""

FIRST_LOOK_S = 0.05
"""Time for a first look at a tenant's batches, from which the length of a measurement follows."""


class TenantThread(threading.Thread):
    """Thread of a tenant: it loads its model, waits for the start, and runs batch after batch.

    ``messages`` has the thread's reports. ``turn`` takes begin, end and stop of the measurement, or ``None`` to end.
    """

    def __init__(self, order: Message, tenant: Tenant) -> None:
        super().__init__(name=str(tenant), daemon=True)
        self._order, self._tenant = order, tenant
        self.messages: SimpleQueue[Message] = SimpleQueue()
        self.turn: SimpleQueue[list[float] | None] = SimpleQueue()

    def run(self) -> None:
        """Report the time of a batch, run the measurement, and report the times of its batches."""
        order, tenant = self._order, self._tenant
        try:
            with loader(order["device"], order["half"], order["graphs"], tenant.share_pct) as load:
                net = load(tenant.model, (tenant.batch,))
                self.messages.put({"batch_ms": batch_ms(net, tenant.batch, FIRST_LOOK_S)})
                turn = self.turn.get()
                if turn is not None:
                    self.messages.put(self._batches(net, *turn))
                    if order["device"] != "cpu":
                        torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - every error is reported to the driver
            self.messages.put({"failed": f"{type(error).__name__}: {error}".splitlines()[0]})

    def _batches(self, net: Any, begin_s: float, end_s: float, stop_s: float) -> Message:
        """Run batches until ``stop_s``; return the times of the batches that begin from ``begin_s`` to ``end_s``.

        Batches after ``end_s`` are not measured, but keep the last batches of the other tenants co-located. If no batch
        begins in the interval, the result is the time of the last batch.
        """
        parts: list[tuple[float, float, float]] = []
        last_batch = None
        while (started_s := time.monotonic()) < stop_s or last_batch is None:
            upload_ms, gpu_ms = net.run(self._tenant.batch)
            last_batch = upload_ms, gpu_ms, 1000.0 * (time.monotonic() - started_s) - upload_ms - gpu_ms
            if begin_s <= started_s < end_s:
                parts.append(last_batch)
        parts = parts or [last_batch]
        mean_upload_ms, mean_gpu_ms, mean_feedback_ms = (fmean(column) for column in zip(*parts, strict=True))
        std_ms = pstdev([sum(part) for part in parts])
        return {
            "upload_ms": mean_upload_ms,
            "gpu_ms": mean_gpu_ms,
            "feedback_ms": mean_feedback_ms,
            "std_ms": std_ms,
            "batches": len(parts),
        }


def used_mib(device: str, context_mib: float) -> float:
    """Return the device memory of this process, or on a CPU its resident memory."""
    if device == "cpu":
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return context_mib + torch.cuda.memory_reserved() / 2**20


def device_description(device: str) -> Message:
    """Return PyTorch's description of the device and the bandwidth of a large copy to it."""
    source = torch.empty(COPIED_BYTES, dtype=torch.uint8, pin_memory=device != "cpu")
    target = torch.empty_like(source, device="cpu" if device == "cpu" else "cuda")
    copy_times_s = []
    for _ in range(MEASURED_COPIES):
        begin = time.perf_counter()
        target.copy_(source)
        copy_times_s.append(time.perf_counter() - begin)
    software = f"PyTorch {torch.__version__}"
    if device == "cpu":
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "CPU")
        units = os.cpu_count() or 1
        memory_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    else:
        properties = torch.cuda.get_device_properties(0)
        name, units = properties.name, properties.multi_processor_count // 2
        memory_mib = properties.total_memory / 2**20
        software += f", CUDA {torch.version.cuda}"
    return {
        "name": name,
        "software": software,
        "share_units": units,
        "memory_mib": memory_mib,
        "pcie_bytes_per_ms": COPIED_BYTES / (1000.0 * min(copy_times_s)),
    }


def facts(device: str, half: bool, model: str) -> Message:
    """Return the number of kernels of a batch of one, and the input and output bytes of a request."""
    with torch.device("cpu" if device == "cpu" else "cuda"), torch.inference_mode():
        net, request = initialised_net(model, half), example_input(model, 1, half)
        output_bytes = net(request).nbytes
        kernels = counted_kernels(net, request)
    return {"kernels": kernels, "input_bytes": request.nbytes, "output_bytes": output_bytes}


def counted_kernels(net: torch.nn.Module, request: torch.Tensor) -> int:
    """Return the number of kernels that one forward pass launches, or of operators if no kernels are visible."""
    if not request.is_cuda:
        return counted_operators(net, request)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        net(request)
        torch.cuda.synchronize()
    launched = [
        event for event in profiler.events() if event.device_type.name == "CUDA" and not event.name.startswith("Mem")
    ]
    return len(launched) or counted_operators(net, request)


def counted_operators(net: torch.nn.Module, request: torch.Tensor) -> int:
    """Return the number of operators in one forward pass; views do not count, because they do not compute."""

    class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
        count = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.count += not func.is_view
            return func(*args, **(kwargs or {}))

    with Counter() as counter:  # type: ignore[no-untyped-call]
        net(request)
    return counter.count


def main(channel: Channel, messages: Iterator[Message]) -> None:
    """Answer the driver's messages until it closes the channel."""
    order = next(messages)
    device = order["device"]
    torch.set_num_threads(order["threads"])
    context_mib = _context_mib(order["gpu"]) if device != "cpu" else 0.0
    for message in messages:
        try:
            if "tenants" in message:
                _run_together(channel, messages, order, [Tenant(*fields) for fields in message["tenants"]], context_mib)
            elif "facts" in message:
                channel.say(**facts(device, order["half"], message["facts"]))
            else:
                channel.say(**device_description(device))
        except Exception as error:  # noqa: BLE001 - every error is reported to the driver
            channel.say(failed=f"{type(error).__name__}: {error}".splitlines()[0])


def _run_together(
    channel: Channel, messages: Iterator[Message], order: Message, tenants: list[Tenant], context_mib: float
) -> None:
    """Load the tenants one after the other, then run them at the same time when the driver orders it."""
    threads = [TenantThread(order, tenant) for tenant in tenants]
    ready = []
    for thread in threads:
        thread.start()
        ready.append(thread.messages.get())
    memory_mib = used_mib(order["device"], context_mib) / len(threads)
    failed = next((report["failed"] for report in ready if "failed" in report), None)
    if failed is None:
        channel.say(ready=[{**report, "memory_mib": memory_mib} for report in ready])
        turn = next(messages, {}).get("turn")
    else:
        channel.say(failed=failed)
        turn = None
    for thread in threads:
        thread.turn.put(turn)
    if turn is not None:
        times = [thread.messages.get() for thread in threads]
        failed = next((times_of_tenant["failed"] for times_of_tenant in times if "failed" in times_of_tenant), None)
        channel.say(**({"failed": failed} if failed else {"times": times}))
    for thread in threads:
        thread.join()
    if order["device"] != "cpu":
        torch.cuda.empty_cache()


def _context_mib(gpu: int) -> float:
    """Create a context on the GPU and return its memory, or 0 if NVML is missing."""
    sensor = GpuSensor.open(gpu)
    before_mib = sensor.free_mib() if sensor else 0.0
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return max(0.0, before_mib - sensor.free_mib()) if sensor else 0.0


def run_once(model: str, batch: int, half: bool) -> None:
    """Run a batch between the profiler's start and stop; Nsight Compute profiles this function."""
    with torch.device("cuda"), torch.inference_mode():
        net, requests = initialised_net(model, half), example_input(model, batch, half)
        net(requests)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
        net(requests)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    run_child(main)
