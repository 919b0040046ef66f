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
COMMON := common/caller.c common/clock.c common/err.c common/open_files.c common/file.c common/hostlist.c common/jobconf.c common/jobrules.c \
  common/local.c common/log.c common/memory.c common/opt.c common/opt_value.c common/parts.c common/self.c common/settings.c common/str.c common/thread.c common/version.c
SAVED := ckpt/saved.c ckpt/safetensors.c ckpt/safetensors_read.c ckpt/bulk.c
MSG := common/msg.c
ORDER := hwloc_topo/names.c hwloc_topo/switches.c hwloc_topo/order.c hwloc_topo/choose.c
TOPO := hwloc_topo/node.c hwloc_topo/partners.c $(ORDER)
HEALTH := health/checks.c health/clock.c health/disk.c health/reach.c health/run.c health/verdict.c
JOIN := ckpt/load.c ckpt/reshape.c ckpt/box.c ckpt/regions.c ckpt/strides.c ckpt/unmatched.c ckpt/copy_sum.c
WHOLE := ckpt/whole.c $(JOIN)
SLOT := ckpt/slice.c ckpt/slot.c ckpt/slot_meta.c ckpt/slot_write.c ckpt/share.c ckpt/store.c ckpt/crc32c.c
CKPT_LIB := ckpt/client.c ckpt/fork.c ckpt/save_cost.c ckpt/stride.c ckpt/cadence.c ckpt/layout.c ckpt/shadow.c ckpt/conf.c $(JOIN) ckpt/copy.c ckpt/copy_stage.c ckpt/place.c ckpt/pin.c ckpt/audit.c ckpt/audit_device.c ckpt/oom.c ckpt/saver.c ckpt/peek.c \
  ckpt/supervised.c ckpt/supervised_restore.c ckpt/lease.c ckpt/reach.c ckpt/alone.c ckpt/alone_find.c ckpt/alone_keep.c ckpt/alone_line.c ckpt/alone_start.c ckpt/behind.c ckpt/alone_files.c ckpt/agree.c ckpt/agree_word.c ckpt/device.c ckpt/device_cuda.c ckpt/device_fetch.c ckpt/device_kernels.c ckpt/device_stalls.c ckpt/device_ptx.c
TLS := ckpt/data_tls.c ckpt/data_tls_listen.c ckpt/data_tls_conn.c ckpt/data_tls_frame.c ckpt/data_tls_key.c ckpt/data_tls_address.c
NET := ckpt/data_net.c ckpt/data_mac.c $(TLS) ckpt/data_ucx.c ckpt/data_lane.c ckpt/data_nic.c
DATA_LIBS := -lucp -lucs -lssl -lcrypto
CONFINE := ckpt/data_confine.c ckpt/data_confine_calls.c ckpt/data_confine_files.c
DATA := ckpt/data_main.c ckpt/data_local.c ckpt/data_store.c ckpt/data_send.c ckpt/data_recv.c ckpt/data_recv_end.c ckpt/data_wire.c \
  ckpt/data_files.c ckpt/data_save.c $(SAVED) ckpt/data_work.c ckpt/data_turns.c ckpt/data_check.c ckpt/data_scrub.c ckpt/data_sum.c ckpt/data_sum_order.c ckpt/parity.c $(NET) ckpt/pace.c ckpt/data_listen.c $(CONFINE)
CTL := mpi_launcher/beat.c mpi_launcher/identity.c mpi_launcher/zap.c mpi_launcher/endpoint.c \
  mpi_launcher/endpoint_frame.c mpi_launcher/endpoint_guard.c mpi_launcher/tcp_bytes.c mpi_launcher/endpoint_client.c
PLAN := mpi_launcher/sets.c ckpt/parity.c mpi_launcher/plan.c mpi_launcher/plan_nodes.c mpi_launcher/plan_ranks.c mpi_launcher/plan_restore.c \
  mpi_launcher/plan_json.c mpi_launcher/plan_read.c mpi_launcher/plan_input.c mpi_launcher/plan_worlds.c health/verdict.c
STEPPLAN := mpi_launcher/stepplan.c mpi_launcher/stepplan_ranks.c mpi_launcher/srun_time.c mpi_launcher/stepplan_read.c mpi_launcher/stepplan_seats.c \
  mpi_launcher/srun_options.c
