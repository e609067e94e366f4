"""Tests of the points that ``bench profile run`` measures."""

from itertools import product

from bench.replay.light_profile.points import KERNEL_CHAIN, Grid, Tenant
from tests.bench.replay.light_profile.fake_rig import MODELS


def test_the_full_grid_holds_the_light_profile_and_company() -> None:
    points = list(dict.fromkeys(Grid.full().all(MODELS)))

    alone = {point[0] for point in points if len(point) == 1}
    assert alone >= {Tenant(m, b, s) for m, b, s in product(MODELS, (1, 16, 32), (10.0, 50.0, 100.0))}
    assert {len(point) for point in points} == {1, 2, 3, 4, 5}
    for n in range(2, 6):
        assert (Tenant("vgg19", 16, 20.0),) * n in points
        assert (*(Tenant("vgg19", 16, 20.0),) * (n - 1), Tenant(KERNEL_CHAIN, 1, 20.0)) in points
    for model in MODELS:
        assert (Tenant(model, 16, 50.0),) * 2 in points
    assert all(sum(tenant.share_pct for tenant in point) <= 100.0 for point in points)


def test_the_quick_grid_is_eleven_configurations_per_model_and_the_copies() -> None:
    grid = Grid.quick()

    assert len(grid.solo(MODELS)) == 9 * len(MODELS)
    assert [point for point in grid.pairs(MODELS) if point[0].model == point[1].model] == [
        (Tenant(model, 4, 50.0),) * 2 for model in MODELS
    ]
    assert len(grid.crowd("vgg19")) == 10
