"""Capturegate proves CUDA-graph capture and replay safe, and proves the proof."""

__version__ = "0.1.0"
