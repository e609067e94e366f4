"""Points that an operator of such clusters checks in the files before using them."""

import csv
import io
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from bench.deploy import clusters, hosts, triton
from bench.deploy.duties import duties
from bench.deploy.servers import PIPE_FOLDER, Server, in_percents, servers
from bench.deploy.target import Target
from instances import Instance
from tests.bench.deploy.plans import named, placed


@pytest.fixture
def processes(mix: Instance) -> list[Server]:
    """Return six servers of ``tagging`` on two GPUs, and one of ``search``."""
    instance = named(mix, "tagging", "search")
    return servers(placed(instance, *["tagging"] * 6, "search"), in_percents(instance))


def documents(processes: list[Server]) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(clusters.write_kubernetes(processes)["plan.yaml"]))


def pod_of(document: Mapping[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = document["spec"]["template"]["spec"]
    return spec


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


def test_the_mps_daemon_of_kubernetes_runs_on_the_nodes_of_the_plan_only(processes: list[Server]) -> None:
    (daemon,) = (pod_of(each) for each in documents(processes) if each["kind"] == "DaemonSet")
    (term,) = daemon["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == ("kubernetes.io/hostname", "In")
    assert expression["values"] == ["NODE-OF-GPU-000", "NODE-OF-GPU-001"]
    assert daemon["hostPID"]  # otherwise MPS servers do not find their own processes


def test_pods_tolerate_the_taint_of_gpus_and_have_the_runtime_that_gives_them_one(processes: list[Server]) -> None:
    found = documents(processes)
    (runtime,) = (each for each in found if each["kind"] == "RuntimeClass")
    assert runtime["handler"] == "nvidia"
    on_gpus = [
        pod_of(each) for each in found if each["kind"] in ("DaemonSet", "Deployment") and "hostIPC" in pod_of(each)
    ]
    assert len(on_gpus) == len(processes) + 1
    for pod in on_gpus:
        assert {"key": "nvidia.com/gpu", "operator": "Exists"} in pod["tolerations"]
        assert pod["runtimeClassName"] == runtime["metadata"]["name"]
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert variables(container)["NVIDIA_VISIBLE_DEVICES"]
            assert "compute" in variables(container)["NVIDIA_DRIVER_CAPABILITIES"].split(",")


@pytest.mark.parametrize(
    "write",
    [
        clusters.write_kubernetes,
        clusters.write_dra,
        clusters.write_hami,
        lambda found: clusters.write_device_plugin(found, 5),
    ],
    ids=["kubernetes", "dra", "hami", "device-plugin"],
)
def test_pods_are_made_anew_and_get_requests_only_when_they_listen(processes: list[Server], write: Any) -> None:
    deployments = [each for each in yaml.safe_load_all(write(processes)["plan.yaml"]) if each["kind"] == "Deployment"]
    by_name = {each["metadata"]["name"]: each for each in deployments}
    del by_name["front-end"]
    containers = []
    for deployment in by_name.values():
        # An old and a new pod do not fit on the GPU together.
        assert deployment["spec"]["strategy"] == {"type": "Recreate"}
        assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
        containers += pod_of(deployment)["containers"]
    assert len(containers) == len(processes)
    for container in containers:
        port = int(variables(container)["GPUSHARE_PORT"])
        if len(by_name) == len(processes):
            assert container["readinessProbe"]["tcpSocket"] == {"port": port}
        else:  # containers of one pod: one that loads a model would stop the requests of the others
            assert "readinessProbe" not in container
        assert container["ports"] == [{"containerPort": port}]


def test_compose_publishes_every_service_at_the_port_of_its_address(processes: list[Server]) -> None:
    files = hosts.write_compose(processes)
    services = yaml.safe_load(files["compose.yaml"])["services"]
    rows = list(csv.DictReader(io.StringIO(files["endpoints.csv"])))
    assert [row["service"] for row in rows] == ["tagging", "search"]
    published = [port for service in services.values() for port in service.get("ports", [])]
    ports = [row["address"].rpartition(":")[2] for row in rows]
    assert sorted(published) == sorted(f"{port}:{port}" for port in ports)
    assert services["search"]["environment"]["GPUSHARE_PORT"] == ports[1]
    assert {services[server.name]["environment"]["GPUSHARE_PORT"] for server in processes[:-1]} == {"8000"}


def test_compose_names_gpus_by_uuid_and_gives_containers_cuda(processes: list[Server]) -> None:
    services = yaml.safe_load(hosts.write_compose(processes)["compose.yaml"])["services"]
    devices = {
        name: service["deploy"]["resources"]["reservations"]["devices"][0]
        for name, service in services.items()
        if "deploy" in service
    }
    assert devices["mps-daemon"]["device_ids"] == ["UUID-OF-GPU-000", "UUID-OF-GPU-001"]
    assert devices["search"]["device_ids"] == ["UUID-OF-GPU-001"]
    assert all("compute" in device["capabilities"] for device in devices.values())
    assert services["mps-daemon"]["pid"] == "host"  # otherwise MPS servers do not find their own processes


def test_the_front_end_passes_on_many_large_requests(processes: list[Server]) -> None:
    text = hosts.write_shell(processes)["nginx.conf"]
    assert "client_max_body_size 0;" in text  # the default of 1 MB is smaller than some images
    assert "worker_connections 16384;" in text  # the default is 512, and a request in flight takes two
    assert "proxy_buffering off;" in text  # or tokens would come all at once
    assert "resolve" not in text


def test_the_front_end_of_compose_follows_containers_to_new_addresses(processes: list[Server]) -> None:
    text = hosts.write_compose(processes)["nginx.conf"]
    assert "resolver 127.0.0.11 " in text
    assert text.count(" resolve;") == 6
    assert "  upstream tagging {\n    zone tagging 64k;\n" in text
    assert any("nginx 1.27.3 or later" in duty for duty in duties(Target.COMPOSE, processes))
    assert not any("nginx 1.27.3 or later" in duty for duty in duties(Target.KUBERNETES, processes))


def test_other_processes_do_not_become_clients_of_the_daemon(processes: list[Server]) -> None:
    """NVIDIA's container runtime mounts the default folder of MPS into every GPU container of a host."""
    assert PIPE_FOLDER != "/tmp/nvidia-mps"
    for files in (hosts.write_shell(processes), hosts.write_compose(processes), triton.write_triton(processes)):
        assert all("/tmp/nvidia-mps" not in text for text in files.values())


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Target.COMPOSE, "one user"),
        (Target.KUBERNETES, "one user"),
        (Target.COMPOSE, "end after a CUDA error"),
        (Target.KUBERNETES, "end after a CUDA error"),
        (Target.KUBERNETES, "off all GPUs of these nodes"),
        (Target.SHELL, "a service manager watch the servers"),
        (Target.MPS_STATIC, "a service manager watch the servers"),
        (Target.TRITON, "a service manager watch the servers"),
        (Target.MIG_PARTED, "a service manager watch the servers"),
        (Target.KUBERNETES, "security level privileged"),
        (Target.KUBERNETES, "accepts NVIDIA_VISIBLE_DEVICES"),
        (Target.TRITON, "input and output"),
        (Target.TRITON, "in one container of Triton"),
        (Target.MIG_PARTED, "numbers of the plan"),
    ],
)
def test_duties_name_what_files_cannot_do(processes: list[Server], target: Target, words: str) -> None:
    assert any(words in duty for duty in duties(target, processes))
