"""ParvaGPU (SC24): numbers of GPUs for its six service mixes on MIG instances."""

from collections.abc import Callable

from reports.experiments.claim import Claim, Values, below
from reports.experiments.runs import Runs
from reports.figure import Need

PUBLISHED = (2, 3, 5, 7, 13, 16)
"""Numbers of GPUs in the authors' plans, by mix."""


def _proven(mix: int) -> Callable[[Runs], Values]:
    def query(runs: Runs) -> Values:
        row = runs.row(Need(f"parvagpu-{mix}", ("mig",)))
        return row.gpus_used, row.status

    return query


MIXES = tuple(
    Claim(
        what=f"GPUs for mix {mix}",
        paper=f"{gpus} GPUs",
        ours=_proven(mix),
        form="{} GPUs, {}",
        holds=lambda ours, _status, gpus=gpus: ours == gpus,
        criterion="exactly",
        better=below(gpus),
        reason="no plan with as few GPUs was found",
    )
    for mix, gpus in enumerate(PUBLISHED, start=1)
)
