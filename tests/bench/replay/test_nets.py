"""Networks for replays: they have the published numbers of parameters and the catalogue's bytes of a request."""

import sys
from pathlib import Path

import pytest
import torch

from bench.replay.device import CpuNet
from bench.replay.nets import NETS, input_shape
from bench.replay.nets.building import build, example_input, initialise
from instances import InputError
from instances.catalogue import gpu_type, gpu_type_names
from instances.memory import request_bytes

# Parameters by torchvision or the publication, without those of auxiliary classifiers, which only training uses.
PUBLISHED = {
    "alexnet": 61_100_840,
    "bert": 109_482_240 + 2 * 768 + 2,  # the encoder with its pooler, and two classes
    "densenet121": 7_978_856,
    "densenet161": 28_681_000,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "efficientnet": 5_288_548,
    "googlenet": 6_624_904,
    "inception": 23_834_568,
    "lenet": 61_706,
    "mnasnet": 4_383_312,
    "mobilenet": 3_504_872,
    "mobilenet-v1": 4_231_976,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "ssd": 26_285_486,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_nets_are_as_large_as_published(name: str) -> None:
    with torch.device("meta"):
        net = build(name)

    assert sum(parameter.numel() for parameter in net.parameters()) == PUBLISHED[name]
    assert not net.training
    assert not any(parameter.requires_grad for parameter in net.parameters())


@pytest.mark.parametrize("name", NETS)
def test_requests_and_answers_have_the_catalogues_bytes(name: str) -> None:
    with torch.device("meta"):
        request = example_input(name, 1)
        answer = build(name)(request)

    assert request.shape == (1, *input_shape(name))
    if name.startswith("tiny"):
        return
    assert (request.nbytes, answer.nbytes) == request_bytes(name)


def test_every_model_of_the_catalogue_can_be_served() -> None:
    """The models of ``v100-rapp`` are left out: they are only simulated."""
    models = {model for gpu in gpu_type_names() if gpu != "v100-rapp" for model in gpu_type(gpu).models}

    assert models <= set(NETS)
    assert len(models) >= 19


def test_half_precision_applies_to_weights_and_requests() -> None:
    net, request = build("tiny-cnn", half=True), example_input("tiny-cnn", 2, half=True)

    assert {p.dtype for p in net.parameters()} == {request.dtype} == {torch.float16}
    assert net(request).shape == (2, 10)
    assert example_input("bert", 1, half=True).dtype == torch.int64


@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_outputs_of_an_initialised_net_are_neither_huge_nor_zero(name: str) -> None:
    torch.manual_seed(0)
    net, pictures = build(name), example_input(name, 2)

    initialise(net, pictures)

    with torch.no_grad():
        spread = float(net(pictures).std())
    assert 0.1 < spread < 100.0
    assert not any(layer.training for layer in net.modules())


@pytest.mark.parametrize("name", ["bert", "ssd-mobilenet"])  # ssd-mobilenet normalises maps of one pixel
def test_two_examples_suffice_to_initialise_a_net(name: str) -> None:
    with torch.device("meta"):
        net = build(name)
        initialise(net, example_input(name, 2))

    assert not any(layer.training for layer in net.modules())


@pytest.mark.parametrize("ask", [input_shape, build, lambda name: example_input(name, 1)])
def test_the_error_of_an_unknown_name_has_the_nearest_name(ask) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match='model: unknown model "resnet5O"; did you mean "resnet50"'):
        ask("resnet5O")
    with pytest.raises(InputError, match="known: alexnet, bert"):
        ask("?")


USERS_NETS = """
import torch
from torch import nn

def pictures(): return nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

class Words(nn.Embedding):
    input_shape = (7,)
    def __init__(self): super().__init__(11, 4)
    @staticmethod
    def example_input(batch): return torch.randint(0, 11, (batch, 7))

def number(): return 3

class TwoHeads(nn.Linear):
    def __init__(self): super().__init__(4, 2)
    def forward(self, x): return super().forward(x), x.sum(1)
    @staticmethod
    def example_input(batch): return torch.ones(batch, 4)
constant = 3
"""


@pytest.fixture
def users_nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nets_of_mine.py").write_text(USERS_NETS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_of_mine", raising=False)


def test_a_users_net_is_built_from_module_and_callable(users_nets: None) -> None:
    assert input_shape("nets_of_mine:pictures") == (3, 224, 224)
    requests = example_input("nets_of_mine:pictures", 2)
    net = build("nets_of_mine:pictures")
    assert net(requests).shape == (2, 5)
    assert not net.training

    assert input_shape("nets_of_mine:Words") == (7,)
    words = example_input("nets_of_mine:Words", 3, half=True)
    assert (words.shape, words.dtype) == ((3, 7), torch.int64)
    assert build("nets_of_mine:Words", half=True)(words).dtype == torch.float16


def test_a_users_net_may_return_several_tensors(users_nets: None) -> None:
    upload_ms, compute_ms = CpuNet("nets_of_mine:TwoHeads", 4, half=False).run(3)
    assert upload_ms > 0.0
    assert compute_ms > 0.0


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("no_such_module:net", "cannot be loaded: No module named 'no_such_module'; expected MODULE:CALLABLE"),
        ("nets_of_mine:net", "cannot be loaded: module 'nets_of_mine' has no attribute 'net'"),
        ("nets_of_mine:", "cannot be loaded"),
        (":net", "cannot be loaded"),
        ("nets_of_mine:constant", "is a int; expected a callable that returns a net"),
        ("nets_of_mine:number", "returned a int; expected a torch.nn.Module"),
    ],
)
def test_a_users_net_that_cannot_be_built_is_an_error_of_one_line(name: str, problem: str, users_nets: None) -> None:
    with pytest.raises(InputError) as refused:
        build(name, where="--models")

    assert str(refused.value).startswith(f'--models: "{name}" {problem}')
    assert "\n" not in str(refused.value)
