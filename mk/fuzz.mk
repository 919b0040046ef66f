# SPDX-License-Identifier: Apache-2.0
# Fuzzing with libFuzzer: `make fuzz` gives every target FUZZ_SECONDS, FUZZ_JOBS at a time. A target is a file
# tests/fuzz/fuzz_NAME.c that says in its line "/* build: sees=FOLDER,... */" what it is linked with (mk/libraries.mk);
# what it begins with is in tests/fuzz/corpus/NAME/, words worth trying in NAME.dict beside it.
FUZZ_SECONDS ?= 60
FUZZ_JOBS ?= $(shell nproc)
FUZZ_CC ?= clang
FUZZ_DIR := $(BUILD)/fuzz
FUZZ_FLAGS := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

FUZZ_SOURCES := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_NAMES := $(patsubst tests/fuzz/fuzz_%.c,%,$(FUZZ_SOURCES))
FUZZ_LDFLAGS := -L/usr/lib/x86_64-linux-gnu/slurm-wlm
$(foreach folder,$(HAVE_SOURCES),$(eval $(call library,$(FUZZ_DIR),$(folder),$(call sources,$(folder)))))

define fuzz
$(FUZZ_DIR)/fuzz_$(1): $(FUZZ_DIR)/obj/tests/fuzz/fuzz_$(1).o $(call libs,$(call sight,$(2)),$(FUZZ_DIR))
	@echo "  FUZZ  $$@"
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer $(FUZZ_FLAGS) -pthread -o $$@ $$< $(call words_flags,$(2)) \
	  -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group -Wl,--as-needed $(FUZZ_LDFLAGS) $(call words_libs,$(2))
endef
$(foreach source,$(FUZZ_SOURCES),$(eval $(call fuzz,$(source:tests/fuzz/fuzz_%.c=%),$(source))))

$(FUZZ_DIR)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(filter-out -Werror,$(DLR_CFLAGS)) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

fuzz: $(addprefix $(FUZZ_DIR)/fuzz_,$(FUZZ_NAMES)) ## fuzz all parsers, FUZZ_SECONDS=60 each
	@tests/fuzz/run $(FUZZ_DIR) $(FUZZ_SECONDS) $(FUZZ_JOBS) $(FUZZ_NAMES)
fuzz-sources: # of each target, for tests/checks/check_parsers.sh
	@printf '%s\n' $(foreach source,$(FUZZ_SOURCES),$(addprefix $(source:tests/fuzz/fuzz_%.c=%):,$(foreach folder,$(call seen,$(call sight,$(source))),$(call sources,$(folder)))))
.PHONY: fuzz fuzz-sources
.SECONDARY:
