"""Schema of instance and plan files, version 1: every field with its unit and range.

The published JSON Schemas and the "expected ..." messages are generated from these models.
"""

from copy import deepcopy
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from instances.attainment_terms import DEFAULT_ATTAINMENT, LEAST_ATTAINMENT, MOST_ATTAINMENT, POISSON
from instances.budget import SloRule
from instances.plan import PlacedGpu
from instances.ranges import NAME, POSITIVE, WHOLE
from instances.workload import LEAST_RATE_RPS, MOST_RATE_RPS

VERSION = 1
"""Version of the file format that this bench reads and writes."""

Version = Annotated[int, Field(strict=True, ge=VERSION, le=VERSION, json_schema_extra={"const": VERSION})]
Name = Annotated[str, Field(**NAME)]
Text = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$")]
Positive = Annotated[float, Field(**POSITIVE)]
Rate = Annotated[float, Field(ge=LEAST_RATE_RPS, le=MOST_RATE_RPS, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Whole = Annotated[int, Field(**WHOLE)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]  # the ledger's integers have 64 bits
_RULES = {"title": "Slo Rule", "type": "string", "enum": [str(rule) for rule in SloRule]}
_CATALOGUE = {
    "title": "Catalogue",
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "object"}, {"type": "null"}],
}
Catalogue = Annotated[JsonValue, WithJsonSchema(_CATALOGUE)]
Rule = Annotated[SloRule, Field(strict=False), WithJsonSchema(_RULES)]


