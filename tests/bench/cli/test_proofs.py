"""``bench prove`` and ``bench check``: certificates of runs, marks in the ledger, answers and exit codes."""

import json
import re
from pathlib import Path

import pytest

from bench.certificate.checking import ProofVerdict, check
from bench.certificate.patterns import Progress
from bench.cli.app import main
from bench.ledger.store import Ledger
from instances.files import read_json
from instances.suites import suite

(IGNITER_12,) = suite("igniter-12").build()

CLAIM = f"  igniter-12 ({IGNITER_12.fingerprint[:12]}): cost, spatial plans, bound 18.36"


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("proofs") / "runs.sqlite"
    arguments = ["run", "--instances", "igniter-12", "--schedulers", "cpsat,colgen,igniter", "--time-limit", "60"]
    assert main([*arguments, "--ledger", str(file)]) == 0
    return file


@pytest.fixture
def proof(ledger: Path, tmp_path: Path) -> Path:
    file = tmp_path / "proof.json.gz"
    assert main(["prove", "igniter-12", "-o", str(file), "--ledger", str(ledger)]) == 0
    return file


def test_a_run_is_proven_and_marked(ledger: Path, proof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["check", str(proof)]) == 0
    assert capsys.readouterr().out.splitlines() == ["proven: 6 GPUs, no spatial plan has fewer", CLAIM]
    with Ledger(ledger) as opened:
        assert {row.scheduler: row.proof for row in opened.rows()} == {
            "cpsat": None,
            "colgen": "checked",
            "igniter": None,
        }
    assert main(["show", "igniter-12", "--ledger", str(ledger)]) == 0
    assert "proof checked" in " ".join(capsys.readouterr().out.split())


def test_an_entry_of_the_library_has_the_name_with_which_it_is_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = ["--ledger", str(tmp_path / "runs.sqlite")]
    assert (
        main(["run", "--instances", "library/cost-t4-4", "--schedulers", "colgen", "--simulate", "off", *ledger]) == 0
    )
    capsys.readouterr()
    assert main(["prove", "library/cost-t4-4", "-o", str(tmp_path / "proof.json"), *ledger]) == 0
    assert capsys.readouterr().out.startswith("proven: ")


def test_a_certificate_of_another_instance_is_refused(proof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(proof), "--instance", "igniter-12"]) == 0
    capsys.readouterr()
    assert main(["check", str(proof), "--instance", "igniter-3"]) == 2
    refusal = capsys.readouterr()
    assert 'is about "igniter-12"' in refusal.err
    assert refusal.out == ""


