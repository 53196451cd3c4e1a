"""A small, real inference engine with CUDA-graph decode: the code that mutations flip."""
