"""Proof that a covering problem has no solution, by the solver Exact with its own certificate.

``bench library covering NAME --better -o NAME.opb`` writes the problem, and ``pip install exact`` installs the solver.
``python prove_covering.py NAME.opb NAME`` writes ``NAME.formula`` and ``NAME.proof``, which VeriPB checks.
"""

import sys
from pathlib import Path

from exact import Exact


def prove(problem: Path, proof: str) -> bool:
    """Return whether the problem has no solution; ``proof`` is the name of the certificate without its endings."""
    # Without assumptions, the certificate has only steps that VeriPB derives itself.
    solver = Exact([("proof-log", proof), ("proof-assumptions", "0"), ("verbosity", "0")])
    head, *lines = problem.read_text(encoding="utf-8").splitlines()
    for number in range(1, int(head.split()[2]) + 1):
        solver.addVariable(f"x{number}", 0, 1)
    for line in lines:
        if not line.startswith("*"):
            *words, relation, right, _ = line.split()
            terms = [(int(factor), variable) for factor, variable in zip(words[::2], words[1::2], strict=True)]
            solver.addConstraint(terms, True, int(right), relation == "=", int(right))
    return bool(solver.runFull() == "UNSAT")


if __name__ == "__main__":
    print("no solution" if prove(Path(sys.argv[1]), sys.argv[2]) else "a solution exists")
