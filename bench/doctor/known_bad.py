"""Versions of solvers that are known to be bad, with their faults and replacements.

The list has only releases with an observed failure. The pins in ``pyproject.toml`` exclude them, but a later
installation of another package may bring them back.
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
        Name in package indexes.
    first, before
        First bad release, and the release that fixes it, if there is one.
    trouble
        Description of the fault.
    install
        Requirement to install instead.
    beside
        Other distribution that the fault depends on, or an empty text.
    wrong_answers
        Whether results are wrong. Otherwise runs fail, and their rows say so.
    """

    distribution: str
    first: Version
    before: Version | None
    trouble: str
    install: str
    beside: str = ""
    wrong_answers: bool = False

    def covers(self, version: str) -> bool:
        """Return whether ``version`` is one of these releases."""
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
        "cannot be loaded together with ortools: both contain a libhighs.so.1",
        "highspy==1.13.1",
        beside="ortools",
    ),
)


def numbers(version: str) -> Version:
    """Return the release numbers of a version without trailing zeros: ``(1, 14)`` for ``1.14.0rc1``."""
    release = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in release.group().split(".")] if release else []
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


def installed_known_bad() -> list[tuple[KnownBad, str]]:
    """Return the bad releases that are installed, with their versions."""
    found = []
    for bad in KNOWN_BAD:
        version = distribution_version(bad.distribution)
        alone = bad.beside and distribution_version(bad.beside) is None
        if version is not None and not alone and bad.covers(version):
            found.append((bad, version))
    return found


def refuse_wrong_answers() -> None:
    """Refuse to fill a ledger while a solver with wrong results is installed.

    The judge checks every plan but cannot check bounds, and one wrong bound makes the gaps of all schedulers wrong.

    Raises
    ------
    InputError
        If such a solver is installed; the message names the solver and its replacement.
    """
    for bad, version in installed_known_bad():
        if bad.wrong_answers:
            raise InputError(
                f"{bad.distribution} {version}", f'{bad.trouble}; install another version: pip install "{bad.install}"'
            )