def test_the_answer_for_programs_names_instance_and_claim(proof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["check", str(proof), "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["instance"], answer["instance_hash"]) == ("igniter-12", IGNITER_12.fingerprint)
    assert answer["claim"] == {"bound": "18.36", "plan_class": "spatial", "parts": None}
    assert answer["proven"]


def test_a_check_ends_at_its_time_limit(ledger: Path, proof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["check", str(proof), "--check-limit", "1e-6"]) == 3
    assert re.match("given up: .*: the check takes more than 1e-06 s of computing\n", capsys.readouterr().out)
    assert main(["check", str(proof), "--check-limit", "0"]) == 2


def test_a_weaker_bound_is_proven_if_the_check_of_the_own_bound_takes_too_long(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, checks = tmp_path / "proof.json", []

    def slow_at_first(data: object, where: str, progress: Progress) -> ProofVerdict:
        checks.append(where)
        verdict = ProofVerdict(False, "given up: the check takes more than 1 s of computing", given_up=True)
        return verdict if len(checks) < 3 else check(data, where, progress)

    monkeypatch.setattr("bench.cli.commands.prove.check", slow_at_first)
    assert main(["prove", "igniter-12", "-o", str(file), "--ledger", str(ledger)]) == 0
    answer = capsys.readouterr()
    assert answer.err.splitlines() == [
        f"given up: the check takes more than 1 s of computing; trying a weaker bound, with {part} more room in every "
        "pattern"
        for part in ("5%", "50%")
    ] + ["note: the run's own bound, 18.36, is stronger than what this certificate proves"]
    assert answer.out.startswith("proven: no spatial plan has fewer than ")
    claim = json.loads(file.read_text())["claim"]
    assert 0.0 < float(claim["bound"]) < 18.36
    assert main(["check", str(file)]) == 0


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("ignter-12", 'unknown run or instance "ignter-12"; did you mean "igniter-12"?'),
        ("fffffff", 'no run has a key that starts with "fffffff"'),
        ("igniter-3", 'no run on "igniter-3" has a bound with duals (runs of igniter); run an exact scheduler'),
    ],
)
def test_a_name_without_a_bound_says_what_is_missing(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, problem: str
) -> None:
    assert main(["run", "--instances", "igniter-3", "--schedulers", "igniter", "--ledger", str(ledger)]) == 0
    capsys.readouterr()
    assert main(["prove", name, "-o", str(tmp_path / "none.json"), "--ledger", str(ledger)]) == 2
    assert problem in capsys.readouterr().err


def test_a_false_claim_is_refused_in_one_sentence(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "proof.json"
    assert main(["prove", "igniter-12", "-o", str(file), "--ledger", str(ledger)]) == 0
    data = json.loads(file.read_text())
    data["claim"]["bound"] = "21.42"
    file.write_text(json.dumps(data))
    capsys.readouterr()

    assert main(["check", str(file)]) == 1
    assert capsys.readouterr().out.startswith("not proven: the proof yields 18.36, the claim says 21.42\n")


def test_a_file_without_a_certificate_is_wrong_input(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "proof.json"
    file.write_text('{"version": 1}')
    assert main(["check", str(file)]) == 2
    assert "is no certificate: the key is missing" in capsys.readouterr().err
    file.write_text("{")
    assert main(["check", str(file)]) == 2
    with Ledger(ledger) as opened:
        (key,) = (row.key for row in opened.rows(scheduler="igniter", instance="igniter-12"))
    capsys.readouterr()
    assert main(["prove", key[:8], "-o", str(tmp_path / "none.json"), "--ledger", str(ledger)]) == 2
    assert "has no certificate: the run kept no duals" in capsys.readouterr().err
    assert not (tmp_path / "none.json").exists()


def test_exit_codes_are_1_if_not_proven_3_if_given_up_and_70_after_a_crash(
    ledger: Path, proof: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = read_json(proof)
    assert isinstance(data, dict)
    file = tmp_path / "proof.json"
    file.write_text(json.dumps({**data, "claim": {**data["claim"], "bound": "1" + "0" * 300}}))
    assert main(["check", str(file)]) == 1
    capsys.readouterr()
    monkeypatch.setattr("bench.certificate.failures.MOST_NUMBERS", 1000)
    assert main(["check", str(proof)]) == 3
    assert capsys.readouterr().out.startswith("given up: the tables of the GPU types would take")
    assert main(["check", str(proof), "--format", "json"]) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["proven"], answer["given_up"]) == (False, True)
    prove_command = ["prove", "igniter-12", "-o", str(tmp_path / "none.json"), "--ledger", str(ledger)]
    assert main(prove_command) == 3
    assert capsys.readouterr().out.startswith("given up: ")
    assert not (tmp_path / "none.json").exists()

    def broken(*given: object) -> None:
        raise MemoryError("a fault of the bench")

    monkeypatch.setattr("bench.cli.commands.check.check", broken)
    assert main(["check", str(proof)]) == 70
    assert "MemoryError: a fault of the bench" in capsys.readouterr().err
    monkeypatch.setattr("bench.cli.commands.prove.check", broken)
    monkeypatch.setattr("bench.certificate.failures.MOST_NUMBERS", 10**9)
    assert main(prove_command) == 70
    assert "MemoryError: a fault of the bench" in capsys.readouterr().err


def test_a_plan_of_mig_instances_is_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger, file = str(tmp_path / "runs.sqlite"), tmp_path / "proof.json"
    assert main(["run", "--instances", "parvagpu-3", "--schedulers", "mig", "--ledger", ledger]) == 0
    capsys.readouterr()

    assert main(["prove", "parvagpu-3", "-o", str(file), "--ledger", ledger]) == 0
    assert main(["check", str(file)]) == 0

    proven, checked, claim = capsys.readouterr().out.splitlines()
    assert proven == checked == "proven: 5 GPUs, no split plan has fewer"
    assert claim.endswith(": cost, split plans, bound 20.5")
    assert json.loads(file.read_text())["proof"]["kind"] == "slices"
    with Ledger(Path(ledger)) as opened:
        (row,) = opened.rows()
        assert row.proof == "checked"
