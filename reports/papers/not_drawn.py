"""Figures, tables and algorithms of the five papers that are not drawn, and the reasons."""

from reports.figure import NotDrawn

_DIAGRAM = "a diagram of the system"
_SYMBOLS = "a table of symbols"
_TESTBED = "a description of the testbed"
_RELATED = "a comparison of systems in words"
_NO_CPU = "no measurement of a DNN on a CPU server is published, and no performance model here describes one"


def _code(algorithm: str) -> str:
    return f"pseudo-code of {algorithm}"


def _input(instance: str) -> str:
    return f"an input, not a result: `bench show {instance}`"


_IGNITER = (
    ("fig1", "Fig. 1", "Position of iGniter among other systems", "a diagram of related systems"),
    ("fig2", "Fig. 2", "Inferences that overlap in CUDA streams", _DIAGRAM),
    ("fig10", "Fig. 10", "Overview of the prototype", _DIAGRAM),
    ("table2", "Table 2", "Notation of the performance model", _SYMBOLS),
    ("table3", "Table 3", "SLOs and rates of the twelve workloads", _input("igniter-12")),
    ("table4", "Table 4", "Comparison with other systems", _RELATED),
    ("alg1", "Alg. 1", "Provisioning GPUs", _code("the scheduler `igniter`")),
    ("alg2", "Alg. 2", "Allocation of shares on one GPU", _code("the kernel behind `igniter` and `ffd++`")),
)

_INSS = (
    ("fig5", "Fig. 5", "Architecture", _DIAGRAM),
    (
        "table1",
        "Table 1",
        "Time to allocate and change MPS shares and MIG instances, and to load a model",
        "measured times of the driver and of process starts, which no model here predicts",
    ),
    ("table2", "Table 2", "Settings of the agent", "an input, not a result: the parameters of `bench train ts`"),
    ("alg1", "Alg. 1", "Training of the two-stage agent", _code("`bench train ts`")),
)

_GPULET = (
    ("fig1", "Fig. 1", "Search space of batch, time and space", _DIAGRAM),
    ("fig2", "Fig. 2", "Two models that take turns in a duty cycle", _DIAGRAM),
    ("fig3", "Fig. 3", "Temporal and spatial scheduling", _DIAGRAM),
    ("fig8", "Fig. 8", "Overview of the scheduling framework", _DIAGRAM),
    ("fig11", "Fig. 11", "Reorganisation of partitions in the background", _DIAGRAM),
    ("fig12", "Fig. 12", "Data flow of the applications game and traffic", _input("gpulet-game")),
    ("table1", "Table 1", "Variables of Algorithm 1", _SYMBOLS),
    ("table2", "Table 2", "The evaluated server", _TESTBED),
    ("table3", "Table 3", "Models and their SLOs", _input("gpulet-scen5")),
    ("table4", "Table 4", "Models of the five scenarios", _input("gpulet-scen1")),
    ("table5", "Table 5", "Comparison with prior work", _RELATED),
    ("alg1", "Alg. 1", "Elastic partitioning", _code("the scheduler `elastic-partitioning`")),
    ("alg2", "Alg. 2", "Scaling of the number of GPUs", _code("the scheduler `gpu-scaling`")),
)

_GPULET_ARXIV = (
    ("fig1", "Fig. 1", "Two models that take turns in a duty cycle", _DIAGRAM),
    ("fig2", "Fig. 2", "Temporal and spatial sharing", _DIAGRAM),
    ("fig7", "Fig. 7", "Overview of the scheduling scheme", _DIAGRAM),
    ("fig10", "Fig. 10", "Data flow of the application game", _input("gpulet-arxiv-game")),
    ("fig11", "Fig. 11", "Data flow of the application traffic", _input("gpulet-arxiv-traffic")),
    ("table1", "Table 1", "Comparison with prior work", _RELATED),
    ("table2", "Table 2", "Variables of Algorithm 1", _SYMBOLS),
    ("table3", "Table 3", "The evaluated server", _TESTBED),
    ("table4", "Table 4", "Models and their SLOs", _input("gpulet-equal")),
    ("table5", "Table 5", "Rates of the three request scenarios", _input("gpulet-short-skew")),
    ("alg1", "Alg. 1", "Dynamic scheduling of gpulets", _code("`elastic-partitioning` with `variant=arxiv`")),
)

_MEDIATOR = (
    ("fig1-cpu", "Fig. 1 a, b", "Latency of co-located DNNs on a CPU server", _NO_CPU),
    ("fig2-cpu", "Fig. 2, CPU", "CPU utilisation of DNNs under a fluctuating workload", _NO_CPU),
    ("fig3", "Fig. 3", "Overall flow", _DIAGRAM),
    ("fig6-cpu", "Fig. 6 a", "Mean and deviation of the CPU utilisation of forty jobs", _NO_CPU),
    ("fig7", "Fig. 7", "Distribution of the CPU utilisation of sample jobs", _NO_CPU),
    ("fig8-cpu", "Fig. 8 a", "Throughput of jobs over Horus and bin packing on a CPU server", _NO_CPU),
    ("table1", "Table I", "Workloads of the three DNNs of Fig. 2", _input("mediator-40-s0")),
    ("table2", "Table II", "DNNs and data sets", _input("mediator-40-s0")),
    ("table3", "Table III", "Workloads of ten sample jobs", _input("mediator-40-s0")),
    ("table4", "Table IV", "Hardware counters of six jobs on the CPU server", _NO_CPU),
    (
        "table5",
        "Table V",
        "Throughput per watt over Horus and bin packing",
        "power is published for one of the DNNs only, ResNet-50 on a V100, and for none on the CPU server",
    ),
    ("alg1", "Alg. 1", "ConScore", _code("the scheduler `mediator`")),
    ("alg2", "Alg. 2", "RUVScore", _code("the scheduler `mediator`")),
    ("alg3", "Alg. 3", "Grouping of jobs by ColoScore", _code("the scheduler `mediator`")),
)

NOT_DRAWN = tuple(
    NotDrawn(f"{family}-{name}", title, f"{paper}, {number}", reason)
    for paper, family, entries in (
        ("iGniter", "igniter", _IGNITER),
        ("InSS", "inss", _INSS),
        ("gpulet ATC'22", "gpulet", _GPULET),
        ("gpulet arXiv'21", "gpulet-arxiv", _GPULET_ARXIV),
        ("MediatorDNN", "mediator", _MEDIATOR),
    )
    for name, number, title, reason in entries
)
"""Figures, tables and algorithms that are not drawn, ordered by paper."""