KEEPER := mpi_launcher/keeper.c mpi_launcher/exits.c
SUPERVISOR := mpi_launcher/supervisor.c mpi_launcher/sup_say.c mpi_launcher/sup_control.c mpi_launcher/sup_peers.c mpi_launcher/roster.c mpi_launcher/sup_agents.c mpi_launcher/sup_launch.c mpi_launcher/sup_meet.c mpi_launcher/meet_time.c mpi_launcher/sup_gather.c mpi_launcher/sup_round.c mpi_launcher/sup_restore.c mpi_launcher/sup_ranks.c mpi_launcher/rankmap.c mpi_launcher/sup_silence.c \
  mpi_launcher/sup_copies.c mpi_launcher/sup_tell.c mpi_launcher/sup_blame.c mpi_launcher/sup_survivors.c mpi_launcher/sup_again.c mpi_launcher/sup_worlds.c mpi_launcher/sup_resize.c mpi_launcher/sup_bad.c mpi_launcher/sup_scrub.c mpi_launcher/bad_copies.c mpi_launcher/sup_vetted.c mpi_launcher/sup_disk.c mpi_launcher/sup_repeat.c mpi_launcher/repeat.c mpi_launcher/sup_redundancy.c mpi_launcher/sup_rebuild.c mpi_launcher/sup_periodic.c mpi_launcher/sup_due.c mpi_launcher/sup_losses.c mpi_launcher/sup_memory.c mpi_launcher/sup_net.c mpi_launcher/sup_strangers.c mpi_launcher/sup_end.c mpi_launcher/sup_term.c mpi_launcher/sup_drain.c mpi_launcher/sup_suspend.c mpi_launcher/sup_state.c mpi_launcher/sup_adopt.c \
  mpi_launcher/sup_rejoin.c mpi_launcher/rejoin.c mpi_launcher/srun_io.c mpi_launcher/sup_names.c mpi_launcher/sup_controller.c mpi_launcher/hosts.c \
  mpi_launcher/policy.c mpi_launcher/policy_control.c mpi_launcher/restart_budget.c mpi_launcher/policy_late.c mpi_launcher/policy_leave.c mpi_launcher/policy_step.c mpi_launcher/policy_term.c mpi_launcher/policy_state.c mpi_launcher/journal.c mpi_launcher/journal_writer.c mpi_launcher/keepstate.c mpi_launcher/exits.c \
  $(STEPPLAN) mpi_launcher/sup_step.c mpi_launcher/srun_end.c mpi_launcher/steps.c \
  mpi_launcher/members.c $(PLAN) mpi_launcher/slurmapi.c mpi_launcher/runinfo.c mpi_launcher/trusted_path.c mpi_launcher/tries.c mpi_launcher/port.c \
  mpi_launcher/claims.c mpi_launcher/apart.c mpi_launcher/aside.c mpi_launcher/sup_files.c mpi_launcher/sup_manifest.c mpi_launcher/sup_leave.c mpi_launcher/sup_hosts.c mpi_launcher/host_order.c mpi_launcher/procid.c mpi_launcher/spool.c mpi_launcher/sup_stdin.c \
  mpi_launcher/persist.c ckpt/commit.c ckpt/schedule.c ckpt/cadence.c ckpt/cadence_disk.c ckpt/interval.c mpi_launcher/sup_cadence.c
SLURM := mpi_launcher/slurm_main.c mpi_launcher/slurm_alive.c mpi_launcher/requeue.c mpi_launcher/slurmapi.c \
  mpi_launcher/shown.c mpi_launcher/runinfo.c mpi_launcher/trusted_path.c mpi_launcher/tries.c mpi_launcher/procid.c $(ORDER)
AGENT := mpi_launcher/agent.c mpi_launcher/agent_nanny.c mpi_launcher/agent_host.c mpi_launcher/host_order.c mpi_launcher/agent_conf.c mpi_launcher/agent_memory.c mpi_launcher/agent_budget.c mpi_launcher/agent_room.c \
  mpi_launcher/agent_control.c mpi_launcher/agent_lease.c mpi_launcher/agent_suspend.c mpi_launcher/agent_grace.c mpi_launcher/grace_turn.c mpi_launcher/agent_round.c \
  mpi_launcher/agent_local.c mpi_launcher/agent_tasks.c mpi_launcher/agent_sweep.c mpi_launcher/agent_ranks.c mpi_launcher/agent_claims.c mpi_launcher/agent_peek.c mpi_launcher/agent_bring.c mpi_launcher/agent_vetted.c \
  mpi_launcher/agent_save.c mpi_launcher/agent_scrub.c mpi_launcher/agent_helpers.c mpi_launcher/threads.c mpi_launcher/agent_pace.c mpi_launcher/agent_net.c mpi_launcher/own_hosts.c ckpt/pace.c mpi_launcher/agent_data.c mpi_launcher/deaths.c mpi_launcher/agent_report.c \
  mpi_launcher/agent_peers.c mpi_launcher/peer_list.c mpi_launcher/agent_keeper.c mpi_launcher/procid.c mpi_launcher/agent_strangers.c mpi_launcher/agent_watchdog.c mpi_launcher/agent_succeed.c mpi_launcher/agent_succeed_write.c \
  mpi_launcher/agent_rebuild.c mpi_launcher/agent_succeed_main.c mpi_launcher/election.c mpi_launcher/spawn.c \
  mpi_launcher/journal.c mpi_launcher/journal_writer.c mpi_launcher/apart.c mpi_launcher/persist.c $(PLAN)
RENDEZVOUS := mpi_launcher/rendezvous.c mpi_launcher/report.c mpi_launcher/port.c $(PLAN)
CLI_READ := mpi_launcher/cli_args.c mpi_launcher/cli_find.c mpi_launcher/cli_json.c \
  mpi_launcher/cli_mood.c mpi_launcher/cli_reader.c mpi_launcher/cli_state.c mpi_launcher/cli_text.c \
  mpi_launcher/cli_view.c mpi_launcher/cli_words.c
DOCTOR := mpi_launcher/doctor.c mpi_launcher/doctor_job.c mpi_launcher/doctor_look.c \
  mpi_launcher/doctor_node.c mpi_launcher/doctor_nodes.c mpi_launcher/doctor_plugin.c mpi_launcher/doctor_tmpfs.c \
  mpi_launcher/doctor_slurm.c mpi_launcher/libfile.c mpi_launcher/plugstack.c
CKPT_READ := $(SLOT) $(SAVED)
CLI := mpi_launcher/cli_ckpt.c mpi_launcher/cli_bar.c mpi_launcher/cli_named.c ckpt/alone_files.c mpi_launcher/cli_export.c $(WHOLE) mpi_launcher/cli_dcp.c mpi_launcher/persist_remove.c mpi_launcher/persist.c $(CKPT_READ) mpi_launcher/cli.c mpi_launcher/cli_status.c mpi_launcher/cli_events.c \
  mpi_launcher/cli_check.c mpi_launcher/cli_doctor.c mpi_launcher/cli_watch.c $(DOCTOR) $(CLI_READ)
SPANK := spank/allocator.c spank/batch.c spank/cmdline.c spank/fds.c spank/handover.c spank/jobmem.c spank/jobkeep.c spank/jobview.c spank/notify.c spank/open_mode.c \
  spank/options.c spank/step.c spank/sweep.c spank/tap.c spank/task_env.c spank/taskcount.c
PLUGIN := spank/plugin.c spank/items.c $(SPANK) common/clock.c common/err.c common/file.c common/hostlist.c common/jobconf.c \
  common/jobrules.c common/local.c common/log.c common/memory.c common/opt.c common/opt_value.c common/settings.c common/str.c common/version.c
CKPT_LIB += $(SAVED)
CHARLM := examples/charlm.c examples/matmul.c examples/text.c

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))

PROGRAMS := $(addprefix $(BUILD)/,dlrover dlrover-keeper dlrover-supervisor dlrover-agent \
  dlrover-data dlrover-rendezvous dlrover-slurm dlrover-stderr)
EXAMPLES := $(addprefix $(BUILD)/examples/,mpi_train mpi_plain ckpt_hello)
# The longest first: one of them at the end would run alone.
UNIT_LONGEST := $(wildcard tests/test_kill_*.c tests/test_commit_*.c tests/test_agent_orders.c)
UNIT_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(UNIT_LONGEST) $(filter-out $(UNIT_LONGEST),$(wildcard tests/test_*.c)))

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
