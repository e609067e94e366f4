"""Assignment of instances to suites."""

from collections import Counter
from collections.abc import Mapping

from instances.suites import SCENARIO_SUITES, SUITES

AT_OTHER_RATES = "at other rates"
"""Suffix of the suites of instances that ``bench max-rate`` made."""

OWN = "own instances"
"""Suite of instances outside all suites, or in an older version of one."""


def suites_of(names: Mapping[str, str]) -> dict[str, str]:
    """Return the suite of every instance in a ledger, by fingerprint.

    If several suites share an instance, the one with the most instances in the ledger counts. Instances of
    ``bench max-rate`` belong to a suite at other rates.

    Parameters
    ----------
    names
        Names of the ledger's instances, by fingerprint.
    """
    built = {suite.name: suite.build() for suite in SUITES.values()}
    known = set(names.values())
    members = {name: {one.fingerprint for one in made if one.name in known} for name, made in built.items()}
    home = {instance.name: name for name, made in reversed(built.items()) for instance in made}
    present = Counter({name: len(prints & names.keys()) for name, prints in members.items()})

    def suite_of(fingerprint: str, name: str) -> str:
        candidates = [suite for suite, prints in members.items() if fingerprint in prints]
        if candidates:
            return max(candidates, key=lambda suite: present[suite])
        base, scaled, _ = name.rpartition("*")
        if scaled and base in home:
            return f"{home[base]} {AT_OTHER_RATES}"
        return name if name in SCENARIO_SUITES else OWN

    return {fingerprint: suite_of(fingerprint, name) for fingerprint, name in names.items()}
