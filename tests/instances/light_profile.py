"""A light profile in the published format, computed from a known model."""


def light_profile(**gpu: object) -> dict[str, object]:
    """Return the profile of one known model on a GPU of four share units, with the fields ``gpu`` changed."""
    batches, shares = [1, 2, 4], [25, 50, 100]
    active = [[(2.0 * b + 10.0) / (s + 5.0) + 0.5 for s in shares] for b in batches]
    latency = [[a + 0.1 for a in row] for row in active]
    ability = [[1000.0 * b / a for a in row] for b, row in zip(batches, active, strict=True)]
    return {
        "gpu": {
            "name": "toy",
            "max_frequency_mhz": 1000,
            "max_power_w": 300,
            "idle_power_w": 50,
            "pcie_bytes_per_ms": 1e7,
            "share_unit_pct": 25,
            "identical_alexnet_colocated_1_to_5": {
                "power_w": [100, 180, 260, 300, 300],
                "frequency_mhz": [1000, 1000, 1000, 960, 880],
                "scheduling_delay_ms_per_kernel": [0.001, 0.002, 0.004, 0.006, 0.008],
            },
            **gpu,
        },
        "profiled_batches": batches,
        "profiled_shares_pct": shares,
        "models": {
            "alexnet": {
                "input_bytes": 600000,
                "output_bytes": 4000,
                "kernels": 20,
                "scheduling_delay_alone_ms": 0.1,
                "gpu_latency_ms[batch][share]": latency,
                "power_w[batch][share]": [[50 + 20 + 0.01 * q for q in row] for row in ability],
                "frequency_mhz[batch][share]": [[1000.0] * 3] * 3,
                "l2_util_pct_at_diagonal": [0.002 * ability[i][i] + 1.0 for i in range(3)],
                "two_identical_colocated": {
                    "active_time_ms_alone": 1.0,
                    "active_time_ms_colocated": 1.1,
                    "frequency_mhz_colocated": 1000.0,
                    "l2_util_pct_of_corunner": 10.0,
                },
            }
        },
    }
