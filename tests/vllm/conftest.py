"""The vLLM suite runs in an environment of its own, where vLLM is installed; elsewhere it is not collected.

VENV/bin/python -m pytest tests/vllm
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
KIT = HERE / "kit"  # support modules; two of them are also imported by vLLM, by name

collect_ignore_glob = ["kit/*"]
if importlib.util.find_spec("vllm") is None:
    collect_ignore_glob.append("*")
else:
    sys.path.insert(0, str(KIT))
    for name, value in {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCHDYNAMO_DISABLE": "1",  # log-probabilities would compile a kernel first: 15 s
        "VLLM_CPU_CI_ENV": "1",
        "VLLM_DO_NOT_TRACK": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_LOGGING_LEVEL": "CRITICAL",
        "VLLM_NO_USAGE_STATS": "1",
        "TURNLENS_TRACE": "0",
        "OTEL_SDK_DISABLED": "false",
    }.items():
        os.environ.setdefault(name, value)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            # vLLM, torch and transformers warn about themselves; only our own warnings are errors here.
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.filterwarnings("error:::turnlens"))
