"""Certificate file: an instance with its coefficients, a plan, a claim, and the proof of the claim."""

from math import floor, log10
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LARGEST_WHOLE = 2**48
"""Largest magnitude of a whole number in a proof, so that sums of such numbers fit 64 bits."""

Whole = Annotated[int, Field(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE)]
Position = Annotated[int, Field(ge=0, le=10**7)]
Unit = Annotated[int, Field(ge=1, le=10**340)]  # ``unit_for`` the smallest float, about 10^-324, is about 10^332

NO_PLAN_EXISTS = "none"
"""Bound of the claim that no plan of the class exists."""


def unit_for(largest: float) -> int:
    """Return a power of ten by which numbers up to ``largest`` are multiplied before they become whole numbers.

    After the multiplication, ``largest`` has nine digits if it is less than 1, and at most 14 if it is less than 10^14.
    """
    if largest >= 1.0:
        return 10 ** max(0, min(9, 13 - floor(log10(largest))))
    return 10 ** (8 - floor(log10(largest))) if largest > 0.0 else 10**9


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class BoundClaim(_Record):
    """Statement: no plan of a class is better than the bound."""

    bound: Annotated[str, Field(pattern=r"^(none|[0-9]{1,340}(\.[0-9]{1,340})?)$", max_length=681)] = Field(
        description="Decimal number in the unit of the objective; none: no plan of the class exists.",
        examples=["180.54"],
    )
    plan_class: Literal["spatial", "split"] = Field(description="Class of the plans.", examples=["spatial"])
    parts: Literal[20] | None = Field(
        None,
        description="20: parts are multiples of 1/20 of the rate, no two of a workload on one GPU; null: any parts.",
        examples=[None, 20],
    )


class Leaf(_Record):
    """Duals of one relaxation, in whole numbers; see ``bench.certificate.dual``."""

    workloads: list[Whole] = Field(description="Dual of each class of identical workloads, in their order.")
    gpus: list[Whole] = Field(description="Dual of the number of GPUs of each type, in their order.")


class Fork(_Record):
    """Node of a tree: two branches that cover all plans of the node; see ``bench.certificate.conditions``."""

    on: Literal["gpus", "pair", "seat"] = Field(description="What the branches differ in.")
    first: Position = Field(description="gpus: GPU type; pair: first class of workloads; seat: class of workloads.")
    second: Position = Field(description="gpus: most GPUs in branch 0; pair: second class; seat: GPU type.")
    branches: Annotated[list[Position], Field(min_length=2, max_length=2)] = Field(
        description="Positions of the branches among the nodes, both after this one."
    )


class DualProof(Leaf):
    """Duals whose bound is the claim's."""

    kind: Literal["dual"]
    unit: Unit = Field(description="Whole number that stands for one dollar per hour, or one request per second.")


class SliceProof(Leaf):
    """Duals of workloads and of MIG instances whose bound is the claim's; see ``bench.certificate.mig.duals``."""

    kind: Literal["slices"]
    unit: Unit = Field(description="Whole number that stands for one dollar per hour.")
    slices: list[list[Whole]] = Field(description="Dual of a MIG instance of each size, by GPU type, in their order.")


class TreeProof(_Record):
    """Branching tree with duals at every leaf; node 0 is the root."""

    kind: Literal["tree"]
    unit: Unit
    nodes: Annotated[list[Fork | Leaf], Field(min_length=1)]


class ExhaustiveProof(_Record):
    """Proof without data: the checker tries every division of a few workloads itself."""

    kind: Literal["exhaustive"]


class CertificateFile(_Record):
    """Certificate: everything that the checker reads."""

    model_config = ConfigDict(title="Certificate")

    version: Literal[1] = Field(description="Version of this format.")
    instance: dict[str, Any] = Field(description="Instance with the catalogue entries of its GPU types embedded.")
    plan: dict[str, Any] | None = Field(None, description="Plan that attains, or comes close to, the bound.")
    claim: BoundClaim
    proof: Annotated[DualProof | SliceProof | TreeProof | ExhaustiveProof, Field(discriminator="kind")]
