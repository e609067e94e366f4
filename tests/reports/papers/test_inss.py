"""InSS's decision times, fragments and usage of GPUs, and what its agent learned."""

import csv

import numpy as np
import pytest
from matplotlib.colors import to_hex

from instances.catalogue import gpu_type
from instances.measurements import Configuration, SoloSample
from instances.performance.solo_fit import fit_solo
from instances.suites import suite
from reports.charts.palette import ALARM
from reports.papers import figure
from reports.papers.inss_agent import FAMILIES, curves
from reports.papers.inss_clusters import SMALL_CLUSTER, mean_share_pct
from reports.papers.inss_decision_times import TIMED, grows, runs_of_label, time_points
from reports.papers.inss_large_cluster import LARGE_CLUSTER
from reports.papers.inss_model import solo_rps
from reports.papers.inss_schedulers import TRAININGS
from reports.papers.inss_setup import divided_workloads, most_on_a_gpu, planned_workloads
from reports.papers.inss_violations import mean_load
from reports.quantities import allocated_pct, fragments_pct
from reports.statistics.inference import half_width
from rl.ts import SHIPPED
from tests.reports.figure_names import OF_TRAININGS
from tests.reports.stated import stated


@pytest.fixture(scope="module")
def run_row(make_row):
    def make(name, label, training=0, **given):
        need = {"inss-fig18": LARGE_CLUSTER, "inss-fig19": TIMED}.get(name, SMALL_CLUSTER)[label][training]
        fields = {"value": 1.0, "feasible": True, "decision_s": 0.25, "gpus_used": 3, "fragments_pct": 20.0}
        instance = given.pop("instance", need.instances)
        return make_row(need.schedulers[0], instance, parameters=stated(need), **(fields | given))

    return make


def test_fragments_are_summed_over_the_gpus_in_use(make_row):
    row = make_row(gpus_used=3, fragments_pct=20.0)
    assert (allocated_pct(row), fragments_pct(row)) == (240.0, 60.0)
    no_plan = make_row(gpus_used=None, fragments_pct=None)
    assert (allocated_pct(no_plan), fragments_pct(no_plan)) == (None, None)


@pytest.mark.parametrize(
    ("name", "heights"), [("inss-fig3", [250.0]), ("inss-fig4", [60.0]), ("inss-fig15", [240.0, 60.0])]
)
def test_each_part_has_a_bar(name, heights, run_row, draw):
    (ax,) = draw(name, [run_row(name, "igniter")]).axes
    assert [bar.get_height() for bar in ax.patches] == heights
    assert [text.get_text() for text in ax.get_xticklabels()] == ["igniter"]
    assert not ax.containers[0].errorbar  # the spread of one run is unknown


def test_an_agents_bar_is_the_mean_of_its_trainings(run_row, draw):
    free_pct = [10.0, 20.0, 30.0, 40.0, 50.0]
    rows = [run_row("inss-fig4", "ts", n, gpus_used=1, fragments_pct=pct) for n, pct in enumerate(free_pct)]
    superseded = run_row("inss-fig4", "ts", 2, gpus_used=1, fragments_pct=90.0)
    page = draw("inss-fig4", [superseded, *rows, run_row("inss-fig4", "igniter")])
    (ax,) = page.axes
    assert [bar.get_height() for bar in ax.patches] == [30.0, 60.0]
    (whisker,) = (line.get_segments()[0] for line in ax.collections)
    assert whisker[:, 1] == pytest.approx([30.0 - half_width(free_pct), 30.0 + half_width(free_pct)])
    assert "ts: mean of 5 trainings and its 95 % confidence interval." in " ".join(page.get_supxlabel().split())


def test_the_variant_that_leaves_shares_free_is_drawn(run_row, draw):
    rows = [run_row("inss-fig15", "igniter"), run_row("inss-fig15", "igniter", gpus_used=4, fragments_pct=0.0)]
    rows[1].parameters["igniter"]["spend_spare"] = True
    (ax,) = draw("inss-fig15", rows).axes
    assert [bar.get_height() for bar in ax.patches] == [240.0, 60.0]


