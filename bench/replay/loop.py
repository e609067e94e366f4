"""Loop on a host with one GPU: profile, fit, plan, replay and report; it has a budget of time and can be continued."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import which

from bench.command_text import words
from bench.replay import mps
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.files import instance_to_json, read_gpu_type, write_bytes, write_json
from instances.files.light_profile import LIGHT_FILE

NETWORKS = ("vgg19", "resnet50", "alexnet", "ssd")
"""Models that are profiled, alone and in pairs; the first model is the strong neighbour of the others."""

BUDGET_MIN = 25.0
"""Budget of the whole loop in minutes."""

STEP_LIMIT_MIN = 9.0
"""Time limit of a step in minutes; hosts that are lent often end a command after ten minutes."""

MISSING_FILE = "missing.txt"
"""File with what the report lacks, one line each."""

_PROFILE = "measured"
"""Folder of the measurements, in the loop's folder."""

_CATALOGUE = "catalogue/measured-here.toml"
"""File of the fitted catalogue entry."""

_LEDGER = "ledger.sqlite"
"""Ledger of the plans and the replays."""


@dataclass(frozen=True, slots=True)
class Step:
    """Step of the loop.

    Attributes
    ----------
    minutes
        Expected duration.
    command
        Arguments of ``bench``, run in the loop's folder.
    needed
        Whether the loop ends if the step fails, because later steps need it.
    repeated
        Whether the step is done again if an earlier step was done since.
    """

    name: str
    minutes: float
    command: tuple[str, ...]
    needed: bool = True
    repeated: bool = False


def steps(through_mps: bool) -> list[Step]:
    """Return the steps in order; with ``through_mps``, plans are also replayed by MPS."""
    first_half, both_halves = (
        words("profile", "run", gpu=0, quick=True, models=",".join(networks), o=_PROFILE)
        for networks in (NETWORKS[:2], NETWORKS)
    )
    solve = words("run", schedulers="local-search,colgen@local-search", time_limit=30, ledger=_LEDGER)
    all_steps = [
        Step("examine the host", 0.2, ("doctor",), needed=False),
        # The fit needs no complete profile.
        Step("profile two networks alone and together", 5.5, first_half, needed=False),
        Step("profile all four networks", 5.5, both_halves, needed=False),
        Step("fit the catalogue entry", 0.3, words("profile", "fit", _PROFILE, o=_CATALOGUE), repeated=True),
        Step("plan for the least cost", 1.2, words(*solve, instances="cost.json", plans="plans/cost")),
        Step("plan for capacity", 1.2, words(*solve, instances="capacity.json", plans="plans/capacity")),
    ]
    variants = [("green", False), ("green", True), ("time-slicing", False)]
    if through_mps:
        variants = [("mps", False), ("mps", True), *variants]
    for objective in ("cost", "capacity"):
        for backend, graphs in variants:
            name = f"replay the {objective} plan by {backend}{' with CUDA graphs' if graphs else ''}"
            plan = f"{objective}.plan.json"
            command = words("replay", plan, backend=backend, graphs=graphs, seconds=30, ledger=_LEDGER)
            all_steps.append(Step(name, 1.0, command, needed=False))
    all_steps.append(Step("write the report", 0.3, words("report", _LEDGER, o="report"), needed=False, repeated=True))
    return all_steps


def missing_driver() -> str | None:
    """Return the missing driver and its remedy in words, or ``None`` if the host has it; the loop needs the driver."""
    if which("nvidia-smi") is not None:
        return None
    return "the NVIDIA driver: install it, or run the container with --gpus all"


def missing_mps() -> str | None:
    """Return the missing MPS daemon and its remedy in words, or ``None`` if the host has it; MPS is optional."""
    if which(mps.CONTROL) is not None:
        return None
    return (
        "the MPS daemon: it comes with the driver (on Debian: nvidia-cuda-mps); a container needs --ipc=host and the"
        " driver capability utility"
    )


def write_instances(folder: Path) -> None:
    """Write ``cost.json`` and ``capacity.json``: the four models on one GPU of the fitted type.

    Rates and SLOs follow from the measured batch nearest to 8 on the whole GPU. The rate of a workload is a seventh of
    the GPU's throughput at this batch; the SLO is ten times the time of this batch.
    """
    gpu = read_gpu_type(folder / _CATALOGUE)
    workloads = []
    for name, model in gpu.models.items():
        solo = model.profiled(gpu.name)
        batch, times = min(zip(solo.batch, solo.gpu_ms, strict=True), key=lambda row: abs(row[0] - 8))
        slo_ms, rate_rps = 10.0 * times[-1], 1000.0 * batch / times[-1] / 7.0
        workloads.append(Workload(name, name, round(slo_ms, 1), round(rate_rps, 1)))
    pools = (GpuPool(gpu, 1),)
    cost = Instance(
        "cost", Objective.COST, SloRule.ATTAINMENT, "hybrid", pools, tuple(workloads), provenance="this host"
    )
    for instance in (cost, replace(cost, name="capacity", objective=Objective.CAPACITY)):
        write_json(folder / f"{instance.name}.json", instance_to_json(instance))


