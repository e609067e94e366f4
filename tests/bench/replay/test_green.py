"""Green contexts with a fake driver: no two of them share a multiprocessor."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from bench.replay.green import Multiprocessors, Resource, has_green_contexts, multiprocessors


class FakeDriver:
    """Fake driver of a GPU with ``count`` multiprocessors, of the architecture ``major``.

    A resource has its number of multiprocessors at byte 96, as in CUDA, and the first one at byte 200, only here.
    """

    def __init__(self, count: int, major: int = 8) -> None:
        self.count, self.major = count, major
        self.handles: dict[int, range] = {}
        self._numbers: Iterator[int] = iter(range(1, 1000))

    def _put(self, memory: Any, part: range) -> None:
        ctypes.c_uint.from_buffer(memory, 96).value = len(part)
        ctypes.c_uint.from_buffer(memory, 200).value = part.start

    def _get(self, memory: Any) -> range:
        start = ctypes.c_uint.from_buffer(memory, 200).value
        return range(start, start + ctypes.c_uint.from_buffer(memory, 96).value)

    def _new(self, out: Any, part: range) -> int:
        out._obj.value = next(self._numbers)
        self.handles[out._obj.value] = part
        return 0

    def cuDeviceGet(self, device: Any, index: Any) -> int:  # noqa: N802
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: Any, device: Any) -> int:  # noqa: N802
        assert attribute.value == 75
        value._obj.value = self.major
        return 0

    def cuDeviceGetDevResource(self, device: Any, resource: Any, kind: Any) -> int:  # noqa: N802
        self._put(resource, range(self.count))
        return 0

    def cuDevSmResourceSplitByCount(self, part: Any, groups: Any, whole: Any, rest: Any, flags: Any, least: Any) -> int:  # noqa: N802
        clusters = self.major >= 9
        assert (flags.value, groups._obj.value) == (0 if clusters else 1, 1)
        step = 8 if clusters else 2
        have, cut = self._get(whole), -(-least.value // step) * step
        assert cut < len(have)
        self._put(part, have[:cut])
        self._put(rest, have[cut:])
        return 0

    def cuDevResourceGenerateDesc(self, description: Any, resource: Any, count: Any) -> int:  # noqa: N802
        return self._new(description, self._get(resource))

    def cuGreenCtxCreate(self, context: Any, description: Any, device: Any, flags: Any) -> int:  # noqa: N802
        return self._new(context, self.handles[description.value])

    def cuGreenCtxGetDevResource(self, context: Any, resource: Any, kind: Any) -> int:  # noqa: N802
        self._put(resource, self.handles[context.value])
        return 0

    def cuGreenCtxStreamCreate(self, stream: Any, context: Any, flags: Any, priority: Any) -> int:  # noqa: N802
        return self._new(stream, self.handles[context.value])


@pytest.mark.parametrize("count", [132, 108, 80, 15])
@pytest.mark.parametrize(
    "shares", [(100.0,), (50.0, 50.0), (20.0,) * 5, (37.5, 30.0, 12.5, 20.0), (10.0, 80.0), (33.3, 66.7)]
)
def test_no_two_streams_share_a_multiprocessor(count: int, shares: tuple[float, ...]) -> None:
    driver = FakeDriver(count)
    free = Multiprocessors(driver)

    rounds = []
    for _ in range(2):
        with ExitStack() as stack:
            rounds.append([stack.enter_context(free.stream(share)) for share in shares])
            parts = [driver.handles[stream] for stream in rounds[-1]]
            used = [place for part in parts for place in part]
            assert len(used) == len(set(used)) <= count
            for part, share in zip(parts, shares, strict=True):
                assert count * share / 100.0 - 2.0 < len(part) <= max(2.0, count * share / 100.0 + 1.0)
    assert sorted(rounds[0]) == sorted(rounds[1])  # returned multiprocessors are used again


@pytest.mark.parametrize(
    ("shares", "expected"),
    [((100.0,), [132]), ((50.0, 50.0), [64, 68]), ((3.03, 18.2, 10.6, 16.7), [8, 24, 8, 16]), ((20.0,) * 5, [24] * 5)],
)
def test_from_hopper_on_parts_are_multiples_of_eight_multiprocessors(
    shares: tuple[float, ...], expected: list[int]
) -> None:
    driver = FakeDriver(132, major=9)
    free = Multiprocessors(driver)

    with ExitStack() as stack:
        streams = [stack.enter_context(free.stream(share)) for share in shares]
        parts = [driver.handles[stream] for stream in streams]

    assert [len(part) for part in parts] == expected
    used = [place for part in parts for place in part]
    assert len(used) == len(set(used))


def test_a_share_larger_than_the_rest_is_refused() -> None:
    free = Multiprocessors(FakeDriver(10))
    with (
        free.stream(80.0),
        pytest.raises(OSError, match="4 multiprocessors are needed, 2 of 10 are left"),
        free.stream(40.0),
    ):
        pass


def test_a_failing_function_of_the_driver_is_named() -> None:
    driver = FakeDriver(10)
    driver.cuGreenCtxCreate = lambda *_: 801  # type: ignore[method-assign]
    with (
        pytest.raises(OSError, match=r"cuGreenCtxCreate of libcuda.so.1 failed with code 801"),
        Multiprocessors(driver).stream(50.0),
    ):
        pass


def test_a_resource_is_large_enough_for_any_driver() -> None:
    assert ctypes.sizeof(Resource()) >= 96 + 48 + ctypes.sizeof(ctypes.c_void_p)
    assert sys.byteorder == "little"


def test_green_contexts_are_available_if_the_driver_has_their_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    for library, expected in ((FakeDriver(2), True), (object(), False)):
        monkeypatch.setattr(ctypes, "CDLL", lambda name, library=library: library)
        assert has_green_contexts() is expected
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert not has_green_contexts()


def missing(name: str) -> Any:
    raise OSError(f"{name}: cannot open shared object file")


def test_a_missing_or_old_driver_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    multiprocessors.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(OSError, match="cannot open shared object file"):
        multiprocessors()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    with pytest.raises(OSError, match=r"libcuda.so.1 has no green contexts"):
        multiprocessors()
