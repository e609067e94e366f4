"""Files for Kubernetes: Deployments under MPS, dynamic resource allocation (DRA), the device plugin, and HAMi."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from bench.deploy.front_end import (
    CONFIGURATION,
    CONTAINER_PORT,
    ENDPOINTS,
    endpoints,
    nginx_configuration,
    ports_of_services,
)
from bench.deploy.names import DAEMON, FRONT_END, labels
from bench.deploy.placeholders import CUDA_IMAGE, FRONT_END_IMAGE, IMAGE, node_of, uuid_of
from bench.deploy.servers import LOG_VARIABLE, PIPE_FOLDER, PIPE_VARIABLE, SHARE_VARIABLE, Server
from bench.deploy.yaml_text import yaml_documents, yaml_text
from instances.grouping import grouped

_PIPE_VOLUME = {"name": "mps", "hostPath": {"path": PIPE_FOLDER, "type": "DirectoryOrCreate"}}
_PIPE_MOUNT = {"name": "mps", "mountPath": PIPE_FOLDER}
_PLAN_FILE = "plan.yaml"
_RUNTIME_CLASS = "gpushare-nvidia"

_TOLERATIONS = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
"""Nodes with GPUs often keep off pods that do not tolerate this taint."""

_HOST_NAME = "kubernetes.io/hostname"

SERVICE_PORT = 80
"""Port at which users reach a service."""

_Document = dict[str, Any]


def write_kubernetes(servers: Sequence[Server]) -> dict[str, str]:
    """Return Deployments with MPS limits in the environment, and a DaemonSet that runs MPS on the nodes of the plan."""
    nodes = [node_of(gpu) for gpu in dict.fromkeys(server.gpu for server in servers)]
    on_nodes = {"matchExpressions": [{"key": _HOST_NAME, "operator": "In", "values": nodes}]}
    runtime_class = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": _RUNTIME_CLASS},
        "handler": "nvidia",
    }
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMON},
        "spec": {
            "selector": {"matchLabels": {"app": DAEMON}},
            "template": {
                "metadata": {"labels": {"app": DAEMON}},
                "spec": {
                    "hostIPC": True,
                    # The daemon looks up its own process in /proc.
                    "hostPID": True,
                    "runtimeClassName": _RUNTIME_CLASS,
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_nodes]}
                        }
                    },
                    **_TOLERATIONS,
                    "containers": [
                        {
                            "name": DAEMON,
                            "image": CUDA_IMAGE,
                            "command": ["nvidia-cuda-mps-control", "-f"],
                            "env": _variables(
                                {PIPE_VARIABLE: PIPE_FOLDER, LOG_VARIABLE: PIPE_FOLDER, **_visible("all")}
                            ),
                            "volumeMounts": [_PIPE_MOUNT],
                        }
                    ],
                    "volumes": [_PIPE_VOLUME],
                },
            },
        },
    }
    deployments = [_mps_deployment(server) for server in servers]
    return _files([runtime_class, daemon, *deployments], servers)


def _visible(gpus: str) -> dict[str, str]:
    """Return the variables by which NVIDIA's container runtime gives a container GPUs, CUDA and the MPS programs."""
    return {"NVIDIA_VISIBLE_DEVICES": gpus, "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


def _mps_deployment(server: Server) -> _Document:
    visible = _visible(uuid_of(server.gpu))
    container = _container(server, {**visible, **server.mps_limits, **server.slot_variables(CONTAINER_PORT)})
    # A process that does not reach the daemon would run without limits.
    waiting = {
        "name": "wait-for-mps",
        "image": CUDA_IMAGE,
        "command": ["sh", "-c", "until echo get_server_list | nvidia-cuda-mps-control; do sleep 1; done"],
        "env": _variables({PIPE_VARIABLE: PIPE_FOLDER, **visible}),
        "volumeMounts": [_PIPE_MOUNT],
    }
    spec = {
        "hostIPC": True,
        "runtimeClassName": _RUNTIME_CLASS,
        **_on_node(server),
        "initContainers": [waiting],
        "containers": [container | {"volumeMounts": [_PIPE_MOUNT]}],
        "volumes": [_PIPE_VOLUME],
    }
    return _server_deployment(server, spec)


def read_kubernetes(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the servers' containers."""
    return [_environment(container) for pod in _pods(files) for container in pod["spec"]["containers"]]


def write_dra(servers: Sequence[Server]) -> dict[str, str]:
    """Return a claim and a Deployment of one pod per GPU; the pod has a container per gpulet.

    The default share of a claim is the largest share on its GPU. The environment of a container sets its own share.
    """
    documents: list[_Document] = []
    ports: dict[str, int] = {}
    for gpu, residents in grouped((server.gpu, server) for server in servers).items():
        # The containers of a pod share its network, so each has a port of its own.
        ports |= {server.name: CONTAINER_PORT + number for number, server in enumerate(residents)}
        mps: dict[str, object] = {"defaultActiveThreadPercentage": max(server.share_units for server in residents)}
        limits = [server.memory_limit_mib for server in residents if server.memory_limit_mib is not None]
        if len(limits) == len(residents):
            mps["defaultPinnedDeviceMemoryLimit"] = f"{max(limits)}Mi"
        parameters = {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "GpuConfig",
            "sharing": {"strategy": "MPS", "mpsConfig": mps},
        }
        devices = {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
            "config": [{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}],
        }
        name = _gpu_name(gpu)
        documents.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": name},
                "spec": {"spec": {"devices": devices}},
            }
        )
        containers = [
            _container(server, {SHARE_VARIABLE: str(server.share_units), **server.slot_variables(ports[server.name])})
            | {"resources": {"claims": [{"name": "gpu"}]}}
            for server in residents
        ]
        for container in containers:
            # A pod is ready only if all its containers are: a container that still loads its model would keep requests
            # from the other containers.
            del container["readinessProbe"]
        spec = {**_on_node(residents[0]), "containers": containers}
        claims = [{"name": "gpu", "resourceClaimTemplateName": name}]
        documents.append(_deployment(name, {"gpu": name}, spec | {"resourceClaims": claims}))
    selectors = {server.name: {"gpu": _gpu_name(server.gpu)} for server in servers}
    return _files(documents, servers, selectors, ports)


