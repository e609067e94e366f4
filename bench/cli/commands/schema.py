"""``bench schema``: JSON Schemas of instance and plan files."""

from typing import Annotated

import typer

from bench.cli.terminal import print_json
from instances.errors import unknown_name
from instances.files import schemas

EXAMPLES = ("bench schema instance > instance.schema.json", "bench schema plan > plan.schema.json")


def print_schema(kind: Annotated[str, typer.Argument(metavar="instance|plan", help="File format.")]) -> None:
    """Print the JSON Schema (draft 2020-12) of instance or plan files."""
    schema_by_format = schemas()
    if kind not in schema_by_format:
        raise unknown_name("KIND", "file", kind, list(schema_by_format))
    print_json(schema_by_format[kind])