class _Strict(BaseModel):
    """Base of the models: unlisted keys and values of a similar type are refused."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class GpuEntry(_Strict):
    """GPUs of one type on offer."""

    model_config = ConfigDict(title="GPU pool")

    type: Name = Field(description="Name of the GPU type in the catalogue.", examples=["v100"])
    count: Whole | None = Field(None, description="GPUs of this type; null: as many as needed.", examples=[None, 8])
    price_per_hour: Positive | None = Field(
        None, description="Price of one GPU in dollars; null: the catalogue's.", examples=[None, 2.5]
    )


class WorkloadEntry(_Strict):
    """A stream of requests to one DNN model under an SLO."""

    model_config = ConfigDict(title="Workload")

    id: Name = Field(description="Name, unique among the workloads.", examples=["w1"])
    model: Name = Field(description="Name of the DNN model, known on every GPU type on offer.", examples=["alexnet"])
    slo_ms: Positive = Field(description="Permitted latency from arrival to result, in milliseconds.", examples=[15])
    rate_rps: Rate = Field(description="Mean arrival rate, in requests per second.", examples=[500])
    arrivals: Name | None = Field(
        None, description="Name of an arrival trace; null: a stationary stream.", examples=["azure"]
    )


class ServiceEntry(_Strict):
    """A language-model service: it becomes a prefill and a decode workload."""

    model_config = ConfigDict(title="Service")

    service: Name = Field(description="Name, unique among the services.", examples=["chat-7b"])
    model: Name = Field(
        description="Name of the language model, known on every GPU type on offer.", examples=["llama-7b"]
    )
    rate_rps: Rate = Field(description="Mean arrival rate, in requests per second.", examples=[2])
    prompt_tokens: Whole = Field(description="Tokens of a request's prompt.", examples=[128])
    output_tokens: Whole = Field(description="Tokens generated for a request.", examples=[128])
    ttft_ms: Positive = Field(description="Permitted time to first token, in milliseconds.", examples=[500])
    tpot_ms: Positive = Field(description="Permitted mean time per output token, in milliseconds.", examples=[50])


class ApplicationEntry(_Strict):
    """A directed acyclic graph of workloads under one end-to-end SLO."""

    model_config = ConfigDict(title="Application")

    id: Name = Field(description="Name, unique among the applications.", examples=["traffic"])
    stages: list[Name] = Field(
        min_length=1,
        description="Ids of the workloads that one request visits, each once.",
        examples=[["detect", "classify"]],
    )
    edges: list[Annotated[list[Name], Field(min_length=2, max_length=2)]] = Field(
        description="Pairs [before, after] of stages, without a cycle.", examples=[[["detect", "classify"]]]
    )
    slo_ms: Positive = Field(description="Permitted latency of a whole request, in milliseconds.", examples=[136])


class JobEntry(_Strict):
    """A best-effort job: batches of random size at random gaps, without an SLO."""

    model_config = ConfigDict(title="Job")

    id: Name = Field(description="Name, unique among the jobs.", examples=["j1"])
    model: Name = Field(description="Name of the DNN model, known on every GPU type on offer.", examples=["resnet50"])
    batches: list[Whole] = Field(
        min_length=1, description="Batch sizes that the job draws from, in requests.", examples=[[4, 8]]
    )
    batch_weights: list[NotNegative] = Field(description="Relative frequency of each batch size.", examples=[[0.5, 1]])
    interarrival_ms: list[NotNegative] = Field(
        min_length=1, description="Gaps between batches that the job draws from, in milliseconds.", examples=[[20]]
    )
    interarrival_weights: list[NotNegative] = Field(description="Relative frequency of each gap.", examples=[[1]])


INSTANCE_EXAMPLE: dict[str, JsonValue] = {
    "version": 1,
    "name": "my-mix",
    "objective": "cost",
    "slo_rule": "half-slo",
    "performance_model": "igniter",
    "gpus": [{"type": "v100", "count": None}],
    "workloads": [{"id": "w1", "model": "alexnet", "slo_ms": 15, "rate_rps": 500}],
}


def _when(objective: str, then: dict[str, JsonValue], otherwise: dict[str, JsonValue]) -> JsonValue:
    """Build the JSON Schema of a rule that applies under one objective only."""
    condition: JsonValue = {"properties": {"objective": {"const": objective}}, "required": ["objective"]}
    return {"if": condition, "then": then, "else": otherwise}


class InstanceFile(_Strict):
    """A problem: workloads or jobs, a GPU pool, a performance model, an SLO rule and an objective."""

    model_config = ConfigDict(
        title="Instance",
        json_schema_extra={
            "examples": [INSTANCE_EXAMPLE],
            "allOf": [
                _when(
                    "throughput",
                    {"properties": {"throughput_of": {"type": "string"}}, "required": ["throughput_of"]},
                    {"properties": {"throughput_of": {"type": "null"}}},
                ),
                _when(
                    "colocation",
                    {"properties": {"jobs": {"minItems": 1}}, "required": ["jobs"]},
                    {
                        "properties": {"jobs": {"maxItems": 0}},
                        "anyOf": [
                            {"properties": {entries: {"minItems": 1}}, "required": [entries]}
                            for entries in ("workloads", "services")
                        ],
                    },
                ),
            ],
        },
    )

    version: Version = Field(description="Version of this format.")
    name: Name = Field(description="Name of the instance; plans refer to it.", examples=["my-mix"])
    objective: Literal["cost", "throughput", "scale", "colocation"] = Field(
        description="Objective of a plan: least price per hour, most requests per second, largest multiple of all "
        "rates, or grouping of best-effort jobs."
    )
    throughput_of: Literal["capacity", "goodput"] | None = Field(
        None,
        description="Under objective throughput, and only there: capacity (everything is served) or goodput (workloads "
        "may be served in part).",
    )
    slo_rule: Rule = Field(description="SLO rule, which computes the latency budgets from the SLOs.")
    performance_model: Name = Field(description="Performance model, which predicts latencies.", examples=["igniter"])
    latency_buffer: Positive = Field(
        1.0, description="Factor on every predicted latency before it is tested; 1 adds no margin.", examples=[1.1]
    )
    attainment: float = Field(
        DEFAULT_ATTAINMENT,
        ge=LEAST_ATTAINMENT,
        le=MOST_ATTAINMENT,
        description="slo_rule attainment only: fraction of the requests to serve within the SLO.",
        examples=[0.99],
    )
    arrivals: Name = Field(
        POISSON,
        description="slo_rule attainment only: assumed arrivals, poisson or gamma:CV.",
        examples=["gamma:2"],
    )
    dropping: bool = Field(
        True,
        description="Whether servers drop requests that can no longer meet their SLO; false: they serve every request.",
    )
    random_routing: bool = Field(
        False,
        description="Whether each request of a workload with several slots goes to one of them at random; false: the "
        "slots take turns.",
    )
    catalogue: Catalogue = Field(
        None,
        description="Your own GPU types: a catalogue file or a folder of them, relative to this file, or the entries "
        "of catalogue files by name.",
        examples=["mine.toml"],
    )
    gpus: list[GpuEntry] = Field(min_length=1, description="The GPU pool, one entry per type.")
    workloads: list[WorkloadEntry] = Field(
        [], description="Workloads to serve; at least one workload or service, except under objective colocation."
    )
    services: list[ServiceEntry] = Field([], description="Language-model services; they need performance_model table.")
    applications: list[ApplicationEntry] = Field([], description="Request graphs over the workloads.")
    jobs: list[JobEntry] = Field(
        [], description="Best-effort jobs; at least one under objective colocation, else none."
    )
    seed: Seed | None = Field(None, description="Seed of the generator that made the instance, if any.", examples=[0])
    provenance: Text = Field(
        "", description="Origin of the instance, in words.", examples=["uniform mix of four models"]
    )


PLAN_EXAMPLE: dict[str, JsonValue] = {
    "version": 1,
    "instance": "my-mix",
    "gpus": [
        {
            "type": "v100",
            "gpulets": [
                {
                    "share_units": 15,
                    "duty_cycle_ms": None,
                    "slots": [{"workload": "w1", "batch": 4, "rate_rps": 500}],
                }
            ],
        }
    ],
}


NAMED, EMBEDDED = "named", "embedded"
"""The two forms of ``PlanFile.instance``; pydantic adds the form to an error's path after that key."""


