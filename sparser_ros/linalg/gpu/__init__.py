"""The array backend of CUDA devices: kernels, memory, triangular solves without long chains."""
