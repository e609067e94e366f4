import csv
import io
import shlex
import signal
import subprocess
import sys
from dataclasses import asdict

import pytest
import torch
import typer

import rl.train
from bench.cli.app import app, main
from bench.cli.commands.train import EXAMPLES
from bench.schedulers.parameters import instantiate
from instances.suites.inss import four_gpus
from rl.cluster import Cluster
from rl.policy import load_policy
from rl.train import Training
from rl.two_stage import TwoStageSettings

QUICK = [
    f"--param={text}"
    for text in ("episodes=2", "steps=3", "clusters=2", "hidden=8", "minibatch=4", "buffer=50", "warm_up=1")
]


def train(folder, *options):
    return main(["train", "ts", "--suite", "4gpu", "--seed", "1", "-o", str(folder), *QUICK, *options])


def test_training_reports_its_progress(tmp_path, capsys):
    assert train(tmp_path) == 0
    message = capsys.readouterr().err
    assert "[1/2] reward -" in message
    assert "[2/2] reward -" in message
    with (tmp_path / "scalars.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 2
    policy = load_policy(tmp_path / "policy.pt")
    assert policy.training["seed"] == 1
    assert policy.gpu == "a100-inss"
    assert policy.interference


def test_training_continues_from_its_checkpoint(tmp_path, capsys):
    train(tmp_path)
    capsys.readouterr()
    assert train(tmp_path, "--param=episodes=3") == 0
    assert capsys.readouterr().err.count("reward") == 1


def test_interrupted_training_continues_from_its_checkpoint(tmp_path, capsys, monkeypatch):
    episode = rl.train._episode
    go_on = iter([True, True, False])

    def interrupted(*arguments):
        if not next(go_on, True):
            raise KeyboardInterrupt
        return episode(*arguments)

    monkeypatch.setattr("rl.train._episode", interrupted)
    options = ("--param=episodes=5", "--param=save_every=1")
    assert train(tmp_path, *options) == 130
    assert "interrupted after episode 2; this command continues" in capsys.readouterr().err
    assert train(tmp_path, *options) == 0
    assert "[3/5]" in capsys.readouterr().err


def test_ctrl_c_ends_the_episode_and_leaves_a_checkpoint(tmp_path, capsys, monkeypatch):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    options = ("--param=episodes=4", "--param=save_every=4")
    assert train(whole, *options) == 0
    episode = rl.train._episode
    ctrl_c = iter([False, True])

    def episode_with_ctrl_c(*arguments):
        if next(ctrl_c, False):
            signal.raise_signal(signal.SIGINT)
        return episode(*arguments)

    monkeypatch.setattr("rl.train._episode", episode_with_ctrl_c)
    capsys.readouterr()
    assert train(stopped, *options) == 130
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("interrupted after episode 2; this command continues from there: bench train ts ")
    _, command, *arguments = shlex.split(message.partition("there: ")[2])
    assert main([command, *arguments]) == 0
    assert "[3/4]" in capsys.readouterr().err
    assert (stopped / "scalars.csv").read_text() == (whole / "scalars.csv").read_text()


def test_a_second_ctrl_c_stops_at_once(tmp_path, capsys, monkeypatch):
    def press_ctrl_c_twice(*arguments):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("training goes on")

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr("rl.train._episode", press_ctrl_c_twice)
    assert train(tmp_path) == 130
    assert "interrupted after episode 0" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is before


def test_training_draws_a_learning_curve(tmp_path, capsys):
    assert train(tmp_path) == 0
    assert f"learning curve {tmp_path}/curve.png" in capsys.readouterr().err
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_training_reports_the_time_left(tmp_path, capsys):
    assert train(tmp_path, "--param=episodes=3") == 0
    message = capsys.readouterr().err
    assert message.count(" left") == 2  # no time is left after the third episode


def test_the_preset_paper_is_table_2_and_parameters_override_it(tmp_path):
    assert train(tmp_path, "--preset=paper") == 0
    training = load_policy(tmp_path / "policy.pt").training
    printed = {"discount": 0.99, "temperature": 1.0, "sac_learning_rate": 1e-4, "td3_learning_rate": 3e-4}
    assert training.items() >= printed.items()
    assert all(training[name] for name in ("pooled", "own_reward", "summed"))
    assert not any(training[name] for name in ("further_inputs", "compressed_rewards", "random_part", "logit_penalty"))
    assert (training["episodes"], training["hidden"]) == (2, 8)  # from QUICK
    table = {"episodes": "1600", "steps": "100", "hidden": "256", "minibatch": "256", "buffer": "100000"}
    assert rl.train.PAPER.items() >= table.items()
    preset = instantiate(Training, rl.train.PAPER, "ts")
    agent = preset.agent(Cluster.of(four_gpus()[0]), 0)
    assert agent.settings == TwoStageSettings()
    first = {"learning_rate": 1e-4, "temperature": 1.0, "soft": 0.01, "discount": 0.99, "hidden": 256}
    second = {"learning_rate": 3e-4, "soft": 0.005, "discount": 0.99, "hidden": 256, "minibatch": 256}
    second |= {"explore_noise": 0.1, "policy_noise": 0.2, "noise_clip": 0.5, "policy_every": 2, "buffer": 100_000}
    assert asdict(agent.sac.settings).items() >= first.items()
    assert asdict(agent.td3.settings).items() >= second.items()
    # The ten actors share one mini-batch and one buffer: together at least Table 2's, with equal parts
    assert (agent.sac.settings.minibatch, agent.sac.settings.buffer) == (26, 10_000)
    assert (preset.process().penalty, preset.process().steps) == (40.0, 100)


def test_a_checkpoint_always_has_its_policy(tmp_path, monkeypatch):
    def interrupt(content, path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rl.checkpoint.save_weights", interrupt)
        assert train(tmp_path) == 130
    assert load_policy(tmp_path / "policy.pt").training["episodes"] == 2
    assert train(tmp_path) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"scalars.csv", "policy.pt", "checkpoint.pt", "curve.png"}


def test_a_terminal_shows_a_bar(tmp_path, monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    assert train(tmp_path) == 0
    assert "2/2" in screen.getvalue()
    assert "req/s" in screen.getvalue()


def test_training_without_interference_is_recorded(tmp_path):
    assert train(tmp_path, "--param=interference=no") == 0
    assert not load_policy(tmp_path / "policy.pt").interference


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "st", "--suite", "4gpu", "-o", "x"], 'unknown trainer "st"; known: ts'),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--param", "episode=3"], 'did you mean "episodes"?'),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--param", "episodes=0"], "expected at least 1"),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--param", "warm_up=-1"], "expected at least 0"),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--param", "random_part=1.5"], "expected 0 to 1"),
        (["train", "ts-hierarchy", "--suite", "4gpu", "-o", "x", "--param", "temperature=0"], "expected above 0"),
        (["train", "ts-hierarchy", "--suite", "4gpu", "-o", "x", "--param", "warm_up=-1"], "expected at least 0"),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--param", "episodes"], "not of the form NAME=VALUE"),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--preset", "papr"], 'did you mean "paper"?'),
        (
            ["train", "ts-hierarchy", "--suite", "4gpu", "-o", "x", "--preset", "paper"],
            'preset of ts-hierarchy "paper"',
        ),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--param", "correlation=1"], "expected 0 to below 1"),
        (["train", "ts", "--suite", "4gpu", "-o", "x", "--param", "device=gpu"], "expected cpu, cuda or cuda:N"),
        (["train", "ts", "--suite", "igniter-3", "-o", "x"], "expected a known number of GPUs"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trainer", ["ts", "ts-hierarchy"])
def test_a_missing_gpu_is_refused_in_one_line(trainer, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["train", trainer, "--suite", "4gpu", "-o", str(tmp_path / "x"), "--param", "device=cuda"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f'error: --param {trainer}: device=cuda: device is "cuda", but PyTorch ')
    assert error.endswith(" finds no such GPU; expected cpu\n")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_device_is_a_setting(tmp_path):
    assert train(tmp_path, "--param=device=cpu") == 0
    assert load_policy(tmp_path / "policy.pt").training["device"] == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_training_on_a_gpu_continues_from_its_checkpoint(tmp_path):
    assert train(tmp_path, "--param=device=cuda") == 0
    assert train(tmp_path, "--param=device=cuda", "--param=episodes=3") == 0
    assert load_policy(tmp_path / "policy.pt").training["episodes"] == 3


def test_a_file_as_the_output_folder_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert train(tmp_path / "file") == 2
    assert capsys.readouterr().err == f"error: -o {tmp_path}/file: cannot be written into: File exists\n"


def test_help_does_not_load_torch():
    program = """
import sys
from bench.cli.app import main
main(["train", "--help"])
print("torch" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False"


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_accepted_by_the_parser(example):
    _, command, *arguments = shlex.split(example)
    typer.main.get_command(app).commands[command].make_context("bench", arguments)


@pytest.mark.parametrize("content", [b"", b"not weights", b"\x80\x02cos\nsystem\nX\x08\x00\x00\x00touch ran\x85R."])
def test_a_foreign_checkpoint_is_refused_and_runs_no_code(content, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint.pt").write_bytes(content)
    assert train(tmp_path) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {tmp_path}/checkpoint.pt: is not a file of weights")
    assert message.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_checkpoint_of_an_earlier_version_is_refused_in_one_line(tmp_path, capsys):
    train(tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    torch.save({key: value for key, value in saved.items() if key != "format"}, tmp_path / "checkpoint.pt")
    capsys.readouterr()
    assert train(tmp_path, "--param=episodes=3") == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {tmp_path}/checkpoint.pt: was written by another version of gpushare-bench")
    assert message.count("\n") == 1


def test_an_incomplete_checkpoint_is_refused_in_one_line(tmp_path, capsys):
    train(tmp_path)
    saved = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    for name in ("terms", "agent", "history"):
        torch.save({key: value for key, value in saved.items() if key != name}, tmp_path / "checkpoint.pt")
        capsys.readouterr()
        assert train(tmp_path, "--param=episodes=3") == 2
        assert capsys.readouterr().err.startswith(f"error: {tmp_path}/checkpoint.pt: is not a checkpoint")