def read_dra(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the containers.

    Raises
    ------
    ValueError
        If the share of a container exceeds the default share of its claim.
    """
    environments = read_kubernetes(files)
    claims = {
        document["metadata"]["name"]: document["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
        for document in yaml.safe_load_all(files[_PLAN_FILE])
        if document["kind"] == "ResourceClaimTemplate"
    }
    for environment in environments:
        claim = claims[_gpu_name(int(environment["GPUSHARE_GPU"]))]
        if int(environment[SHARE_VARIABLE]) > claim["sharing"]["mpsConfig"]["defaultActiveThreadPercentage"]:
            raise ValueError("a container asks for more than the default of its claim")
    return environments


def write_device_plugin(servers: Sequence[Server], replicas: int) -> dict[str, str]:
    """Return the device plugin's configuration for each GPU type with equal MPS shares, and a Deployment per gpulet.

    The plugin refuses a single replica; GPUs with one share are not shared at all.
    """
    resource = {"name": "nvidia.com/gpu", "replicas": replicas}
    config: _Document = {"version": "v1"}
    if replicas > 1:
        config["sharing"] = {"mps": {"renameByDefault": True, "resources": [resource]}}
    share = "nvidia.com/gpu.shared" if replicas > 1 else "nvidia.com/gpu"
    one_share = {"resources": {"limits": {share: 1}}}
    deployments = [
        _server_deployment(
            server,
            {
                **_on_node(server),
                "containers": [_container(server, server.slot_variables(CONTAINER_PORT)) | one_share],
            },
        )
        for server in servers
    ]
    files_of_types = _plugin_files(server.gpu_type for server in servers)
    return dict.fromkeys(files_of_types.values(), yaml_text(config)) | _files(deployments, servers)


def read_device_plugin(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the pods, each with one of the equal shares of its GPU type."""
    environments = read_kubernetes(files)
    files_of_types = _plugin_files(environment["GPUSHARE_GPU_TYPE"] for environment in environments)
    for environment in environments:
        config = yaml.safe_load(files[files_of_types[environment["GPUSHARE_GPU_TYPE"]]])
        replicas = config["sharing"]["mps"]["resources"][0]["replicas"] if "sharing" in config else 1
        environment[SHARE_VARIABLE] = str(100 // int(replicas))
    return environments


def _plugin_files(gpu_types: Iterable[str]) -> dict[str, str]:
    return {name: f"device-plugin-{label}.yaml" for name, label in labels(gpu_types).items()}


def write_hami(servers: Sequence[Server]) -> dict[str, str]:
    """Return Deployments with HAMi's limits on cores and memory.

    HAMi reserves the memory of a limit, and the whole GPU's memory without one. So the servers of a GPU get parts of
    its memory in proportion to their expected memories, which always fit together.
    """
    deployments = []
    residents = grouped((server.gpu, server) for server in servers)
    for server in servers:
        total_mib = sum(resident.memory_mib for resident in residents[server.gpu])
        limits = {
            "nvidia.com/gpu": 1,
            "nvidia.com/gpumem-percentage": max(1, int(100.0 * server.memory_mib / total_mib)),
            "nvidia.com/gpucores": server.share_units,
        }
        environment = {"GPU_CORE_UTILIZATION_POLICY": "force", **server.slot_variables(CONTAINER_PORT)}
        container = _container(server, environment) | {"resources": {"limits": limits}}
        deployment = _server_deployment(server, {**_on_node(server), "containers": [container]})
        template = deployment["spec"]["template"]
        template["metadata"]["annotations"] = {"nvidia.com/use-gpuuuid": uuid_of(server.gpu)}
        deployments.append(deployment)
    return _files(deployments, servers)


def read_hami(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the environments of the pods, with their limits on cores as the shares."""
    environments = []
    for pod in _pods(files):
        (container,) = pod["spec"]["containers"]
        cores = container["resources"]["limits"]["nvidia.com/gpucores"]
        environments.append(_environment(container) | {SHARE_VARIABLE: str(cores)})
    return environments


def _files(
    documents: Sequence[_Document],
    servers: Sequence[Server],
    selectors: Mapping[str, Mapping[str, str]] | None = None,
    ports: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Return the plan file with the Kubernetes services of all servers, and the table of addresses.

    Each server has a Kubernetes service, so that its address stays when its pod is made anew. A service with several
    servers has one more, which leads to the front end.

    Parameters
    ----------
    selectors, ports
        Labels of the pod and port of the container of each server, by name; ``None`` for a pod per server.
    """
    services = [
        _service(
            server.name,
            {"replica": server.name} if selectors is None else selectors[server.name],
            CONTAINER_PORT if ports is None else ports[server.name],
        )
        for server in servers
    ]
    front_end_ports = ports_of_services(servers)
    services += [_service(label, {"app": FRONT_END}, port) for label, port in front_end_ports.items()]
    if front_end_ports:
        text = nginx_configuration(servers, front_end_ports, lambda server: f"{server.name}:{SERVICE_PORT}")
        services += _front_end(text)
    addresses = endpoints(servers, lambda server: f"http://{server.service}:{SERVICE_PORT}")
    return {_PLAN_FILE: yaml_documents([*documents, *services]), ENDPOINTS: addresses}


def _front_end(configuration: str) -> list[_Document]:
    volume = {"name": "configuration", "configMap": {"name": FRONT_END}}
    mount = {"name": "configuration", "mountPath": "/etc/nginx/nginx.conf", "subPath": CONFIGURATION}
    container = {"name": FRONT_END, "image": FRONT_END_IMAGE, "volumeMounts": [mount]}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": FRONT_END},
            "data": {CONFIGURATION: configuration},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": FRONT_END},
            "spec": {
                # Several copies would deal out requests without knowing of each other's requests.
                "replicas": 1,
                "selector": {"matchLabels": {"app": FRONT_END}},
                "template": {
                    "metadata": {"labels": {"app": FRONT_END}},
                    "spec": {"containers": [container], "volumes": [volume]},
                },
            },
        },
    ]


def _service(name: str, selector: Mapping[str, str], port: int) -> _Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": dict(selector), "ports": [{"port": SERVICE_PORT, "targetPort": port}]},
    }


