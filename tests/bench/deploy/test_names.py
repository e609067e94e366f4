"""Service names in deployed files: readers of YAML 1.1 and 1.2, shells and Triton read them unchanged."""

import random
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.deploy import clusters, hosts, triton
from bench.deploy.deployment import deployed
from bench.deploy.names import DAEMON, FRONT_END, labels, replica_names
from bench.deploy.servers import Server, in_percents, servers
from bench.deploy.static_partitions import read_mps_static, write_mps_static
from bench.deploy.target import Target
from bench.deploy.yaml_text import yaml_text
from instances import InputError, Instance, Slot
from instances.files import read_plan
from instances.suites import suite
from tests.bench.deploy.plans import named, placed

NOT_STRINGS_IN_YAML = [
    "y",
    "n",
    "No",
    "on",
    "1e3",
    "12e5",
    "0o17",
    "0x1F",
    "5e-05",
    "12:30:45",
    "2026-01-01",
    "null",
    "~",
    ".inf",
]
"""Names that YAML 1.1 or 1.2 reads as Booleans, numbers, times or null unless they are quoted."""

TRICKY = [
    *NOT_STRINGS_IN_YAML,
    *(DAEMON, FRONT_END, "${HOME}", "$HOME", "$(id)", "`id`", "a b", "A", "a", "a-1", "a-2", "-a-", "a" * 80, "a" * 81),
    *("über", "名前", "'", '"', "\\", "{{x}}", "#no comment", ": ", "- x", "? ", "&a", "*a", "!tag", "%x", "@x", "|"),
    *("a=b", "a;b", "a,b", "=1+1", "$$", "$$(X)"),
]


def odd_names(count: int) -> list[str]:
    """Return ``count`` names: tricky ones first, then random ones with special characters of YAML and shells."""
    letters = "aYnN01e.-_:$(){}[]'\"\\/#&*!|>%@`~ ,=;é名"
    draw = random.Random(7)
    drawn = ("".join(draw.choices(letters, k=draw.randint(1, 12))) for _ in range(10 * count))
    return list(dict.fromkeys([*TRICKY, *drawn]))[:count]


def batches(names: Sequence[str]) -> list[list[str]]:
    return [list(names[first : first + 5]) for first in range(0, len(names), 5)]


_Writer = Callable[[Sequence[Server]], dict[str, str]]
_Reader = Callable[[Mapping[str, str]], list[dict[str, str]]]
WRITERS_AND_READERS: dict[str, tuple[_Writer, _Reader]] = {
    "shell": (hosts.write_shell, hosts.read_shell),
    "compose": (hosts.write_compose, hosts.read_compose),
    "kubernetes": (clusters.write_kubernetes, clusters.read_kubernetes),
    "dra": (clusters.write_dra, clusters.read_dra),
    "device-plugin": (lambda found: clusters.write_device_plugin(found, 5), clusters.read_device_plugin),
    "hami": (clusters.write_hami, clusters.read_hami),
    "triton": (triton.write_triton, triton.read_triton),
    "mps-static": (lambda found: write_mps_static(in_chunks_of_a100(found)), read_mps_static),
}


def in_chunks_of_a100(found: Sequence[Server]) -> list[Server]:
    """Return the servers on A100s, with shares in SMs."""
    return [replace(server, gpu_type="a100", share_units=20) for server in found]


@pytest.mark.parametrize("target", WRITERS_AND_READERS)
def test_all_readers_read_the_names_unchanged(mix: Instance, target: str) -> None:
    """YAML is read by PyYAML (version 1.1) and ruamel (1.2), scripts by a shell."""
    assert_names_unchanged(mix, target, odd_names(40))


@pytest.mark.soak
@pytest.mark.parametrize("target", WRITERS_AND_READERS)
def test_all_readers_read_1000_names_unchanged(mix: Instance, target: str) -> None:
    assert_names_unchanged(mix, target, odd_names(1000))


def assert_names_unchanged(mix: Instance, target: str, names: Sequence[str]) -> None:
    ruamel = pytest.importorskip("ruamel.yaml")
    for ids in batches(names):
        instance = named(mix, *ids)
        processes = servers(placed(instance, *ids), in_percents(instance))
        write, read = WRITERS_AND_READERS[target]
        files = write(processes)
        assert [environment["GPUSHARE_WORKLOAD"] for environment in read(files)] == ids
        documents = {path: list(yaml.safe_load_all(text)) for path, text in files.items() if path.endswith(".yaml")}
        for path, old in documents.items():
            new = list(ruamel.YAML(typ="safe", pure=True).load_all(files[path]))
            assert old == new, ids
        if target in ("shell", "triton", "mps-static"):
            names_read = names_seen_by_a_shell(files["start.sh"])
        elif target == "compose":
            services = documents["compose.yaml"][0]["services"]
            assert set(services) == {server.name for server in processes} | {DAEMON}
            names_read = [
                compose_value(each["environment"]["GPUSHARE_WORKLOAD"]) for each in list(services.values())[1:]
            ]
        else:
            names_read = [kubernetes_value(value) for value in workloads_in_pods(documents["plan.yaml"])]
        assert names_read == ids


