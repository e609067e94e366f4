"""``bench schema``: JSON Schemas of instances, plans and certificates."""

from typing import Annotated

import typer

from bench.certificate.certificate import CertificateFile
from bench.cli.terminal import print_json
from instances.errors import unknown_name
from instances.files import schemas

EXAMPLES = ("bench schema instance > instance.schema.json", "bench schema certificate")


def print_schema(
    kind: Annotated[str, typer.Argument(metavar="instance|plan|certificate", help="File format.")],
) -> None:
    """Print the JSON Schema (draft 2020-12) of a file format."""
    schema_by_format = {**schemas(), "certificate": CertificateFile.model_json_schema()}
    if kind not in schema_by_format:
        raise unknown_name("KIND", "file", kind, list(schema_by_format))
    print_json(schema_by_format[kind])
