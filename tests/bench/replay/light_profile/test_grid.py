"""Points that ``bench profile run`` measures: models alone, in pairs, and in several copies."""

from dataclasses import replace
from itertools import product

from bench.replay.light_profile.points import KERNEL_CHAIN, Grid, Tenant
from tests.bench.replay.light_profile.fake_rig import MODELS


def test_the_full_grid_has_the_light_profile_and_up_to_five_copies() -> None:
    points = list(dict.fromkeys(Grid.full().all_points(MODELS)))

    alone = {point[0] for point in points if len(point) == 1}
    assert alone >= {Tenant(m, b, s) for m, b, s in product(MODELS, (1, 16, 32), (10.0, 50.0, 100.0))}
    assert {len(point) for point in points} == {1, 2, 3, 4, 5}
    for n in range(2, 6):
        assert (Tenant("vgg19", 16, 20.0),) * n in points
        assert (*(Tenant("vgg19", 16, 20.0),) * (n - 1), Tenant(KERNEL_CHAIN, 1, 20.0)) in points
    for model in MODELS:
        assert (Tenant(model, 16, 50.0),) * 2 in points
    assert all(sum(tenant.share_pct for tenant in point) <= 100.0 for point in points)


def test_the_quick_grid_is_the_light_profile_and_the_largest_batch_beside_every_batch() -> None:
    grid = Grid.quick()

    assert len(grid.solo(MODELS)) == 9 * len(MODELS)
    pairs = grid.pairs(MODELS)
    for model in MODELS:
        assert (Tenant(model, 8, 50.0),) * 2 in pairs
        for batch in (1, 8, 32):
            assert (Tenant("vgg19", 32, 50.0), Tenant(model, batch, 50.0)) in pairs
    assert len(pairs) == len(set(pairs)) == 3 + 2 * 3
    assert len(grid.copies_and_chains("vgg19")) == 10


def test_pairs_of_the_light_profile_come_first_and_unequal_shares_last() -> None:
    pairs = Grid.full().pairs(MODELS)

    beside_largest_batch = [n for n, (a, b) in enumerate(pairs) if a == Tenant("vgg19", 32, 50.0) and b.batch != 32]
    equal_halves = [n for n, (a, b) in enumerate(pairs) if a.batch == b.batch and a.share_pct == b.share_pct == 50.0]
    unequal_shares = [n for n, (a, _) in enumerate(pairs) if a.share_pct != 50.0]
    assert max(equal_halves) < min(beside_largest_batch)
    assert max(beside_largest_batch) < min(unequal_shares)


def test_more_chosen_pairs_extend_the_list_that_begins_with_the_light_profile() -> None:
    grid = replace(Grid.full(), chosen_pairs=25)
    points = grid.pairs(MODELS)
    assert len(points) == len(set(points)) == 25
    needed = [
        point
        for point in Grid.full().pairs(MODELS)
        if all((tenant.batch, tenant.share_pct) == (16, 50.0) for tenant in point)
    ]
    assert points[: len(needed)] == needed
    assert replace(grid, chosen_pairs=40).pairs(MODELS)[:25] == points
    assert {(tenant.model, tenant.batch) for point in points for tenant in point} == set(product(MODELS, grid.batches))
    assert replace(grid, chosen_pairs=1).pairs(MODELS) == needed
