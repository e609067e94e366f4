"""Names of figures that several tests speak of."""

OF_MODELS = (
    "gpulet-arxiv-fig3",
    "gpulet-arxiv-fig6",
    "gpulet-arxiv-fig8",
    "gpulet-fig4",
    "gpulet-fig7",
    "gpulet-fig9",
    "igniter-fig11",
    "igniter-fig12",
    "igniter-fig13",
    "igniter-fig3",
    "igniter-fig4",
    "igniter-fig5",
    "igniter-fig6",
    "igniter-fig7",
    "igniter-fig8",
    "igniter-fig9",
    "inss-fig1",
    "inss-fig2",
    "inss-fig6",
    "inss-fig7",
    "inss-table3",
    "inss-table4",
    "mediator-fig1",
    "mediator-fig2",
    "mediator-fig4",
    "mediator-fig5",
    "mediator-fig6",
)
"""Those of performance models and of instances: they need neither runs nor measurements."""

OF_MEASUREMENTS = ("gpulet-arxiv-fig9", "gpulet-fig10")
"""Those that draw measurements alone."""

OF_COURSES = (
    *("gpulet-arxiv-fig14", "gpulet-arxiv-fig5", "gpulet-fig15", "igniter-fig15", "igniter-fig16", "igniter-fig17"),
    "inss-fig11",
)
"""Those of loads that are served while they are drawn."""

OF_TRAININGS = ("inss-fig8", "inss-fig9")
"""Those of the curves that come with InSS's trained agents: they need no runs."""

OF_LIBRARY = ("library",)
"""Those of the library's entries: they need no runs."""

OURS = (
    *(
        "critical-difference",
        "exact-gap",
        "exact-scaling",
        "hold",
        "hold-robustness",
        "library",
        "llm-sharing",
        "model-error",
        "performance-profiles",
    ),
    *("primal-integral", "pwl-error", "robustness"),
)
"""Those of no paper."""
