# SPDX-License-Identifier: Apache-2.0
# How each product is compiled and linked.

# Everything is compiled again when the words of the command change: PREFIX ends up in programs.
FLAGS_NOW := $(CC) $(DLR_CFLAGS) $(DLR_HARDEN) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS)
ifneq ($(file <$(BUILD)/flags),$(FLAGS_NOW))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(FLAGS_NOW))
endif
# Open MPI's wrapper uses the compiler of the rest.
export OMPI_CC := $(CC)

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $<")
	$(Q)$(CC) $(DLR_CFLAGS) $(DLR_HARDEN) $(CFLAGS) $(CPPFLAGS) $(XCFLAGS) -MMD -MP -MT $@ -c -o $@ $<

# Device memory: with the CUDA headers the back end is compiled in; libcudart itself is opened at run
# time, so that one build serves nodes with and without GPUs.
CUDA_HEADER := $(firstword $(wildcard $(CUDA_HOME)/include/cuda_runtime_api.h /usr/include/cuda_runtime_api.h))
ifneq ($(CUDA_HEADER),)
$(BUILD)/obj/device/%.o $(BUILD)/analyze/device/%.ok: XCFLAGS = -DDLR_HAVE_CUDA -isystem $(dir $(CUDA_HEADER))
else
$(BUILD)/obj/device/cuda.o: | $(BUILD)/no-cuda
endif
$(BUILD)/no-cuda:
	@mkdir -p $(@D)
	@echo "no CUDA headers under $(CUDA_HOME): built without device memory (CUDA_HOME= names another place)"
	@touch $@

# Programs that load libslurm find at run time the one that they were linked to: LDFLAGS=-L/opt/slurm/lib
slurm_rpath = $(if $(filter -lslurm,$(1)),$(patsubst -L%,-Wl$(comma)-rpath$(comma)%,$(filter -L%,$(LDFLAGS))))

# $(call link,FLAGS,FOREIGN LIBRARIES): of the foreign ones only those that something needs are noted in the result.
define link
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(or $(LINKER),$(CC)) $(DLR_LDFLAGS) $(if $(filter -shared,$(1)),,-pie) $(LDFLAGS) $(DLR_LINK_HARDEN) $(call slurm_rpath,$(2)) -o $@ $(filter %.o,$^) $(1) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -Wl,--as-needed $(2)
endef

# What `dlrover doctor` reads in each product without running it
MARK := $(BUILD)/obj/common/base/version.o

# $(call product,NAME,SOURCE): a program
define product
$(BUILD)/$(1): $(call obj,$(2)) $(MARK) $(call libs,$(call place,$(2)))
	$$(call link,,$(call foreign,$(call place,$(2))))
endef
$(eval $(call product,dlrover,mpi_launcher/cli/main.c))
$(eval $(call product,dlrover-keeper,mpi_launcher/keeper/main.c))
$(eval $(call product,dlrover-supervisor,mpi_launcher/supervisor/main.c))
$(eval $(call product,dlrover-agent,mpi_launcher/agent/main.c))
$(eval $(call product,dlrover-data,ckpt/stream/main.c))
$(eval $(call product,dlrover-rendezvous,mpi_launcher/rendezvous/main.c))
$(eval $(call product,dlrover-slurm,mpi_launcher/slurm/main.c))
$(eval $(call product,dlrover-stderr,spank/task/stderr_main.c))
$(eval $(call product,dlrover-relay,spank/task/relay_main.c))
$(eval $(call product,dlrover-gpu,device/gpu_main.c))
$(eval $(call product,dlrover-stacks,mpi_launcher/unwind/main.c))

# Of the folders that are called from outside all, of the others what that needs.
whole = -Wl,--whole-archive $(patsubst %,$(BUILD)/lib/%.a,$(1)) -Wl,--no-whole-archive -shared -Wl,--version-script=$(2) -Wl,-z,nodelete
$(BUILD)/libdlrover.so: $(MARK) $(call libs,ckpt/open feed/client watch/client) ckpt/libdlrover.symbols
	$(call link,$(call whole,ckpt/open ckpt/client ckpt/supervised feed/client watch/client,ckpt/libdlrover.symbols) -Wl$(comma)-soname=libdlrover.so.0,$(call foreign,ckpt/open feed/client))
	$(Q)ln -sf $(@F) $@.0
# Exports what the table of calls names, under both names, and no more.
MPI_CALLS := interpose/calls/mpi.calls
$(BUILD)/libdlrover-mpi.symbols: $(MPI_CALLS)
	@mkdir -p $(@D)
	$(Q)awk -F '[(,]' 'BEGIN { print "{ global:" } /^(CALL|WIDE)/ { print "    MPI_" $$2 ";\n    PMPI_" $$2 ";" } \
	  /^WIDE/ { print "    MPI_" $$2 "_c;\n    PMPI_" $$2 "_c;" } END { print "  local: *; };" }' $< >$@
