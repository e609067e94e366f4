"""Templates of the pages, and the style sheet and scripts that all pages share."""

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from bench.formatting import seconds
from reports.page.plan_columns import boxes


def environment() -> Environment:
    """Return the environment of the templates, which escapes values and raises an error for undefined ones."""
    templates = Environment(
        loader=PackageLoader("reports.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["boxes"] = boxes
    templates.filters["seconds"] = seconds
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return templates


def assets() -> dict[str, str]:
    """Return the style sheet and the scripts, by path within the folder of the pages."""
    folder = files("reports.page").joinpath("assets")
    return {f"assets/{file.name}": file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()}
