"""A bench to be killed: it runs short tasks, some of which wait, start processes that try to survive, or are many."""

import signal
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from conftest import _instance

from bench.ledger.store import Ledger
from bench.runner.runner import run_tasks
from bench.task import Stage, Task

SEEDS = range(7)


def tasks(kind: str, folder: Path) -> list[Task]:
    """Make the tasks; their schedulers note in ``folder`` what they do."""
    log = str(folder / "log")
    if kind == "stubborn":
        stages = [
            Stage("Parent", "rogue_schedulers:Parent", {"pids": log}),
            Stage("Hogger", "rogue_schedulers:Hogger", {"pids": f"{log}.hogger"}),
        ]
        return [Task(_instance(), (stage,), time_limit_s=600.0) for stage in stages]
    if kind in ("adopted", "bare", "secret", "daemon"):
        pids = folder / "pids"
        pids.mkdir()
        stage = Stage(
            "Escaper", "rogue_schedulers:Escaper", {"how": kind, "count": "5", "pids": str(pids), "finish": "false"}
        )
        return [Task(_instance(), (stage,), time_limit_s=600.0)]
    if kind.isdecimal():
        stage = Stage("Brief", "rogue_schedulers:Brief", {"log": log})
        return [Task(_instance(), (stage,), seed=seed, time_limit_s=60.0) for seed in range(int(kind))]
    stage = Stage("Gated", "rogue_schedulers:Gated", {"log": log, "gate": str(folder / "gate")})
    return [Task(_instance(), (stage,), seed=seed, time_limit_s=600.0) for seed in SEEDS]


if __name__ == "__main__":
    # Whatever started the tests may have it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, folder = sys.argv[1:]
    with Ledger(Path(folder, "ledger.sqlite"), create=True) as ledger:
        try:
            run_tasks(tasks(kind, Path(folder)), ledger, jobs=2)
        except KeyboardInterrupt:
            sys.exit(130)
