"""Compilers of kernels: one for calls from Python, and one for calls from other kernels.

For every kernel that a kernel calls, Numba optimizes the code, translates it to machine code and makes wrappers for
calls from Python and C, although the caller contains the code of the called kernel anyway. Here, the compilation of a
called kernel stops at intermediate code, which the compilation of the caller links, optimizes and translates.
"""

from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.typed_passes import NativeLowering
from numba.extending import overload
from numba.np import arrayobj

_ENVIRONMENT = "_ZN08NumbaEnv"
"""Prefix of the names of variables that point to a function's environment: constants that it prints, for example."""


def _refuse_shapes(source: Any, target: Any) -> None:
    raise NotImplementedError  # kernels call its overload


@overload(_refuse_shapes)
def _refuse_shapes_in_kernels(source: Any, target: Any) -> Any:
    def refuse(source: Any, target: Any) -> None:
        raise ValueError("an array of another shape is assigned to a slice")

    return refuse


# Numba's message contains both shapes. Writing them needs text functions, which every kernel that assigns an array to a
# slice would compile: some two seconds in every process that compiles.
arrayobj.raise_with_shape_context = _refuse_shapes


@register_pass(mutates_CFG=True, analysis_only=False)
class _ToMachineCode(NativeLowering):
    """Lowering of a kernel that Python calls, with all kernels that it calls."""

    _name = "to_machine_code"

    def run_pass(self, state: Any) -> bool:
        """Lower the kernel, and set the environments of the kernels that it calls."""
        super().run_pass(state)
        for variable in state.library._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    state.library.codegen.set_env(variable.name, environment)
        return True


class _IntermediateCode(JITCodeLibrary):
    """Code of a called kernel and of those that it calls, before optimization."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _ToIntermediateCode(NativeLowering):
    """Lowering of a called kernel."""

    _name = "to_intermediate_code"

    def run_pass(self, state: Any) -> bool:
        """Lower the kernel, and tell Numba where its callers find the code."""
        library = state.library = _IntermediateCode(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        lowered = state["cr"]
        # Numba identifies compiled code by the function that Python would call. The function made here only serves as
        # this identity: it has no code and is never called.
        identity = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), state.func_id.func_name, "", 0, lowered.env, (library,)
        )
        state.targetctx.insert_user_function(identity, lowered.fndesc, [library])
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=identity, env=lowered.env)
        return True


class KernelCompiler(CompilerBase):
    """Numba's compiler without wrappers for C."""

    lowering: type[NativeLowering] = _ToMachineCode

    def define_pipelines(self) -> list[Any]:
        """Return Numba's steps with another lowering."""
        self.state.flags.no_cfunc_wrapper = True
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [
            (self.lowering if step is NativeLowering else step, description) for step, description in manager.passes
        ]
        manager.finalize()
        return [manager]


class CalledKernelCompiler(KernelCompiler):
    """Compiler that ends with intermediate code."""

    lowering = _ToIntermediateCode

    def define_pipelines(self) -> list[Any]:
        """Return Numba's steps up to intermediate code."""
        self.state.flags.no_compile = self.state.flags.no_cpython_wrapper = True
        return super().define_pipelines()
