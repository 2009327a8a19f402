"""From a program to kernels: Numba where it compiles, an interpreter where it does not."""
