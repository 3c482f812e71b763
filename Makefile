PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_STAMP := $(VENV)/.installed-test
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test bench pages sheets clean

demo: $(STAMP)
	$(BIN)/python -m studies.demo

# Lanes side by side, as each process has one working precision. Each of the two main lanes has half of the cores, with a worker
# process for each (pytest-xdist; one worker is the process itself), so that on two cores every kernel is compiled once.
# Kernels have one thread in a worker: the cores are busy, and threads that wait for each other take longer than one alone.
# Compiled kernels are cached by their number of threads, so that programs that tests start (marked "processes") have one thread,
# too.
# Tests marked "threads" run with as many threads as there are cores, and compile kernels of their own. For marked tests, pytest
# imports only the files that hold them.
# The tests of f32, and those marked "threads", are in several groups, and a lane that ends takes the next group that no lane has
# taken. The first group leaves its kernels in the cache for the others. Then a third lane of low priority runs the tests marked
# "processes" while others wait for files and for programs that they start.
# PyTorch gets one thread in each, memory that is let go stays with its process (films are large, and new pages cost time), and
# kernels do not print (Taichi would look for their output after each launch).
# Programs that tests start find compiled modules, whatever the shell says of them (PYTHONDONTWRITEBYTECODE).
# Every step runs even when an earlier one fails; the f64 lane reports when all have ended.
WORKERS := $(shell $(PYTHON) -c "import os; n = os.cpu_count() // 2; print(n if n > 1 else 0)")
PYTEST := $(BIN)/python -m pytest -q --durations=25
WORKER := TI_CPU_MAX_NUM_THREADS=1 $(PYTEST) -n $(WORKERS) --dist loadfile
F32_FIRST := $(addprefix tests/f32/,commands data files house inversion)
F32_SECOND := $(filter-out $(F32_FIRST) %__pycache__,$(patsubst %/,%,$(wildcard tests/f32/*/)))
ALONE := not processes and not threads
MARKED = $(shell grep -rl --include='*.py' 'pytest.mark.$1' tests/$2)

test: $(TEST_STAMP)
	@export OMP_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=4000000000; \
	export TI_ENABLE_PYBUF=0 PYTHONDONTWRITEBYTECODE=; status=0; log=$$(mktemp); taken=$$(mktemp -d); \
	take() { ! mkdir $$taken/$$1 2> /dev/null || { shift; env "$$@"; }; }; \
	rest() { failed=0; take second $(WORKER) -m "$(ALONE)" $(F32_SECOND) || failed=1; \
	  take threads64 $(PYTEST) -m threads $(call MARKED,threads,f64) || failed=1; \
	  take threads $(PYTEST) -m threads $(call MARKED,threads,f32) || failed=1; return $$failed; }; \
	$(BIN)/python -m ruff check . || status=1; \
	{ $(WORKER) -m "not threads" tests/f64; f64=$$?; rest || f64=1; exit $$f64; } > $$log 2>&1 & f64_lane=$$!; \
	$(WORKER) -m "$(ALONE)" $(F32_FIRST) || status=1; \
	nice -n 10 env $(WORKER) -m processes $(call MARKED,processes,f32) > $$log.processes 2>&1 & processes_lane=$$!; \
	rest || status=1; \
	wait $$processes_lane || status=1; cat $$log.processes; \
	wait $$f64_lane || status=1; cat $$log; rm -rf $$log $$log.processes $$taken; \
	exit $$status

bench: $(TEST_STAMP)
	$(BIN)/python -m benchmarks rigid articulated fem cloth self-contact control raster risp_data risp_train risp_invert matched motions smoke implicit gpu --out docs/benchmarks

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
