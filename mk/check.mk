# SPDX-License-Identifier: Apache-2.0
# Tests.

# --- unit tests: tests/unit/FOLDER/test_x.c is linked with what lies beside it, with tests/support, and with the
# libraries of FOLDER and of what that may see; mk/libraries.mk says what else a test can ask for. No two have one name.
# The longest first: one of them at the end would run alone.
UNIT_LONGEST := $(foreach name,test_kill_% test_commit_% test_agent_orders.c,$(foreach source,$(UNIT_SOURCES),$(if $(filter $(name),$(notdir $(source))),$(source))))
UNIT_TESTS := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(UNIT_LONGEST) $(filter-out $(UNIT_LONGEST),$(UNIT_SOURCES))))
define unit_test
$(BUILD)/tests/$(basename $(notdir $(1))): $(call obj,$(1)) $(call rigs,$(1)) $(call libs,$(call sight,$(1))) | $(addprefix $(BUILD)/,$(call says,$(1),needs))
	$$(call link,$$(call words_flags,$(1)),$$(call words_libs,$(1)) -lcmocka)
endef
$(foreach source,$(filter-out %/test_kill_client.c,$(UNIT_SOURCES)),$(eval $(call unit_test,$(source))))
$(BUILD)/tests/test_charlm: $(call obj,$(CHARLM))

# Those about device memory play a device: tests/support/fake_cuda.h
DEVICE_TESTS := $(foreach source,$(UNIT_SOURCES),$(if $(filter needs-cuda=%,$(SAYS_$(source))),$(basename $(notdir $(source)))))
ifneq ($(CUDA_HEADER),)
$(BUILD)/obj/tests/%.o: XCFLAGS = -DDLR_HAVE_CUDA -isystem $(dir $(CUDA_HEADER))
$(BUILD)/tests/fake/libcuda.so.1: $(call obj,$(wildcard tests/support/fake_cuda*.c))
	$(call link,-shared -Wl$(comma)-soname=libcuda.so.1)
$(BUILD)/tests/fake/libnvidia-ml.so.1: | $(BUILD)/tests/fake/libcuda.so.1
endif
# Those about GPUs' checks play NVIDIA's management library: as it is, and one that has few functions; and none at all.
$(BUILD)/tests/fake/libnvidia-ml.so.1: $(call obj,tests/support/fake_nvml.c) | $(addprefix $(BUILD)/tests/fake-,$(addsuffix /libnvidia-ml.so.1,few none))
	$(call link,-shared -Wl$(comma)-soname=libnvidia-ml.so.1)
$(BUILD)/tests/fake-few/libnvidia-ml.so.1: tests/support/fake_nvml.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(DLR_CFLAGS) $(CFLAGS) -DFAKE_NVML_FEW $(DLR_LDFLAGS) -shared -o $@ $<
$(BUILD)/tests/fake-none/libnvidia-ml.so.1: $(MARK)
	$(call link,-shared -Wl$(comma)-soname=libnvidia-ml.so.1)

# Tests that kill the code at every step of it: that code calls out at each of its basic blocks
# (tests/faults/kill_points.h), in objects of its own.
$(BUILD)/steps/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo "  STEPS $<")
	$(Q)$(CC) $(DLR_CFLAGS) $(CFLAGS) $(CPPFLAGS) $(XCFLAGS) -fsanitize-coverage=trace-pc -MMD -MP -MT $@ -c -o $@ $<
