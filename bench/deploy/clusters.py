"""Files for Kubernetes: pods under MPS, dynamic resource allocation (DRA), the device plugin, and HAMi."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from bench.deploy.hosts import CUDA_IMAGE, IMAGE
from bench.deploy.servers import PIPE_FOLDER, SHARE_VARIABLE, Server

_PIPE_VOLUME = {"name": "mps", "hostPath": {"path": PIPE_FOLDER, "type": "DirectoryOrCreate"}}
_PIPE_MOUNT = {"name": "mps", "mountPath": PIPE_FOLDER}
_PLAN_FILE = "plan.yaml"


def write_kubernetes(servers: Sequence[Server]) -> dict[str, str]:
    """Return pods with MPS limits in their environment variables, and a daemon set that runs MPS on every node."""
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
                            "env": _variables(
                                {"CUDA_MPS_PIPE_DIRECTORY": PIPE_FOLDER, "NVIDIA_VISIBLE_DEVICES": "all"}
                            ),
                            "volumeMounts": [_PIPE_MOUNT],
                        }
                    ],
                    "volumes": [_PIPE_VOLUME],
                },
            },
        },
    }
    pods = [_mps_pod(server) for server in servers]
    return {_PLAN_FILE: _documents([daemon, *pods])}


def _mps_pod(server: Server) -> dict[str, Any]:
    visible = {"NVIDIA_VISIBLE_DEVICES": f"INDEX-OF-GPU-{server.gpu}"}
    container = _container(server, {**visible, **server.mps_limits, **server.slot_variables})
    spec = {"hostIPC": True, **_node_selector(server), "containers": [container | {"volumeMounts": [_PIPE_MOUNT]}]}
    return _pod(server.name, spec | {"volumes": [_PIPE_VOLUME]})


def read_kubernetes(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the containers in all pods."""
    return [
        _environment(container)
        for document in yaml.safe_load_all(files[_PLAN_FILE])
        if document["kind"] == "Pod"
        for container in document["spec"]["containers"]
    ]


def write_dra(servers: Sequence[Server]) -> dict[str, str]:
    """Return a claim and a pod per GPU; the pod has a container per gpulet.

    The default share of a claim is the largest share on its GPU. The environment of a container sets its own share.
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
            _container(server, {SHARE_VARIABLE: str(server.percent), **server.slot_variables})
            | {"resources": {"claims": [{"name": "gpu"}]}}
            for server in residents
        ]
        spec = {**_node_selector(residents[0]), "containers": containers}
        claims = [{"name": "gpu", "resourceClaimTemplateName": f"gpu-{gpu}"}]
        documents.append(_pod(f"gpu-{gpu}", spec | {"resourceClaims": claims}))
    return {_PLAN_FILE: _documents(documents)}


def read_dra(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the containers; no share may exceed the default of its claim."""
    environments = read_kubernetes(files)
    claims = {
        document["metadata"]["name"]: document["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
        for document in yaml.safe_load_all(files[_PLAN_FILE])
        if document["kind"] == "ResourceClaimTemplate"
    }
    for environment in environments:
        default_pct = claims[f"gpu-{environment['GPUSHARE_GPU']}"]["sharing"]["mpsConfig"][
            "defaultActiveThreadPercentage"
        ]
        if int(environment[SHARE_VARIABLE]) > default_pct:
            raise ValueError("a container asks for more than the default of its claim")
    return environments


def write_device_plugin(servers: Sequence[Server], replicas: int) -> dict[str, str]:
    """Return the device plugin's configuration with ``replicas`` equal MPS shares, and a pod per gpulet."""
    resource = {"name": "nvidia.com/gpu", "replicas": replicas}
    config = {"version": "v1", "sharing": {"mps": {"renameByDefault": True, "resources": [resource]}}}
    one_share = {"resources": {"limits": {"nvidia.com/gpu.shared": 1}}}
    pods = [
        _pod(
            server.name,
            {**_node_selector(server), "containers": [_container(server, server.slot_variables) | one_share]},
        )
        for server in servers
    ]
    return {"device-plugin.yaml": yaml.safe_dump(config, sort_keys=False), _PLAN_FILE: _documents(pods)}


def read_device_plugin(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the pods, each with one of the equal shares."""
    config = yaml.safe_load(files["device-plugin.yaml"])
    (resource,) = config["sharing"]["mps"]["resources"]
    return [
        environment | {SHARE_VARIABLE: str(100 // int(resource["replicas"]))} for environment in read_kubernetes(files)
    ]


def write_hami(servers: Sequence[Server]) -> dict[str, str]:
    """Return pods with HAMi's limits on cores and memory."""
    pods = []
    for server in servers:
        limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": server.memory_mib, "nvidia.com/gpucores": server.percent}
        container = _container(server, {"GPU_CORE_UTILIZATION_POLICY": "force", **server.slot_variables})
        pod = _pod(
            server.name, {**_node_selector(server), "containers": [container | {"resources": {"limits": limits}}]}
        )
        pod["metadata"]["annotations"] = {"nvidia.com/use-gpuuuid": f"UUID-OF-GPU-{server.gpu}"}
        pods.append(pod)
    return {_PLAN_FILE: _documents(pods)}


def read_hami(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the pods, with their limits on cores as the shares."""
    environments = []
    for document in yaml.safe_load_all(files[_PLAN_FILE]):
        (container,) = document["spec"]["containers"]
        cores = container["resources"]["limits"]["nvidia.com/gpucores"]
        environments.append(_environment(container) | {SHARE_VARIABLE: str(cores)})
    return environments


def _pod(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": dict(spec),
    }


def _container(server: Server, environment: Mapping[str, str]) -> dict[str, Any]:
    return {"name": server.name, "image": IMAGE, "env": _variables(environment)}


def _node_selector(server: Server) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": f"NODE-OF-GPU-{server.gpu}"}}


def _variables(environment: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": key, "value": value} for key, value in environment.items()]


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}


def _documents(documents: Sequence[object]) -> str:
    return str(yaml.safe_dump_all(documents, sort_keys=False))
