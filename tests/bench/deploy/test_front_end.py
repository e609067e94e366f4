"""Services with several servers: one name and one address, and requests divided in proportion to planned rates."""

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bench.deploy import clusters, hosts, triton
from bench.deploy.front_end import MOST_WEIGHT
from bench.deploy.names import FRONT_END
from bench.deploy.servers import Server, in_percents, servers
from instances import Gpulet, Instance, PlacedGpu, Plan, Slot
from instances.inputs import instance_from_tables
from tests.bench.deploy.plans import named, placed


@pytest.fixture
def processes(mix: Instance) -> list[Server]:
    """Return five servers of ``tagging``, at 1 to 5 requests per second, and one of ``search``."""
    instance = named(mix, "tagging", "search")
    return servers(placed(instance, *["tagging"] * 5, "search"), in_percents(instance))


def addresses(files: dict[str, str]) -> dict[str, str]:
    header, *rows = csv.reader(io.StringIO(files["endpoints.csv"]))
    assert header == ["service", "address"]
    return {service: address for service, address in rows}  # noqa: C416 - unpacking checks that there are two columns


def upstreams(configuration: str) -> list[tuple[str, int]]:
    """Return the address and weight of each server in a configuration of nginx."""
    return [
        (host, int(weight)) for host, weight in re.findall(r"server (\S+) weight=(\d+)(?: resolve)?;", configuration)
    ]


Writer = Callable[[Sequence[Server]], dict[str, str]]
TAGGING_WEIGHTS = [round(MOST_WEIGHT * rate / 5) for rate in range(1, 6)]


def test_on_a_host_the_front_end_reaches_all_servers_of_a_service(processes: list[Server]) -> None:
    files = hosts.write_shell(processes)
    address_of = addresses(files)
    assert set(address_of) == {"tagging", "search"}
    port = address_of["tagging"].rpartition(":")[2]
    assert f"listen {port};" in files["nginx.conf"]
    ports = [each["GPUSHARE_PORT"] for each in hosts.read_shell(files)]
    assert len(set(ports)) == 6
    assert upstreams(files["nginx.conf"]) == [
        (f"127.0.0.1:{port}", weight) for port, weight in zip(ports, TAGGING_WEIGHTS, strict=False)
    ]
    assert address_of["search"].endswith(f":{ports[-1]}")


def test_the_front_end_routes_at_random_or_in_turns_as_the_plan_says(mix: Instance) -> None:
    instance = named(mix, "tagging", "search")
    for random_routing in (False, True):
        asked = in_percents(replace(instance, random_routing=random_routing))
        processes = servers(placed(instance, *["tagging"] * 3, "search"), asked)
        configurations = [hosts.write_shell(processes)["nginx.conf"], hosts.write_compose(processes)["nginx.conf"]]
        for document in yaml.safe_load_all(clusters.write_kubernetes(processes)["plan.yaml"]):
            configurations += [document["data"]["nginx.conf"]] if document["kind"] == "ConfigMap" else []
        assert len(configurations) == 3
        for text in configurations:
            assert (
                "    random;\n    server " in text
            ) == random_routing  # nginx requires the method before the servers
            assert text.count("random;") == int(random_routing)
            assert ("worker_processes 1;" in text) == (
                not random_routing
            )  # each worker process would take turns by itself
            assert len(upstreams(text)) == 3


def test_compose_reaches_all_replicas_under_the_name_of_the_service(processes: list[Server]) -> None:
    files = hosts.write_compose(processes)
    services = yaml.safe_load(files["compose.yaml"])["services"]
    front_end = services[FRONT_END]
    assert front_end["networks"]["default"]["aliases"] == ["tagging"]
    assert addresses(files) == {"tagging": "http://tagging:8001", "search": "http://search:8002"}
    names = [host.partition(":")[0] for host, _ in upstreams(files["nginx.conf"])]
    assert names == ["tagging-1", "tagging-2", "tagging-3", "tagging-4", "tagging-5"]
    assert set(names) | {"search"} <= set(services)
    assert "tagging" not in services  # it would take the front end's name


