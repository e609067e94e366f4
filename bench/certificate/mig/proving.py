"""Proofs of bounds for GPUs cut into MIG instances: by the rounded duals of a run, or by exhaustion."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor, inf
from typing import Any

from bench.certificate.certificate import SliceProof, unit_for
from bench.certificate.checking import attainable
from bench.certificate.exhaustive import MOST_WORKLOADS
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.mig.duals import fractional_cover, layout_worth, least_cover, slice_bound
from bench.certificate.mig.exhaustive import exhaustive_mig_bound
from bench.certificate.mig.plans import mig_cost_of
from bench.certificate.mig.rates import MigRates, profiles_of
from bench.certificate.patterns import Progress
from bench.certificate.statement import Statement
from instances import Plan


def mig_proof(
    statement: Statement, nodes: Sequence[Mapping[str, Any]], plan: Plan | None, progress: Progress
) -> tuple[dict[str, Any], Fraction | float]:
    """Return a proof with its bound: by the duals of MIG instances or by exhaustion.

    The duals are taken if they prove the cost of the plan or, without a plan, that none exists; if there are too many
    workloads for exhaustion; or if exhaustion meets a limit.

    Parameters
    ----------
    nodes
        Proof of a run as its row stores it (``duals``). Duals of MIG instances are in a single node.

    Raises
    ------
    NotProvenError
        If there are no duals of MIG instances, and too many workloads for an exhaustive proof; or if the duals are of
        other MIG sizes than the GPU types have.
    GivenUpError
        If a limit of the checker ended the proof.
    """
    rates = MigRates.of(statement)
    # No plan exists if there is a workload that no MIG instance serves in time. Any duals prove this; zeros are taken.
    if rates.unserved:
        nodes = [{"slices": [[0.0] * len(profile.slices) for profile in profiles_of(statement.instance)]}]
    has_duals = len(nodes) == 1 and bool(nodes[0].get("slices"))
    may_exhaust = int(statement.copies.sum()) <= MOST_WORKLOADS
    if not has_duals and not may_exhaust:
        raise NotProvenError(f"the run kept no duals, and an exhaustive proof takes at most {MOST_WORKLOADS} workloads")
    if has_duals:
        proof = _whole_duals(statement, rates, nodes[0])
        bound = slice_bound(statement, SliceProof.model_validate(proof), progress)
        cost = None if plan is None else mig_cost_of(plan, statement.instance)
        if not may_exhaust or attainable(statement, bound) == (inf if cost is None else cost):
            return proof, bound
    try:
        return {"kind": "exhaustive"}, exhaustive_mig_bound(statement, progress)
    except GivenUpError:
        if not has_duals:
            raise
        return proof, bound


def _whole_duals(statement: Statement, rates: MigRates, node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the duals of a run in whole numbers that satisfy every condition of ``bench.certificate.mig.duals``."""
    profiles = profiles_of(statement.instance)
    float_duals: Sequence[Sequence[float]] = node["slices"]
    if [len(duals) for duals in float_duals] != [len(profile.slices) for profile in profiles]:
        raise NotProvenError("the run has duals of other MIG sizes than its GPU types have")
    largest = max((abs(x) for duals in (*float_duals, node.get("workloads", ())) for x in duals), default=1.0)
    unit = unit_for(largest)
    slice_duals, gpu_duals = [], []
    for profile, floats, price, limit in zip(profiles, float_duals, statement.prices, statement.limits, strict=True):
        duals = [max(0, floor(Fraction(dual) * unit)) for dual in floats]
        allowed, worth = floor(price * unit), layout_worth(profile, duals)
        if worth > allowed and limit is None:
            duals = [dual * allowed // worth for dual in duals]
        slice_duals.append(duals)
        gpu_duals.append(max(0, worth - allowed) if limit else 0)
    size_duals = [slice_duals[gpu_type][position] for gpu_type, position in rates.sizes]
    workload_duals = [
        _cover_dual(size_duals, served, needed) if any(served) else 0
        for served, needed in zip(rates.served, rates.needed, strict=True)
    ]
    return {"kind": "slices", "unit": unit, "workloads": workload_duals, "gpus": gpu_duals, "slices": slice_duals}


def _cover_dual(duals: Sequence[int], served: Sequence[int], needed: int) -> int:
    """Return the dual of a workload: the exact least cover of its rate, or a lower bound if that search gives up."""
    try:
        return least_cover(duals, served, needed)
    except GivenUpError:
        return fractional_cover(duals, served, needed)
