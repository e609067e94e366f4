"""Second objective of a run; in a module without heavy imports, because the help of the command line names it."""

from enum import StrEnum


class Then(StrEnum):
    """Second objective among plans of equal cost: none, or the slack of the tightest workload."""

    NONE = "none"
    SLACK = "slack"
