"""YAML in which every reader sees the same values: strings are quoted, numbers are whole.

Without quotes, readers of YAML 1.1 take ``y`` for a boolean, and ``1e3`` and ``12:30`` for numbers. Readers of YAML 1.2
take ``0o17`` for a number.
"""

import re
from collections.abc import Sequence
from typing import Any

import yaml

_PLAIN_KEY = re.compile("[A-Za-z][A-Za-z0-9_./-]*")
"""Form of the keys that need no quotes, unless they are in ``_WORDS_WITH_MEANING``."""

_WORDS_WITH_MEANING = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
"""Words that some readers of YAML take for a boolean, null or a number."""


class _Quoting(yaml.SafeDumper):  # type: ignore[misc]  # yaml has no types
    """Writer that quotes all strings but the keys that mean the same to every reader."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node: yaml.MappingNode = super().represent_mapping(tag, mapping, flow_style)
        for key, _ in node.value:
            if _PLAIN_KEY.fullmatch(key.value) and key.value.lower() not in _WORDS_WITH_MEANING:
                key.style = None
        return node


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else '"')


_Quoting.add_representer(str, _represent_text)


def yaml_text(document: object) -> str:
    """Return a document as YAML."""
    return yaml_documents([document])


def yaml_documents(documents: Sequence[object]) -> str:
    """Return several documents as one YAML text."""
    return str(yaml.dump_all(documents, Dumper=_Quoting, sort_keys=False, default_flow_style=False, width=1_000_000))
