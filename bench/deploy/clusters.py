"""Files for Kubernetes: plain pods under MPS, the DRA driver, the device plugin, and HAMi."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from bench.deploy.hosts import CUDA_IMAGE, IMAGE
from bench.deploy.servers import PIPES, SHARE, Server

_PIPES_VOLUME = {"name": "mps", "hostPath": {"path": PIPES, "type": "DirectoryOrCreate"}}
_PIPES_MOUNT = {"name": "mps", "mountPath": PIPES}
_FILE = "plan.yaml"


def write_kubernetes(servers: Sequence[Server]) -> dict[str, str]:
    """Return pods with the limits of MPS in their environment, and the daemon of every node."""
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "mps-daemon"},
        "spec": {
            "selector": {"matchLabels": {"app": "mps-daemon"}},
            "template": {
                "metadata": {"labels": {"app": "mps-daemon"}},
                "spec": {
                    "hostIPC": True,
                    "nodeSelector": {"nvidia.com/gpu.present": "true"},
                    "containers": [
                        {
                            "name": "mps-daemon",
                            "image": CUDA_IMAGE,
                            "command": ["nvidia-cuda-mps-control", "-f"],
                            "env": _env({"CUDA_MPS_PIPE_DIRECTORY": PIPES, "NVIDIA_VISIBLE_DEVICES": "all"}),
                            "volumeMounts": [_PIPES_MOUNT],
                        }
                    ],
                    "volumes": [_PIPES_VOLUME],
                },
            },
        },
    }
    pods = [_mps_pod(server) for server in servers]
    return {_FILE: _documents([daemon, *pods])}


def _mps_pod(server: Server) -> dict[str, Any]:
    seen = {"NVIDIA_VISIBLE_DEVICES": f"INDEX-OF-GPU-{server.gpu}"}
    container = _container(server, {**seen, **server.limits, **server.facts})
    spec = {"hostIPC": True, **_on_node(server), "containers": [container | {"volumeMounts": [_PIPES_MOUNT]}]}
    return _pod(server.name, spec | {"volumes": [_PIPES_VOLUME]})


def read_kubernetes(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the containers in all pods."""
    return [
        _environment(container)
        for document in yaml.safe_load_all(files[_FILE])
        if document["kind"] == "Pod"
        for container in document["spec"]["containers"]
    ]


def write_dra(servers: Sequence[Server]) -> dict[str, str]:
    """Return a claim per GPU with the largest share as its default, and a pod per GPU with a container per gpulet.

    Unequal shares within a claim are set in the containers' environment, below the default.
    """
    by_gpu: dict[int, list[Server]] = defaultdict(list)
    for server in servers:
        by_gpu[server.gpu].append(server)
    documents: list[dict[str, Any]] = []
    for gpu, residents in by_gpu.items():
        mps = {
            "defaultActiveThreadPercentage": max(server.percent for server in residents),
            "defaultPinnedDeviceMemoryLimit": f"{max(server.memory_mib for server in residents)}Mi",
        }
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig",
            "sharing": {"strategy": "MPS", "mpsConfig": mps},
        }
        devices = {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
            "config": [{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}],
        }
        documents.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"gpu-{gpu}"},
                "spec": {"spec": {"devices": devices}},
            }
        )
        containers = [
            _container(server, {SHARE: str(server.percent), **server.facts})
            | {"resources": {"claims": [{"name": "gpu"}]}}
            for server in residents
        ]
        spec = {**_on_node(residents[0]), "containers": containers}
        claims = [{"name": "gpu", "resourceClaimTemplateName": f"gpu-{gpu}"}]
        documents.append(_pod(f"gpu-{gpu}", spec | {"resourceClaims": claims}))
    return {_FILE: _documents(documents)}


def read_dra(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the containers; none may exceed its claim's default."""
    found = read_kubernetes(files)
    claims = {
        document["metadata"]["name"]: document["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
        for document in yaml.safe_load_all(files[_FILE])
        if document["kind"] == "ResourceClaimTemplate"
    }
    for each in found:
        default = claims[f"gpu-{each['GPUSHARE_GPU']}"]["sharing"]["mpsConfig"]["defaultActiveThreadPercentage"]
        if int(each[SHARE]) > default:
            raise ValueError("a container asks for more than the default of its claim")
    return found


def write_device_plugin(servers: Sequence[Server], replicas: int) -> dict[str, str]:
    """Return the device plugin's configuration with ``replicas`` equal MPS shares, and a pod per gpulet."""
    resource = {"name": "nvidia.com/gpu", "replicas": replicas}
    config = {"version": "v1", "sharing": {"mps": {"renameByDefault": True, "resources": [resource]}}}
    shared = {"resources": {"limits": {"nvidia.com/gpu.shared": 1}}}
    pods = [
        _pod(server.name, {**_on_node(server), "containers": [_container(server, server.facts) | shared]})
        for server in servers
    ]
    return {"device-plugin.yaml": yaml.safe_dump(config, sort_keys=False), _FILE: _documents(pods)}


def read_device_plugin(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the pods, each with one of the equal shares."""
    config = yaml.safe_load(files["device-plugin.yaml"])
    (resource,) = config["sharing"]["mps"]["resources"]
    return [each | {SHARE: str(100 // int(resource["replicas"]))} for each in read_kubernetes(files)]


def write_hami(servers: Sequence[Server]) -> dict[str, str]:
    """Return pods with HAMi's limits on cores and memory."""
    pods = []
    for server in servers:
        limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": server.memory_mib, "nvidia.com/gpucores": server.percent}
        container = _container(server, {"GPU_CORE_UTILIZATION_POLICY": "force", **server.facts})
        pod = _pod(server.name, {**_on_node(server), "containers": [container | {"resources": {"limits": limits}}]})
        pod["metadata"]["annotations"] = {"nvidia.com/use-gpuuuid": f"UUID-OF-GPU-{server.gpu}"}
        pods.append(pod)
    return {_FILE: _documents(pods)}


def read_hami(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the pods, with their limits on cores as the shares."""
    found = []
    for document in yaml.safe_load_all(files[_FILE]):
        (container,) = document["spec"]["containers"]
        cores = container["resources"]["limits"]["nvidia.com/gpucores"]
        found.append(_environment(container) | {SHARE: str(cores)})
    return found


def _pod(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": dict(spec),
    }


def _container(server: Server, environment: Mapping[str, str]) -> dict[str, Any]:
    return {"name": server.name, "image": IMAGE, "env": _env(environment)}


def _on_node(server: Server) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": f"NODE-OF-GPU-{server.gpu}"}}


def _env(environment: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": key, "value": value} for key, value in environment.items()]


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"]}


def _documents(documents: Sequence[object]) -> str:
    return str(yaml.safe_dump_all(documents, sort_keys=False))
