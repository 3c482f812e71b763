PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test bench pages sheets clean

demo: $(STAMP)
	$(BIN)/python -m studies.demo

# Two lanes side by side, as much of their time is compilation, which takes one core; each process has one working precision. The f32
# tests are the longer part: those of RISP and control come after the f64 tests.
# PyTorch gets one thread in each, memory that is let go stays with its process (films are large, and new pages cost time), and
# kernels do not print (Taichi would look for their output after each launch).
# Programs that tests start find compiled modules, whatever the shell says of them (PYTHONDONTWRITEBYTECODE), and come after the other
# f32 tests, which leave their kernels in the cache.
# Every step runs even when an earlier one fails; the f64 lane reports when all have ended.
SECOND := tests/f32/risp tests/f32/control

test: $(TEST_STAMP)
	@export OMP_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=4000000000; \
	export TI_ENABLE_PYBUF=0 PYTHONDONTWRITEBYTECODE=; status=0; log=$$(mktemp); \
	$(BIN)/python -m ruff check . || status=1; \
	{ $(BIN)/python -m pytest -q --durations=25 tests/f64; f64=$$?; \
	  $(BIN)/python -m pytest -q --durations=10 $(SECOND) && exit $$f64; } > $$log 2>&1 & lane=$$!; \
	$(BIN)/python -m pytest -q --durations=25 -m "not processes" tests/f32 $(SECOND:%=--ignore=%) || status=1; \
	$(BIN)/python -m pytest -q --durations=10 -m processes tests/f32 $(SECOND:%=--ignore=%) || status=1; \
	wait $$lane || status=1; cat $$log; rm -f $$log; \
	exit $$status

bench: $(TEST_STAMP)
	$(BIN)/python -m benchmarks rigid articulated fem cloth self-contact control raster risp_data risp_train risp_invert matched motions smoke implicit --out docs/benchmarks.md

# The tables of estimates in README.md and docs/, each by its own commands.
pages: $(STAMP)
	$(BIN)/python -m studies.pages.estimates
	$(BIN)/python -m studies.demo --readme

# Contact sheets of the renderer's features, docs/figures/render_*.png.
sheets: $(STAMP)
	$(BIN)/python -m studies.pages.render_sheets

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and alone: it is the largest package, and the one that users choose a build of (CPU or CUDA).
$(STAMP): pyproject.toml setup.py constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch==2.13.0
	$(INSTALL) -e .
	@touch $@

# Every package of the test extra has a wheel for each Python version above; what needs a compiler is an extra of its own (baselines).
$(TEST_STAMP): $(STAMP)
	$(INSTALL) -e '.[test]'
	@touch $@
