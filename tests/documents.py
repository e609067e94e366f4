"""Shell commands of the documents: where they stand, which of them no test can run, and how a test shortens them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])

NETWORK, GPU, HOURS = "needs a network", "needs a GPU", "takes more than an hour"

NOT_RUN = {
    "make demo": NETWORK,
    ". .venv/bin/activate": NETWORK,
    "pip install ./examples/plugin": NETWORK,
    "bench check-plugin worst-fit": NETWORK,
    "--schedulers worst-fit,igniter": NETWORK,
    "--cluster tcp://": NETWORK,
    "examples/prove_covering.py": NETWORK,
    "veripb ": NETWORK,
    "--backend mps": GPU,
    "--backend green": GPU,
    "--backend time-slicing": GPU,
    "bench profile run --gpu": GPU,
    "bench profile fit measured-here": GPU,
    "bench library review   ": HOURS,
}
"""Reason why a command is not run, by a part of its line. The commands on the plugin need its installation."""

SHORTER = {
    r"bench library (classify|renew|review|solve|submit)": r"bench library \1 --library entries",
    r"--instances (igniter-12|library/cost-t4-24)  +#": r"--instances \1 --schedulers igniter,ffd+ #",
    r"--time-limit \d+": "--time-limit 1",
    r"cpsat,local-search --param local-search.rounds=10,100": "local-search --param local-search.rounds=10",
    r"examples/experiment.toml": "examples/experiment.toml --schedulers igniter --seeds 0",
    r"--truth hybrid": "--schedulers igniter --truth hybrid",
    r"igniter,cpsat@igniter": "igniter,local-search@igniter",
    r"sbp,elastic-partitioning": "greedy-best-fit",
    r"bench figures igniter-fig14 igniter-fig18": "bench figures igniter-fig14",
    r"--experiments -o mine.md": "-o mine",
    r"bench train ts": "bench train ts --param episodes=1",
    r"bench doctor": "bench doctor --help",
    r"bench profile cost": "bench profile cost --help",
    r"--window 1 ": "--window 12 ",
    r"'held-out/\*.json'": "'held-out/held-out-cost-t4-*.json'",
    r"library/benchmark --schedulers colgen,local-search": "library/cost-turing-4 --schedulers igniter --simulate off",
    r"--largest 10": "cost-t4-4 --again",
    r"solve --library entries '\*-v2'": "solve --library entries 'cost-volta-t4-4-v*'",
    r"entries 'cost-volta-t4-\*'": "entries 'cost-volta-t4-4-*'",
    r"entries 'cost-\*'": "entries 'cost-t4-*'",
    r"hard --schedulers colgen,cpsat,local-search": "hard-cost-30 --schedulers local-search",
    r"--instances large --schedulers igniter,ffd\+\+,local-search": "--instances large-1000 --schedulers igniter",
    r"bench replay plan.json --backend cpu": "bench replay --help",
    r"gpus.csv +--pairs": "gpus.csv --help --pairs",
}
"""Replacements of parts of a line, in this order: copies of the library, and limits of a few seconds."""

NOT_BETTER = "bench library submit"
"""Command that ends with exit code 1: plans and proofs of the documents are no better than the best known."""


class Block(NamedTuple):
    """A piece of code in a document."""

    document: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> Iterator[Block]:
    """Yield the blocks of code of a document, in order."""
    text = document.read_text(encoding="utf-8")
    for fenced in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(document, text[: fenced.start()].count("\n") + 1, fenced[1], fenced[2])


def lines(block: Block) -> list[str]:
    """Return the commands of a block with their comments, continued lines joined."""
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def steps(document: Path, folder: Path) -> Iterator[tuple[Block, str]]:
    """Yield the commands that a test runs, in order, and write the document's TOML to ``folder`` where it stands."""
    for block in blocks(document):
        if block.language == "toml":
            (folder / "experiment.toml").write_text(block.text)
        for line in lines(block) if block.language == "sh" else ():
            if not any(part in line for part in NOT_RUN):
                yield block, line


def shorter(line: str) -> str:
    """Return a command that does less."""
    for pattern, replacement in SHORTER.items():
        line = re.sub(pattern, replacement, line)
    return line


def exit_code(line: str) -> int:
    """Return the exit code with which a command ends here."""
    return 1 if line.startswith(NOT_BETTER) else 0