steps = $(patsubst %.c,$(BUILD)/steps/%.o,$(1))
folder_steps = $(filter-out %main.c,$(foreach folder,$(1),$(wildcard $(folder)/*.c)))
KILL_RIG := $(call obj,tests/faults/kill_points.c)
# What only computes is not stepped: a death in it is one before or after it.
KILL_PURE := $(addprefix ckpt/,client/fork.c client/save_cost.c client/conf.c client/audit.c layout/box.c layout/regions.c \
  layout/strides.c layout/unmatched.c restore/reshape.c)
KILL_CLIENT := $(filter-out $(KILL_PURE),$(call folder_steps,$(addprefix ckpt/,open client supervised standalone restore layout persist slot) device)) \
  $(addprefix ckpt/base/,copy_crc.c crc32c.c file_slice.c thread_affinity.c) common/base/file.c common/local/message.c
$(BUILD)/tests/test_kill_client: $(call obj,tests/faults/test_kill_client.c) $(call steps,$(KILL_CLIENT)) \
  $(call rigs,tests/faults/test_kill_client.c) $(call libs,ckpt/open)
	$(call link,,$(call foreign,ckpt/open) -lcmocka)
# The data process with these of its sources stepped.
KILL_DATA := $(call folder_steps,ckpt/stream ckpt/slot ckpt/persist ckpt/redundancy) \
  $(addprefix ckpt/transport/,net.c ucx.c ucx_request.c wire.c worker.c) $(addprefix ckpt/base/,crc32c.c file_slice.c pace.c)
KILL_PARITY := $(addprefix ckpt/,stream/recv.c stream/parity_sum.c stream/slot_table.c redundancy/parity.c slot/write.c)
KILL_SAVE := $(addprefix ckpt/stream/,save.c files.c) $(call folder_steps,ckpt/persist) common/base/file.c
$(BUILD)/tests/stepped-data: $(call steps,$(KILL_DATA))
$(BUILD)/tests/stepped-parity: $(call steps,$(KILL_PARITY))
$(BUILD)/tests/stepped-save: $(call steps,$(KILL_SAVE))
$(addprefix $(BUILD)/tests/stepped-,data parity save): $(call obj,ckpt/stream/main.c) $(KILL_RIG) $(call libs,ckpt/stream)
	$(call link,,$(call foreign,ckpt/stream))
KILL_AGENT := $(addprefix mpi_launcher/agent/,$(addprefix snapshots/,save.c slot_marks.c ranks.c reserve.c slot_requests.c welcome.c) data/data_process.c data/requests.c) $(call folder_steps,ckpt/slot) \
  $(addprefix ckpt/base/,crc32c.c file_slice.c)
$(BUILD)/tests/stepped-agent: $(call obj,mpi_launcher/agent/main.c) $(call steps,$(KILL_AGENT)) $(KILL_RIG) $(call libs,mpi_launcher/agent)
	$(call link,,$(call foreign,mpi_launcher/agent))
# Supervisor and agent of the product's own objects, killed at the Nth of what they say, hear and write
# (tests/faults/daemon_points.h), and an installation with them for virtual clusters. All of it has its own BUILD.
DAEMON_POINTS := zmq_send zmq_msg_send zmq_msg_recv dlr_work_queue_put dlr_takeover_state_save dlr_local_send dlr_local_recv
define stepped_daemon
$(BUILD)/stepped/dlrover-$(1): $(call obj,mpi_launcher/$(1)/main.c tests/faults/daemon_points.c) $(MARK) $(call libs,mpi_launcher/$(1) common/local)
	$$(call link,$$(DAEMON_POINTS:%=-Wl$$(comma)--wrap=%),$$(call foreign,mpi_launcher/$(1)))
endef
$(foreach daemon,supervisor agent,$(eval $(call stepped_daemon,$(daemon))))
stepped-install: install $(addprefix $(BUILD)/stepped/dlrover-,supervisor agent)
	$(Q)install -m755 $(filter $(BUILD)/stepped/%,$^) $(DESTDIR)$(LIBEXECDIR)/
stepped: ## supervisor and agent killed at each of their points on a virtual cluster (root; docs/tests.md): STEPPED="--role agent --scenario round --points 1-40"
	@$(MAKE) BUILD=$(BUILD)/stepped PREFIX=/opt/dlrover DESTDIR=$(BUILD)/stepped/stage stepped-install
	@tests/cluster/lib/stepped --stage $(BUILD)/stepped/stage --log $(BUILD)/stepped $(STEPPED)
.PHONY: stepped stepped-install
.SECONDARY:

check-gpu: $(BUILD)/gpu ## device memory and health checks on a real GPU, docs/gpu.md; says when there is none
	@$(BUILD)/gpu check
	@$(BUILD)/gpu health
	@$(BUILD)/gpu nccl
bench-gpu: $(BUILD)/gpu $(BUILD)/libdlrover.so ## what saving device memory costs, beside copies into pinned memory
	@$(BUILD)/gpu bench
	@BUILD=$(BUILD) bench/gpu_train.py
.PHONY: check-gpu bench-gpu

# Unit tests that must fail, each with a promise taken out of the sources (tests/negative).
NEGATIVE_TESTS := $(sort $(addprefix $(BUILD)/tests/,$(shell sed -n 's/^test: \([^ ]*\) .*/\1/p' tests/negative/*.patch)))
check-negative: $(NEGATIVE_TESTS) ## the unit tests notice a promise that is taken out of the sources
	@MAKE="$(MAKE)" tests/negative/run $(BUILD)
# The same for each claim of SECURITY.md that a unit test shows (tests/negative/security).
check-protections: ## the unit tests notice a protection that is taken out of the sources
	@MAKE="$(MAKE)" tests/negative/run $(BUILD) tests/negative/security/*.patch
.PHONY: check-negative check-protections

# Under sanitizers `make nightly` runs those that go through each point of the same code, one kill or order at a time.
UNIT_CAMPAIGNS := $(filter $(addprefix $(BUILD)/tests/test_,kill_% commit_orders commit_merged),$(UNIT_TESTS))
UNIT_RUN := $(if $(SAN),$(filter-out $(UNIT_CAMPAIGNS),$(UNIT_TESTS)),$(UNIT_TESTS))
unit: $(UNIT_RUN) ## unit tests: seconds, no root, no Slurm, MPI or GPU; with SAN= without the campaigns of kills and orders
	@tests/checks/run_unit.sh $(BUILD)/log $(UNIT_RUN)
unit-programs: $(UNIT_RUN) # compiled, and not run
unit-campaigns: $(UNIT_CAMPAIGNS) ## these campaigns alone
	@tests/checks/run_unit.sh $(BUILD)/log $(UNIT_CAMPAIGNS)
unit-device: $(DEVICE_TESTS:%=$(BUILD)/tests/%) $(BUILD)/libdlrover.so ## those of them that are about device memory
	@tests/checks/run_unit.sh $(BUILD)/log $(DEVICE_TESTS:%=$(BUILD)/tests/%)
# One exploration after the other; each ends, or is ended after NIGHTLY_S.
NIGHTLY_S ?= 3600
EXPLORE_S ?= 1800
nightly: $(BUILD)/tests/test_commit_orders $(BUILD)/tests/test_commit_merged $(BUILD)/tests/test_commit_rounds ## the campaigns under sanitizers, each protection taken out, fuzzing for ten minutes each, and the long explorations of the orders of messages, NIGHTLY_S=3600 each at most, of which EXPLORE_S=1800 at random; as root also every test of clusters on the plain profile
	@$(MAKE) BUILD=build/san SAN=address,undefined unit-campaigns
	@$(MAKE) check-protections
	@$(MAKE) FUZZ_SECONDS=600 fuzz
	@for t in $^; do DLROVER_EXPLORE_ALL=1 DLROVER_EXPLORE_S=$(EXPLORE_S) timeout $(NIGHTLY_S) $$t || exit 1; done
	@DLROVER_NIGHTLY=1 bats tests/python/frameworks.bats
	@[ $$(id -u) -ne 0 ] || scripts/check --cluster-only --profile plain
	@[ $$(id -u) -ne 0 ] || DLROVER_NIGHTLY=1 DLROVER_PROFILE=production bats -f 'batch host died' tests/cluster/production.bats
	@[ $$(id -u) -ne 0 ] || DLROVER_NIGHTLY=1 bats -f 'batch host dies|successor' tests/cluster/failures.bats tests/cluster/checkpoint.bats
	@[ $$(id -u) -ne 0 ] || DLROVER_NIGHTLY=1 bats -f FSDP2 tests/cluster/torch.bats
.PHONY: nightly
check: ## everything: gates, unit tests, virtual clusters (root)
	@scripts/check
bench: $(BUILD)/scale_agents ## benchmarks, to build/bench.json (root; 95 minutes; BENCH="start resume" are some of them)
	@BUILD=$(BUILD) bench/run $(BENCH)
campaign: ## random faults against jobs on a virtual cluster (root; of what is installed in build/stage): FAULTS=30 jobs of SEED= (the clock's), PROFILE=plain
	@tests/cluster/campaign --faults $(FAULTS) --profile $(PROFILE) $(if $(SEED),--seed $(SEED))
campaign: FAULTS ?= 30
campaign: PROFILE ?= plain
check-slurm: ## plugin, srun lines, failures and production on the release of Slurm whose source is in SRC= (root; an hour)
	@scripts/check-slurm $(SRC)
.PHONY: campaign check-slurm unit unit-programs unit-campaigns unit-device check bench
