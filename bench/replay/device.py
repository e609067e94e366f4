"""Nets on the device of an executor: a CPU core, a GPU, or a share of a GPU."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from typing import Any, Protocol

import torch
from torch import Tensor

from bench.replay.green import multiprocessors
from bench.replay.nets.building import build, example_input, initialised_net

_MIN_BATCHES, _MIN_TIMED_S = 5, 0.3
"""Smallest number of timed batches, and shortest time in seconds for which batches are timed."""

_LOADING = threading.Lock()
"""Lock for loading one net at a time; random numbers and synchronising fail while another thread captures a graph."""


class Net(Protocol):
    """A model with buffers for its batches."""

    def run(self, size: int) -> tuple[float, float]:
        """Serve a batch of ``size`` from buffer to buffer, and return its upload and computation time in ms.

        The remaining time of the batch is the download and the host's work.
        """


class CpuNet:
    """A model on the CPU, with all threads of the process."""

    def __init__(self, model: str, batch: int, half: bool) -> None:
        self._net = build(model, half)
        self._host = example_input(model, batch, half)
        self._input = torch.empty_like(self._host)
        self._results = _flat(self._net(self._host))

    def run(self, size: int) -> tuple[float, float]:
        """Serve a batch of ``size``."""
        begin = time.perf_counter()
        self._input[:size].copy_(self._host[:size])
        uploaded = time.perf_counter()
        outputs = _flat(self._net(self._input[:size]))
        computed = time.perf_counter()
        for result, output in zip(self._results, outputs, strict=True):
            result[:size].copy_(output)
        return 1000.0 * (uploaded - begin), 1000.0 * (computed - uploaded)


class CudaNet:
    """A model on a GPU; it runs batches of ``sizes`` on one stream, and its requests lie in pinned memory.

    With ``graphs``, batches are CUDA graphs: one for each power of two among ``sizes`` and one for the largest size.
    Other sizes run the next larger graph.
    """

    def __init__(self, model: str, sizes: Sequence[int], half: bool, graphs: bool, stream: torch.cuda.Stream) -> None:
        self._stream = stream
        with _LOADING:
            self._load(model, max(sizes), half)
            if graphs:
                self._capture([size for size in sizes if size.bit_count() == 1 or size == max(sizes)])
            else:
                for size in sizes:  # the first batch of a size loads its kernels
                    self.run(size)

    def _load(self, model: str, batch: int, half: bool) -> None:
        with torch.device("cuda"), torch.cuda.stream(self._stream):
            self._net = initialised_net(model, half)
            self._input = example_input(model, batch, half)
            self._outputs = _flat(self._net(self._input))
            self._stream.synchronize()
        self._host = self._input.cpu().pin_memory()
        self._results = [output.cpu().pin_memory() for output in self._outputs]
        event: Any = torch.cuda.Event  # has no type information
        self._events = [event(enable_timing=True, blocking=True) for _ in range(4)]
        self._graphs: dict[int, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}

    def _capture(self, sizes: list[int]) -> None:
        """Capture a graph for batches of each of ``sizes``, in ascending order."""
        for size in sizes:
            self.run(size)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                outputs = _flat(self._net(self._input[:size]))
            self._graphs[size] = graph, outputs

    def run(self, size: int) -> tuple[float, float]:
        """Serve a batch of ``size``."""
        begin, uploaded, computed, done = self._events
        graph_size = next((captured for captured in self._graphs if captured >= size), None)
        with torch.cuda.stream(self._stream):
            begin.record()
            self._input[:size].copy_(self._host[:size], non_blocking=True)
            uploaded.record()
            if graph_size is None:
                outputs = _flat(self._net(self._input[:size]))
            else:
                graph, outputs = self._graphs[graph_size]
                graph.replay()
            computed.record()
            for result, output in zip(self._results, outputs, strict=True):
                result[:size].copy_(output[:size], non_blocking=True)
            done.record()
        done.synchronize()
        return begin.elapsed_time(uploaded), uploaded.elapsed_time(computed)


def _flat(outputs: Any) -> list[Tensor]:
    """Return the outputs of a net as a list; a user's net may return several tensors."""
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


Loader = Callable[[str, Sequence[int]], Net]
"""Function that loads a model with buffers for batches of the given sizes, in ascending order."""


@contextmanager
def loader(device: str, half: bool, graphs: bool, share_pct: float) -> Iterator[Loader]:
    """Make this thread an executor on ``device`` and yield a function that loads models.

    Parameters
    ----------
    device
        ``cpu``; ``cuda``: the whole visible GPU, which MPS may limit; ``green``: a green context on this GPU.
    half, graphs
        Whether models run in half precision, and as CUDA graphs.
    share_pct
        Share of the multiprocessors for a green context.
    """
    with torch.inference_mode():
        if device == "cpu":
            yield lambda model, sizes: CpuNet(model, max(sizes), half)
            return
        stream_context: AbstractContextManager[torch.cuda.Stream] = (
            _green_stream(share_pct) if device == "green" else nullcontext(torch.cuda.Stream())  # type: ignore[no-untyped-call]
        )
        with stream_context as stream:
            yield lambda model, sizes: CudaNet(model, sizes, half, graphs, stream)


@contextmanager
def _green_stream(share_pct: float) -> Iterator[torch.cuda.Stream]:
    """Yield a stream on a share of the multiprocessors that no other thread of this process uses."""
    torch.zeros(1, device="cuda")  # the driver divides only a device that is in use
    with multiprocessors().stream(share_pct) as handle:
        stream = torch.cuda.ExternalStream(handle)  # type: ignore[no-untyped-call]
        yield stream
        stream.synchronize()


def use_one_thread() -> None:
    """Limit PyTorch to one thread, so that the other cores stay free for the other workers."""
    torch.set_num_threads(1)


def batch_ms(net: Net, size: int, min_s: float = _MIN_TIMED_S) -> float:
    """Return the time of a batch of ``size`` in ms: the median of several runs on the host's clock."""
    times_ms: list[float] = []
    end = time.perf_counter() + min_s
    while len(times_ms) < _MIN_BATCHES or time.perf_counter() < end:
        begin = time.perf_counter()
        net.run(size)
        times_ms.append(1000.0 * (time.perf_counter() - begin))
    return median(times_ms)
