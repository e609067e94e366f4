"""Schedulers that attack when they are imported: ``__getattr__`` of this module runs their code."""

import gc
import os
import signal
from typing import Any

from bench.runner.worker import Report
from hostile.base import MAY_BE_MEMORY, Hostile

IMPOSSIBLE = "worker: sent an impossible message: type: Input tag ..."
ENDS = {
    "ImportRaises": ("exception", "RuntimeError: half installed"),
    "ImportExits": ("crashed", "exited with status 4 while importing ...:ImportExits" + MAY_BE_MEMORY),
    "ImportHangs": ("wall_limit", "start-up took more than 120 s (importing ...:ImportHangs)"),
    "ImportWrites": ("crashed", IMPOSSIBLE),
    "ImportAnswers": ("crashed", IMPOSSIBLE),
    "ImportBabbles": ("crashed", "worker: sent data that is not a message; expected JSON objects, one per line"),
}
_LINES = {
    "ImportWrites": b'{"type": "x"}\n',
    "ImportAnswers": b'{"type": "broken", "scheduler": "igniter", "error": ""}\n',
    "ImportBabbles": b"nonsense\n",
}


def __getattr__(name: str) -> Any:
    match name:
        case "ImportRaises":
            raise RuntimeError("half\ninstalled")
        case "ImportExits":
            print("so long", flush=True)
            os._exit(4)
        case "ImportHangs":
            while True:
                signal.pause()
        case _ if name in _LINES:
            for pipe in [report._outbox for report in gc.get_objects() if isinstance(report, Report)]:
                os.write(pipe, _LINES[name])
            return Hostile
    raise AttributeError(name)