def test_plans_that_break_constraints_are_named_in_red(run_row, draw):
    rows = [
        run_row("inss-fig18", "ts", 1, feasible=False, violations=3),
        run_row("inss-fig18", "ts", 2),
        run_row("inss-fig18", "gslice+", feasible=False, violations=98),
        run_row("inss-fig18", "igniter"),
    ]
    page = draw("inss-fig18", rows)
    (ax,) = page.axes
    colours = [to_hex(text.get_color()).upper() for text in ax.get_xticklabels()]
    assert colours == [ALARM, ALARM, "#000000"]
    note = " ".join(page.get_supxlabel().split())
    assert "plans that break constraints, with their number of violations: ts 3, gslice+ 98." in note
    assert "Not run: elastic-partitioning, local-search." in note


def test_schedulers_without_a_plan_are_named(run_row, draw):
    no_plan = {"status": "unknown", "gpus_used": None, "fragments_pct": None, "value": None, "feasible": None}
    page = draw("inss-fig18", [run_row("inss-fig18", "gpulet", **no_plan), run_row("inss-fig18", "igniter")])
    assert "Without a result: elastic-partitioning (unknown) on inss-64gpu." in " ".join(page.get_supxlabel().split())


def test_decision_times_are_medians_over_repeats_and_trainings(run_row, draw):
    times = {("4gpu", 0): 0.009, ("4gpu", 1): 0.001, ("4gpu", 2): 0.002, ("inss-32gpu", 0): 0.1}
    rows = [
        run_row("inss-fig19", "gslice+", instance=instance, seed=seed, decision_s=seconds)
        for (instance, seed), seconds in times.items()
    ]
    trained = [run_row("inss-fig19", "ts", n, instance="inss-8gpu", decision_s=0.001 * (n + 1)) for n in TRAININGS]
    no_plan = run_row("inss-fig19", "ts", instance="inss-64gpu", gpus_used=None)
    rows_of_all = [*rows, *trained, no_plan]
    assert time_points(runs_of_label(rows_of_all, "gslice+")) == [(4, pytest.approx(2.0)), (32, pytest.approx(100.0))]
    assert time_points(runs_of_label(rows_of_all, "ts")) == [(8, pytest.approx(3.0))]
    page = draw("inss-fig19", rows_of_all)
    (ax,) = page.axes
    (line,) = (line for line in ax.lines if line.get_label() == "gslice+")
    assert line.get_xydata().round(6).tolist() == [[4.0, 2.0], [32.0, 100.0]]
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert "Without a result: ts (feasible) on inss-64gpu." in " ".join(page.get_supxlabel().split())


def four_gpu_plan(*gpus):
    """Return a plan for ``4gpu`` from the gpulets (share units, workload, batch, rate) of each GPU."""
    gpu_entries = [
        {
            "type": "a100-inss",
            "gpulets": [
                {"share_units": units, "slots": [{"workload": workload, "batch": batch, "rate_rps": rate_rps}]}
                for units, workload, batch, rate_rps in gpu
            ],
        }
        for gpu in gpus
    ]
    return {"version": 1, "instance": "4gpu", "gpus": gpu_entries}


def test_a_models_share_is_weighted_by_the_rates_of_its_gpulets(make_row):
    plan = four_gpu_plan([(27, "W2", 8, 1200.0), (9, "W10", 8, 600.0)], [(54, "W1", 8, 100.0)])
    row = make_row("ts", "4gpu", plan=plan)
    assert mean_share_pct(row, "resnet50") == pytest.approx(100.0 * (2.0 * 27 + 9) / 3.0 / 54)
    assert mean_share_pct(row, "alexnet") == pytest.approx(100.0)
    assert mean_share_pct(row, "vgg16") is None
    assert mean_share_pct(make_row("ts", "4gpu", plan=None), "vgg16") is None


def test_models_are_counted_by_gpu_and_gpus_by_model(make_row):
    both = [(27, "W2", 8, 600.0), (9, "W10", 8, 600.0), (18, "W2", 8, 300.0)]
    row = make_row("elastic-partitioning", "4gpu", plan=four_gpu_plan(both, [(54, "W2", 8, 300.0)]))
    assert (most_on_a_gpu(row), divided_workloads(row), planned_workloads(row)) == (2, 1, 2)
    nothing = make_row("elastic-partitioning", "4gpu", plan=None)
    assert (most_on_a_gpu(nothing), divided_workloads(nothing), planned_workloads(nothing)) == (0, 0, 0)


