"""Program for tests to kill: a bench whose runs wait for a gate, start processes that try to survive, or are many."""

import signal
import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from conftest import _instance, target

from bench.ledger.store import Ledger
from bench.runner.runner import run_tasks
from bench.task import Stage, Task

SEEDS = range(7)


def tasks(kind: str, folder: Path) -> list[Task]:
    """Make the tasks of a kind: a survivor's name, a number of tasks, or else ``SEEDS`` runs that wait for a gate.

    Their schedulers write to ``folder``: a log of what they do, and the ids of processes that they start.
    """
    log, pids = str(folder / "log"), folder / "pids"
    if kind in ("stubborn", "orphans", "bare", "secret", "daemon"):
        pids.mkdir()
        survivor = {"how": "children" if kind == "stubborn" else kind, "count": "5", "pids": str(pids), "stay": "true"}
        stages = [Stage("Survivor", target("Survivor"), survivor)]
        if kind == "stubborn":
            stages.append(Stage("Endless", target("Endless"), {"how": "holds-the-lock", "pids": str(pids)}))
        return [Task(_instance(), (stage,), time_limit_s=600.0) for stage in stages]
    if kind.isdecimal():
        brief = Stage("Brief", target("Brief"), {"log": log})
        tasks = [Task(_instance(), (brief,), seed=seed, time_limit_s=60.0) for seed in range(int(kind))]
        for seed in range(0, len(tasks), 5):
            how = ("children", "orphans", "secret", "moving")[seed // 5 % 4]
            survivor = {"how": how, "count": "1", "pids": str(pids / str(seed))}
            tasks[seed] = replace(tasks[seed], stages=(brief, Stage("Survivor", target("Survivor"), survivor)))
        return tasks
    stage = Stage("Gated", target("Gated"), {"log": log, "gate": str(folder / "gate")})
    return [Task(_instance(), (stage,), seed=seed, time_limit_s=600.0) for seed in SEEDS]


if __name__ == "__main__":
    # A parent process may have set SIGINT to be ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, folder = sys.argv[1:]
    with Ledger(Path(folder, "ledger.sqlite"), create=True) as ledger:
        try:
            run_tasks(tasks(kind, Path(folder)), ledger, jobs=2)
        except KeyboardInterrupt:
            sys.exit(130)
