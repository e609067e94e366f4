"""Valid parts of instance files."""

W2 = {"id": "w2", "model": "vgg19", "slo_ms": 40, "rate_rps": 10}
APPLICATION = {"id": "a1", "stages": ["w1", "w2"], "edges": [["w1", "w2"]], "slo_ms": 100}
JOB = {
    "id": "j1",
    "model": "resnet50",
    "batches": [4, 8],
    "batch_weights": [1, 3],
    "interarrival_ms": [0, 20.5],
    "interarrival_weights": [0.5, 0.5],
}
