"""Statistics of a complete table: against values worked out by hand and SciPy."""

import numpy as np
import pytest
from scipy.stats import false_discovery_control, friedmanchisquare, rankdata, t, wilcoxon

from bench.ledger.gap import Gap
from reports.statistics.complete_table import complete_table
from reports.statistics.summary import summary

NAMES = [f"exact-{size}-s{seed}" for size in (5, 10, 15, 20) for seed in (0, 1)]


@pytest.fixture(scope="module")
def rows(make_row):
    """Eight instances, three seeds of random and one of the others; each solved cost but colgen's differs."""
    draw = np.random.default_rng(3)

    def run(scheduler, name, value, seed=0, **given):
        plan = {"value": value, "feasible": True} if value is not None else {"termination": "crashed"}
        blank = {"objective": "cost", "decision_s": 0.5, "trajectory": [], "parameters": {}, "source": "plan"}
        return make_row(scheduler, name, key=f"{scheduler} {name} {seed}", seed=seed, **(blank | plan | given))

    table = []
    for name in NAMES:
        table.append(run("colgen", name, 10.0, decision_s=2.0))
        table.append(run("igniter", name, float(10.0 + 5.0 * draw.random())))
        table += [run("random", name, float(12.0 + 8.0 * draw.random()), seed) for seed in range(3)]
        table.append(run("ffd+", name, None))
    return [*table, run("cpsat", NAMES[0], 10.0)]


def table_and_summary(rows, **options):
    table = complete_table(
        rows, {row.key: row.scheduler for row in rows}, [*dict.fromkeys(r.instance_hash for r in rows)]
    )
    return table, summary(table, {row.key: Gap(gap=0.5) for row in rows}, rows, **options)


def test_only_schedulers_that_ran_everywhere_are_ranked(rows):
    _, result = table_and_summary(rows)
    assert [standing.name for standing in result.standings] == ["colgen", "igniter", "random", "ffd+"]
    assert (result.reference, result.left_out, result.instances) == ("colgen", ["cpsat"], 8)
    assert [standing.solved for standing in result.standings] == [8, 8, 24, 0]
    assert result.standings[-1].gap == 1.0


def test_means_and_intervals_over_seeds_are_as_worked_out_by_hand(rows):
    _, result = table_and_summary(rows)
    by_name = {standing.name: standing for standing in result.standings}
    values = np.array([[r.value for r in rows if r.scheduler == "random" and r.seed == seed] for seed in range(3)])
    gaps = 1.0 - 10.0 / values  # shape (seeds, instances)
    random = by_name["random"]
    assert random.gap == pytest.approx(gaps.mean())
    low, high = t.interval(0.95, 2, loc=0.0, scale=gaps.mean(axis=1).std(ddof=1) / 3**0.5)
    assert random.seed_half_width == pytest.approx(high) == pytest.approx(-low)
    assert (random.seeds, by_name["igniter"].seeds, by_name["igniter"].seed_half_width) == (3, 1, None)
    factors = 1.0 / (1.0 - gaps.mean(axis=0))
    assert list(random.profile.values()) == pytest.approx([(factors <= f).mean() for f in (1.0, 1.1, 1.5, 2.0)])
    # No plan for 0.5 s of 10 s, then the gap until the end
    assert random.integral_s == pytest.approx(0.5 + 9.5 * random.gap)
    assert by_name["ffd+"].integral_s == pytest.approx(10.0)


def test_one_against_all_agrees_with_scipy(rows):
    table, result = table_and_summary(rows, reference="igniter")
    gaps = dict(zip(table.runs, table.gaps().T, strict=True))
    assert [duel.name for duel in result.duels] == ["colgen", "random", "ffd+"]
    for duel in result.duels:
        difference = gaps[duel.name] - gaps["igniter"]
        exact = wilcoxon(difference, method="exact")
        assert duel.p == pytest.approx(exact.pvalue)
        assert (duel.wins, duel.ties, duel.losses) == ((difference > 0).sum(), 0, (difference < 0).sum())
        assert duel.difference == pytest.approx(difference.mean())
    # Holm's steps by hand; Benjamini and Hochberg's p values are never larger
    p = sorted(duel.p for duel in result.duels)
    by_hand = np.maximum.accumulate([min(1.0, (3 - rank) * p_value) for rank, p_value in enumerate(p)])
    assert sorted(duel.p_holm for duel in result.duels) == pytest.approx(by_hand)
    assert (np.array(by_hand) >= false_discovery_control(p) - 1e-12).all()


def test_ranks_agree_with_scipy(rows):
    table, result = table_and_summary(rows)
    assert result.ranking.friedman == pytest.approx(friedmanchisquare(*table.gaps().T).statistic)
    ranks = dict(zip(table.runs, np.apply_along_axis(rankdata, 1, table.gaps()).mean(axis=0), strict=True))
    assert {standing.name: standing.rank for standing in result.standings} == pytest.approx(ranks)


def test_losses_are_sorted_by_gap_and_name_a_best_run(rows):
    _, result = table_and_summary(rows, reference="random")
    gaps = [loss.gap for loss in result.losses]
    assert len(gaps) == 8
    assert gaps == sorted(gaps, reverse=True)
    assert {loss.best_run.scheduler for loss in result.losses} <= {"colgen", "cpsat"}
    assert result.losses[0].worst_run.value == max(r.value for r in rows if r.key == result.losses[0].worst_run.key)
    assert table_and_summary(rows)[1].losses == []


def test_an_instance_that_random_solves_does_not_discriminate(rows):
    assert table_and_summary(rows)[1].undecided == []
    without_igniter = [r for r in rows if r.scheduler != "igniter"]
    values = {r.instance: r.value for r in rows if r.scheduler == "random" and r.seed == 1}
    cheap = [r for r in without_igniter if r.scheduler != "colgen" and not (r.scheduler == "random" and r.seed != 1)]
    assert table_and_summary([r for r in cheap if r.scheduler in ("random", "ffd+")])[1].undecided == list(values)
