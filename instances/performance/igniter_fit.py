"""Fit of the iGniter model to its light profile: nine of the eleven configurations per model of iGniter, Sec. 3.1."""

from dataclasses import asdict, replace
from itertools import product

import numpy as np
from scipy.optimize import minimize_scalar, nnls

from instances.arrays import Floats
from instances.errors import InputError
from instances.files.light_profile import LightProfile, ProfiledGpu
from instances.gpu import DnnModel, GpuType, Hardware, Provenance
from instances.memory import MEMORY_CALIBRATED, is_listed, memory_mib, request_bytes


def _fit_line(x: Floats, y: Floats, where: str) -> tuple[float, float, Floats]:
    """Return slope, intercept and residuals of the least-squares line."""
    design = _require_finite_samples(np.column_stack([x, np.ones_like(x)]), where)
    (slope, intercept), *_ = np.linalg.lstsq(design, _require_finite_samples(y, where), rcond=None)
    return float(slope), float(intercept), design @ [slope, intercept] - y


def _require_finite_samples(numbers: Floats, where: str) -> Floats:
    """Return ``numbers`` if all are finite; LAPACK prints warnings for numbers that are not finite."""
    if not np.isfinite(numbers).all():
        raise InputError(where, "a sample is not finite, or too large for a fit")
    return numbers


def fit_active_time(
    batch: Floats, share_pct: Floats, active_ms: Floats, falling: bool = False, where: str = "model"
) -> tuple[tuple[float, float, float, float, float], Floats]:
    """Fit ``k1..k5`` of equation 11 by least squares.

    For a fixed ``k4`` the model is linear in the other four coefficients, whose least-squares solution is exact. The
    search is therefore only over ``k4`` (variable projection).

    Parameters
    ----------
    batch, share_pct, active_ms
        The profiled configurations, shape (samples,).
    falling
        Whether all coefficients are at least 0: the curve then never rises with the share, even outside the samples.
    where
        Place that the errors name.

    Returns
    -------
    k, residual_ms
        The coefficients, and prediction minus sample.

    Raises
    ------
    InputError
        If a sample is not finite.
    """

    def project(k4: float) -> tuple[Floats, Floats]:
        scale = 1.0 / (share_pct + k4)
        design = _require_finite_samples(
            np.column_stack([batch**2 * scale, batch * scale, scale, np.ones_like(scale)]), where
        )
        solution = nnls(design, active_ms) if falling else np.linalg.lstsq(design, active_ms, rcond=None)
        coefficients = np.asarray(solution[0], np.float64)
        return coefficients, design @ coefficients - active_ms

    _require_finite_samples(active_ms, where)
    # The curve must be finite at every profiled share, so k4 > -min(share). A grid finds the interval of the minimum.
    grid = np.linspace(0.0 if falling else -0.9 * share_pct.min(), share_pct.max(), 400)
    squared_errors = [float(np.sum(project(k4)[1] ** 2)) for k4 in grid]
    best_row = int(np.argmin(squared_errors))
    low, high = grid[max(best_row - 1, 0)], grid[min(best_row + 1, len(grid) - 1)]
    minimum = minimize_scalar(
        lambda k4: float(np.sum(project(k4)[1] ** 2)), bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    )
    k4 = float(minimum.x)
    (k1, k2, k3, k5), residual = project(k4)
    return (float(k1), float(k2), float(k3), k4, float(k5)), residual


