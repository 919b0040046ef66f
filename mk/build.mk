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

define link
	@mkdir -p $(@D)
	$(if $(Q),@echo "  LINK  $@")
	$(Q)$(or $(LINKER),$(CC)) $(DLR_LDFLAGS) $(if $(filter -shared,$(1)),,-pie) $(LDFLAGS) $(DLR_LINK_HARDEN) $(call slurm_rpath,$(1)) -o $@ $(filter %.o,$^) $(1)
endef

$(BUILD)/libdlrover.a: $(call obj,$(CKPT_LIB) $(SLOT) $(COMMON))
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/libdlrover.so: $(call obj,$(CKPT_LIB) $(SLOT) $(COMMON)) ckpt/libdlrover.symbols
	$(call link,-shared -Wl$(comma)-soname=libdlrover.so.0 -Wl$(comma)--version-script=ckpt/libdlrover.symbols -Wl$(comma)-z$(comma)nodelete -lisal -lxxhash -ldl)
	$(Q)ln -sf $(@F) $@.0
comma := ,

$(BUILD)/spank_dlrover.so: DLR_LINK_HARDEN := -Wl,-z,relro,-z,lazy
$(BUILD)/spank_dlrover.so: $(call obj,$(PLUGIN)) spank/dlr_spank.symbols
	$(call link,-shared -Wl$(comma)--version-script=spank/dlr_spank.symbols -Wl$(comma)-z$(comma)nodelete)

$(BUILD)/dlrover-keeper: $(call obj,$(KEEPER) $(COMMON))
	$(call link)
$(BUILD)/dlrover-stderr: $(call obj,spank/task/stderr_main.c spank/task/tail.c $(COMMON))
	$(call link)
$(BUILD)/dlrover-supervisor: $(call obj,$(SUPERVISOR) $(CTL) $(TOPO) $(SLOT) $(COMMON) $(MSG))
	$(call link,-lczmq -lzmq -lmunge -ljansson -lslurm -lhwloc -lisal -lxxhash -lm)
$(BUILD)/dlrover-slurm: $(call obj,$(SLURM) $(COMMON))
	$(call link,-lslurm -lxxhash)
$(BUILD)/dlrover-agent: $(call obj,$(AGENT) $(CTL) $(TOPO) $(SLOT) $(COMMON) $(MSG))
	$(call link,-lczmq -lzmq -lmunge -ljansson -lhwloc -lisal -lxxhash)
$(BUILD)/dlrover-data: $(call obj,$(DATA) $(SLOT) $(COMMON) $(MSG))
	$(call link,$(DATA_LIBS) -ljansson -lisal -lxxhash)
$(BUILD)/stream: $(call obj,bench/stream.c tests/support/data_rig.c $(SLOT) $(COMMON)) | $(BUILD)/dlrover-data
	$(call link,-lisal -lxxhash)
$(BUILD)/scale_agents: $(call obj,bench/scale_agents.c $(CTL) $(COMMON) $(MSG)) | $(BUILD)/dlrover-supervisor
	$(call link,-lczmq -lzmq -lmunge -ljansson)
$(BUILD)/step: $(call obj,bench/step.c $(CKPT_LIB) $(SLOT) $(COMMON))
	$(call link,-lisal -lxxhash -ldl)
$(BUILD)/obj/bench/reduce.o: XCFLAGS = $(shell $(MPICC) --showme:compile)
$(BUILD)/reduce: LINKER = $(MPICC)
$(BUILD)/reduce: $(call obj,bench/reduce.c $(CKPT_LIB) $(SLOT) $(COMMON))
	$(call link,-lisal -lxxhash -ldl)
$(BUILD)/persist: $(call obj,bench/persist.c tests/support/data_rig.c $(SLOT) $(COMMON)) | $(BUILD)/dlrover-data
	$(call link,-lisal -lxxhash)
$(BUILD)/gf: $(call obj,bench/gf.c ckpt/redundancy/parity.c $(SLOT) $(COMMON))
	$(call link,-lisal -lxxhash)
$(BUILD)/reserve: $(call obj,bench/reserve.c $(SLOT) $(COMMON))
	$(call link,-lisal -lxxhash)
$(BUILD)/audit: $(call obj,bench/audit.c $(CKPT_LIB) $(SLOT) $(COMMON))
	$(call link,-lisal -lxxhash -ldl)
$(BUILD)/gpu: $(call obj,tests/gpu/gpu.c tests/gpu/gpu_rig.c tests/gpu/gpu_check.c tests/gpu/gpu_fence.c tests/gpu/gpu_bench.c tests/gpu/gpu_node.c tests/support/data_rig.c $(CKPT_LIB) $(SLOT) $(COMMON)) | $(BUILD)/dlrover-data
	$(call link,-lisal -lxxhash -ldl)
$(BUILD)/copy: $(call obj,bench/copy.c ckpt/base/copy_crc.c $(SLOT) $(COMMON))
	$(call link,-lisal -lxxhash)
# What `dlrover version` says the suite was built with: read from headers, not linked.
SLURM_BUILT := $(shell echo SLURM_VERSION_NUMBER | $(CC) $(CPPFLAGS) -E -P \
  -include slurm/slurm_version.h -x c - 2>/dev/null | sed -n '/^0x/p')
$(BUILD)/obj/mpi_launcher/cli/main.o $(BUILD)/analyze/mpi_launcher/cli/main.ok: XCFLAGS = \
  $(if $(SLURM_BUILT),-DDLR_SLURM_BUILT=$(SLURM_BUILT)) \
  -DDLR_UCX_BUILT='"$(shell pkg-config --modversion ucx 2>/dev/null)"'
$(BUILD)/dlrover: $(call obj,$(CLI) $(HEALTH) $(TOPO) $(COMMON) $(MSG))
	$(call link,-ljansson -lhwloc -lslurm -lmunge -lisal -lxxhash)

$(BUILD)/obj/mpi_launcher/rendezvous/main.o: XCFLAGS = $(shell $(MPICC) --showme:compile)
$(BUILD)/dlrover-rendezvous: LINKER = $(MPICC)
$(BUILD)/dlrover-rendezvous: $(call obj,$(RENDEZVOUS) $(HEALTH) $(TOPO) $(SLOT) $(COMMON) $(MSG))
	$(call link,-ljansson -lhwloc -lisal -lxxhash)

# The examples promise equal bits on every node: no fused multiply-add where one happens to be.
$(BUILD)/obj/examples/%.o: XCFLAGS = -O3 -ffp-contract=off -fno-math-errno
$(BUILD)/obj/examples/mpi_%.o: XCFLAGS = $(shell $(MPICC) --showme:compile) -O3
$(BUILD)/examples/%: LINKER = $(MPICC)
$(BUILD)/examples/mpi_train: $(call obj,examples/mpi_train.c examples/args.c $(CHARLM)) $(BUILD)/libdlrover.so
	$(call link,-L$(BUILD) -ldlrover -lxxhash -lm -Wl$(comma)-rpath$(comma)'$$ORIGIN/../../../lib:$$ORIGIN/..')
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
	$(call link,-L$(BUILD) -ldlrover -Wl$(comma)-rpath$(comma)'$$ORIGIN/../../../lib:$$ORIGIN/..')
