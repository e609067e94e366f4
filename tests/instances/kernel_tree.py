"""Texts of four modules with kernels that call each other, which the tests of the cache of compiled kernels edit.

Each kernel ``of_...`` of the last module uses one thing whose edit must recompile it, such as a default or a tuple.
"""

TREE = {
    "plain": """
        from enum import IntEnum
        from typing import NamedTuple
        import numpy as np

        TENTHS = 20
        LIMITS = (1.0, 2.0)
        POINTS = np.array([4.0, 5.0])

        class Kind(IntEnum):
            SLOW = 1
            FAST = 2

        class Pair(NamedTuple):
            left: float
            right: float
        """,
    "inner": """
        from instances.compiled import compiled, compiled_with, inlined, kernel
        from plain import LIMITS, POINTS, Kind, Pair, TENTHS

        @kernel
        def innermost(x):
            return 0.1 * TENTHS * x

        @inlined
        def within(x):
            return x + 1.0

        @compiled
        def made(x):
            return Pair(x, 2.0 * x)

        @compiled
        def stepped(x, step=3.0):
            return x + step

        @compiled
        def speaking(x):
            if x > 3.0:
                raise ValueError("above", x)
            print("at most", x)
            return x

        @compiled_with(error_model="numpy")
        def divided(x):
            return x / (x - x)
        """,
    "outer": '''
        from inner import innermost

        OWN = 1.0

        def unrelated():
            """Return what no kernel uses."""
            return 5

        def used_nowhere(x):
            return 7

        from instances.compiled import compiled

        @compiled
        def middle(x):
            """Return more than ``x``."""
            return innermost(x) + OWN
        ''',
    "top": """
        from inner import divided, made, speaking, stepped, within
        from instances.compiled import compiled
        from outer import middle
        from plain import LIMITS, POINTS, Kind, Pair

        @compiled
        def of_callee(x):
            return middle(x)

        @compiled
        def of_speaking(x):
            return speaking(x)

        def calling(kernel):
            @compiled
            def of_closure(x):
                return kernel(x)

            return of_closure

        of_closure = calling(middle)

        @compiled
        def of_inlined(x):
            return within(x)

        @compiled
        def of_default(x):
            return stepped(x)

        @compiled
        def of_options(x):
            return divided(x)

        @compiled
        def of_tuple(x):
            return x + LIMITS[1]

        @compiled
        def of_array(x):
            return x + POINTS[1]

        @compiled
        def of_enum(x):
            return 2.0 * x if Kind.FAST == 2 else x

        @compiled
        def of_made(x):
            return made(x).left

        @compiled
        def left_of(pair):
            return pair.left

        @compiled
        def left_of_inner(nested):
            return nested[1].left

        def of_argument(x):
            return left_of(Pair(left=x, right=-x))

        def of_nested(x):
            return left_of_inner((x, Pair(left=x, right=-x)))
        """,
}
"""Text of each module by its name; a module imports only from those above it."""
