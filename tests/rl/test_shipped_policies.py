import csv
from dataclasses import replace

import numpy as np
import pytest

from bench.api import Run
from bench.judge import judge
from heuristics.igniter import IGniter
from instances.suites.inss import four_gpus
from rl.policy import load_policy
from rl.ts import SHIPPED, Ts, TsNi

FOUR_GPUS = four_gpus()[0]
FILES = sorted(SHIPPED.glob("*.pt"))


def unseen(count):
    factors = np.random.default_rng(4321).uniform(0.5, 1.0, (count, 10))
    for factor in factors:
        rates = zip(FOUR_GPUS.workloads, factor.tolist(), strict=True)
        yield replace(FOUR_GPUS, workloads=tuple(replace(w, rate_rps=w.rate_rps * f) for w, f in rates))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_is_small_and_has_its_card_and_curve(path):
    assert path.stat().st_size < 2_000_000
    policy = load_policy(path)
    with path.with_suffix(".csv").open() as file:
        assert len(list(csv.DictReader(file))) == policy.training["episodes"]
    card = path.with_suffix(".md").read_text()
    assert f"--seed {policy.training['seed']}" in card
    for name in ("episodes", "clusters", "hidden", "minibatch"):
        assert f"--param {name}={policy.training[name]}" in card


@pytest.mark.parametrize("scheduler", [Ts(), TsNi()], ids=lambda scheduler: scheduler.name)
def test_fits_4gpu_and_beats_igniter_on_rates_it_has_not_seen(scheduler):
    kept, more = 0, []
    for instance in unseen(20):
        verdict = judge(scheduler.schedule(instance, Run()).plan, instance)
        kept += not verdict.violations
        baseline = judge(IGniter().schedule(instance, Run()).plan, instance)
        more.append(verdict.throughput_rps / baseline.throughput_rps)
    assert kept >= 19
    assert np.mean(more) > 1.1