def _server_deployment(server: Server, spec: Mapping[str, Any]) -> _Document:
    return _deployment(server.name, {"app": server.service, "replica": server.name}, spec)


def _deployment(name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> _Document:
    """Return a Deployment of one pod, which is made anew if it is evicted or its node restarts."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "replicas": 1,
            # A new pod beside the old one would not fit on the GPU.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": dict(labels)},
            "template": {"metadata": {"labels": dict(labels)}, "spec": dict(spec)},
        },
    }


def _gpu_name(gpu: int) -> str:
    return f"gpu-{gpu}"


def _container(server: Server, environment: Mapping[str, str]) -> _Document:
    port = int(environment["GPUSHARE_PORT"])
    return {
        "name": server.name,
        "image": IMAGE,
        "env": _variables(environment),
        "ports": [{"containerPort": port}],
        # No request comes before the model is loaded and the server listens.
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 5},
    }


def _on_node(server: Server) -> dict[str, Any]:
    return {"nodeSelector": {_HOST_NAME: node_of(server.gpu)}, **_TOLERATIONS}


def _variables(environment: Mapping[str, str]) -> list[dict[str, str]]:
    # Kubernetes replaces $(NAME) by a variable, and $$ by $.
    return [{"name": key, "value": value.replace("$", "$$")} for key, value in environment.items()]


def _environment(container: Mapping[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"].replace("$$", "$") for variable in container["env"]}


def _pods(files: Mapping[str, str]) -> list[Any]:
    return [
        document["spec"]["template"]
        for document in yaml.safe_load_all(files[_PLAN_FILE])
        if document["kind"] == "Deployment" and document["metadata"]["name"] != FRONT_END
    ]
