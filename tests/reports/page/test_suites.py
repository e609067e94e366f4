"""To which suite an instance belongs."""

from dataclasses import replace

from instances.suites import suite
from reports.page.instance_results import OWN, suites_of
from tests.reports.page.runs_made_here import TWELVE


def found(*instances):
    return list(suites_of({instance.fingerprint: instance.name for instance in instances}).values())


def test_of_several_suites_the_one_that_was_run():
    (shared,) = suite("igniter-3").build()
    assert found(shared) == ["igniter-3"]
    assert set(found(*suite("smoke").build())) == {"smoke"}


def test_an_instance_that_only_borrows_a_name_is_nobodys():
    assert found(replace(TWELVE, latency_buffer=1.5)) == [OWN]


def test_other_rates_of_a_suite_are_told_apart():
    assert found(TWELVE, TWELVE.scaled(2.0)) == ["igniter-12", "igniter-12 at other rates"]


def test_scenario_sets_are_their_own_suite():
    assert suites_of({"00": "gpulet-1023"}) == {"00": "gpulet-1023"}
