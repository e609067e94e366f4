"""Sources of a scheduler: one hash over the code that its module imports, for the age of a run.

``bench.task.Task.code_hash`` covers whole packages, so it changes with every commit. The hash of this module changes
only if code changes that the scheduler can reach; comments and docstrings have no effect.
"""

import ast
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.util import find_spec, resolve_name
from pathlib import Path

from bench.provenance import OWN_PACKAGES

WITHOUT_EFFECT = frozenset({"instances.compiled", "instances.kernel_fingerprint"})
"""Modules that decide when kernels are compiled, never what they return."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
"""Nodes of a syntax tree that may have docstrings."""


@cache
def scheduler_hash(target: str) -> str | None:
    """Return the SHA-256 of the code behind ``module:attribute``; ``None`` if its module is not in a package.

    The code is the module and all modules that it imports, directly or through others, from its own top-level package
    and from the packages that run with every scheduler. Files of other kinds, such as policies, have no effect.
    """
    module = target.partition(":")[0]
    package = module.partition(".")[0]
    if not package.isidentifier() or _source(module) is None:
        return None
    digest = sha256()
    for name, text in sorted(_closure(module, {package, *OWN_PACKAGES}).items()):
        digest.update(f"{name}={text};".encode())
    return digest.hexdigest()


def _closure(module: str, packages: set[str]) -> dict[str, str]:
    """Return the code of ``module`` and of the modules of ``packages`` that it imports, by name."""
    code: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in code and name not in WITHOUT_EFFECT and name.partition(".")[0] in packages:
            code[name], imports = _parsed(name)
            waiting += [origin for base, imported in imports for origin in _origins(base, imported)]
    return code


@cache
def _parsed(module: str) -> tuple[str, Sequence[tuple[str, str]]]:
    """Return a module's code without comments and docstrings, and its imports; no code for a folder without a file.

    An import is a module, and a name in it or an empty text.
    """
    source = _source(module)
    if source is None:
        return "", ()
    tree = ast.parse(source.read_text(encoding="utf-8"))
    package = module if source.name == "__init__.py" else module.rpartition(".")[0]
    imports: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package)
            imports += [(base, alias.name) for alias in node.names]
        elif isinstance(node, _Documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree), tuple(dict.fromkeys(imports))


@cache
def _origins(base: str, name: str) -> Sequence[str]:
    """Return the modules that define ``name`` of ``base``: a package's own file often only passes names on."""
    if name and _source(f"{base}.{name}") is not None:
        return (f"{base}.{name}",)
    source = _source(base)
    if source is None:
        return ()
    if name and source.name == "__init__.py":
        for inner_base, inner_name in _parsed(base)[1]:
            if inner_name == name:
                return _origins(inner_base, name)
    return (base,)


@cache
def _source(module: str) -> Path | None:
    """Return the file of a module, or ``None`` if there is none; nothing is imported."""
    package, *names = module.split(".")
    try:
        spec = find_spec(package)
    except ValueError:  # a module without a specification, such as ``__main__``
        return None
    if spec is None:
        return None
    if not names and spec.submodule_search_locations is None:
        return Path(spec.origin) if spec.origin is not None and spec.origin.endswith(".py") else None
    places = [Path(folder, *names) for folder in spec.submodule_search_locations or ()]
    files = [file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))]
    return next((file for file in files if file.is_file()), None)
