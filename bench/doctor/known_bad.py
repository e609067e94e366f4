"""Versions of solvers that are known to be bad: what they do, and what to install instead.

Only releases that were seen to fail are here. The pins in ``pyproject.toml`` keep them out; an environment in which
something else was installed later need not know.
"""

import re
from dataclasses import dataclass

from bench.code_version import distribution_version
from instances.errors import InputError

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KnownBad:
    """Releases of a distribution that must not be used.

    Attributes
    ----------
    distribution
        As package indexes call it.
    first, before
        From this release on, and before that one if given.
    trouble
        What they do.
    install
        What to install instead.
    beside
        Another distribution, without which they do no harm.
    wrong_answers
        Whether results are wrong. Otherwise nothing comes of them, which a run tells by itself.
    """

    distribution: str
    first: Version
    before: Version | None
    trouble: str
    install: str
    beside: str = ""
    wrong_answers: bool = False

    def covers(self, version: str) -> bool:
        """Whether ``version`` is one of these."""
        release = numbers(version)
        return self.first <= release and (self.before is None or release < self.before)


KNOWN_BAD = (
    KnownBad(
        "highspy",
        (1, 14),
        (1, 14, 1),
        "reports wrong optima of mixed-integer programs (presolve)",
        "highspy==1.13.1",
        wrong_answers=True,
    ),
    KnownBad(
        "highspy",
        (1, 15),
        None,
        "cannot be loaded beside ortools: both bring a libhighs.so.1",
        "highspy==1.13.1",
        beside="ortools",
    ),
)


def numbers(version: str) -> Version:
    """Return the release that a version belongs to, ``(1, 14)`` of ``1.14.0rc1``: trailing zeros say nothing."""
    release = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in release.group().split(".")] if release else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def installed_known_bad() -> list[tuple[KnownBad, str]]:
    """Return what is installed and known to be bad, with its version."""
    found = []
    for bad in KNOWN_BAD:
        version = distribution_version(bad.distribution)
        alone = bad.beside and distribution_version(bad.beside) is None
        if version is not None and not alone and bad.covers(version):
            found.append((bad, version))
    return found


def refuse_wrong_answers() -> None:
    """Refuse to fill a ledger while a solver is installed that gives wrong answers.

    Plans are judged whoever made them, but nobody can judge a bound, and one wrong bound spoils the gaps of all.

    Raises
    ------
    InputError
        Naming the solver, and what to install.
    """
    for bad, version in installed_known_bad():
        if bad.wrong_answers:
            raise InputError(
                f"{bad.distribution} {version}", f'{bad.trouble}; install another: pip install "{bad.install}"'
            )
