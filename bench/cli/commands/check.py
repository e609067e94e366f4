"""``bench check``: check that a certificate proves its claim, without the code of any solver."""

from math import inf
from pathlib import Path
from typing import Annotated

import typer

from bench.certificate.certificate import NO_PLAN_EXISTS, BoundClaim
from bench.certificate.checking import check, parsed
from bench.certificate.in_time import within
from bench.cli.completion import complete_instance
from bench.cli.options import GAVE_UP, CheckLimitOption, FormatOption
from bench.cli.terminal import one_line, print_json
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import show
from bench.formatting import short_hash
from bench.planning import require_limit
from bench.selection import find_instance
from instances import InputError, Instance
from instances.errors import FieldName
from instances.files import instance_from_json, read_json

EXAMPLES = (
    "bench check proof.json",
    "bench check proof.json --instance igniter-12   # a proof about this very instance?",
    "bench check proof.json.gz --check-limit 60",
)


def check_certificate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Certificate that `bench prove` wrote.")],
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            autocompletion=complete_instance,
            help="Instance that the certificate must be about; another one is refused.",
        ),
    ] = None,
    check_limit: CheckLimitOption = inf,
    form: FormatOption = "table",
) -> None:
    """Check a certificate: search for anything that contradicts it, with exact sums.

    By the kind of the proof, the search covers all patterns of a GPU, all layouts and covers of MIG instances, or all
    ways to divide the workloads among the GPUs.

    The checker uses the coefficients in the file and no code of any solver. It answers in one sentence, and names the
    instance in the file, with the hash of its content, and the claim. Most checks take seconds, those of hundreds of
    workloads or under capacity minutes.

    Exit codes: 0 proven, 1 not proven (the sentence names the first step that fails), 2 not a certificate, or one of
    another instance, 3 given up (the sentence names the limit of time, search size, memory or numbers that ended the
    check).
    """
    if check_limit != inf:
        require_limit(FieldName("check_limit"), check_limit)
    expected = None if instance is None else find_instance(instance, "--instance")
    data = read_json(file)
    certificate = parsed(data, str(file))
    stated = instance_from_json(certificate.instance, f"{file}: instance")
    if expected is not None and expected.fingerprint != stated.fingerprint:
        raise InputError(
            str(file),
            f'is about "{stated.name}" ({short_hash(stated.fingerprint)}), '
            f'not about "{expected.name}" ({short_hash(expected.fingerprint)})',
        )
    with progress_bar("searching patterns") as update:
        verdict = check(data, str(file), within(check_limit, lambda part: update(advance=part)))
    if form == "json":
        print_json(
            {
                "instance": stated.name,
                "instance_hash": stated.fingerprint,
                "objective": stated.objective,
                "claim": certificate.claim.model_dump(),
                "proven": verdict.proven,
                "given_up": verdict.given_up,
                "optimal": verdict.optimal,
                "value": None if verdict.value is None else float(verdict.value),
                "sentence": verdict.sentence,
            }
        )
    else:
        show(verdict.sentence, f"  {_claim_in_words(stated, certificate.claim)}")
    if not verdict.proven:
        raise typer.Exit(GAVE_UP if verdict.given_up else 1)


def _claim_in_words(instance: Instance, claim: BoundClaim) -> str:
    """Return the instance and the claim of a certificate on one line."""
    bound = "no plan exists" if claim.bound == NO_PLAN_EXISTS else f"bound {claim.bound}"
    name = f"{one_line(instance.name)} ({short_hash(instance.fingerprint)})"
    return f"{name}: {instance.objective}, {claim.plan_class} plans, {bound}"
