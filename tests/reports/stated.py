"""Parameters of a figure's need."""

from reports.need import Need


def stated(need: Need) -> dict[str, dict[str, object]]:
    """Return the parameters of a need as a row has them: by scheduler and name."""
    parameters: dict[str, dict[str, object]] = {}
    for text in need.parameters:
        name, _, value = text.partition("=")
        scheduler, _, parameter = name.rpartition(".")
        parameters.setdefault(scheduler, {})[parameter] = {"true": True, "false": False}.get(value, value)
    return parameters
