"""Duties of the operator: steps that the files of a deployment do not perform."""

from collections.abc import Sequence

from bench.deploy.front_end import replicated
from bench.deploy.servers import Server
from bench.deploy.target import Target

_EXCLUSIVE = (
    "set every GPU to compute mode EXCLUSIVE_PROCESS (nvidia-smi -c EXCLUSIVE_PROCESS), so that a process that does"
    " not reach the MPS daemon fails instead of running without limits"
)
_RESTART = (
    "after a reboot, or if the MPS daemon has ended, set the compute mode again, start the daemon, and then start all"
    " servers again: a server that starts before the daemon has no limits"
)
_WATCH = (
    "let a service manager watch the servers: start.sh starts none again that has ended. check.sh names such a server;"
    " stop.sh and then start.sh start all of them again"
)
_END_AFTER_ERRORS = (
    "let a server end after a CUDA error, so that it is started again: an error of one process can break its neighbours"
    " on the GPU, and an open port does not show that CUDA works"
)
_ONE_USER = "run all servers as one user: the MPS daemon serves one user at a time"
_DUTIES = {
    Target.SHELL: (_EXCLUSIVE, _RESTART, _WATCH),
    Target.MPS_STATIC: (
        _EXCLUSIVE,
        _WATCH,
        "use a driver for CUDA 13.1 or later, whose MPS has static partitions (nvidia-cuda-mps-control -S)",
    ),
    Target.COMPOSE: (_EXCLUSIVE, _RESTART, _END_AFTER_ERRORS, _ONE_USER),
    Target.TRITON: (
        _EXCLUSIVE,
        _RESTART,
        _WATCH,
        "put the model of every repository into its folder 1",
        "add the sections input and output to config.pbtxt if the backend does not complete them: ONNX Runtime and"
        " TensorRT do, PyTorch does not",
        "run start.sh where tritonserver and the MPS programs of the driver are: on the host, or in one container of"
        " Triton with all GPUs and the host's IPC, by docker exec: start.sh ends once the servers have started",
        "ask /v2/health/ready of every server before you send requests: check.sh does not wait for the models",
    ),
    Target.KUBERNETES: (
        _EXCLUSIVE,
        _RESTART,
        _END_AFTER_ERRORS,
        _ONE_USER,
        "use a namespace of the pod security level privileged: pods use the host's IPC, process ids and a folder of it",
        "apply the plan with the right to create a RuntimeClass, a resource of the cluster that all plans share",
        "use nodes whose container runtime has NVIDIA's handler nvidia and accepts NVIDIA_VISIBLE_DEVICES",
        "keep other pods off all GPUs of these nodes: the MPS daemon of a node serves every GPU, and plain Kubernetes"
        " has no admission control of shares",
    ),
    Target.DRA: ("turn on the driver's feature gate MPSSupport, which unequal shares need",),
    Target.DEVICE_PLUGIN: (
        "give each node the plugin's configuration of its GPU type, by the label nvidia.com/device-plugin.config",
        "use nodes of one GPU, or one node per GPU: the plugin chooses the GPU within a node",
    ),
    Target.HAMI: ("expect more interference than planned: HAMi limits cores by time, the plan by space",),
    Target.MIG_PARTED: (
        "apply config.yaml by nvidia-mig-parted before start.sh; its GPUs have the numbers of the plan",
        _WATCH,
    ),
}


def duties(target: Target, servers: Sequence[Server]) -> list[str]:
    """Return the duties of the operator in sentences without a full stop."""
    sentences = list(_DUTIES[target])
    if target is not Target.TRITON:
        rules = "port, batch, timeout of a partial batch"
        if any(server.longest_wait_us is not None for server in servers):
            rules += ", and which late requests to drop"
        sentences.append(f"let every server read its rules from the variables GPUSHARE_...: {rules}")
    if groups := replicated(servers):
        names = ", ".join(f"{label} ({len(group)} servers)" for label, group in list(groups.items())[:5])
        more = f" and {len(groups) - 5} more" if len(groups) > 5 else ""
        if target in (Target.SHELL, Target.MPS_STATIC, Target.MIG_PARTED, Target.TRITON):
            sentences.append(f"run nginx with nginx.conf in front of {names}{more}; endpoints.csv has all addresses")
        else:
            if target is Target.COMPOSE:
                sentences.append("use nginx 1.27.3 or later, which follows a server to a new address")
            sentences.append(f"send the requests of {names}{more} to the front end; endpoints.csv has all addresses")
    return sentences
