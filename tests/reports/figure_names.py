"""Names of figures by the data that they need."""

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
"""Figures of performance models and instances, which need neither runs nor measurements."""

OF_MEASUREMENTS = ("gpulet-arxiv-fig9", "gpulet-fig10")
"""Figures of measurements alone."""

OF_COURSES = (
    *("gpulet-arxiv-fig14", "gpulet-arxiv-fig5", "gpulet-fig15", "igniter-fig15", "igniter-fig16", "igniter-fig17"),
    "inss-fig11",
)
"""Figures of online runs, which they execute themselves."""

OF_TRAININGS = ("inss-fig8", "inss-fig9")
"""Figures of training curves, which are stored with InSS's trained agents and need no runs."""

OF_LIBRARY = ("library",)
"""Figures of the library's entries, which need no runs."""

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
        "overview",
        "performance-profiles",
    ),
    *("primal-integral", "pwl-error", "robustness"),
)
"""Figures that reproduce no paper's figure."""