def model_of_times(
    name: str,
    batch: Floats,
    share_pct: Floats,
    active_ms: Floats,
    origin: Provenance,
    where: str = "model",
    memory: tuple[float, float] | None = None,
) -> DnnModel:
    """Return a model with known times only: its L2 line, power, kernels and delays are 0.

    Parameters
    ----------
    name
        Name of the model. Without ``memory``, ``instances.memory`` must list it. A model that is not listed there has 0
        bytes of input and output.
    batch, share_pct, active_ms
        See ``fit_active_time``; the fitted time never rises with the share.
    origin
        Provenance of the times; the mean relative error of the fit is added to it.
    where
        Place that the errors name.
    memory
        Base and memory per item in MiB; by default those in ``instances.memory``.

    Raises
    ------
    InputError
        If the model's memory is unknown.
    """
    k, error_ms = fit_active_time(batch, share_pct, active_ms, falling=True, where=where)
    input_bytes, output_bytes = request_bytes(name) if is_listed(name) else (0, 0)
    base_mib, per_item_mib = memory_mib(name, where) if memory is None else memory
    residual = {**origin.residual, "active_time_rel_mean": float(np.mean(np.abs(error_ms / active_ms)))}
    return DnnModel(
        name=name,
        max_batch=int(batch.max()),
        k=k,
        power=(0.0, 0.0),
        l2=(0.0, 0.0),
        alpha_cache=0.0,
        scheduling_alone_ms=0.0,
        kernels=0,
        input_bytes=input_bytes,
        output_bytes=output_bytes,
        memory_base_mib=base_mib,
        memory_per_item_mib=per_item_mib,
        provenance=replace(origin, residual=residual),
    )


def _require_finite_coefficients(where: str, *numbers: float) -> None:
    if not np.isfinite(numbers).all():
        raise InputError(where, "no finite coefficients fit these samples")


def _fitted_hardware(gpu: ProfiledGpu, where: str) -> tuple[Hardware, dict[str, float]]:
    """Return the hardware in a light profile, and the largest residuals of its fit.

    ``alpha_f``, ``alpha_sch`` and ``beta_sch`` are fitted to measurements of one to n identical co-located models.
    """
    crowd, top_mhz, cap_w = gpu.crowd, gpu.max_frequency_mhz, gpu.max_power_w
    power, frequency, delay = map(np.array, (crowd.power_w, crowd.frequency_mhz, crowd.scheduling_delay_ms_per_kernel))

    # A throttled GPU draws the capped power. Each model is assumed to add the same demand as below the cap.
    unthrottled = int(np.sum(frequency >= top_mhz))
    if not len(power) == len(frequency) == len(delay) or unthrottled < 2:
        raise InputError(where, "expected power, frequency and delay of one to n co-located models, two unthrottled")
    step_w = float(np.mean(np.diff(power[:unthrottled])))
    excess_w = power[unthrottled - 1] + step_w * np.arange(1, len(power) - unthrottled + 1) - cap_w
    drop_mhz = frequency[unthrottled:] - top_mhz
    # Without a throttled measurement, the loss of frequency is unknown and assumed to be 0.
    alpha_f = float(excess_w @ drop_mhz / (excess_w @ excess_w)) if len(drop_mhz) else 0.0

    added_ms = delay[1:] * frequency[1:] / top_mhz - delay[0]
    alpha_sch, beta_sch, delay_error = _fit_line(np.arange(2, len(delay) + 1, dtype=float), added_ms, where)
    hardware = Hardware(
        pcie_bytes_per_ms=gpu.pcie_bytes_per_ms,
        idle_power_w=gpu.idle_power_w,
        max_power_w=cap_w,
        max_frequency_mhz=top_mhz,
        alpha_f=alpha_f,
        alpha_sch=alpha_sch,
        beta_sch=beta_sch,
    )
    _require_finite_coefficients(where, *asdict(hardware).values())
    return hardware, {
        "frequency_mhz_max": float(np.max(np.abs(alpha_f * excess_w - drop_mhz), initial=0.0)),
        "scheduling_delay_ms_max": float(np.max(np.abs(delay_error))),
    }


