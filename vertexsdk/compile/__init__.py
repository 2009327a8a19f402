"""From a program to kernels: Numba where it compiles, an interpreter where it does not."""

__all__ = [
    "adjacency_kernels",
    "delivery",
    "element_kernels",
    "interpreter",
    "kernel_cache",
    "methods",
    "module_cache",
    "mutation_log",
    "native",
    "plan",
    "vertex_arrays",
]
