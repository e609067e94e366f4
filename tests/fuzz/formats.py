"""Kinds of files that users pass to the bench: for each a good file, its reader, and a command that reads it."""

import gzip
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import tomli_w

from bench.cli.experiment import read_experiment
from bench.ledger.row import Row, Termination, columns
from bench.ledger.store import Ledger
from bench.simulation.trace import read_rate_trace
from instances.catalogue import gpu_type, gpu_type_to_toml
from instances.files import instance_from_json, read_gpu_type, read_instance, read_json, read_plan
from instances.files.light_profile import light_profile_from_json
from instances.files.models import INSTANCE_EXAMPLE, PLAN_EXAMPLE
from instances.measurements import read_pairs, read_solo
from instances.performance.igniter_fit import fit_profile
from tests.instances.file_parts import APPLICATION, W2
from tests.instances.light_profile import light_profile


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes
    ----------
    kind
        How ``malformed`` varies the file: as ``json``, ``toml``, ``csv``, ``csv.gz``, ``ledger`` or ``weights``.
    good
        Returns a file without errors.
    command
        Arguments of a command that reads ``FILE``; empty if only a run reads such files.
    """

    kind: str
    name: str
    good: Callable[[], bytes]
    read: Callable[[Path], object]
    command: tuple[str, ...] = ()


WORKLOADS = [
    {"id": "w1", "model": "alexnet", "slo_ms": 15, "rate_rps": 500},
    {**W2, "arrivals": "azure"},
]


def _instance() -> bytes:
    optional_fields = {
        "latency_buffer": 1.1,
        "workloads": WORKLOADS,
        "applications": [APPLICATION],
        "seed": 3,
        "provenance": "x",
    }
    return json.dumps(INSTANCE_EXAMPLE | optional_fields).encode()


def _plan() -> bytes:
    return json.dumps(PLAN_EXAMPLE | {"instance": INSTANCE_EXAMPLE}).encode()


def _profile() -> bytes:
    return json.dumps(light_profile()).encode()


def _catalogue() -> bytes:
    gpu = gpu_type("v100")
    return gpu_type_to_toml(replace(gpu, models={"alexnet": gpu.models["alexnet"]})).encode()


def _mig() -> bytes:
    gpu = gpu_type("a100-mig")
    assert gpu.mig is not None
    name, configurations = next(iter(gpu.mig.models.items()))
    return gpu_type_to_toml(replace(gpu, mig=replace(gpu.mig, models={name: configurations[:4]}))).encode()


def _experiment() -> bytes:
    return tomli_w.dumps(
        {
            "instances": ["smoke", "igniter-12"],
            "schedulers": ["igniter", "ffd+"],
            "time-limit": 5,
            "seeds": [0, 1],
            "param": {"igniter": {"spend_spare": [True, False]}},
        }
    ).encode()


def _trace() -> bytes:
    return b"requests\n" + b"\n".join(b"%d.5" % rate for rate in range(20))


SOLO = b"model,batch,share_pct,latency_ms,l2_util_pct,dram_util_pct\nalexnet,1,20,5.5,10,20\nalexnet,2,50,4,11,\n"
PAIRS = (
    b"model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms,latency_b_ms\n"
    b"alexnet,1,20,vgg19,2,80,4.5,12\nvgg19,1,50,vgg19,2,50,4.5,\n"
)


def _row(key: str, instance_hash: str) -> Row:
    values: dict[type, object] = {str: "x", int: 1, float: 0.5, bool: True}
    defaults = {c.name: values.get(c.type, c.json_type()) if c.required else None for c in columns()}
    result = {
        "key": key,
        "instance_hash": instance_hash,
        "instance": "my-mix",
        "objective": "cost",
        "source": "plan",
        "value": 3.0,
        "status": "feasible",
        "termination": Termination.FINISHED,
        "plan": PLAN_EXAMPLE,
        "started_at": "2024-01-02T03:04:05.678+00:00",
    }
    return Row.from_json(defaults | result)


@cache
def _ledger() -> bytes:
    instance = instance_from_json(INSTANCE_EXAMPLE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.sqlite")
        with Ledger(path, create=True) as ledger:
            for number in range(3):
                ledger.add(_row(f"{number:064x}", instance.fingerprint), instance)
            ledger.add_chunk("f" * 64, {"first": 0, "accepted": [True], "served": [True], "decision_s": [0.5]})
        return path.read_bytes()


def _read_ledger(path: Path) -> object:
    with Ledger(path) as ledger:
        rows = ledger.rows()
        return rows, [ledger.instance(row.instance_hash) for row in rows], ledger.chunks("f" * 64)


def _policy() -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(
        {
            "weights": {"sac": {"0.weight": torch.zeros(2, 3)}, "td3": {"0.weight": torch.zeros(3)}},
            "hidden": 8,
            "gpu": "v100",
            "gpus": 4,
            "objective": "goodput",
            "performance_model": "igniter",
            "interference": True,
            "models": ("alexnet",),
            "slo_ms": (15.0,),
            "rate_rps": (500.0,),
            "lowest": 0.5,
            "highest": 1.0,
            "headroom": 1.0,
            "training": {"seed": 0},
        },
        buffer,
    )
    return buffer.getvalue()


def _read_policy(path: Path) -> object:
    from rl.policy import load_policy

    return load_policy(path)


def _read_profile(path: Path) -> object:
    return fit_profile(light_profile_from_json(read_json(path), str(path)), "fuzz", 16000.0, 1.0, str(path))


OPTIONS = ("instances", "schedulers", "param", "time-limit", "seeds", "truth", "plans", "ledger")
"""Keys that ``read_experiment`` accepts here."""

FORMATS = (
    Format("json", "instance.json", _instance, read_instance, ("show", "FILE")),
    Format("json", "plan.json", _plan, read_plan, ("verify", "FILE")),
    Format(
        "json",
        "profile.json",
        _profile,
        _read_profile,
        ("profile", "fit", "FILE", "--price-per-hour", "1", "--memory-mib", "16000"),
    ),
    Format(
        "toml",
        "catalogue.toml",
        _catalogue,
        read_gpu_type,
        ("profile", "validate", "pairs.csv", "--gpu", "FILE", "--model", "igniter"),
    ),
    Format(
        "toml",
        "mig.toml",
        _mig,
        read_gpu_type,
        ("profile", "validate", "pairs.csv", "--gpu", "FILE", "--model", "igniter"),
    ),
    Format(
        "toml",
        "experiment.toml",
        _experiment,
        lambda path: read_experiment(path, OPTIONS, ("instances", "param")),
        ("run", "FILE"),
    ),
    Format("csv", "solo.csv", lambda: SOLO, read_solo, ("profile", "fit", ".", "--gpu", "v100")),
    Format(
        "csv",
        "pairs.csv",
        lambda: PAIRS,
        read_pairs,
        ("profile", "validate", "FILE", "--gpu", "v100", "--model", "igniter"),
    ),
    Format("csv", "trace.csv", _trace, read_rate_trace, ("simulate", "plan.json", "--arrivals", "FILE")),
    Format(
        "csv.gz",
        "trace.csv.gz",
        lambda: gzip.compress(_trace()),
        read_rate_trace,
        ("simulate", "plan.json", "--arrivals", "FILE"),
    ),
    Format("ledger", "ledger.sqlite", _ledger, _read_ledger, ("show", "--ledger", "FILE")),
    Format("weights", "policy.pt", _policy, _read_policy),
)
