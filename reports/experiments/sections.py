"""Sections of EXPERIMENTS.md: titles, templates, and the tables in the templates."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ledger.bound_scope import claim_in_words
from reports.claim import Claim, QueryTable, Values, below, query
from reports.experiments import error_costs, hardware, models, optimum, services, serving
from reports.experiments import gpulet as gpulet_tables
from reports.experiments import inss as inss_tables
from reports.figure import Figure
from reports.need import Need
from reports.papers import (
    gpulet_maximum,
    gpulet_models,
    gpulet_online,
    gpulet_pairs,
    gpulet_rates,
    gpulet_scenarios,
    gpulet_served,
    gpulet_setup,
    gpulet_text,
    igniter_contention,
    igniter_model,
    igniter_online,
    igniter_placement,
    igniter_plans,
    igniter_scaling,
    igniter_setup,
    igniter_shares,
    igniter_slowdown,
    igniter_terms,
    igniter_violations,
    inss_agent,
    inss_clusters,
    inss_decision_times,
    inss_errors,
    inss_large_cluster,
    inss_model,
    inss_setup,
    inss_violations,
    mediator_contention,
    mediator_groups,
    mediator_jobs,
    mediator_setup,
    mediator_throughput,
)
from reports.runs import Runs


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its name, which is also its template's name; its title; and its tables by name."""

    name: str
    title: str
    tables: Mapping[str, QueryTable | Sequence[Claim]]


def measured_once(section: str) -> QueryTable:
    """Return the table of a section's facts in ``measured.toml``.

    They take too long to be measured whenever EXPERIMENTS.md is written.
    """
    facts = tomllib.loads(Path(__file__).with_name("measured.toml").read_text(encoding="utf-8"))["fact"]
    section_facts = [fact for fact in facts if fact["section"] == section]
    return QueryTable(
        ("measured once", "", "command", "when, with"),
        [
            (fact["what"], fact["value"], f"`{fact['command']}`", f"{fact['date']}, {fact['versions']}")
            for fact in section_facts
        ],
    )


GPU_COUNTS_IN_PAPER = (2, 3, 5, 7, 13, 16)
"""Numbers of GPUs in the plans of ParvaGPU's authors for mixes 1, 2 and so on."""


@query
def _gpus_and_status(runs: Runs, mix: int) -> Values:
    row = runs.row(Need(f"parvagpu-{mix}", ("mig",)))
    return row.gpus_used, claim_in_words(row)


_MIXES = tuple(
    Claim(
        what=f"GPUs for mix {mix}",
        paper=f"{gpus} GPUs",
        ours=_gpus_and_status(mix),
        form="{} GPUs, {}",
        supports=lambda ours, _status, gpus=gpus: ours == gpus,
        criterion="exactly",
        better=below(gpus),
        reason="no plan with as few GPUs was found",
    )
    for mix, gpus in enumerate(GPU_COUNTS_IN_PAPER, start=1)
)


def _claims(figures: Iterable[Figure]) -> tuple[Claim, ...]:
    """Return the claims of several figures as one sequence."""
    return tuple(claim for figure in figures for claim in figure.claims)