@pytest.mark.parametrize(
    "write", [clusters.write_kubernetes, clusters.write_dra, clusters.write_hami], ids=["kubernetes", "dra", "hami"]
)
def test_kubernetes_reaches_all_replicas_under_the_name_of_the_service(
    processes: list[Server], write: Callable[[Sequence[Server]], dict[str, str]]
) -> None:
    files = write(processes)
    documents = list(yaml.safe_load_all(files["plan.yaml"]))
    services = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "Service"}
    pods = [
        each["spec"]["template"]
        for each in documents
        if each["kind"] == "Deployment" and each["metadata"]["name"] != FRONT_END
    ]
    (configuration,) = [each["data"]["nginx.conf"] for each in documents if each["kind"] == "ConfigMap"]
    assert addresses(files) == {"tagging": "http://tagging:80", "search": "http://search:80"}
    assert services["tagging"]["selector"] == {"app": FRONT_END}
    reached = []
    for address, _ in [*upstreams(configuration), ("search:80", 0)]:
        service = services[address.partition(":")[0]]
        selected = [pod for pod in pods if service["selector"].items() <= pod["metadata"]["labels"].items()]
        port = service["ports"][0]["targetPort"]
        reached += [
            container["name"]
            for pod in selected
            for container in pod["spec"]["containers"]
            if {"name": "GPUSHARE_PORT", "value": str(port)} in container["env"]
        ]
    assert sorted(reached) == sorted(server.name for server in processes)


def test_triton_serves_every_replica_under_one_model_name(processes: list[Server]) -> None:
    files = triton.write_triton(processes)
    names = [re.search('^name: "(.*)"$', text, re.MULTILINE) for path, text in files.items() if "pbtxt" in path]
    assert [match and match[1] for match in names] == ["tagging"] * 5 + ["search"]
    assert len(upstreams(files["nginx.conf"])) == 5


def test_services_with_one_server_need_no_front_end(mix: Instance) -> None:
    instance = named(mix, "a", "b")
    processes = servers(placed(instance, "a", "b"), in_percents(instance))
    for write in (hosts.write_shell, hosts.write_compose, triton.write_triton):
        assert "nginx.conf" not in write(processes)
    assert FRONT_END not in hosts.write_compose(processes)["compose.yaml"]


def test_a_language_model_has_an_address_for_each_stage_and_decodes_in_continuous_batches(tmp_path: Path) -> None:
    (tmp_path / "services.csv").write_text(
        "service,model,rate_rps,slo_ms,prompt_tokens,output_tokens,ttft_ms,tpot_ms\n"
        "chat,llama-7b,4,,192,96,600,50\ntags,llama-7b,3,,128,64,600,50\n"
    )
    (tmp_path / "gpus.csv").write_text("gpu\na100-llm\n")
    instance = instance_from_tables(tmp_path / "services.csv", None, tmp_path / "gpus.csv").instance
    ids = [workload.id for workload in instance.workloads]
    assert ids == ["chat/prefill", "chat/decode", "tags/prefill", "tags/decode"]
    gpulets = tuple(Gpulet(25, (Slot(name, 2, 1.0),)) for name in [*ids[:3], ids[3]])
    processes = servers(Plan(instance.name, (PlacedGpu("a100-llm", gpulets),)), in_percents(instance))

    for files in (hosts.write_shell(processes), hosts.write_compose(processes), clusters.write_kubernetes(processes)):
        header, *rows = csv.reader(io.StringIO(files["endpoints.csv"]))
        assert header == ["service", "address", "decoding"]
        assert [name for name, _, _ in rows] == ["chat", "tags"]
        assert len({address for row in rows for address in row[1:]}) == 4
    assert rows[0] == ["chat", *(f"http://chat-{stage}:80" for stage in ("prefill", "decode"))]

    for server in processes:
        config = triton.write_triton([server])[f"{server.name}/{server.service}/config.pbtxt"]
        decodes = server.workload.endswith("/decode")
        assert ("iterative_sequence: true" in config) == decodes
        assert (server.longest_wait_us is None) == decodes  # decoding drops no request
        assert ("dynamic_batching" in config) != decodes
        messages = pytest.importorskip("tritonclient.grpc.model_config_pb2")
        parsed = pytest.importorskip("google.protobuf.text_format").Parse(config, messages.ModelConfig())
        assert parsed.sequence_batching.iterative_sequence == decodes
    files = triton.write_triton(processes)
    assert [int(each["GPUSHARE_BATCH"]) for each in triton.read_triton(files)] == [2, 2, 2, 2]
