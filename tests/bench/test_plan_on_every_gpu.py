"""``bench plan`` on every GPU type of the catalogue: a plan, or one line that says why there is none."""

from pathlib import Path

import pytest
from conftest import Call

from bench.fleet.mig_headroom import BUFFERS, with_headroom
from bench.fleet.solving import solved_here
from bench.judging.judge import judge
from instances import InputError, Instance, Plan
from instances.catalogue import gpu_type, gpu_type_names
from instances.inputs import instance_from_tables

WITHOUT_PROFILES = ("h100", "h200", "l4", "l40s")
WITH_LANGUAGE_MODELS = ("a100-eighths", "a100-llm")


def tables(folder: Path, gpu: str, model: str, rate_rps: float = 20.0, slo_ms: float = 500.0) -> tuple[Path, Path]:
    services, gpus = folder / "services.csv", folder / "gpus.csv"
    services.write_text(f"service,model,rate_rps,slo_ms\na,{model},{rate_rps},{slo_ms}\n")
    gpus.write_text(f"gpu\n{gpu}\n")
    return services, gpus


@pytest.mark.parametrize("gpu", gpu_type_names())
def test_every_gpu_type_has_a_plan_or_one_line(gpu: str, tmp_path: Path) -> None:
    model = next(iter(gpu_type(gpu).model_names), "resnet50")
    services, gpus = tables(tmp_path, gpu, model)
    if gpu in WITHOUT_PROFILES:
        with pytest.raises(InputError, match=f"lacks rows for resnet50 on {gpu}: the catalogue does not know them"):
            instance_from_tables(services, None, gpus)
        return
    if gpu in WITH_LANGUAGE_MODELS:
        with pytest.raises(InputError, match=f"column prompt_tokens: is empty; {model} is a language model"):
            instance_from_tables(services, None, gpus)
        return
    asked = instance_from_tables(services, None, gpus).instance
    plan = solved_here(asked, 20.0).plan
    assert plan is not None
    assert judge(plan, asked).feasible


def test_a_service_on_mig_is_planned_tested_and_deployed(call: Call, tmp_path: Path) -> None:
    tables(tmp_path, "a100-mig", "bert", rate_rps=120.0)
    planned = call("plan", "services.csv", "--gpus", "gpus.csv", "--time-limit", "10", "-o", "plan.json")
    assert planned.code == 0, planned.err
    assert [line[0] for line in planned.out.splitlines()[:5]] == list("12345")
    assert planned.out.startswith(
        "1 1 a100-mig for $4.10/h\n2 proven: no plan is cheaper in the class split, each batch"
    )
    assert "3 holds on servers that drop late requests" in planned.out
    written = call("deploy", "plan.json", "--to", "mig-parted", "-o", "out")
    assert written.code == 0, written.err
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"config.yaml", "start.sh", "check.sh", "stop.sh"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--attainment", "0.999"], "--attainment: is 0.999; plans on MIG instances are made for 0.99 only"),
        (["--arrivals", "gamma:2"], "--arrivals: is gamma:2; plans on MIG instances are made for poisson only"),
        (["--trace", "gpus.csv"], "--trace: days are planned in shares; a100-mig is cut into MIG instances"),
        (
            ["--trace", "gpus.csv", "--then", "slack"],
            "--then: is slack; a day is planned for the least cost only; leave it out",
        ),
        (["--target", "compose"], "--target compose: a100-mig is cut into MIG instances; expected --target mig-parted"),
    ],
)
def test_what_plans_on_mig_cannot_do_is_refused_in_one_line(
    call: Call, tmp_path: Path, options: list[str], problem: str
) -> None:
    tables(tmp_path, "a100-mig", "bert")
    done = call("plan", "services.csv", "--gpus", "gpus.csv", *options)
    assert done.code == 2
    assert done.err.splitlines()[-1] == f"error: {problem}"


def test_a_plan_does_not_mix_mig_with_shares_or_a_users_profile(tmp_path: Path) -> None:
    services, gpus = tables(tmp_path, "a100-mig", "bert")
    gpus.write_text("gpu\na100-mig\na100\n")
    with pytest.raises(InputError, match="lacks rows for bert on a100"):
        instance_from_tables(services, None, gpus)
    gpus.write_text("gpu,memory_mib\na100-mig,40960\n")
    with pytest.raises(InputError, match="line 2, column memory_mib: a100-mig has measured MIG instances; leave it"):
        instance_from_tables(services, None, gpus)
    gpus.write_text("gpu\na100-mig\na100\n")
    services.write_text("service,model,rate_rps,slo_ms\na,resnet50,20,500\n")
    with pytest.raises(InputError, match="line 3, column gpu: a100 is not cut into MIG instances as others are"):
        instance_from_tables(services, None, gpus)


def test_the_headroom_is_the_least_buffer_that_holds(tmp_path: Path) -> None:
    services, gpus = tables(tmp_path, "a100-mig", "bert")
    asked = instance_from_tables(services, None, gpus).instance
    tried: list[float] = []

    def from_1_3_on(_: Plan, instance: Instance) -> bool:
        tried.append(instance.latency_buffer)
        return instance.latency_buffer >= 1.3

    chosen = with_headroom(asked, 60.0, from_1_3_on)
    assert chosen is not None
    assert chosen.latency_buffer == 1.3
    assert tried == [buffer for buffer in BUFFERS if buffer <= 1.3]
    assert with_headroom(asked, 60.0, lambda _plan, _instance: False) is None
