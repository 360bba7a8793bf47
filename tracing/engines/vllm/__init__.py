"""Turnlens inside vLLM: `register` is what vLLM's plugin mechanism calls. See docs/vllm.md."""

from turnlens.tracing.engines.vllm.plugin import register

__all__ = ["register"]
