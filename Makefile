# The commands of the project; README.md describes the most important ones. All build output is below build/.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

JOBS ?= $(shell nproc)
TARGETS := all
XRUN := build/release/xrun
# The package lists in packages/ that a goal needs; the prerequisites of the goal inherit this variable.
PACKAGES := build

.PHONY: installed deps deps-dev build test test-plans test-gpu test-exhaustive test-faults test-faults-full test-walkthrough test-lsp test-asan test-tsan fuzz bench bench-plans demo glyphs cluster-demo package ptx gpu-static docs fmt tidy clean

installed:
	@scripts/install_packages.sh $(PACKAGES)

deps: PACKAGES := build test demo
deps: installed

deps-dev: PACKAGES := build test demo dev
deps-dev: installed

# Without libgtest-dev and libgmock-dev the tests are not built.
build: installed
	@mkdir -p build; cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }; \
	cmake --build --preset release -j $(JOBS) --target $(TARGETS); echo "build: $$((SECONDS / 60)) min $$((SECONDS % 60)) s"

test test-plans test-gpu test-exhaustive test-faults test-faults-full test-walkthrough test-asan test-tsan bench bench-plans: PACKAGES := build test demo

# onnxruntime from PyPI computes exported files; without it the tests that need it are skipped.
test: build
	@scripts/onnx_venv.sh
	@ctest --test-dir build/release --no-tests=error --output-on-failure --timeout 900 -j $(JOBS) -LE slow
	@scripts/skipped_tests.sh build/release

# Runs the determinism test with all plans, also on two and three ranks, all runs with recorded bitwise results
# (docs/internals/determinism.md), a head of a million classes (docs/internals/memory.md), and 400 random programs with
# all of their mutants, which the verifier refuses unless they compute the same. Takes long.
test-plans: build
	@XRUN_ALL_PLANS=1 build/release/xrun_runtime_test --gtest_filter='Determinism*:ActivePlans*:Ranks*:Bits*:Memory*:MpiCommand.Every*'
	@XRUN_ALL_PLANS=1 build/release/xrun_planner_test --gtest_filter='Mutants*' --gtest_brief=1

# Tests kernels and trainings of GPUs for longer than `make test` does: verdicts about all schedules of each kernel
# (scripts/gpu_races.py; the prover comes from PyPI, and GPU_RACES=--update writes tests/golden/gpu/races.txt), launches in
# 20 orders, and trainings on the fake driver with more models and plans. Needs no GPU. Takes about an hour.
GPU_RACES ?=
test-gpu: build
	@scripts/gpu_races.sh $(GPU_RACES)
	@XRUN_ALL_PLANS=1 build/release/xrun_ops_gpu_test --gtest_filter='-GpuTexts.*:GpuStatic.*' --gtest_brief=1
	@XRUN_ALL_PLANS=1 build/release/xrun_cuda_test --gtest_filter='GpuModels.*'

# Tests each mathematical function on all 2^32 inputs, interpreted and compiled, with each instruction set of the
# processor. Prints the table of errors in docs/internals/algorithms.md.
test-exhaustive: build
	@XRUN_EXHAUSTIVE=1 build/release/xrun_ops_test --gtest_filter='*Exhaustive*'

# Tests power cuts, kills, failing system calls, refused memory and threads, and edited manifests and plans
# (docs/internals/architecture.md, "Tests of faults"). `test-faults` selects cases at random by a printed seed and takes
# ten minutes; `test-faults-full` runs all cases and takes more than an hour.
test-faults: build
	@XRUN_FAULT_RUNS=all build/release/xrun_fault_injection_test --gtest_filter='PowerCuts*:EditedManifests*:NetworkScripts*:DamagedFiles*'
	@XRUN_FAULT_RUNS=80 build/release/xrun_fault_injection_test --gtest_filter='-PowerCuts*:EditedManifests*:NetworkScripts*:DamagedFiles*'
	@XRUN_FAULT_RUNS=80 build/release/xrun_runtime_test --gtest_filter='EditedPlans*'
	@ctest --test-dir build/release --no-tests=error --output-on-failure --timeout 900 -L slow

test-faults-full: build
	@XRUN_FAULT_RUNS=all build/release/xrun_fault_injection_test
	@XRUN_FAULT_RUNS=all build/release/xrun_runtime_test --gtest_filter=EditedPlans*
	@XRUN_FAULT_RUNS=all build/release/xrun_planner_test --gtest_filter=PlanBytes*

# Runs the commands of docs/start/walkthrough.md and docs/guide/data.md in new directories and checks their output; needs
# ../shared/data.
# WALKTHROUGH=--update writes their output into the page.
WALKTHROUGH ?=
test-walkthrough: build
	@for page in docs/start/walkthrough.md docs/guide/data.md; do \
	  python3 tests/walkthrough/walkthrough.py --page $$page $(WALKTHROUGH) || exit 1; \
	done

# Tests the language server with two clients, pytest-lsp from PyPI and Neovim, and with 100,000 random edits.
test-lsp: TARGETS := xrun xrun_lsp_test
test-lsp: deps-dev build
	@test -x build/lsp-venv/bin/pytest || { python3 -m venv build/lsp-venv && build/lsp-venv/bin/pip install -q -r tests/lsp/clients/requirements.txt; }
	@build/lsp-venv/bin/pytest -q -c tests/lsp/clients/pytest.ini tests/lsp/clients
	@XRUN=build/release/xrun nvim --headless --clean +'luafile tests/lsp/clients/neovim.lua'
	@XRUN_LSP_EDITS=100000 build/release/xrun_lsp_test --gtest_brief=1

