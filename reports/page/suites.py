"""To which suite an instance belongs."""

from collections import Counter
from collections.abc import Mapping

from instances.suites import SCENARIO_SUITES, SUITES

AT_OTHER_RATES = "at other rates"
"""What a suite is called whose instances ``bench max-rate`` made."""

OWN = "own instances"
"""What belongs to no suite, or to an older version of one."""


def suites_of(names: Mapping[str, str]) -> dict[str, str]:
    """Return the suite of every instance in a ledger, by fingerprint.

    Of several suites that share an instance, the one counts of which the ledger has the most instances. Instances of
    ``bench max-rate`` are a suite's at other rates.

    Parameters
    ----------
    names
        Of the ledger's instances, by fingerprint.
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