$(BUILD)/obj/interpose/%.o: XCFLAGS = -ftls-model=initial-exec -fexceptions
$(BUILD)/libdlrover-mpi.so: $(MARK) $(call libs,interpose) $(BUILD)/libdlrover-mpi.symbols
	$(call link,$(call whole,interpose,$(BUILD)/libdlrover-mpi.symbols) -Wl$(comma)-soname=libdlrover-mpi.so,)
$(BUILD)/spank_dlrover.so: DLR_LINK_HARDEN := -Wl,-z,relro,-z,lazy
$(BUILD)/spank_dlrover.so: $(MARK) $(call libs,spank) spank/dlr_spank.symbols
	$(call link,$(call whole,spank,spank/dlr_spank.symbols))

# Programs of bench/, with what tests share
define bench_program
$(BUILD)/$(basename $(notdir $(1))): $(call obj,$(1)) $(call rigs,$(1)) $(call libs,$(call sight,$(1))) | $(addprefix $(BUILD)/,$(call says,$(1),needs))
	$$(call link,,$(call words_libs,$(1)))
endef
$(foreach source,$(wildcard bench/*.c) tests/gpu/gpu.c,$(eval $(call bench_program,$(source))))

# What is compiled and linked with MPI's wrapper
MPI_CFLAGS = $(shell $(MPICC) --showme:compile)
$(foreach folder,$(FOLDERS),$(if $(filter mpi,$(OWN_$(folder))),$(eval \
  $(BUILD)/obj/$(folder)/%.o $(BUILD)/analyze/$(folder)/%.ok: XCFLAGS = $$(MPI_CFLAGS))))
$(foreach source,$(wildcard bench/*.c),$(if $(filter mpi,$(SAYS_$(source))),$(eval \
  $(call obj,$(source)) $(BUILD)/analyze/$(source:.c=.ok): XCFLAGS = $$(MPI_CFLAGS)) $(eval \
  $(BUILD)/$(basename $(notdir $(source))): LINKER = $$(MPICC))))
$(BUILD)/dlrover-rendezvous: LINKER = $(MPICC)

# What `dlrover version` says the suite was built with: read from headers, not linked.
SLURM_BUILT := $(shell echo SLURM_VERSION_NUMBER | $(CC) $(CPPFLAGS) -E -P \
  -include slurm/slurm_version.h -x c - 2>/dev/null | sed -n '/^0x/p')
$(BUILD)/obj/mpi_launcher/cli/main.o $(BUILD)/analyze/mpi_launcher/cli/main.ok: XCFLAGS = \
  $(if $(SLURM_BUILT),-DDLR_SLURM_BUILT=$(SLURM_BUILT)) \
  -DDLR_UCX_BUILT='"$(shell pkg-config --modversion ucx 2>/dev/null)"'

# The examples promise equal bits on every node: no fused multiply-add where one happens to be.
$(BUILD)/obj/examples/%.o: XCFLAGS = -O3 -ffp-contract=off -fno-math-errno
$(BUILD)/obj/examples/mpi_%.o: XCFLAGS = $(MPI_CFLAGS) -O3
$(BUILD)/examples/%: LINKER = $(MPICC)
CHARLM := examples/charlm.c examples/matmul.c examples/text.c
$(BUILD)/examples/mpi_train: $(call obj,examples/mpi_train.c examples/args.c $(CHARLM)) $(BUILD)/libdlrover.so
	$(call link,,-L$(BUILD) -ldlrover -lxxhash -lm -Wl$(comma)-rpath$(comma)'$$ORIGIN/../../../lib:$$ORIGIN/..')
$(BUILD)/examples/mpi_plain: $(call obj,examples/mpi_plain.c examples/args.c)
	$(call link)
# As a user of the installed library compiles it.
$(BUILD)/include/dlrover/ckpt.h: ckpt/ckpt.h
	@mkdir -p $(@D)
	$(Q)ln -sf $(abspath $<) $@
$(BUILD)/obj/examples/ckpt_hello.o: XCFLAGS = -I$(BUILD)/include
$(BUILD)/obj/examples/ckpt_hello.o: | $(BUILD)/include/dlrover/ckpt.h
$(BUILD)/examples/ckpt_hello: LINKER = $(CC)
$(BUILD)/examples/ckpt_hello: $(call obj,examples/ckpt_hello.c) $(BUILD)/libdlrover.so
	$(call link,,-L$(BUILD) -ldlrover -Wl$(comma)-rpath$(comma)'$$ORIGIN/../../../lib:$$ORIGIN/..')

# What is in these objects of the file is not an include.
# The rules are assembled at the top of the file, where link-time optimization does not look for who uses them.
$(BUILD)/obj/watch/own_rules.o: XCFLAGS = -fno-lto
$(BUILD)/obj/watch/own_rules.o $(BUILD)/fuzz/obj/watch/own_rules.o: etc/failures.conf