# Tests with sanitizers, in build/asan and build/tsan; see docs/decisions/0007-thread-sanitizer-and-onetbb.md. The tests of
# graph, lang, planner and the repository start no thread, so test-tsan leaves them out.
# intercept_tls_get_addr=0: with the interceptor, LeakSanitizer of GCC 12 ends with a signal of its own where a thread
# has used variables of LLVM, which is loaded at run time.
test-asan: installed
	@cmake --preset asan && cmake --build --preset asan -j $(JOBS)
	@ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:intercept_tls_get_addr=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  LSAN_OPTIONS=suppressions=$(CURDIR)/tests/sanitizers/leaks.supp:print_suppressions=0 \
	  ctest --test-dir build/asan --no-tests=error --output-on-failure --timeout 3600 -j $(JOBS)

test-tsan: installed
	@cmake --preset tsan && cmake --build --preset tsan -j $(JOBS)
	@UCX_MEM_EVENTS=n TSAN_OPTIONS=suppressions=$(CURDIR)/tests/sanitizers/libraries.supp:halt_on_error=1 \
	  ctest --test-dir build/tsan --no-tests=error --output-on-failure --timeout 3600 -j $(JOBS) -LE '^(graph|lang|planner|repo)$$'

# Runs every fuzz target FUZZ_RUNS times (scripts/fuzz.sh); FUZZ_TARGETS="onnx text" selects some. A million executions
# of each target take about four hours on two cores. Inputs that fail and logs are in build/fuzz.
FUZZ_RUNS ?= 100000
FUZZ_TARGETS ?=
fuzz: deps-dev
	@cmake --preset fuzz && cmake --build --preset fuzz -j $(JOBS) \
	  --target $(if $(FUZZ_TARGETS),$(FUZZ_TARGETS:%=xrun_%_fuzz),all)
	@JOBS=$(JOBS) FUZZ_RUNS=$(FUZZ_RUNS) FUZZ_TARGETS="$(FUZZ_TARGETS)" scripts/fuzz.sh

bench: build
	@scripts/bench.sh

# Compares the choice of the search with 48 forced settings of each of 20 generated models; BENCH_PLANS is the seed of
# the first one. Fails if a forced setting is predicted more than one percent faster. Then compares predicted step times
# with those of runs, for 84 plans of seven models and for the demo's plan with each instruction set; needs an idle machine
# for half an hour.
BENCH_PLANS ?= 1
bench-plans: TARGETS := xrun xrun_planner_test
bench-plans: build
	@XRUN_BENCH_PLANS=$(BENCH_PLANS) build/release/xrun_planner_test --gtest_filter='ForcedSettings.*' --gtest_brief=1
	@python3 tests/bench/predicted_plans.py
	@python3 tests/bench/demo_line.py

# The demos build only the programs, not their tests: xrun, and xrun-bench with it.
demo glyphs cluster-demo: TARGETS := xrun
demo glyphs cluster-demo: PACKAGES := build demo

demo: build
	@scripts/demo.sh

glyphs: build
	@scripts/glyphs.sh

# Trains on four simulated hosts of this machine and kills one of them (scripts/cluster_demo.sh). Needs root; takes
# about ten minutes.
cluster-demo: build
	@scripts/cluster_demo.sh

# Makes the Debian 12 package build/release/xrun_VERSION_amd64.deb of all installed files (cmake/install.cmake).
package: TARGETS := xrun xrun_manual
package: PACKAGES := build package
package: build
	@cd build/release && cpack -G DEB >package.log 2>&1 || { cat package.log; exit 1; }; ls "$$PWD"/xrun_*.deb

# Makes a web site of docs/ in build/site (mkdocs.yml) with MkDocs from PyPI; a dead link is an error.
docs: PACKAGES := test
docs: installed
	@test -x build/docs-venv/bin/mkdocs || { python3 -m venv build/docs-venv && build/docs-venv/bin/pip install -q -r docs/requirements.txt; }
	@NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --strict -q; echo "docs: $(CURDIR)/build/site/index.html"

# Compiles the kernels of GPUs to PTX (docs/internals/gpu_kernels.md); needs nvcc 13.0. Builds use the packed texts in
# ops/gpu/ptx.tar.xz, so they do not need it.
ptx:
	@scripts/gpu_ptx.sh

# Compares registers, memory and instructions of the kernels of GPUs with the table tests/golden/gpu/static.txt;
# GPU_STATIC=--update writes it. Needs ptxas of CUDA 13.0; nvdisasm comes from PyPI.
GPU_STATIC ?=
gpu-static:
	@test -x build/gpu-venv/bin/pip || python3 -m venv build/gpu-venv
	@build/gpu-venv/bin/pip install -q nvidia-cuda-nvdisasm==13.5.37
	@scripts/gpu_static.py >build/gpu_static.txt; \
	if [ "$(GPU_STATIC)" = --update ]; then cp build/gpu_static.txt tests/golden/gpu/static.txt; \
	else diff tests/golden/gpu/static.txt build/gpu_static.txt && echo "gpu-static: the table has not changed"; fi

fmt: deps-dev
	@git ls-files '*.h' '*.cpp' | xargs clang-format-14 -i

# Checks the sources with clang-tidy (.clang-tidy) and the compiler flags of the build, which also generates headers.
# Takes long.
tidy: deps-dev build
	@git ls-files 'graph/*.cpp' 'lang/*.cpp' 'ops/*.cpp' 'planner/*.cpp' 'runtime/*.cpp' | \
	  xargs -P $(JOBS) -n 1 clang-tidy-14 -p build/release --quiet 2>&1 | sed '/warnings generated\.$$/d'

clean:
	@rm -rf build
