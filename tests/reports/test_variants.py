"""Rows by the parameters of their schedulers."""

from reports.figure import Need
from reports.variants import made_for


def test_rows_whose_parameters_are_those_stated(make_row):
    rows = [
        make_row("a", parameters={"a": {"fast": True, "variant": "one"}}),
        make_row("a", parameters={"a": {"fast": False, "variant": "one"}}),
        make_row("a", parameters={"a": {"fast": True, "variant": "two"}}),
        make_row("b", parameters={"b": {"fast": True, "variant": "one"}}),
    ]
    assert made_for(rows, Need("x", ("a",))) == rows[:3]
    assert made_for(rows, Need("x", ("a",), parameters=("a.fast=true",))) == [rows[0], rows[2]]
    assert made_for(rows, Need("x", ("a",), parameters=("a.fast=true", "a.variant=one"))) == [rows[0]]
    assert made_for(rows, Need("x", ("a", "b"), parameters=("b.fast=true",))) == [rows[3]]


def test_a_start_has_parameters_too(make_row):
    row = make_row("b@a", parameters={"b": {}, "a": {"width": 3}})
    assert made_for([row], Need("x", ("b@a",), parameters=("a.width=3",))) == [row]
    assert made_for([row], Need("x", ("b@a",), parameters=("a.width=4",))) == []