def _kind(value: object) -> str:
    """Return the form of a value of ``PlanFile.instance``."""
    return EMBEDDED if isinstance(value, dict) else NAMED


class PlanFile(_Strict):
    """A plan: GPUs, the gpulets on them, and the slots of each."""

    # Strict validation does not convert JSON objects to dataclasses. The fields of the dataclasses are strict.
    model_config = ConfigDict(title="Plan", strict=False, json_schema_extra={"examples": [PLAN_EXAMPLE]})

    version: Version = Field(description="Version of this format.")
    instance: Annotated[Annotated[Name, Tag(NAMED)] | Annotated[InstanceFile, Tag(EMBEDDED)], Discriminator(_kind)] = (
        Field(
            description="The instance that the plan solves: its name, or the whole instance for a self-contained file."
        )
    )
    gpus: tuple[PlacedGpu, ...] = Field(description="The GPUs used.")


class _UnsortedSchema(GenerateJsonSchema):
    """Schema generator that keeps the format's order of keys; pydantic sorts them by name."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        """Return ``value`` unchanged."""
        return value


@cache
def adapter_of(model: Any) -> TypeAdapter[Any]:
    """Return the validator of ``model``, a type that pydantic supports such as a dataclass; it is built once."""
    return TypeAdapter(model)


@cache
def schema_of(model: Any) -> dict[str, object]:
    """Return the JSON Schema of ``model``; it is built once."""
    schema = adapter_of(model).json_schema(schema_generator=_UnsortedSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema


def schemas() -> dict[str, dict[str, object]]:
    """Build the JSON Schemas (draft 2020-12) of both files, by name: ``instance`` and ``plan``.

    A schema describes single fields. The reader also checks that names are known and ids are unique.
    """
    return {"instance": deepcopy(schema_of(InstanceFile)), "plan": deepcopy(schema_of(PlanFile))}
