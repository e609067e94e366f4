"""Fake device without PyTorch for workers of a replay, which import it as ``sitecustomize``."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

BATCH_MS = 2.0


class Net:
    """Model whose batches take ``BATCH_MS``, whatever their size."""

    def run(self, size: int) -> tuple[float, float]:
        """Serve a batch; return its times of upload and computation in ms."""
        time.sleep(BATCH_MS / 1000.0)
        return 0.25, 1.5


@contextmanager
def loader(device: str, half: bool, graphs: bool, share_pct: float) -> Iterator[Callable[[str, Sequence[int]], Net]]:
    """Load any model on any device but "abacus"."""
    if device == "abacus":
        raise ValueError("no abacus here\nat all")
    yield lambda model, sizes: Net()


module = ModuleType("bench.replay.device")
vars(module).update(loader=loader, batch_ms=lambda net, size: BATCH_MS, use_one_thread=lambda: None)
sys.modules["bench.replay.device"] = module
