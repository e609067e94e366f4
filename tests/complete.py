"""Instances that together have every feature: each field of ``Instance`` differs from its default in one of them."""

from instances import Application, GpuPool, Instance, Job, Objective, SloRule, Workload
from instances.catalogue import gpu_type
from instances.instance import instance_of_services
from instances.services import Service


def complete_instances() -> dict[str, Instance]:
    """Return an instance of each kind by name; kinds exclude one another, such as jobs and workloads."""
    shared_fields = {"latency_buffer": 1.1, "seed": 7, "provenance": "by hand"}
    v100, h100, rtx2080ti = (GpuPool(gpu_type(name), 3) for name in ("v100", "h100-sxm", "rtx2080ti"))
    requests = Instance(
        "requests",
        Objective.GOODPUT,
        SloRule.ATTAINMENT,
        "igniter",
        (v100, h100),
        (Workload("w1", "alexnet", 60.0, 90.0, arrivals="day.csv"), Workload("w2", "vgg19", 90.0, 30.0)),
        attainment=0.95,
        arrivals="gamma:1.5",
        dropping=False,
        random_routing=True,
        **shared_fields,
    )
    applications = Instance(
        "applications",
        Objective.SCALE,
        SloRule.ASSEMBLY,
        "gpulet",
        (rtx2080ti,),
        (Workload("first", "lenet", 20.0, 50.0), Workload("second", "vgg16", 130.0, 50.0)),
        (Application("app", ("first", "second"), (("first", "second"),), 160.0),),
        **shared_fields,
    )
    jobs = Instance(
        "jobs",
        Objective.COLOCATION,
        SloRule.HALF_SLO,
        "gpulet",
        (rtx2080ti,),
        (),
        jobs=(Job("j1", "vgg16", (1, 4), (0.25, 0.75), (0.0, 20.0), (1.0, 2.0)),),
        **shared_fields,
    )
    chat = Service("chat", "llama-7b", 128, 128, 500.0, 50.0)
    services = instance_of_services("services", [(chat, 2.0)], [GpuPool(gpu_type("a100-eighths"), 3)], **shared_fields)
    mig = Instance(
        "mig",
        Objective.COST,
        SloRule.HALF_SLO,
        "mig-table",
        (GpuPool(gpu_type("a100-mig")),),
        (Workload("w1", "bert", 500.0, 20.0),),
    )
    return {instance.name: instance for instance in (requests, applications, jobs, services, mig)}
