# The commands of the project; README.md names the first ones. Everything is built below build/.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build

JOBS ?= $(shell nproc)
TARGETS := all
XRUN := build/release/xrun
# Lists of packages/ that a goal needs; its prerequisites inherit them.
PACKAGES := build

.PHONY: installed deps deps-dev build test test-plans test-exhaustive test-faults test-faults-full test-walkthrough test-lsp test-asan test-tsan fuzz bench demo glyphs cluster-demo package docs fmt tidy clean

installed:
	@scripts/install_packages.sh $(PACKAGES)

deps: PACKAGES := build test demo
deps: installed

deps-dev: PACKAGES := build test demo dev
deps-dev: installed

# Without libgtest-dev and libgmock-dev the tests are left out.
build: installed
	@mkdir -p build; cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }; \
	cmake --build --preset release -j $(JOBS) --target $(TARGETS); echo "build: $$((SECONDS / 60)) min $$((SECONDS % 60)) s"

test test-plans test-exhaustive test-faults test-faults-full test-walkthrough test-asan test-tsan bench: PACKAGES := build test demo

test: build
	@ctest --test-dir build/release --no-tests=error --output-on-failure --timeout 900 -j $(JOBS) -LE slow
	@scripts/skipped_tests.sh build/release

# All plans of the determinism test, also on two and three ranks, all runs with recorded bits
# (docs/internals/determinism.md), and a million classes (docs/internals/memory.md). Takes long.
test-plans: build
	@XRUN_ALL_PLANS=1 build/release/xrun_runtime_test --gtest_filter='Determinism*:ActivePlans*:Ranks*:Bits*:Memory*:MpiCommand.Every*'

# All 2^32 inputs of each function of numbers, interpreted and compiled, with each instruction set of the processor.
# Prints the table of errors of docs/internals/algorithms.md.
test-exhaustive: build
	@XRUN_EXHAUSTIVE=1 build/release/xrun_ops_test --gtest_filter='*Exhaustive*'

# Power cuts, kills, failing system calls, refused memory and threads, edited manifests and plans
# (docs/internals/architecture.md, "Tests of faults"). `test-faults` draws some of them by a printed seed and takes ten
# minutes; `test-faults-full` runs all of them and takes more than an hour.
test-faults: build
	@XRUN_FAULT_RUNS=all build/release/xrun_fault_injection_test --gtest_filter='PowerCuts*:EditedManifests*:NetworkScripts*:DamagedFiles*'
	@XRUN_FAULT_RUNS=80 build/release/xrun_fault_injection_test --gtest_filter='-PowerCuts*:EditedManifests*:NetworkScripts*:DamagedFiles*'
	@XRUN_FAULT_RUNS=80 build/release/xrun_runtime_test --gtest_filter='EditedPlans*'
	@ctest --test-dir build/release --no-tests=error --output-on-failure --timeout 900 -L slow

test-faults-full: build
	@XRUN_FAULT_RUNS=all build/release/xrun_fault_injection_test
	@XRUN_FAULT_RUNS=all build/release/xrun_runtime_test --gtest_filter=EditedPlans*

# The commands of docs/start/walkthrough.md, in a new directory; needs ../shared/data. WALKTHROUGH=--update writes their output
# into the page.
WALKTHROUGH ?=
test-walkthrough: build
	@python3 tests/walkthrough/walkthrough.py $(WALKTHROUGH)

# The language server with clients of other projects, pytest-lsp from PyPI and Neovim, and with 100,000 random edits.
test-lsp: TARGETS := xrun xrun_lsp_test
test-lsp: deps-dev build
	@test -x build/lsp-venv/bin/pytest || { python3 -m venv build/lsp-venv && build/lsp-venv/bin/pip install -q -r tests/lsp/clients/requirements.txt; }
	@build/lsp-venv/bin/pytest -q -c tests/lsp/clients/pytest.ini tests/lsp/clients
	@XRUN=build/release/xrun nvim --headless --clean +'luafile tests/lsp/clients/neovim.lua'
	@XRUN_LSP_EDITS=100000 build/release/xrun_lsp_test --gtest_brief=1

# Separate builds in build/asan and build/tsan; see docs/decisions/0007-thread-sanitizer-and-onetbb.md.
test-asan: installed
	@cmake --preset asan && cmake --build --preset asan -j $(JOBS)
	@ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	  LSAN_OPTIONS=suppressions=$(CURDIR)/tests/sanitizers/leaks.supp:print_suppressions=0 \
	  ctest --test-dir build/asan --no-tests=error --output-on-failure --timeout 3600

test-tsan: installed
	@cmake --preset tsan && cmake --build --preset tsan -j $(JOBS)
	@TSAN_OPTIONS=suppressions=$(CURDIR)/tests/sanitizers/libraries.supp:halt_on_error=1 \
	  ctest --test-dir build/tsan --no-tests=error --output-on-failure --timeout 3600

# FUZZ_RUNS is the total number of executions: FUZZ_RUNS=10000000 takes about two hours on two cores. libFuzzer's
# entropic schedule, stacks of allocations, a large quarantine and reading the corpus every second would take longer
# than the front end itself, so they are off; run a finding again with them. Findings and logs: build/fuzz.
FUZZ_RUNS ?= 1000000
fuzz: deps-dev
	@cmake --preset fuzz && cmake --build --preset fuzz -j $(JOBS)
	@mkdir -p build/fuzz/corpus && cd build/fuzz && \
	  ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=64 \
	  ./xrun_check_fuzz -max_len=4096 -entropic=0 -reload=120 -jobs=$(JOBS) -workers=$(JOBS) \
	  -runs=$$((($(FUZZ_RUNS) + $(JOBS) - 1) / $(JOBS))) -dict=../../tests/fuzz/xgraph.dict corpus ../../tests/fuzz/corpus/check

bench: build
	@scripts/bench.sh

# A demo builds only the command.
demo glyphs cluster-demo: TARGETS := xrun
demo glyphs cluster-demo: PACKAGES := build demo

demo: build
	@scripts/demo.sh

glyphs: build
	@scripts/glyphs.sh

# Four hosts on this machine, one of which is killed (scripts/cluster_demo.sh). Needs root; takes about ten minutes.
cluster-demo: build
	@scripts/cluster_demo.sh

# build/release/xrun_VERSION_amd64.deb: what `cmake --install` installs, for Debian 12 (cmake/install.cmake).
package: TARGETS := xrun xrun_manual
package: PACKAGES := build package
package: build
	@cd build/release && cpack -G DEB >package.log 2>&1 || { cat package.log; exit 1; }; ls "$$PWD"/xrun_*.deb

# The pages of docs/ as a site in build/site (mkdocs.yml), by MkDocs from PyPI; a dead link is an error.
docs: PACKAGES := test
docs: installed
	@test -x build/docs-venv/bin/mkdocs || { python3 -m venv build/docs-venv && build/docs-venv/bin/pip install -q -r docs/requirements.txt; }
	@NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --strict -q; echo "docs: $(CURDIR)/build/site/index.html"

fmt: deps-dev
	@git ls-files '*.h' '*.cpp' | xargs clang-format-14 -i

# Checks our sources against .clang-tidy with the commands that build them (the build makes the generated headers).
# Takes long.
tidy: deps-dev build
	@git ls-files 'graph/*.cpp' 'lang/*.cpp' 'ops/*.cpp' 'planner/*.cpp' 'runtime/*.cpp' | \
	  xargs -P $(JOBS) -n 1 clang-tidy-14 -p build/release --quiet 2>&1 | sed '/warnings generated\.$$/d'

clean:
	@rm -rf build