def take_plans(folder: Path) -> None:
    """Copy the first plan of each objective, by file name, to ``cost.plan.json`` and ``capacity.plan.json``."""
    for objective in ("cost", "capacity"):
        plans = sorted((folder / "plans" / objective).glob("*.json"))
        if plans:
            (folder / f"{objective}.plan.json").write_bytes(plans[0].read_bytes())


TIMED_OUT = 124
"""Exit code of a step that reached its time limit, as of the command ``timeout``."""

_PATIENCE_S = 60.0
"""Time in which a command that reached its time limit may write what it has, and end its processes."""


def execute(command: Sequence[str], folder: Path, seconds: float) -> int:
    """Run a command of ``bench`` in a folder and return its exit code; after ``seconds`` it gets a Ctrl-C."""
    code = "import sys; from bench.cli import main; sys.exit(main())"
    with subprocess.Popen([sys.executable, "-c", code, *command], cwd=folder) as process:  # noqa: S603
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        return TIMED_OUT


def run_loop(
    folder: Path,
    tell: Callable[[str], None],
    run_command: Callable[[Sequence[str], Path, float], int] = execute,
    budget_min: float = BUDGET_MIN,
) -> bool:
    """Run the steps that are not done yet, and list what the report lacks; return whether all needed steps are done.

    Parameters
    ----------
    folder
        Folder of the loop; ``done.json`` has the finished steps with their minutes.
    tell
        Receiver of one line per step.
    run_command
        Function that runs a command in a folder within a number of seconds and returns its exit code.
    budget_min
        Minutes for all steps, including the steps of earlier calls. A step that does not fit is left out unless needed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done_file = folder / "done.json"
    done: dict[str, float] = json.loads(done_file.read_text()) if done_file.exists() else {}
    missing_mps_text, spent_min = missing_mps(), sum(done.values())
    missing = [] if missing_mps_text is None else [f"replays by MPS: {missing_mps_text}"]
    complete, results_changed = True, False
    for step in steps(missing_mps_text is None):
        if step.name in done and not (step.repeated and results_changed):
            tell(f"done before: {step.name}")
            continue
        left_min = budget_min - spent_min
        if step.minutes > left_min and not step.needed:
            missing.append(f"{step.name}: left out, it takes {step.minutes:g} of {max(0.0, left_min):.1f} min")
            tell(f"left out: {step.name}: it takes {step.minutes:g} min; {max(0.0, left_min):.1f} min are left")
            continue
        tell(f"{step.name} (about {step.minutes:g} min): bench {' '.join(step.command)}")
        start_s = time.monotonic()
        limit_min = min(max(left_min, 1.0), STEP_LIMIT_MIN)
        code = run_command(step.command, folder, 60.0 * limit_min)
        minutes = (time.monotonic() - start_s) / 60.0
        spent_min += minutes
        if code:
            reason = f"no end within {limit_min:.3g} min" if code == TIMED_OUT else f"exit code {code}"
            missing.append(f"{step.name}: {reason}")
            then = "the same command continues here" if step.needed else "the loop goes on"
            tell(f"failed: {step.name}: {reason}; {then}")
            if step.needed:
                complete = False
                break
            continue
        if step.command[:2] == ("profile", "fit"):
            write_instances(folder)
        if step.command[0] == "run":
            take_plans(folder)
        results_changed = results_changed or step.command[0] != "doctor"
        done[step.name] = minutes
        write_json(done_file, done)
    missing += _missing_of_profile(folder)
    write_bytes(folder / MISSING_FILE, "".join(f"{line}\n" for line in missing).encode())
    for line in missing:
        tell(f"missing: {line}")
    report = folder / "report" / "index.html"
    if complete:
        tell(f"{f'report: {report}; ' if report.exists() else ''}catalogue entry to commit: {folder / _CATALOGUE}")
    return complete


def _missing_of_profile(folder: Path) -> list[str]:
    """Return the measurements of the profile that the host did not permit, in words."""
    facts_file, light_profile = folder / _PROFILE / "gpu.json", folder / _PROFILE / LIGHT_FILE
    missing = []
    if facts_file.exists() and "counted by Nsight Compute" not in facts_file.read_text():
        missing.append("counters of memory traffic (Nsight Compute): demands follow from slowdowns in pairs, if at all")
    if facts_file.exists() and not light_profile.exists():
        missing.append("the light profile: a point or the power was not measured")
    return missing