def _fitted_model(name: str, profile: LightProfile, source: str, where: str) -> DnnModel:
    """Fit a model to its solo configurations, each profiled batch at each share, and two copies side by side."""
    model, gpu = profile.models[name], profile.gpu
    batches, shares_pct, top_mhz = profile.profiled_batches, profile.profiled_shares_pct, profile.gpu.max_frequency_mhz
    batch, share = np.array(list(product(batches, shares_pct)), dtype=float).T
    tables = model.gpu_latency_ms, model.power_w, model.frequency_mhz
    if any(list(map(len, rows)) != [len(shares_pct)] * len(batches) for rows in tables):
        raise InputError(where, f"expected {len(batch)} samples, one per profiled batch and share")
    latency, power, frequency = (np.array(rows).ravel() for rows in tables)
    scheduling_ms = model.scheduling_delay_alone_ms
    if not (latency > scheduling_ms).all():
        raise InputError(where, "expected GPU latencies above scheduling_delay_alone_ms")

    active = latency * frequency / top_mhz - scheduling_ms
    k, error_ms = fit_active_time(batch, share, active, where=where)

    # Power and L2 utilisation are linear in the requests per second. Throttled rows show the power cap, not the demand.
    solo_rps = 1000.0 * batch / (latency - scheduling_ms)
    unthrottled = frequency >= top_mhz
    power_slope, power_base, power_error = _fit_line(
        solo_rps[unthrottled], power[unthrottled] - gpu.idle_power_w, where
    )
    # L2 is profiled only on the diagonal of the grid: the first batch on the first share, the second on the second.
    diagonal_rows = np.arange(len(batches)) * (len(shares_pct) + 1)
    l2 = np.array(model.l2_pct)
    if len(l2) != len(diagonal_rows) or np.sum(unthrottled) < 2:
        raise InputError(where, f"expected {len(diagonal_rows)} L2 samples, and two power samples without throttling")
    l2_slope, l2_base, l2_error = _fit_line(solo_rps[diagonal_rows], l2, where)

    pair = model.pair
    slowdown = pair.active_time_ms_colocated * pair.frequency_mhz_colocated / (top_mhz * pair.active_time_ms_alone)
    residual = {
        "active_time_rel_mean": float(np.mean(np.abs(error_ms / active))),
        "active_time_rel_max": float(np.max(np.abs(error_ms / active))),
        "power_rel_max": float(np.max(np.abs(power_error / (power[unthrottled] - gpu.idle_power_w)))),
        "l2_rel_max": float(np.max(np.abs(l2_error / l2))),
    }
    # Interference never speeds up an inference: a measured slowdown below 1 is noise.
    alpha_cache = max(0.0, slowdown - 1.0) / pair.l2_util_pct_of_corunner
    _require_finite_coefficients(where, *k, power_slope, power_base, l2_slope, l2_base, alpha_cache, *residual.values())
    base_mib, per_item_mib = model.memory_base_mib, model.memory_per_item_mib
    if (base_mib is None) != (per_item_mib is None):
        raise InputError(where, "expected memory_base_mib and memory_per_item_mib, or neither")
    if base_mib is None or per_item_mib is None:
        base_mib, per_item_mib = memory_mib(name, where)
        source = f"{source}; {MEMORY_CALIBRATED}"
    return DnnModel(
        name=name,
        max_batch=max(batches),
        k=k,
        power=(power_slope, power_base),
        l2=(l2_slope, l2_base),
        alpha_cache=alpha_cache,
        scheduling_alone_ms=scheduling_ms,
        kernels=int(model.kernels),
        input_bytes=int(model.input_bytes),
        output_bytes=int(model.output_bytes),
        memory_base_mib=base_mib,
        memory_per_item_mib=per_item_mib,
        provenance=Provenance("fitted", source, residual),
    )


def fit_profile(
    profile: LightProfile, source: str, memory_limit_mib: float, price_per_hour: float, where: str = "profile"
) -> GpuType:
    """Return the GPU type with all models of a light profile, fitted.

    Parameters
    ----------
    source
        Origin of the measurements, for the provenance.
    memory_limit_mib, price_per_hour
        Device memory and price, which a profile does not contain.
    where
        Place that the errors name.

    Raises
    ------
    InputError
        If samples are missing, or no finite coefficients fit them.
    """
    with np.errstate(all="ignore"):  # a check refuses coefficients that are not finite
        hardware, residual = _fitted_hardware(profile.gpu, f"{where}: gpu")
        models = {name: _fitted_model(name, profile, source, f"{where}: models.{name}") for name in profile.models}
    return GpuType(
        name=profile.gpu.name.lower(),
        share_units=round(100.0 / profile.gpu.share_unit_pct),
        memory_mib=memory_limit_mib,
        price_per_hour=price_per_hour,
        hardware=hardware,
        models=models,
        provenance=Provenance("fitted", source, residual),
    )