def test_a_shell_reads_names_of_services_on_mig_unchanged() -> None:
    (instance,) = [each for each in suite("parvagpu").build() if each.name == "parvagpu-1"]
    plan, _ = read_plan(Path(__file__).parents[2] / "fixtures" / "parvagpu_plans" / "parvagpu-1.json")
    names, count = odd_names(200), len(instance.workloads)
    for position in range(0, len(names) - count + 1, count):
        new_name = dict(zip(instance.workload_index, names[position : position + count], strict=True))
        gpus = tuple(
            replace(
                gpu, gpulets=tuple(replace(gpulet, slots=renamed(gpulet.slots, new_name)) for gpulet in gpu.gpulets)
            )
            for gpu in plan.gpus
        )
        workloads = tuple(replace(workload, id=new_name[workload.id]) for workload in instance.workloads)
        files = deployed(replace(plan, gpus=gpus), replace(instance, workloads=workloads), Target.MIG_PARTED).files
        assert set(names_seen_by_a_shell(files["start.sh"])) == set(new_name.values())


def renamed(slots: Sequence[Slot], new_name: Mapping[str, str]) -> tuple[Slot, ...]:
    return tuple(replace(slot, workload=new_name[slot.workload]) for slot in slots)


def names_seen_by_a_shell(script: str) -> list[str]:
    """Return the names as a shell reads them: each server's command is replaced by one that prints the variable."""
    lines = [line for line in script.splitlines() if line.startswith("env ") and "WORKLOAD" in line]
    printing = [re.sub(r" (SERVER_COMMAND|tritonserver) .*&$", " printenv GPUSHARE_WORKLOAD", line) for line in lines]
    result = subprocess.run(["sh"], input="\n".join(printing), capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def compose_value(text: str) -> str:
    """Return a value as Compose reads it: ``$$`` is ``$``, and a single ``$`` would be a variable."""
    assert "$" not in text.replace("$$", "")
    return text.replace("$$", "$")


def kubernetes_value(text: str) -> str:
    """Return a value as Kubernetes reads it: ``$$`` is ``$``, and ``$(NAME)`` would be a variable."""
    assert "$(" not in text.replace("$$", "")
    return text.replace("$$", "$")


def workloads_in_pods(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        variable["value"]
        for document in documents
        if document["kind"] == "Deployment"
        for container in document["spec"]["template"]["spec"]["containers"]
        for variable in container.get("env", [])
        if variable["name"] == "GPUSHARE_WORKLOAD"
    ]


def test_labels_are_dns_labels_and_unique() -> None:
    label_of = labels(odd_names(1000))
    assert len(label_of) == len(set(label_of.values())) == 1000
    assert all(re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", label) and len(label) <= 50 for label in label_of.values())
    assert not {DAEMON, FRONT_END} & set(label_of.values())
    assert label_of["a"] == "a"


def test_repeated_names_do_not_change_labels() -> None:
    assert labels(["A", "a", "a"]) == labels(["A", "a"])


def test_replicas_have_unique_names() -> None:
    assert replica_names(["tagging", "other", "tagging"]) == ["tagging-1", "other", "tagging-2"]
    assert replica_names(["a", "b", "a", "a-1"]) == ["a-2", "b", "a-3", "a-1"]


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "\u2028", "\ud800"])
def test_a_name_that_no_file_can_hold_is_refused(mix: Instance, name: str) -> None:
    instance = named(mix, name)
    with pytest.raises(InputError, match="has a character that cannot be printed; rename it to deploy"):
        servers(placed(instance, name), in_percents(instance))


def test_texts_are_unchanged_as_keys_and_values_for_both_readers(subtests: pytest.Subtests) -> None:
    ruamel = pytest.importorskip("ruamel.yaml")
    for text in [*TRICKY, "", " ", "a: b\nc\n", "\ttab\n", "trailing \nspace\n", "no newline\nend"]:
        with subtests.test(text=text):
            document: Mapping[str, Any] = {"key": text, text or "empty": [text, {"y": 1, "on": True}]}
            written = yaml_text(document)
            assert yaml.safe_load(written) == document
            assert ruamel.YAML(typ="safe", pure=True).load(written) == document
