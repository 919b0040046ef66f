# SPDX-License-Identifier: Apache-2.0
# DLRover for Slurm. `make help` lists the targets.
PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
MPICC ?= mpicc
CUDA_HOME ?= /usr/local/cuda
CFLAGS ?= -O2 -g
VERSION := $(shell cat VERSION)
LIBEXECDIR = $(PREFIX)/libexec/dlrover
LIBDIR ?= $(PREFIX)/lib
PLUGINDIR ?= $(LIBDIR)/slurm
Q := $(if $(V),,@)

DLR_WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
  -Wformat=2 -Wundef -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
# What distributions build with. The plugin is not bound at once: some of Slurm's programs lack functions that it calls
# in others.
DLR_HARDEN := $(if $(SAN)$(filter -O0,$(CFLAGS)),,-fstack-protector-strong \
  $(if $(findstring FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
DLR_LINK_HARDEN := -Wl,-z,relro,-z,now
DLR_CFLAGS = -std=gnu11 -fPIC -pthread -D_GNU_SOURCE -I. $(DLR_WARN) $(if $(WERROR),-Werror) \
  $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
  -DDLR_VERSION='"$(VERSION)"' -DDLR_LIBEXECDIR='"$(LIBEXECDIR)"'
DLR_LDFLAGS = -pthread $(if $(SAN),-fsanitize=$(SAN))

# --- sources: one list per product --------------------------------------------------
COMMON := common/base/caller.c common/base/clock.c common/base/err.c common/base/open_files.c common/base/file.c common/base/hostlist.c common/config/job_config.c common/config/site_rules.c \
  common/local/message.c common/base/log.c common/base/node_memory.c common/config/opt.c common/config/opt_value.c common/local/split.c common/base/install_path.c common/config/settings.c common/base/str.c common/base/thread.c common/base/version.c
SAVED := ckpt/persist/slot_file.c ckpt/persist/safetensors.c ckpt/persist/safetensors_read.c ckpt/persist/bulk_write.c
MSG := common/json/message.c
ORDER := hwloc_topo/names.c hwloc_topo/switches.c hwloc_topo/order.c hwloc_topo/spares.c
TOPO := hwloc_topo/node.c hwloc_topo/partners.c $(ORDER)
HEALTH := health/node.c health/clock.c health/disk.c health/reach.c health/run.c health/verdict.c
JOIN := ckpt/restore/load.c ckpt/restore/reshape.c ckpt/layout/box.c ckpt/layout/regions.c ckpt/layout/strides.c ckpt/layout/unmatched.c ckpt/base/copy_crc.c
WHOLE := ckpt/restore/whole.c $(JOIN)
SLOT := ckpt/base/file_slice.c ckpt/slot/slot.c ckpt/slot/meta.c ckpt/slot/write.c ckpt/slot/replica_share.c ckpt/slot/store.c ckpt/base/crc32c.c
CKPT_LIB := ckpt/client/client.c ckpt/client/fork.c ckpt/client/save_cost.c ckpt/standalone/save_interval.c ckpt/commit/cadence.c ckpt/client/region_layout.c ckpt/client/early_copy.c ckpt/client/conf.c $(JOIN) ckpt/client/copy.c ckpt/client/copy_stage.c ckpt/base/thread_affinity.c device/pin.c ckpt/client/audit.c ckpt/client/audit_device.c ckpt/client/oom.c ckpt/client/snapshot_thread.c ckpt/client/peek.c \
  ckpt/supervised/supervised.c ckpt/supervised/restore.c ckpt/supervised/lease.c ckpt/supervised/agent_socket.c ckpt/standalone/standalone.c ckpt/standalone/find_version.c ckpt/standalone/retention.c ckpt/standalone/lineage.c ckpt/standalone/launch_id.c ckpt/standalone/write_behind.c ckpt/standalone/files.c ckpt/standalone/agreement.c ckpt/standalone/vote.c device/device.c device/cuda.c device/cuda_fetch.c device/kernels.c device/stalls.c device/ptx.c
TLS := ckpt/transport/tls.c ckpt/transport/tls_listen.c ckpt/transport/tls_conn.c ckpt/transport/tls_frame.c ckpt/transport/tls_key.c ckpt/transport/tls_address.c
NET := ckpt/transport/net.c ckpt/transport/mac.c $(TLS) ckpt/transport/ucx.c ckpt/transport/worker.c ckpt/transport/nic.c
DATA_LIBS := -lucp -lucs -lssl -lcrypto
CONFINE := ckpt/stream/confine.c ckpt/stream/confine_calls.c ckpt/stream/confine_files.c
DATA := ckpt/stream/main.c ckpt/stream/agent_orders.c ckpt/stream/held_slots.c ckpt/stream/send.c ckpt/stream/recv.c ckpt/stream/recv_end.c ckpt/transport/wire.c \
  ckpt/stream/files.c ckpt/stream/save.c $(SAVED) ckpt/stream/work.c ckpt/stream/idle_thread.c ckpt/stream/check.c ckpt/stream/scrub.c ckpt/stream/parity_sum.c ckpt/redundancy/parity_order.c ckpt/redundancy/parity.c $(NET) ckpt/base/pace.c ckpt/stream/listen.c $(CONFINE)
CTL := mpi_launcher/wire/heartbeat.c mpi_launcher/wire/identity.c mpi_launcher/wire/curve_auth.c mpi_launcher/wire/endpoint.c \
  mpi_launcher/wire/frame.c mpi_launcher/wire/guard.c mpi_launcher/wire/tcp_bytes.c mpi_launcher/wire/client.c
PLAN := mpi_launcher/plan/parity_sets.c ckpt/redundancy/parity.c mpi_launcher/plan/plan.c mpi_launcher/plan/nodes.c mpi_launcher/plan/ranks.c mpi_launcher/plan/restore.c \
  mpi_launcher/plan/json_write.c mpi_launcher/plan/json_read.c mpi_launcher/plan/input.c mpi_launcher/plan/world_sizes.c health/verdict.c
STEPPLAN := mpi_launcher/step_plan/step_plan.c mpi_launcher/step_plan/ranks.c mpi_launcher/step_plan/srun_time.c mpi_launcher/step_plan/read.c mpi_launcher/step_plan/nodes.c \
  mpi_launcher/step_plan/srun_options.c
KEEPER := mpi_launcher/keeper/main.c mpi_launcher/keeper/child_exits.c
SUPERVISOR := mpi_launcher/supervisor/main.c mpi_launcher/supervisor/io/user_output.c mpi_launcher/supervisor/dispatch.c mpi_launcher/supervisor/nodes/peers.c mpi_launcher/supervisor/nodes/roster.c mpi_launcher/supervisor/steps/agent_step.c mpi_launcher/supervisor/steps/agent_step_errors.c mpi_launcher/supervisor/planning/rendezvous.c mpi_launcher/policy/rendezvous_time.c mpi_launcher/supervisor/planning/gather.c mpi_launcher/supervisor/rounds/round.c mpi_launcher/supervisor/rounds/restore.c mpi_launcher/supervisor/rounds/ranks.c mpi_launcher/plan/rank_map.c mpi_launcher/supervisor/nodes/failure_detector.c \
  mpi_launcher/supervisor/copies/transfers.c mpi_launcher/supervisor/rounds/node_orders.c mpi_launcher/supervisor/copies/transfer_retry.c mpi_launcher/supervisor/disk/persist_on_failure.c mpi_launcher/supervisor/copies/reprotect.c mpi_launcher/supervisor/copies/fetch.c mpi_launcher/supervisor/planning/resize.c mpi_launcher/supervisor/copies/bad_versions.c mpi_launcher/supervisor/copies/scrub.c mpi_launcher/supervisor/copies/bad_copies.c mpi_launcher/supervisor/copies/vetted_version.c mpi_launcher/supervisor/disk/inventory.c mpi_launcher/supervisor/copies/repeated_failure.c mpi_launcher/policy/repeated_failure.c mpi_launcher/supervisor/copies/redundancy.c mpi_launcher/supervisor/copies/rebuild.c mpi_launcher/supervisor/disk/persist_periodic.c mpi_launcher/supervisor/disk/persist_schedule.c mpi_launcher/supervisor/nodes/loss_rate.c mpi_launcher/supervisor/copies/memory_report.c mpi_launcher/supervisor/copies/fallback_network.c mpi_launcher/supervisor/nodes/auth_failures.c mpi_launcher/supervisor/ending/finish.c mpi_launcher/supervisor/ending/termination.c mpi_launcher/supervisor/steps/srun_flush.c mpi_launcher/supervisor/nodes/suspend.c mpi_launcher/supervisor/saved_state.c mpi_launcher/supervisor/rounds/adopt.c \
  mpi_launcher/supervisor/steps/rejoin.c mpi_launcher/policy/rejoin.c mpi_launcher/slurm/srun_io.c mpi_launcher/supervisor/rounds/node_names.c mpi_launcher/supervisor/steps/controller.c mpi_launcher/step_plan/host_words.c \
  mpi_launcher/policy/policy.c mpi_launcher/policy/control_loss.c mpi_launcher/policy/restart_budget.c mpi_launcher/policy/late_nodes.c mpi_launcher/policy/requeue.c mpi_launcher/policy/step.c mpi_launcher/policy/termination.c mpi_launcher/policy/state.c mpi_launcher/journal/journal.c mpi_launcher/journal/writer.c mpi_launcher/keeper/takeover_state.c mpi_launcher/keeper/child_exits.c \
  $(STEPPLAN) mpi_launcher/supervisor/rounds/step.c mpi_launcher/slurm/srun_errors.c mpi_launcher/slurm/srun.c \
  mpi_launcher/supervisor/nodes/members.c $(PLAN) mpi_launcher/slurm/api.c mpi_launcher/run/run_info.c mpi_launcher/run/trusted_path.c mpi_launcher/run/tries.c mpi_launcher/run/master_port.c \
  mpi_launcher/run/node_claims.c mpi_launcher/process/fork_server.c mpi_launcher/process/offload.c mpi_launcher/supervisor/io/state_files.c mpi_launcher/supervisor/disk/manifest.c mpi_launcher/supervisor/ending/joint_requeue.c mpi_launcher/supervisor/steps/shared_agent_step.c mpi_launcher/agent/host/order.c mpi_launcher/process/process_id.c mpi_launcher/supervisor/rounds/stdin_spool.c mpi_launcher/supervisor/rounds/stdin.c \
  ckpt/manifest/manifest.c ckpt/commit/commit.c ckpt/commit/schedule.c ckpt/commit/cadence.c ckpt/commit/persist_interval.c ckpt/commit/interval.c mpi_launcher/supervisor/copies/cadence.c
SLURM := mpi_launcher/slurm/main.c mpi_launcher/slurm/alive.c mpi_launcher/slurm/requeue.c mpi_launcher/slurm/api.c \
  mpi_launcher/slurm/batch_view.c mpi_launcher/run/run_info.c mpi_launcher/run/trusted_path.c mpi_launcher/run/tries.c mpi_launcher/process/process_id.c $(ORDER)
AGENT := mpi_launcher/agent/main.c mpi_launcher/agent/restarter.c mpi_launcher/agent/host/starter.c mpi_launcher/agent/host/order.c mpi_launcher/agent/config.c mpi_launcher/agent/snapshots/directory.c mpi_launcher/agent/snapshots/budget.c mpi_launcher/agent/snapshots/space.c \
  mpi_launcher/agent/control.c mpi_launcher/agent/lease.c mpi_launcher/agent/suspend.c mpi_launcher/agent/grace.c mpi_launcher/policy/grace_turn.c mpi_launcher/agent/round.c \
  mpi_launcher/agent/tasks/local_socket.c mpi_launcher/agent/tasks/tasks.c mpi_launcher/agent/tasks/sweep.c mpi_launcher/agent/snapshots/ranks.c mpi_launcher/agent/tasks/rank_claims.c mpi_launcher/agent/snapshots/peek.c mpi_launcher/agent/snapshots/fetch.c mpi_launcher/agent/snapshots/extra_slots.c \
  mpi_launcher/agent/snapshots/save.c mpi_launcher/agent/snapshots/scrub.c mpi_launcher/agent/snapshots/cpu_advice.c mpi_launcher/process/thread_affinity.c mpi_launcher/agent/data/pace.c mpi_launcher/agent/data/network.c mpi_launcher/agent/data/own_hosts.c ckpt/base/pace.c mpi_launcher/agent/data/data_process.c mpi_launcher/process/restart_delay.c mpi_launcher/agent/report.c \
  mpi_launcher/agent/succession/peers.c mpi_launcher/wire/peer_list.c mpi_launcher/agent/succession/keeper_watch.c mpi_launcher/process/process_id.c mpi_launcher/agent/base/auth_failures.c mpi_launcher/agent/succession/host_watch.c mpi_launcher/agent/succession/successor.c mpi_launcher/agent/succession/write_state.c \
  mpi_launcher/agent/snapshots/rebuild.c mpi_launcher/agent/succession/blocking.c mpi_launcher/policy/election.c mpi_launcher/process/spawn.c \
  mpi_launcher/journal/journal.c mpi_launcher/journal/writer.c mpi_launcher/process/fork_server.c ckpt/manifest/manifest.c $(PLAN)
RENDEZVOUS := mpi_launcher/rendezvous/main.c mpi_launcher/rendezvous/node_report.c mpi_launcher/run/master_port.c $(PLAN)
CLI_READ := mpi_launcher/cli/args.c mpi_launcher/cli/find_run.c mpi_launcher/cli/status_json.c \
  mpi_launcher/journal/run_view_text.c mpi_launcher/journal/reader.c mpi_launcher/journal/run_view.c mpi_launcher/journal/text.c \
  mpi_launcher/cli/status_view.c mpi_launcher/journal/event_text.c
DOCTOR := mpi_launcher/doctor/doctor.c mpi_launcher/doctor/job.c mpi_launcher/doctor/facts.c \
  mpi_launcher/doctor/node.c mpi_launcher/doctor/across_nodes.c mpi_launcher/doctor/plugin.c mpi_launcher/doctor/tmpfs.c \
  mpi_launcher/doctor/slurm_config.c mpi_launcher/doctor/elf_file.c mpi_launcher/doctor/plugstack.c
CKPT_READ := $(SLOT) $(SAVED)
CLI := mpi_launcher/cli/ckpt.c mpi_launcher/cli/progress_bar.c mpi_launcher/cli/ckpt_unnamed.c ckpt/standalone/files.c mpi_launcher/cli/export_safetensors.c $(WHOLE) mpi_launcher/cli/export_dcp.c ckpt/manifest/remove.c ckpt/manifest/manifest.c $(CKPT_READ) mpi_launcher/cli/main.c mpi_launcher/cli/status.c mpi_launcher/cli/events.c \
  mpi_launcher/cli/check.c mpi_launcher/cli/doctor.c mpi_launcher/cli/watch.c $(DOCTOR) $(CLI_READ)
SPANK := spank/command/allocator.c spank/task/batch_env.c spank/command/cmdline.c spank/base/fds.c spank/command/handover.c spank/node/job_tmpfs.c spank/node/kept_tmpfs.c spank/node/container_tmpfs.c spank/task/notify.c spank/command/open_mode.c \
  spank/base/options.c spank/task/step.c spank/node/cleanup.c spank/task/stderr_tap.c spank/task/task_env.c spank/command/task_count.c
PLUGIN := spank/plugin.c spank/items.c $(SPANK) common/base/clock.c common/base/err.c common/base/file.c common/base/hostlist.c common/config/job_config.c \
  common/config/site_rules.c common/local/message.c common/base/log.c common/base/node_memory.c common/config/opt.c common/config/opt_value.c common/config/settings.c common/base/str.c common/base/version.c
CKPT_LIB += $(SAVED)
CHARLM := examples/charlm.c examples/matmul.c examples/text.c

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

PROGRAMS := $(addprefix $(BUILD)/,dlrover dlrover-keeper dlrover-supervisor dlrover-agent \
  dlrover-data dlrover-rendezvous dlrover-slurm dlrover-stderr)
EXAMPLES := $(addprefix $(BUILD)/examples/,mpi_train mpi_plain ckpt_hello)
# The longest first: one of them at the end would run alone.
UNIT_SOURCES := $(shell find tests/unit tests/faults -name 'test_*.c' | sort)
UNIT_LONGEST := $(filter $(addprefix %/,test_kill_%.c test_commit_%.c test_agent_orders.c),$(UNIT_SOURCES))
UNIT_TESTS := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(UNIT_LONGEST) $(filter-out $(UNIT_LONGEST),$(UNIT_SOURCES))))

all: $(PROGRAMS) $(BUILD)/libdlrover.so $(BUILD)/spank_dlrover.so $(EXAMPLES) ## build everything
.PHONY: all
.DELETE_ON_ERROR:

include mk/build.mk mk/install.mk mk/package.mk mk/check.mk mk/gates.mk mk/fuzz.mk

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18
clean: ## remove build/
	rm -rf $(BUILD)
.PHONY: help clean
-include $(shell find $(BUILD) -type f -name '*.d' 2>/dev/null)
