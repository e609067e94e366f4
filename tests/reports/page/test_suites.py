"""The suite to which each instance of a ledger belongs."""

from dataclasses import replace

from bench.ledger.store import Ledger
from instances.library import LIBRARY
from instances.suites import suite
from reports.page.instance_results import OWN, suites_of
from reports.page.site import site_files
from tests.reports.page.runs_made_here import TWELVE, row_of


def suites_found(*instances):
    return list(suites_of({instance.fingerprint: instance.name for instance in instances}).values())


def test_of_several_suites_the_one_whose_instances_are_in_the_ledger_is_chosen():
    (shared,) = suite("igniter-3").build()
    assert suites_found(shared) == ["igniter-3"]
    assert set(suites_found(*suite("smoke").build())) == {"smoke"}


def test_an_instance_with_a_suites_name_but_other_content_is_the_users():
    assert suites_found(replace(TWELVE, latency_buffer=1.5)) == [OWN]


def test_instances_of_a_suite_at_other_rates_are_another_suite():
    assert suites_found(TWELVE, TWELVE.scaled(2.0)) == ["igniter-12", "igniter-12 at other rates"]


def test_scenario_sets_are_their_own_suite():
    assert suites_of({"00": "gpulet-1023"}) == {"00": "gpulet-1023"}


def test_instances_of_the_library_have_its_suite_and_its_tab(tmp_path):
    instance = LIBRARY.instance(LIBRARY.names("cost-*")[0])
    assert suites_found(instance) == ["library"]
    assert suites_found(replace(instance, latency_buffer=1.5)) == [OWN]
    with Ledger(tmp_path / "l.sqlite", create=True) as ledger:
        ledger.add(row_of("igniter", instance), instance)
        files = site_files(ledger)
    assert 'href="library.html"' in files["index.html"]
    assert 'href="index.html#library"' in files["library.html"]
    assert files["index.html"].count('id="library"') == 1


def test_a_ledger_without_the_library_has_no_leaderboard_of_it(ledger_file):
    with Ledger(ledger_file) as ledger:
        assert not any("#library" in text for text in site_files(ledger).values())