def test_rounding_explains_less_than_a_unit_of_each_of_gpulets_partitions():
    (claim,) = (claim for claim in figure("inss-fig4").claims if claim.what == "– by gpulet")
    assert claim.supports(7 / 54)
    assert not claim.supports(8 / 54)


def test_every_baseline_has_to_take_longer_on_more_gpus():
    assert grows(1.0, 2.0, 3.0, 3.5)
    assert not grows(1.0, 2.0, 3.0, 3.0)


def test_demands_are_lines_over_the_throughput_without_transfers():
    """Utilisations of a line over Fig. 7's abscissa are fitted by this line."""
    a100 = gpu_type("a100")
    vgg16 = a100.model("vgg16")
    per_item_ms = (vgg16.input_bytes + vgg16.output_bytes) / a100.hardware.pcie_bytes_per_ms
    points = [(batch, share_pct) for batch in (1, 4, 16) for share_pct in (50.0, 100.0)]
    samples = [
        SoloSample(
            Configuration("vgg16", batch, share_pct),
            latency_ms=batch * (per_item_ms + gpu_ms),
            l2_pct=0.01 * 1000.0 / gpu_ms + 2.0,
            dram_pct=0.02 * 1000.0 / gpu_ms,
        )
        for batch, share_pct in points
        for gpu_ms in (100.0 / (share_pct * batch**0.2),)
    ]
    solo = fit_solo("vgg16", samples, per_item_ms).profile
    for (slope, intercept), measured in ((solo.l2, "l2_pct"), (solo.dram, "dram_pct")):
        fitted = slope * solo_rps("vgg16", samples) + intercept
        assert fitted == pytest.approx([getattr(sample, measured) for sample in samples])


def test_a_servers_load_grows_beside_neighbours(make_row):
    """Each workload is alone on a GPU, except that W2 and W3 share one in the second plan."""
    (instance,) = suite("4gpu").build()
    pairs = [(w.id, w.rate_rps) for w in instance.workloads if w.id not in ("W2", "W3")]
    alone = [[(54, workload, 8, rate_rps)] for workload, rate_rps in pairs]
    separate = [[(27, "W2", 8, 1200.0)], [(27, "W3", 8, 800.0)]]
    shared = [[(27, "W2", 8, 1200.0), (27, "W3", 8, 800.0)]]
    loads = [
        mean_load(make_row("ts", "4gpu", plan=four_gpu_plan(*alone, *w2_and_w3))) for w2_and_w3 in (separate, shared)
    ]
    assert 0.0 < loads[0] < loads[1]
    assert mean_load(make_row("ts", "4gpu", plan=None)) is None


@pytest.mark.parametrize("name", OF_TRAININGS)
def test_curves_are_means_of_trainings_within_a_band(name, draw):
    assert figure(name).needs == ()
    axes = np.array(draw(name, []).axes).reshape(-1, len(FAMILIES))
    for column, family in zip(axes.T, FAMILIES, strict=True):
        for ax in column:
            *curves_of_trainings, mean = (line.get_ydata() for line in ax.lines)
            assert len(curves_of_trainings) == len(TRAININGS)
            assert mean == pytest.approx(np.mean(curves_of_trainings, axis=0))
            low, high = ax.collections[0].get_datalim(ax.transData).intervaly
            assert low < mean.min() <= mean.max() < high
        *_, last = csv.DictReader((SHIPPED / f"{family}-s0.csv").read_text().splitlines())
        assert curves(family, "reward")[0, -1] == float(last["reward"])


def test_the_agent_has_no_plan_for_a_rate_below_its_training_range():
    (claim,) = (claim for claim in figure("inss-fig11").claims if "has no plan" in claim.what)
    without_plan, decisions = claim.ours(None)
    assert (without_plan, decisions) == (1, 19)


def test_fragments_of_gpus_in_use_are_compared_by_scheduler():
    contrast, per_gpu = figure("inss-fig18").claims[2:]
    assert contrast.supports(1.0, 2.0, 2.0, 2.0)
    assert not contrast.supports(1.0, 0.5, 2.0, 2.0)
    assert per_gpu.formatted((2.34, 0.0, 3.05, 4.58)) == "2.3 %, 0.0 %, 3.0 %, 4.6 %"
