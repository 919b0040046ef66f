# SPDX-License-Identifier: Apache-2.0
# Gates: what keeps the sources in shape. None needs root; lint is all of them.
C_FILES := $(shell git ls-files '*.c' '*.h' 2>/dev/null || find . -path ./build -prune -o -name '*.[ch]' -print)
SHELL_FILES = $(shell { git ls-files || find . -type f; } 2>/dev/null | xargs grep -lE '^\#!.*(ba)?sh$$')
OUR_SOURCES := $(sort $(filter-out tests/%,$(filter %.c,$(C_FILES))))

lint: format-check check-layers check-architecture check-policy check-headers check-fuzz check-parsers check-symbols check-hardening check-man check-situations check-claims check-failures check-health check-slurm-api check-ptx shellcheck cppcheck analyze ## all gates below

format: ## rewrite committed sources as .clang-format says
	clang-format -i $(C_FILES)
format-check: ## sources are formatted
	@clang-format --dry-run --Werror $(C_FILES) 2>&1 | grep -E 'error|warning' | cut -d: -f1,2 | head -40 \
	  | sed 's/$$/: not formatted (make format)/' | { ! grep .; }
LAYER_OBJECTS := $(call obj,$(wildcard $(FOLDERS:%=%/*.c)))
check-layers: $(LAYER_OBJECTS) ## folders include and call what mk/layers lets them, and no more; rings, sizes
	@tests/checks/check_layers.py $(BUILD)/obj
check-architecture: ## docs/architecture.md shows what mk/layers says
	@tests/checks/check_architecture.py
check-policy: ## docs/policy.md shows the rules of the policy engine
	@tests/checks/check_policy.py
check-headers: ## each header compiles alone
	@tests/checks/check_headers.sh $(CC) $(DLR_CFLAGS) $(MPI_CFLAGS) $(CFLAGS)
check-fuzz: ## fuzz targets compile; make fuzz links and runs them
	@$(FUZZ_CC) -fsyntax-only $(DLR_CFLAGS) $(wildcard tests/fuzz/*.c)
check-parsers: ## what reads foreign bytes has a fuzz target
	@tests/checks/check_parsers.sh
check-symbols: $(BUILD)/libdlrover.so $(BUILD)/libdlrover-mpi.so $(BUILD)/spank_dlrover.so ## libraries export what they should
	@tests/checks/check_symbols.sh $(BUILD)/libdlrover.so ckpt/libdlrover.symbols
	@tests/checks/check_symbols.sh $(BUILD)/libdlrover-mpi.so $(BUILD)/libdlrover-mpi.symbols
	@tests/checks/check_symbols.sh $(BUILD)/spank_dlrover.so spank/dlr_spank.symbols '^(slurm|spank)_'
check-hardening: $(PROGRAMS) $(BUILD)/libdlrover.so $(BUILD)/libdlrover-mpi.so $(BUILD)/spank_dlrover.so ## what is installed is built with protections
	@tests/checks/check_hardening.sh $^
check-man: $(MAN_PAGES) ## manual pages are clean and name every option
	@tests/checks/check_man.sh $(MAN_PAGES)
check-situations: ## each row of docs/situations.md and SECURITY.md names a test that is there
	@tests/checks/check_situations.sh
check-claims: ## each unit test that SECURITY.md names has a patch that makes it fail, and that applies
	@tests/checks/check_claims.sh
check-failures: $(BUILD)/dlrover ## docs/failures.md shows the rules of etc/failures.conf
	@tests/checks/check_failures.sh $<
check-health: $(BUILD)/dlrover ## docs/health.md shows the table of checks
	@tests/checks/check_health.sh $<
check-slurm-api: ## compiles for every release of Slurm (SLURM_INCLUDES: real headers too)
	@SLURM_INCLUDES="$(SLURM_INCLUDES)" tests/checks/check_slurm_api.sh $(CC) $(DLR_CFLAGS) $(CPPFLAGS) -I.
check-ptx: ## the PTX that is checked in is that of the kernels
	@scripts/make-ptx --check
ptx: ## make device/ptx.c of device/kernel.cl again
	@scripts/make-ptx
shellcheck: ## scripts are clean
	@shellcheck -x -P SCRIPTDIR -e SC2016 $(SHELL_FILES) # 2016: words for a shell of another node
analyze: $(patsubst %.c,$(BUILD)/analyze/%.ok,$(OUR_SOURCES)) ## gcc -fanalyzer finds nothing new
cppcheck: ## cppcheck finds nothing
	@mkdir -p $(BUILD)/cppcheck
	@cppcheck -q -j2 --enable=warning,performance,portability --error-exitcode=1 --std=c11 -D_GNU_SOURCE \
	  -I. '-Djson_array_foreach(a,i,v)=for(i=0;(v=json_array_get(a,i));i++)' \
	  '-Djson_object_foreach(o,k,v)=for(k="";(v=json_object_get(o,k));)' --suppressions-list=tests/checks/cppcheck.known --cppcheck-build-dir=$(BUILD)/cppcheck $(OUR_SOURCES)
# gcc is the analyser that understands the cleanup attribute, so leaks are its business.
$(BUILD)/analyze/%.ok: %.c tests/checks/analyze.known
	@mkdir -p $(@D)
	@tests/checks/analyze.sh $< $(filter-out -Werror,$(DLR_CFLAGS)) $(CPPFLAGS) $(XCFLAGS) -MMD -MP -MT $@ -MF $(@:.ok=.d)
	@touch $@
$(BUILD)/analyze/examples/%.ok: XCFLAGS = $(MPI_CFLAGS) -I$(BUILD)/include
$(BUILD)/analyze/examples/ckpt_hello.ok: | $(BUILD)/include/dlrover/ckpt.h
.PHONY: lint format format-check check-layers check-architecture check-policy check-headers check-fuzz check-parsers check-symbols check-hardening check-man check-situations check-claims check-failures check-health check-slurm-api check-ptx ptx shellcheck cppcheck analyze