SECTIONS = (
    Section(
        "igniter",
        "iGniter (Xu et al., TPDS 2022)",
        {
            "motivation": _claims(
                (
                    *igniter_slowdown.FIGURES,
                    *igniter_contention.FIGURES,
                    igniter_model.FIG8,
                    igniter_model.FIG9,
                    igniter_plans.TABLE1,
                )
            ),
            "plans": (
                *_claims(
                    (
                        igniter_plans.FIG14,
                        igniter_violations.FIG14_VIOLATIONS,
                        igniter_shares.FIG18,
                        igniter_placement.FIG19,
                        igniter_plans.FIG20,
                    )
                ),
                *igniter_setup.SETUP,
                igniter_plans.COEFFICIENTS,
                igniter_plans.HARDWARE,
                *igniter_terms.FIG13.claims,
                *igniter_terms.PROFILING,
                *igniter_scaling.FIG21.claims,
            ),
            "over_time": _claims(igniter_online.FIGURES),
        },
    ),
    Section(
        "gpulet",
        "gpulet (ATC 2022; arXiv 2021)",
        {
            "counts": gpulet_tables.COUNTS,
            "motivation": _claims(
                (
                    *(gpulet_models.FIG4, gpulet_models.ARXIV_FIG3, gpulet_models.FIG9, gpulet_models.ARXIV_FIG8),
                    gpulet_online.ARXIV_FIG5,
                )
            ),
            "claims": (
                *_claims(
                    (
                        *(gpulet_scenarios.FIG5, gpulet_pairs.FIG6, gpulet_scenarios.FIG16, gpulet_rates.FIG17),
                        *(gpulet_scenarios.ARXIV_FIG4, gpulet_scenarios.ARXIV_FIG15, gpulet_rates.ARXIV_FIG16),
                        *(gpulet_online.FIG15, gpulet_online.ARXIV_FIG14),
                    )
                ),
                *gpulet_text.TEXT,
                *gpulet_setup.SETUP,
            ),
            "rates": gpulet_tables.RATES,
            "arxiv_rates": gpulet_tables.ARXIV_RATES,
            "rate_claims": (
                *_claims((gpulet_served.FIG13, gpulet_served.ARXIV_FIG12)),
                *gpulet_maximum.MAXIMUM,
                *gpulet_text.IN_EVERY_SCENARIO,
                *_claims((gpulet_rates.FIG14, gpulet_rates.ARXIV_FIG13)),
            ),
        },
    ),
    Section(
        "inss",
        "InSS (Han et al.)",
        {
            "motivation": (*_claims((*inss_model.FIGURES, *inss_errors.FIGURES)), *inss_setup.SETUP),
            "agent": (
                *inss_setup.SETTINGS,
                *_claims(
                    (
                        *(inss_agent.FIG8, inss_agent.FIG9),
                        *(inss_clusters.FIG10, inss_violations.FIG12, inss_agent.FIG11),
                        *(inss_clusters.FIG13, inss_clusters.FIG14, inss_clusters.FIG3),
                    )
                ),
            ),
            "baseline_claims": (
                *_claims((inss_clusters.FIG4, inss_clusters.FIG15)),
                *inss_setup.BASELINE_PLANS,
                *_claims(
                    (
                        *(inss_large_cluster.FIG16, inss_large_cluster.FIG17, inss_large_cluster.FIG18),
                        inss_decision_times.FIG19,
                    )
                ),
            ),
            "capacity": inss_tables.CAPACITY,
            "unseen": inss_tables.UNSEEN,
            "warm": inss_tables.WARM,
            "layers": inss_tables.LAYERS,
        },
    ),
    Section(
        "mediator",
        "MediatorDNN (Nabavinejad, Reda, Guo)",
        {
            "motivation": (
                *_claims((*mediator_contention.FIGURES, *mediator_jobs.FIGURES)),
                *mediator_setup.SETUP,
            ),
            "claims": (
                *_claims((mediator_groups.FIG4, mediator_throughput.FIG8, mediator_throughput.FIG8_PAIRS)),
                *mediator_throughput.TABLE5_CLAIMS,
                *mediator_groups.FIG9.claims,
            ),
        },
    ),
    Section("parvagpu", "ParvaGPU (SC24)", {"mixes": _MIXES}),
    Section(
        "models",
        "Performance models",
        {
            "errors": models.ERRORS,
            "never_seen": models.NEVER_SEEN,
            "prices": error_costs.PRICES,
            "published": models.PUBLISHED,
        },
    ),
    Section(
        "optimum",
        "Distance from the optimum",
        {
            "gaps": optimum.GAPS,
            "classes": optimum.CLASSES,
            "scaling": optimum.SCALING,
            "plans_in_turns": optimum.PLANS_IN_TURNS,
            "agreement": measured_once("optimum"),
        },
    ),
    Section(
        "serving",
        "Plans under random arrivals",
        {"twelve": serving.TWELVE, "holding": serving.HOLDING, "robust": serving.ROBUST, "wrong": serving.WRONG},
    ),
    Section("services", "Language-model services", {"sharing": services.SHARING, "in_time": services.IN_TIME}),
    Section("deployment", "What each API costs", {"prices": measured_once("deployment")}),
    Section(
        "hardware",
        "On hardware",
        {
            "errors": hardware.ERRORS,
            "copies": hardware.COPIES,
            "replays": hardware.REPLAYS,
            "batches": hardware.BATCHES,
            "checked": measured_once("hardware"),
        },
    ),
)
