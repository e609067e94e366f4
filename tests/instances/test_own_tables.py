"""A user's tables: the instance that they give, and the messages about broken ones."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from instances import InputError
from instances.catalogue import gpu_type
from instances.files import instance_from_json, instance_to_json
from instances.inputs import instance_from_tables
from instances.measurements import Configuration, read_pairs, read_solo
from instances.memory import MEMORY_MEASURED
from instances.performance import interference_model_names
from instances.performance.buffer import P95_SLOWDOWN, with_buffer
from instances.performance.validation import latencies_ms
from instances.view import View
from tests.instances.test_performance_fit import measured

HEAD = "service,model,rate_rps,slo_ms\n"
SERVICES = HEAD + "search,ranker,120,80\nchat,encoder,60,150\nvideo,detector,30,200\nads,tiny,400,40\n"
LINES_OF_SERVICES = SERVICES.splitlines()[1:]
GPUS = "gpu,count,price_per_hour,memory_mib,sms\nx9,,2.5,24576,100\n"
MODELS = {"ranker": 4.0, "encoder": 9.0, "detector": 15.0, "tiny": 1.0}


def profile() -> str:
    rows = ["model,batch,share_pct,latency_ms,memory_mib"]
    for model, base in MODELS.items():
        for batch in (1, 4, 16):
            work = base * (50 + 25 * batch)
            rows += [f"{model},{batch},{s},{work / (s + 15):.3f},{900 + 20 * batch}" for s in (20, 50, 100)]
    return "\n".join(rows) + "\n"


def write(folder: Path, **changed: str | bytes) -> dict[str, Path]:
    texts = {"services": SERVICES, "profile": profile(), "gpus": GPUS} | changed
    for name, text in texts.items():
        (folder / f"{name}.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return {name: folder / f"{name}.csv" for name in texts}


def test_unknown_models_on_an_unknown_gpu_make_an_instance(tmp_path: Path) -> None:
    tabulated = instance_from_tables(**write(tmp_path))
    (pool,) = tabulated.instance.gpus
    assert (pool.type.name, pool.type.share_units, pool.count) == ("x9", 50, None)
    assert set(pool.type.models) == set(MODELS)
    assert pool.type.models["tiny"].memory_mib(16) == pytest.approx(1220.0)
    origins = {model.provenance.source.rpartition("; ")[2] for model in pool.type.models.values()}
    assert origins == {MEMORY_MEASURED}, "deployed files limit only measured memory"
    (note,) = tabulated.notes
    assert f"every neighbour adds {100 * (P95_SLOWDOWN - 1):.0f} %" in note

    models = dict(reversed(pool.type.models.items()))
    reordered = replace(tabulated.instance, gpus=(replace(pool, type=replace(pool.type, models=models)),))
    views = [View.of(instance, instance.gpus[0].type) for instance in (tabulated.instance, reordered)]
    budgets_ms = [view.budgets_ms(np.arange(4), 1) for view in views]
    times_ms = [view.tables.active_ms[view.model, 1, 50] for view in views]
    assert np.array_equal(*budgets_ms)
    assert np.array_equal(*times_ms)
    assert instance_from_json(instance_to_json(tabulated.instance)) == tabulated.instance


def test_default_memory_and_terms_are_noted(tmp_path: Path) -> None:
    bare = "\n".join(line.rpartition(",")[0] for line in profile().splitlines())
    services = HEAD.replace("\n", ",attainment,arrivals\n") + SERVICES.removeprefix(HEAD).replace("\n", ",,\n")
    services = services.replace(",80,,", ",80,0.999,gamma:2")
    tabulated = instance_from_tables(**write(tmp_path, profile=bare, services=services))
    assert (tabulated.instance.attainment, tabulated.instance.arrivals) == (0.999, "gamma:2")
    for start in ("memory of ranker, encoder, detector, tiny on x9: not measured", "attainment: ", "arrivals: "):
        assert any(note.startswith(start) for note in tabulated.notes), start


def test_tables_may_be_toml_or_json(tmp_path: Path) -> None:
    files = write(tmp_path)
    whole = instance_from_tables(**files).instance
    rows = [dict(zip(SERVICES.splitlines()[0].split(","), line.split(","), strict=True)) for line in LINES_OF_SERVICES]
    typed = [{**row, "rate_rps": float(row["rate_rps"]), "slo_ms": float(row["slo_ms"])} for row in rows]
    (tmp_path / "services.json").write_text(json.dumps(typed))
    (tmp_path / "gpus.toml").write_text('[[gpus]]\ngpu = "x9"\nprice_per_hour = 2.5\nmemory_mib = 24576\nsms = 100\n')
    read = instance_from_tables(tmp_path / "services.json", files["profile"], tmp_path / "gpus.toml").instance
    assert (read.workloads, read.gpus) == (whole.workloads, whole.gpus)
    for wrong, problem in (
        ([{**typed[0], "rate_rps": "80/s"}], r'services\[0\], column rate_rps: "80/s" has a unit'),
        ([{**typed[0], "rate_rps": 10**400}], r"column rate_rps: is 1000.*; expected a number greater than 0"),
        ([{**typed[0], "rate": 3}], r'services\[0\], column rate: unknown column "rate"; did you mean "rate_rps"'),
        ({"service": []}, "services: is missing; expected a list of tables"),
    ):
        (tmp_path / "services.json").write_text(json.dumps(wrong))
        with pytest.raises(InputError, match=problem):
            instance_from_tables(tmp_path / "services.json", files["profile"], tmp_path / "gpus.toml")


def test_a_profile_completes_a_type_without_models(tmp_path: Path) -> None:
    (pool,) = instance_from_tables(**write(tmp_path, gpus="gpu,count\nl4,3\n")).instance.gpus
    assert (pool.count, pool.type.price_per_hour, pool.type.memory_mib) == (3, 0.8048, 23034.0)


def test_all_missing_values_are_named_at_once(tmp_path: Path) -> None:
    two = "gpu," + profile().replace("\n", "\nx9,").removesuffix("x9,")
    with pytest.raises(InputError, match="lacks price_per_hour of x9, memory_mib of x9, price_per_hour of y9"):
        instance_from_tables(**write(tmp_path, gpus="gpu\nx9\ny9\n", profile=two))
    with pytest.raises(InputError, match="lacks rows for chef on x9, cook on x9"):
        instance_from_tables(**write(tmp_path, services="service,model,rate_rps,slo_ms\na,chef,1,9\nb,cook,1,9\n"))


def test_a_profile_of_whole_gpus_plans_whole_gpus(tmp_path: Path) -> None:
    analyzer = "Model,GPU UUID,Batch,Concurrency,p99 Latency (ms),Throughput (infer/sec),Max GPU Memory Usage (MB)\n"
    for model, base in MODELS.items():
        for batch in (1, 2, 4):
            analyzer += (
                f"{model},GPU-1,{batch},1,{base * batch:.2f},100,900\n{model},GPU-1,{batch},8,{9 * base},100,990\n"
            )
    tabulated = instance_from_tables(**write(tmp_path, profile=analyzer))
    assert tabulated.instance.gpus[0].type.allowed_shares == (50,)
    assert any("only whole GPUs are planned" in note for note in tabulated.notes)


@pytest.mark.parametrize("name", interference_model_names())
def test_every_performance_model_applies_the_slowdown(tmp_path: Path, name: str) -> None:
    gpu = instance_from_tables(**write(tmp_path), model=name).instance.gpus[0].type
    own = Configuration("tiny", 4, 30.0)
    alone, beside = latencies_ms(gpu, name, [(own,), (own, Configuration("ranker", 1, 70.0))])
    assert beside[0] == pytest.approx(P95_SLOWDOWN * alone[0])
    if name != "gpulet":  # gpulet predicts pairs only
        (beside_two,) = latencies_ms(
            gpu, name, [(own, Configuration("ranker", 1, 35.0), Configuration("encoder", 1, 35.0))]
        )
        assert beside_two[0] == pytest.approx((1.0 + 2.0 * (P95_SLOWDOWN - 1.0)) * alone[0])


def test_the_guessed_slowdown_is_the_p95_of_the_measured_pairs() -> None:
    slowdowns = []
    for folder, count, p95 in (("a100-gpulet", 1837, 1.920), ("v100-igniter", 750, 1.175)):
        alone_of = {sample.configuration: sample.latency_ms for sample in read_solo(measured(folder, "solo.csv"))}
        of_folder = [pair.latency_ms / alone_of[pair.own] for pair in read_pairs(measured(folder))]
        assert (len(of_folder), round(float(np.quantile(of_folder, 0.95)), 3)) == (count, p95)
        slowdowns += of_folder
    assert round(float(np.quantile(slowdowns, 0.95)), 3) == P95_SLOWDOWN


def test_a_model_without_interference_or_a_wrong_slowdown_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='is "table", which predicts no interference; expected igniter'):
        instance_from_tables(**write(tmp_path), model="table")
    with pytest.raises(InputError, match="expected a slowdown by one neighbour"):
        with_buffer(gpu_type("a100"), 0.5)


LINES = profile().splitlines()
BROKEN = [
    # file, its content, line, column, part of the problem
    ("services", SERVICES.replace("120", "1,200"), 2, "5", "thousands commas"),
    ("services", SERVICES.replace(",120", ',"1,200"'), 2, "rate_rps", "thousands separators"),
    ("services", SERVICES.replace("120", "1 200"), 2, "rate_rps", "thousands separators"),
    ("services", SERVICES.replace("120", "1'200"), 2, "rate_rps", "thousands separators"),
    ("services", SERVICES.replace("80", "80ms"), 2, "slo_ms", "has a unit"),
    ("services", SERVICES.replace("60", "60/s"), 3, "rate_rps", "has a unit"),
    ("services", SERVICES.replace(",80", ',"80,5"'), 2, "slo_ms", "decimal comma"),
    ("services", SERVICES.replace("chat", "search"), 3, "service", "is a repetition of line 2"),
    ("services", SERVICES.replace("60", "-60"), 3, "rate_rps", "expected a number greater than 0"),
    ("services", SERVICES.replace("60", "0"), 3, "rate_rps", "expected a number greater than 0"),
    ("services", SERVICES.replace("60", "nan"), 3, "rate_rps", "is no number"),
    ("services", SERVICES.replace("60", "1e999"), 3, "rate_rps", "expected a number"),
    ("services", SERVICES.replace("60", ""), 3, "rate_rps", "is empty"),
    ("services", SERVICES.replace(",60,150", ",60"), 3, "slo_ms", "is missing: the line has 3 values for 4 columns"),
    ("services", SERVICES.replace("rate_rps", "rate"), 1, "3", 'did you mean "rate_rps"'),
    ("services", SERVICES.replace("rate_rps,", ""), 1, "rate_rps", "is missing; the table needs"),
    ("services", SERVICES.replace("rate_rps", "slo_ms"), 1, "slo_ms", "occurs twice"),
    ("services", SERVICES.replace(",", ";"), 1, "1", "semicolons"),
    ("services", SERVICES.replace(",", "\t"), 1, "1", "tabs"),
    ("services", SERVICES.replace("chat", "café").encode("latin-1"), 3, "1", "is not UTF-8"),
    ("services", SERVICES.encode("utf-16"), 1, "1", "UTF-16"),
    ("services", "", 1, "1", "is empty; expected the columns service, model"),
    ("services", SERVICES.splitlines()[0], 2, None, "has no rows"),
    ("services", SERVICES.replace("chat", '"chat'), 3, "1", "is not valid CSV"),
    ("services", SERVICES.replace("chat", "ch\x07at"), 3, "service", "printable text"),
    ("services", "service,model,rate_rps,slo_ms,arrivals\na,tiny,1,9,bursty", 2, "arrivals", '"poisson" or "gamma:CV"'),
    ("services", "service,model,rate_rps,slo_ms,attainment\na,tiny,1,9,0.4", 2, "attainment", "of at least 0.5"),
    ("gpus", GPUS.replace("x9,,", "x9,2.5,"), 2, "count", "expected a whole number"),
    ("gpus", GPUS.replace("2.5", "$2.5"), 2, "price_per_hour", "is no number"),
    ("gpus", GPUS.replace("24576", "24 GiB"), 2, "memory_mib", "has a unit"),
    ("gpus", GPUS.replace("x9,,2.5,24576", "x9,,,"), 2, "price_per_hour", "lacks price_per_hour of x9, memory"),
    ("gpus", GPUS.replace("x9", "a100-mig"), 2, "gpu", "has a table of measured MIG instances"),
    ("profile", profile().replace("ranker,1,20,", "ranker,1,120,"), 2, "share_pct", "at most 100"),
    ("profile", profile().replace("ranker,1,20,", "ranker,1.5,20,"), 2, "batch", "expected a whole number"),
    ("profile", profile().replace("ranker,1,50,", "ranker,1,20,"), 3, "gpu", "is a repetition of line 2"),
    ("profile", "\n".join([LINES[0], *LINES[4:]]), 2, "batch", "ranker on x9 has batch 4, 16"),
    ("profile", "\n".join([*LINES[:5], *LINES[10:]]), 2, "latency_ms", "ranker on x9 has 4 rows; expected at least 6"),
    ("profile", profile().replace("tiny", "tin"), 1, "model", "lacks rows for tiny on x9"),
    ("profile", profile().replace("20,", "20%,", 1), 2, "share_pct", "has a unit"),
    ("profile", profile().replace(",920", ",-920", 1), 2, "memory_mib", "expected a number greater than 0"),
]  # fmt: skip


def test_a_broken_table_is_refused_with_file_line_and_column(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, content, line, column, problem in BROKEN:
        with subtests.test(name, problem=problem):
            with pytest.raises(InputError) as caught:
                instance_from_tables(**write(tmp_path, **{name: content}))
            place = f"{name}.csv: line {line}" + ("" if column is None else f", column {column}")
            assert f"{place}: " in str(caught.value)
            assert problem in str(caught.value)
            assert len(str(caught.value).splitlines()) == 1
            assert re.search(r"[^\x20-\x7e\u00a0-\uffff]", str(caught.value)) is None
