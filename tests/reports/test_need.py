"""Rows that match a figure's need: by parameters of their schedulers and by conditions of their trial."""

from bench.evaluation import SIMULATED, Trial
from bench.simulation.arrivals import Arrivals, Process
from reports.need import Need, has_conditions, rows_matching


def test_rows_match_a_need_with_their_parameters(make_row):
    rows = [
        make_row("a", parameters={"a": {"fast": True, "variant": "one"}}),
        make_row("a", parameters={"a": {"fast": False, "variant": "one"}}),
        make_row("a", parameters={"a": {"fast": True, "variant": "two"}}),
        make_row("b", parameters={"b": {"fast": True, "variant": "one"}}),
    ]
    assert rows_matching(rows, Need("x", ("a",))) == rows[:3]
    assert rows_matching(rows, Need("x", ("a",), parameters=("a.fast=true",))) == [rows[0], rows[2]]
    assert rows_matching(rows, Need("x", ("a",), parameters=("a.fast=true", "a.variant=one"))) == [rows[0]]
    assert rows_matching(rows, Need("x", ("a", "b"), parameters=("b.fast=true",))) == [rows[3]]


def test_parameters_that_a_need_does_not_state_must_have_their_defaults(make_row):
    printed, variant = (
        make_row("gslice+", parameters={"gslice+": {"cut": cut, "band": 0.1}}) for cut in ("any", "both")
    )
    earlier = make_row("gslice+", parameters={"gslice+": {"band": 0.1}})
    assert rows_matching([printed, variant, earlier], Need("x", ("gslice+",))) == [printed, earlier]
    assert rows_matching([printed, variant], Need("x", ("gslice+",), parameters=("gslice+.cut=both",))) == [variant]
    assert rows_matching([variant], Need("x", ("gslice+",), parameters=("gslice+.band=0.1",))) == []


def test_parameters_of_a_start_are_matched_too(make_row):
    row = make_row("b@a", parameters={"b": {}, "a": {"width": 3}})
    assert rows_matching([row], Need("x", ("b@a",), parameters=("a.width=3",))) == [row]
    assert rows_matching([row], Need("x", ("b@a",), parameters=("a.width=4",))) == []


def test_rows_match_a_need_with_the_conditions_of_their_trial(make_row):
    tried = {"headroom": 1.1, "truth": "hybrid, figures off by up to 20 %", "simulation": {"arrivals": "constant"}}
    row = make_row("a", **tried)
    constant = Arrivals(Process.CONSTANT)
    assert rows_matching([row], Need("x", ("a",), trial=Trial(1.1, "hybrid", 0.2, constant))) == [row]
    for other in (
        SIMULATED,
        Trial(1.0, "hybrid", 0.2, constant),
        Trial(1.1, None, 0.2, constant),
        Trial(1.1, "hybrid", 0.1, constant),
        Trial(1.1, "hybrid", 0.2, Arrivals()),
        Trial(1.1, "hybrid", 0.2),
        Trial(1.1, "hybrid", 0.2, constant, margin=0.9),
    ):
        assert rows_matching([row], Need("x", ("a",), trial=other)) == []


def test_a_row_without_a_simulation_matches_any_arrivals(make_row):
    for trial in (SIMULATED, Trial(), Trial(arrivals=Arrivals(Process.CONSTANT))):
        assert has_conditions(make_row("a", headroom=1.0), trial)
