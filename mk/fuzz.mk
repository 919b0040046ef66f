# SPDX-License-Identifier: Apache-2.0
# Fuzzing with libFuzzer: `make fuzz` gives every target FUZZ_SECONDS, FUZZ_JOBS at a time. A new target is one
# line of FUZZ_TARGETS below: its name, its file being tests/fuzz/fuzz_NAME.c, and the sources and libraries it
# is linked with; what it begins with is in tests/fuzz/corpus/NAME/, words worth trying in NAME.dict beside it.
FUZZ_SECONDS ?= 60
FUZZ_JOBS ?= $(shell nproc)
FUZZ_CC ?= clang
FUZZ_DIR := $(BUILD)/fuzz
FUZZ_FLAGS := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# $(call fuzz,NAME,SOURCES,LIBRARIES)
define fuzz
FUZZ_NAMES += $(1)
FUZZ_OF += $(addprefix $(1):,$(sort $(2) $(COMMON)))
$(FUZZ_DIR)/fuzz_$(1): $(patsubst %.c,$(FUZZ_DIR)/obj/%.o,tests/fuzz/fuzz_$(1).c $(sort $(2) $(COMMON)))
	@echo "  FUZZ  $$@"
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer $(FUZZ_FLAGS) -pthread -o $$@ $$^ $(3)
endef

FUZZ_SUP := $(filter-out mpi_launcher/supervisor/main.c mpi_launcher/supervisor/dispatch.c,$(SUPERVISOR)) $(CTL) $(TOPO) $(SLOT) $(MSG)
# The target's own dlr_sup_now() and the like come first and count.
FUZZ_SUP_LIBS := -Wl,--allow-multiple-definition \
  -lczmq -lzmq -lmunge -ljansson -lslurm -lxxhash -lisal -lhwloc -L/usr/lib/x86_64-linux-gnu/slurm-wlm

# What is linked into the plugin, but for what asks Slurm.
FUZZ_PLUGIN := $(filter-out spank/plugin.c spank/items.c,$(PLUGIN))

$(eval $(call fuzz,opt,$(FUZZ_PLUGIN)))
$(eval $(call fuzz,task_env,$(FUZZ_PLUGIN)))
$(eval $(call fuzz,memory,$(FUZZ_PLUGIN)))
$(eval $(call fuzz,beat,mpi_launcher/wire/heartbeat.c))
$(eval $(call fuzz,local))
$(eval $(call fuzz,msg_agent,mpi_launcher/agent/round.c mpi_launcher/agent/succession/peers.c mpi_launcher/wire/peer_list.c mpi_launcher/agent/data/own_hosts.c mpi_launcher/policy/election.c $(CTL) $(MSG),-lczmq -lzmq -lmunge -ljansson -Wl$(comma)--wrap=dlr_server_expect))
$(eval $(call fuzz,msg_supervisor,$(FUZZ_SUP),-Wl$(comma)--wrap=dlr_server_send$(comma)--wrap=dlr_server_send_json$(comma)--wrap=dlr_server_send_shared$(comma)--wrap=dlr_identity_verify$(comma)--wrap=dlr_proc_start $(FUZZ_SUP_LIBS)))
$(eval $(call fuzz,state,mpi_launcher/supervisor/dispatch.c $(FUZZ_SUP),-Wl$(comma)--wrap=dlr_proc_adopt$(comma)--wrap=dlr_procid_alive$(comma)--wrap=dlr_identity_load $(FUZZ_SUP_LIBS)))
$(eval $(call fuzz,stepplan,$(STEPPLAN)))
$(eval $(call fuzz,plan,$(PLAN) $(TOPO) $(MSG),-lhwloc -ljansson -lisal))
$(eval $(call fuzz,journal,$(CLI_READ),-ljansson))
$(eval $(call fuzz,meta,$(SLOT),-lisal -lxxhash))
$(eval $(call fuzz,safetensors,$(SAVED) $(SLOT),-lisal -lxxhash -ljansson))
$(eval $(call fuzz,data,ckpt/stream/recv.c ckpt/stream/recv_end.c ckpt/transport/wire.c ckpt/stream/check.c ckpt/transport/mac.c ckpt/stream/parity_sum.c ckpt/redundancy/parity_order.c ckpt/redundancy/parity.c ckpt/stream/held_slots.c $(SLOT),-lisal -lxxhash -lcrypto))
$(eval $(call fuzz,data_stream,ckpt/transport/tls_frame.c ckpt/transport/tls_address.c ckpt/transport/tls_key.c ckpt/transport/nic.c,-lssl -lcrypto))
$(eval $(call fuzz,manifest,ckpt/manifest/manifest.c $(MSG),-ljansson))
$(eval $(call fuzz,stride,ckpt/standalone/save_interval.c ckpt/commit/cadence.c))
$(eval $(call fuzz,start,ckpt/standalone/launch_id.c $(SLOT),-lisal -lxxhash))
$(eval $(call fuzz,agree,ckpt/standalone/vote.c ckpt/base/crc32c.c,-lisal))
$(eval $(call fuzz,host,mpi_launcher/agent/host/order.c $(MSG),-ljansson))

$(FUZZ_DIR)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(filter-out -Werror,$(DLR_CFLAGS)) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

fuzz: $(addprefix $(FUZZ_DIR)/fuzz_,$(FUZZ_NAMES)) ## fuzz all parsers, FUZZ_SECONDS=60 each
	@tests/fuzz/run $(FUZZ_DIR) $(FUZZ_SECONDS) $(FUZZ_JOBS) $(FUZZ_NAMES)
fuzz-sources: # of each target, for tests/checks/check_parsers.sh
	@printf '%s\n' $(FUZZ_OF)
.PHONY: fuzz fuzz-sources
.SECONDARY:
