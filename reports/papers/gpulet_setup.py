"""gpulet ATC'22 and arXiv'21: inputs of their tables that no figure has: SLOs, inputs, scenarios, applications, GPU."""

from collections.abc import Callable

from instances.catalogue import gpu_type
from instances.instance import Instance
from instances.suites import SCENARIO_SUITES
from reports.claim import TAKEN_FROM_PAPER, Claim, Values, query
from reports.papers.gpulet_text import SHORT
from reports.runs import Runs, the_instance

NINE = ("googlenet", "lenet", "resnet50", "ssd-mobilenet", "vgg16", "mnasnet", "mobilenet", "densenet161", "bert")
"""Models in the order of ATC Table 3; the first five are those of the arXiv version, in its order."""

FIVE = NINE[:5]

INPUTS = ("resnet50", "lenet", "ssd-mobilenet", "bert")
"""Models with the different inputs of ATC Table 3."""

VALUE_BYTES, INDEX_BYTES = 4, 8
"""Bytes of a value of an image (single precision), and of an index of BERT."""

TABLE_5 = ("gpulet-equal", "gpulet-long-only", "gpulet-short-skew")
TABLE_5_MODELS = ("lenet", "googlenet", "resnet50", "ssd-mobilenet", "vgg16")
"""Scenarios and models of arXiv Table 5, in its order."""

SCENARIOS = tuple(f"gpulet-scen{number}" for number in range(1, 6))


@query
def _slos_ms(_: Runs, scenarios: str, models: tuple[str, ...]) -> Values:
    slo_ms = {w.model: w.slo_ms for w in SCENARIO_SUITES[scenarios].build().base.workloads}
    return tuple(slo_ms[model] for model in models)


@query
def _rates(_: Runs, scenarios: str) -> Values:
    """Return the rates of a model in the scenarios, the number of models, and the number of scenarios."""
    rates_rps = SCENARIO_SUITES[scenarios].build().rates_rps
    rates_of_a_model = sorted({float(rate) for rate in rates_rps.ravel()})
    return ", ".join(f"{rate:g}" for rate in rates_of_a_model), rates_rps.shape[1], len(rates_rps)


def _inputs(_: Runs) -> Values:
    """Return the number of values in an input of each of ``INPUTS``; for BERT, the number of indices."""
    models = gpu_type("rtx2080ti").models
    sizes = {name: INDEX_BYTES if name == "bert" else VALUE_BYTES for name in INPUTS}
    return tuple(models[name].input_bytes // size for name, size in sizes.items())


def _models_of_scenarios(_: Runs) -> Values:
    return tuple(", ".join(SHORT[workload.model] for workload in the_instance(name).workloads) for name in SCENARIOS)


@query
def _of_applications(_: Runs, names: tuple[str, str], value: Callable[[Instance], float]) -> Values:
    return tuple(value(the_instance(name)) for name in names)


def _rates_of_three(_: Runs) -> Values:
    """Return the rates of the arXiv version's scenarios, by model in the order of its Table 5."""
    return tuple(
        ", ".join(f"{rate_rps.get(model, 0.0):g}" for model in TABLE_5_MODELS)
        for rate_rps in ({w.model: w.rate_rps for w in the_instance(name).workloads} for name in TABLE_5)
    )


def _slo_ms(instance: Instance) -> float:
    (application,) = instance.applications
    return application.slo_ms


def _stages(instance: Instance) -> int:
    return len(instance.workloads)


SETUP = (
    Claim(
        what="ATC Table 3: SLOs of goo, le, res, ssd, vgg, nas, mob, den, be",
        paper=(66, 5, 108, 202, 142, 62, 64, 202, 22),
        ours=_slos_ms("gpulet-19682", NINE),
        form=", ".join(["{:g}"] * len(NINE)) + " ms",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="arXiv Sec. 6.1: SLOs of goo, le, res, ssd, vgg",
        paper=(44, 5, 95, 136, 130),
        ours=_slos_ms("gpulet-1023", FIVE),
        form=", ".join(["{:g}"] * len(FIVE)) + " ms",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="ATC Table 3: values of an input: an image, that of LeNet, of SSD-MobileNet, of BERT",
        paper=(3 * 224 * 224, 28 * 28, 3 * 300 * 300, 14),
        ours=_inputs,
        form="{:,}, {:,}, {:,}, {:,}",
        reason="BERT reads three vectors of longer texts here; with the printed one, the largest rate of scen1 does "
        "not change, see docs/deviations.md",
    ),
    Claim(
        what="ATC Sec. 3.2: rates of a model in req/s, models, scenarios",
        paper=("0, 100, 200", 9, 19_682),
        ours=_rates("gpulet-19682"),
        form="{}; {}; {:,}",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="arXiv Sec. 3.1: rates of a model in req/s, models, scenarios",
        paper=("0, 200, 400, 600", 5, 1_023),
        ours=_rates("gpulet-1023"),
        form="{}; {}; {:,}",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="ATC Sec. 5.1: models of scen1 to scen5",
        paper=("mob, be, nas, goo", "den, vgg", "mob, res, vgg", "ssd, nas, den", "le, ssd, nas, vgg"),
        ours=_models_of_scenarios,
        form="; ".join(["{}"] * len(SCENARIOS)),
        not_comparable=TAKEN_FROM_PAPER,
        note="rates within a scenario are equal, as in print",
    ),
    Claim(
        what="arXiv Table 5: rates of le, goo, res, ssd, vgg in equal, long-only and short-skew",
        paper=("50, 50, 50, 50, 50", "0, 0, 100, 100, 100", "100, 100, 100, 50, 50"),
        ours=_rates_of_three,
        form="{}; {}; {} req/s",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="ATC Sec. 5.1: SLOs of game and traffic",
        paper=(108, 202),
        ours=_of_applications(("gpulet-game", "gpulet-traffic"), _slo_ms),
        form="{:g}, {:g} ms",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="arXiv Sec. 6.1: SLOs of game and traffic",
        paper=(95, 136),
        ours=_of_applications(("gpulet-arxiv-game", "gpulet-arxiv-traffic"), _slo_ms),
        form="{:g}, {:g} ms",
        not_comparable=TAKEN_FROM_PAPER,
    ),
    Claim(
        what="ATC Sec. 5.1: models in game and traffic",
        paper=(7, 3),
        ours=_of_applications(("gpulet-game", "gpulet-traffic"), _stages),
        form="{}, {}",
        not_comparable=TAKEN_FROM_PAPER,
        note="the arXiv version names them",
    ),
    Claim(
        what="ATC Table 2: memory of a GPU",
        paper=(11.0,),
        ours=lambda _: (gpu_type("rtx2080ti").memory_mib / 1024.0,),
        form="{:g} GB",
        not_comparable=TAKEN_FROM_PAPER,
        note="no performance model here has its number of cores or the bandwidth of its memory",
    ),
)
"""Claims of the tables and of the text on the inputs of the experiments."""
