# SPDX-License-Identifier: Apache-2.0
# Tests.

# --- unit tests: tests/test_x.c is built and run by `make unit`. It is linked with COMMON and
# with the sources and libraries named here, one or two lines for each test.
UNIT_OBJS_test_charlm := $(CHARLM)
UNIT_LIBS_test_charlm := -lxxhash -lm
UNIT_OBJS_test_msg := $(MSG)
UNIT_LIBS_test_msg := -ljansson
UNIT_LIBS_test_file := -Wl,--wrap=fsync,--wrap=renameat,--wrap=write,--wrap=close
UNIT_OBJS_test_bulk := ckpt/persist/bulk_write.c
UNIT_LIBS_test_bulk := -Wl,--wrap=fallocate,--wrap=ftruncate,--wrap=fcntl,--wrap=pwrite,--wrap=fsync,--wrap=close,--wrap=renameat
UNIT_OBJS_test_slot := $(SLOT)
UNIT_LIBS_test_slot := -lisal -lxxhash
UNIT_OBJS_test_slot_file := $(SLOT)
UNIT_LIBS_test_slot_file := -lisal -lxxhash
UNIT_OBJS_test_store := $(SLOT) ckpt/stream/held_slots.c
UNIT_LIBS_test_store := -lisal -lxxhash
UNIT_OBJS_test_commit := ckpt/commit/schedule.c
UNIT_OBJS_test_commit_open := ckpt/commit/schedule.c
UNIT_OBJS_test_commit_orders := tests/unit/ckpt/commit/commit_search.c tests/unit/ckpt/commit/commit_world.c tests/unit/ckpt/commit/commit_world_rules.c tests/unit/ckpt/commit/commit_world_moves.c tests/unit/ckpt/commit/commit_world_merged.c tests/unit/ckpt/commit/commit_world_check.c tests/unit/ckpt/commit/commit_world_rounds.c ckpt/commit/commit.c ckpt/commit/schedule.c $(PLAN) $(TOPO) $(MSG)
UNIT_LIBS_test_commit_orders := -lhwloc -ljansson -lisal
UNIT_OBJS_test_commit_merged := $(UNIT_OBJS_test_commit_orders)
UNIT_LIBS_test_commit_merged := $(UNIT_LIBS_test_commit_orders)
UNIT_OBJS_test_commit_rounds := $(UNIT_OBJS_test_commit_orders)
UNIT_LIBS_test_commit_rounds := $(UNIT_LIBS_test_commit_orders)
UNIT_OBJS_test_pace := ckpt/base/pace.c
UNIT_OBJS_test_data_nic := ckpt/transport/nic.c
UNIT_OBJS_test_data_turns := ckpt/stream/idle_thread.c
UNIT_OBJS_test_data_listen := ckpt/stream/listen.c
UNIT_OBJS_test_cadence := ckpt/commit/cadence.c ckpt/commit/persist_interval.c
UNIT_LIBS_test_cadence := -lm
UNIT_OBJS_test_interval := ckpt/commit/interval.c
UNIT_LIBS_test_interval := -lm
UNIT_OBJS_test_save_cost := ckpt/client/save_cost.c
UNIT_OBJS_test_sup_cadence := mpi_launcher/supervisor/copies/cadence.c ckpt/commit/commit.c ckpt/commit/schedule.c ckpt/commit/interval.c ckpt/commit/cadence.c common/config/job_config.c $(MSG)
UNIT_LIBS_test_sup_cadence := -ljansson -lm
UNIT_OBJS_test_data := tests/unit/ckpt/stream/data_pair.c tests/support/data_rig.c $(SLOT)
UNIT_OBJS_test_data_scrub := tests/unit/ckpt/stream/data_pair.c tests/support/data_rig.c $(SLOT)
UNIT_LIBS_test_data_scrub := -lisal -lxxhash
$(BUILD)/tests/test_data_scrub: | $(BUILD)/dlrover-data
UNIT_OBJS_test_data_midway := $(UNIT_OBJS_test_data)
UNIT_OBJS_test_data_hole := $(UNIT_OBJS_test_data)
UNIT_OBJS_test_data_bring := tests/support/data_rig.c $(SLOT)
UNIT_OBJS_test_data_sum := ckpt/redundancy/parity.c tests/support/data_rig.c $(SLOT)
UNIT_LIBS_test_data := -lisal -lxxhash
UNIT_LIBS_test_data_midway := -lisal -lxxhash
UNIT_LIBS_test_data_hole := -lisal -lxxhash
UNIT_LIBS_test_data_bring := -lisal -lxxhash
UNIT_LIBS_test_data_sum := -lisal -lxxhash
UNIT_OBJS_test_data_confine := $(CONFINE) $(UNIT_OBJS_test_data)
UNIT_LIBS_test_data_confine := -lisal -lxxhash
UNIT_OBJS_test_data_put := ckpt/transport/nic.c $(UNIT_OBJS_test_data)
UNIT_LIBS_test_data_put := -lisal -lxxhash
UNIT_OBJS_test_data_wire := $(NET) $(UNIT_OBJS_test_data_bring)
UNIT_LIBS_test_data_wire := $(DATA_LIBS) -lisal -lxxhash
UNIT_OBJS_test_data_mac := ckpt/transport/wire.c $(UNIT_OBJS_test_data_wire)
UNIT_LIBS_test_data_mac := $(UNIT_LIBS_test_data_wire)
$(BUILD)/tests/test_data $(BUILD)/tests/test_data_midway $(BUILD)/tests/test_data_hole $(BUILD)/tests/test_data_bring $(BUILD)/tests/test_data_wire $(BUILD)/tests/test_data_mac $(BUILD)/tests/test_data_sum $(BUILD)/tests/test_data_confine $(BUILD)/tests/test_data_put: | $(BUILD)/dlrover-data
UNIT_OBJS_test_data_tls_frame := ckpt/transport/tls_frame.c
UNIT_OBJS_test_data_tls := $(NET)
UNIT_LIBS_test_data_tls := $(DATA_LIBS)
UNIT_OBJS_test_policy := tests/unit/mpi_launcher/policy/policy_rig.c mpi_launcher/policy/policy.c mpi_launcher/policy/control_loss.c mpi_launcher/policy/late_nodes.c mpi_launcher/policy/requeue.c mpi_launcher/policy/step.c mpi_launcher/policy/termination.c mpi_launcher/policy/state.c mpi_launcher/policy/restart_budget.c
UNIT_OBJS_test_policy_control := $(UNIT_OBJS_test_policy)
UNIT_OBJS_test_policy_late := $(UNIT_OBJS_test_policy)
UNIT_OBJS_test_policy_term := $(UNIT_OBJS_test_policy)
UNIT_OBJS_test_deaths := mpi_launcher/process/restart_delay.c
UNIT_OBJS_test_requeue := mpi_launcher/slurm/requeue.c
UNIT_OBJS_test_steps := mpi_launcher/slurm/srun.c mpi_launcher/step_plan/srun_options.c mpi_launcher/process/process_id.c
UNIT_OBJS_test_grace_turn := mpi_launcher/policy/grace_turn.c
UNIT_OBJS_test_roster := mpi_launcher/supervisor/nodes/roster.c
UNIT_OBJS_test_peer_list := mpi_launcher/agent/data/own_hosts.c mpi_launcher/wire/peer_list.c $(MSG)
UNIT_LIBS_test_peer_list := -ljansson
UNIT_OBJS_test_members := mpi_launcher/supervisor/nodes/members.c $(CTL) $(MSG)
UNIT_LIBS_test_members := -lczmq -lzmq -lmunge -ljansson
UNIT_OBJS_test_trusted_path := mpi_launcher/run/trusted_path.c
UNIT_OBJS_test_runinfo := mpi_launcher/run/run_info.c mpi_launcher/run/trusted_path.c mpi_launcher/run/tries.c mpi_launcher/process/process_id.c
UNIT_LIBS_test_runinfo := -lxxhash
UNIT_OBJS_test_slurm_library := mpi_launcher/slurm/api.c
UNIT_LIBS_test_slurm_library := -lslurm
UNIT_OBJS_test_port := mpi_launcher/run/master_port.c
UNIT_LIBS_test_port := -lxxhash
UNIT_OBJS_test_agent_host := mpi_launcher/agent/host/order.c $(MSG)
UNIT_LIBS_test_agent_host := -ljansson
$(BUILD)/tests/test_agent_host: | $(BUILD)/dlrover-agent
UNIT_OBJS_test_claims := mpi_launcher/run/node_claims.c mpi_launcher/process/process_id.c
UNIT_OBJS_test_aside := mpi_launcher/process/offload.c mpi_launcher/process/fork_server.c
UNIT_OBJS_test_spool := mpi_launcher/supervisor/rounds/stdin_spool.c
UNIT_OBJS_test_journal := mpi_launcher/journal/journal.c mpi_launcher/journal/writer.c mpi_launcher/process/fork_server.c mpi_launcher/keeper/takeover_state.c mpi_launcher/keeper/child_exits.c
UNIT_LIBS_test_journal := -ljansson
UNIT_OBJS_test_srun_end := mpi_launcher/slurm/srun_errors.c
UNIT_OBJS_test_rejoin := mpi_launcher/policy/rejoin.c mpi_launcher/slurm/srun_io.c mpi_launcher/slurm/srun.c mpi_launcher/step_plan/srun_options.c
UNIT_OBJS_test_stepplan := $(STEPPLAN)
UNIT_OBJS_test_ckpt_reshape := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_reshape := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_share := $(CKPT_LIB) ckpt/restore/whole.c $(SLOT)
UNIT_LIBS_test_ckpt_share := -lisal -lxxhash -ldl
UNIT_OBJS_test_restart_budget := mpi_launcher/policy/restart_budget.c
UNIT_OBJS_test_repeat := mpi_launcher/policy/repeated_failure.c
UNIT_OBJS_test_box := ckpt/layout/box.c
UNIT_OBJS_test_strides := ckpt/layout/strides.c
UNIT_OBJS_test_crc32c := ckpt/base/crc32c.c
UNIT_LIBS_test_crc32c := -lisal
UNIT_OBJS_test_ckpt_ties := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_ties := -lisal -lxxhash -ldl
UNIT_OBJS_test_behind := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_behind := -lisal -lxxhash -ldl -pthread
UNIT_OBJS_test_ckpt_behind := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_behind := -lisal -lxxhash -ldl -pthread -Wl,--wrap=renameat,--wrap=fstatvfs,--wrap=pthread_cond_clockwait
UNIT_OBJS_test_stride := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_stride := -lisal -lxxhash -ldl -pthread
UNIT_OBJS_test_ckpt_alone := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_alone := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_line := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_line := -lisal -lxxhash -ldl -Wl,--wrap=renameat,--wrap=dlr_wall_ns,--wrap=dlr_alone_head
UNIT_OBJS_test_ckpt_go_on := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_go_on := -lisal -lxxhash -ldl -Wl,--wrap=openat
UNIT_OBJS_test_ckpt_over := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_over := -lisal -lxxhash -ldl -Wl,--wrap=renameat,--wrap=unlinkat,--wrap=fallocate,--wrap=ftruncate,--wrap=pwrite,--wrap=fsync
UNIT_OBJS_test_ckpt_starts := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_starts := -lisal -lxxhash -ldl -Wl,--wrap=fcntl
UNIT_OBJS_test_ckpt_told := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_told := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_agree := $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_agree := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_client := tests/support/played_agent.c $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_client := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_calls := $(UNIT_OBJS_test_ckpt_client)
UNIT_LIBS_test_ckpt_calls := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_restore := $(UNIT_OBJS_test_ckpt_client)
UNIT_OBJS_test_ckpt_cost := $(UNIT_OBJS_test_ckpt_client)
UNIT_LIBS_test_ckpt_cost := $(UNIT_LIBS_test_ckpt_client) -Wl,--wrap=dlr_now_ns
UNIT_LIBS_test_ckpt_restore := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_device := tests/support/device_rig.c $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_ckpt_device := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_device_alone := $(UNIT_OBJS_test_ckpt_device)
UNIT_LIBS_test_ckpt_device_alone := -lisal -lxxhash -ldl
UNIT_OBJS_test_ckpt_fence := tests/support/played_agent.c ckpt/commit/cadence.c $(UNIT_OBJS_test_ckpt_device)
UNIT_LIBS_test_ckpt_fence := -lisal -lxxhash -ldl -lm
UNIT_OBJS_test_ckpt_device_job := tests/support/played_agent.c $(UNIT_OBJS_test_ckpt_device)
UNIT_LIBS_test_ckpt_device_job := -lisal -lxxhash -ldl
DEVICE_TESTS := test_ckpt_device test_ckpt_device_alone test_ckpt_device_job test_ckpt_fence test_gpu
ifneq ($(CUDA_HEADER),)
UNIT_LIBS_test_ckpt_fence += -Wl,--wrap=dlr_now_ns
UNIT_LIBS_test_ckpt_device += -Wl,--wrap=dlr_crc32c
UNIT_LIBS_test_ckpt_device_alone += -Wl,--wrap=dlopen
FAKE_CUDA := fake_cuda fake_cuda_context fake_cuda_stream fake_cuda_memory fake_cuda_capture fake_cuda_program
$(foreach t,$(DEVICE_TESTS) device_rig $(FAKE_CUDA),$(call obj,$(shell find tests -name $(t).c))): XCFLAGS = -DDLR_HAVE_CUDA -isystem $(dir $(CUDA_HEADER))
$(BUILD)/tests/fake/libcuda.so.1: $(FAKE_CUDA:%=$(BUILD)/obj/tests/support/%.o)
	$(call link,-shared -Wl$(comma)-soname=libcuda.so.1)
$(patsubst %,$(BUILD)/tests/%,$(DEVICE_TESTS)): | $(BUILD)/tests/fake/libcuda.so.1
endif
UNIT_OBJS_test_agent_budget := mpi_launcher/agent/snapshots/budget.c
UNIT_OBJS_test_ckpt_conf := ckpt/client/conf.c
UNIT_OBJS_test_lease := ckpt/supervised/lease.c
UNIT_OBJS_test_again := mpi_launcher/supervisor/copies/reprotect.c mpi_launcher/supervisor/copies/redundancy.c mpi_launcher/plan/parity_sets.c ckpt/redundancy/parity.c ckpt/commit/commit.c ckpt/commit/schedule.c hwloc_topo/partners.c hwloc_topo/switches.c hwloc_topo/names.c
UNIT_LIBS_test_again := -lisal -ljansson
UNIT_OBJS_test_vetted := mpi_launcher/agent/snapshots/extra_slots.c mpi_launcher/supervisor/copies/vetted_version.c $(MSG)
UNIT_LIBS_test_vetted := -ljansson
UNIT_OBJS_test_rankmap := mpi_launcher/plan/rank_map.c
UNIT_OBJS_test_sup_ranks := mpi_launcher/supervisor/rounds/ranks.c mpi_launcher/plan/rank_map.c mpi_launcher/supervisor/nodes/members.c $(PLAN) $(TOPO) $(CTL) $(MSG)
UNIT_LIBS_test_sup_ranks := -lczmq -lzmq -lmunge -ljansson  -lhwloc -ljansson -lisal
UNIT_OBJS_test_room := mpi_launcher/agent/snapshots/space.c
UNIT_OBJS_test_threads := mpi_launcher/process/thread_affinity.c
UNIT_LIBS_test_threads := -lpthread -Wl,--wrap=sched_setaffinity,--wrap=readdir
UNIT_OBJS_test_disk := mpi_launcher/supervisor/disk/inventory.c mpi_launcher/process/offload.c mpi_launcher/process/fork_server.c
UNIT_OBJS_test_scrub := mpi_launcher/supervisor/copies/scrub.c mpi_launcher/supervisor/copies/bad_copies.c $(MSG)
UNIT_LIBS_test_scrub := -ljansson
UNIT_OBJS_test_bad := mpi_launcher/supervisor/copies/bad_versions.c $(MSG)
UNIT_LIBS_test_bad := -ljansson
UNIT_OBJS_test_survivors := mpi_launcher/supervisor/disk/persist_on_failure.c ckpt/manifest/manifest.c ckpt/base/file_slice.c $(MSG)
UNIT_LIBS_test_survivors := -ljansson
UNIT_OBJS_test_transfers := mpi_launcher/supervisor/copies/transfers.c mpi_launcher/supervisor/copies/transfer_retry.c $(MSG)
UNIT_LIBS_test_transfers := -ljansson -Wl,--wrap=getrandom
UNIT_OBJS_test_restore_failed := mpi_launcher/supervisor/rounds/restore.c mpi_launcher/supervisor/copies/transfer_retry.c $(MSG)
UNIT_LIBS_test_restore_failed := -ljansson
UNIT_OBJS_test_worlds := mpi_launcher/supervisor/copies/fetch.c mpi_launcher/supervisor/copies/transfer_retry.c $(MSG)
UNIT_LIBS_test_worlds := -ljansson
UNIT_OBJS_test_rebuild := mpi_launcher/supervisor/copies/rebuild.c mpi_launcher/supervisor/planning/resize.c mpi_launcher/plan/parity_sets.c ckpt/redundancy/parity.c hwloc_topo/switches.c hwloc_topo/names.c $(MSG)
UNIT_LIBS_test_rebuild := -lisal -ljansson
UNIT_OBJS_test_say := mpi_launcher/supervisor/io/user_output.c mpi_launcher/process/fork_server.c
UNIT_OBJS_test_kept := mpi_launcher/supervisor/nodes/loss_rate.c mpi_launcher/supervisor/steps/srun_flush.c mpi_launcher/supervisor/copies/fallback_network.c $(MSG)
UNIT_LIBS_test_kept := -ljansson
UNIT_OBJS_test_agent_net := mpi_launcher/agent/data/network.c $(MSG)
UNIT_LIBS_test_agent_net := -ljansson
UNIT_OBJS_test_state := $(filter-out mpi_launcher/supervisor/main.c,$(SUPERVISOR)) $(CTL) $(TOPO) $(SLOT) $(MSG)
UNIT_LIBS_test_state := -lczmq -lzmq -lmunge -ljansson -lslurm -lhwloc -lisal -lxxhash -lm
UNIT_OBJS_test_adopt := $(UNIT_OBJS_test_state)
UNIT_LIBS_test_adopt := $(UNIT_LIBS_test_state) -Wl,--wrap=dlr_server_recv,--wrap=dlr_server_send_json,--wrap=dlr_server_send,--wrap=dlr_server_send_shared
UNIT_OBJS_test_start := $(UNIT_OBJS_test_state)
UNIT_LIBS_test_start := $(UNIT_LIBS_test_adopt)
UNIT_OBJS_test_meet := $(UNIT_OBJS_test_state)
UNIT_LIBS_test_meet := $(UNIT_LIBS_test_state) -Wl,--wrap=dlr_server_send_json,--wrap=dlr_sup_ask_controller
UNIT_OBJS_test_periodic := ckpt/commit/persist_interval.c ckpt/base/file_slice.c mpi_launcher/supervisor/disk/persist_periodic.c mpi_launcher/supervisor/disk/persist_schedule.c mpi_launcher/supervisor/disk/inventory.c $(MSG)
UNIT_LIBS_test_periodic := -ljansson -lm -Wl,--wrap=access,--wrap=statfs
UNIT_OBJS_test_sets := mpi_launcher/plan/parity_sets.c ckpt/redundancy/parity.c hwloc_topo/switches.c hwloc_topo/names.c
UNIT_LIBS_test_sets := -lisal
UNIT_OBJS_test_parity := ckpt/redundancy/parity.c
UNIT_LIBS_test_parity := -lisal
UNIT_OBJS_test_audit := ckpt/client/audit.c ckpt/layout/strides.c
UNIT_LIBS_test_audit := -lxxhash
UNIT_OBJS_test_copy := ckpt/client/copy.c ckpt/client/copy_stage.c device/pin.c ckpt/base/thread_affinity.c ckpt/layout/strides.c ckpt/base/copy_crc.c $(SLOT)
UNIT_LIBS_test_copy := -lisal -lxxhash -Wl,--wrap=dlr_crc32c
UNIT_OBJS_test_topo := $(TOPO)
UNIT_LIBS_test_topo := -lhwloc
UNIT_OBJS_test_order := $(TOPO)
UNIT_LIBS_test_order := -lhwloc
UNIT_OBJS_test_partners := $(TOPO)
UNIT_LIBS_test_partners := -lhwloc
UNIT_OBJS_test_health := $(HEALTH)
UNIT_OBJS_test_plan := tests/unit/mpi_launcher/plan/plan_rig.c $(PLAN) $(TOPO) $(MSG)
UNIT_LIBS_test_plan := -lhwloc -ljansson -lisal
UNIT_OBJS_test_report := mpi_launcher/rendezvous/node_report.c mpi_launcher/run/master_port.c $(PLAN) $(HEALTH) $(TOPO) $(SLOT) $(MSG)
UNIT_LIBS_test_report := -lhwloc -ljansson -lisal -lxxhash
UNIT_OBJS_test_shown := mpi_launcher/slurm/batch_view.c $(ORDER) $(SPANK)
UNIT_OBJS_test_hosts := mpi_launcher/step_plan/host_words.c
UNIT_OBJS_test_plan_restore := $(UNIT_OBJS_test_plan)
UNIT_LIBS_test_plan_restore := $(UNIT_LIBS_test_plan)
UNIT_OBJS_test_plan_json := $(UNIT_OBJS_test_plan)
UNIT_OBJS_test_plan_rungs := $(UNIT_OBJS_test_plan)
UNIT_LIBS_test_plan_rungs := $(UNIT_LIBS_test_plan)
UNIT_LIBS_test_plan_json := -lhwloc -ljansson -lisal
UNIT_OBJS_test_plugin := $(PLUGIN) tests/unit/spank/fake_spank.c
UNIT_OBJS_test_allocator := $(SPANK)
UNIT_OBJS_test_options := $(SPANK)
UNIT_OBJS_test_task_env := $(SPANK)
UNIT_OBJS_test_jobmem := $(SPANK)
UNIT_LIBS_test_jobmem := -Wl,--wrap=setuid
UNIT_OBJS_test_tap := $(SPANK) spank/task/tail.c
UNIT_LIBS_test_tap := -Wl,--wrap=readdir
$(BUILD)/tests/test_tap: | $(BUILD)/dlrover-stderr
UNIT_OBJS_test_cli := $(CLI_READ)
UNIT_LIBS_test_cli := -ljansson
UNIT_OBJS_test_safetensors := $(SAVED) $(SLOT)
UNIT_LIBS_test_safetensors := -lisal -lxxhash -ljansson -Wl,--wrap=fstatvfs,--wrap=pread
UNIT_OBJS_test_cli_ckpt := mpi_launcher/cli/ckpt.c mpi_launcher/cli/progress_bar.c mpi_launcher/cli/ckpt_unnamed.c ckpt/standalone/files.c mpi_launcher/cli/export_safetensors.c $(WHOLE) mpi_launcher/cli/export_dcp.c ckpt/manifest/remove.c ckpt/manifest/manifest.c $(SAVED) $(SLOT) $(CLI_READ) $(MSG)
UNIT_LIBS_test_cli_ckpt := -lisal -lxxhash -ljansson
UNIT_OBJS_test_cli_run := mpi_launcher/cli/status.c mpi_launcher/cli/events.c mpi_launcher/cli/watch.c $(CLI_READ)
UNIT_LIBS_test_cli_run := -ljansson
UNIT_OBJS_test_doctor := $(DOCTOR) $(HEALTH) $(MSG)
UNIT_LIBS_test_doctor := -ljansson -lmunge
UNIT_OBJS_test_doctor_job := $(UNIT_OBJS_test_doctor)
UNIT_LIBS_test_doctor_job := $(UNIT_LIBS_test_doctor)
$(BUILD)/tests/test_doctor: | $(BUILD)/spank_dlrover.so
UNIT_OBJS_test_beat := mpi_launcher/wire/heartbeat.c
UNIT_OBJS_test_election := mpi_launcher/policy/election.c
UNIT_OBJS_test_persist := ckpt/manifest/manifest.c ckpt/manifest/remove.c $(MSG)
UNIT_LIBS_test_persist := -ljansson
UNIT_OBJS_test_persist_crash := $(UNIT_OBJS_test_persist)
UNIT_LIBS_test_persist_crash := -ljansson -Wl,--wrap=write,--wrap=fsync,--wrap=renameat,--wrap=unlinkat
UNIT_OBJS_test_identity := tests/support/private_munged.c $(CTL) $(MSG)
UNIT_LIBS_test_identity := -lczmq -lzmq -lmunge -ljansson
UNIT_OBJS_test_endpoint := $(CTL) $(MSG)
UNIT_LIBS_test_endpoint := -lczmq -lzmq -lmunge -ljansson -Wl,--wrap=epoll_ctl
UNIT_OBJS_test_agent := tests/support/agent_rig.c tests/support/agent_role.c tests/support/private_munged.c $(CTL) \
  $(SLOT) $(MSG)
UNIT_LIBS_test_agent := -lczmq -lzmq -lmunge -ljansson -lisal -lxxhash
UNIT_OBJS_test_agent_orders := $(UNIT_OBJS_test_agent)
UNIT_LIBS_test_agent_orders := $(UNIT_LIBS_test_agent)
UNIT_OBJS_test_agent_ranks := tests/support/worker_rig.c $(UNIT_OBJS_test_agent)
UNIT_LIBS_test_agent_ranks := $(UNIT_LIBS_test_agent)
UNIT_OBJS_test_agent_welcome := tests/support/worker_rig.c $(UNIT_OBJS_test_agent)
UNIT_LIBS_test_agent_welcome := $(UNIT_LIBS_test_agent)
UNIT_OBJS_test_agent_claims := tests/support/worker_rig.c $(UNIT_OBJS_test_agent)
UNIT_LIBS_test_agent_claims := $(UNIT_LIBS_test_agent)
UNIT_OBJS_test_agent_share := tests/support/worker_rig.c $(UNIT_OBJS_test_agent)
UNIT_LIBS_test_agent_share := $(UNIT_LIBS_test_agent)
UNIT_OBJS_test_agent_corrupt := $(UNIT_OBJS_test_agent_share)
UNIT_LIBS_test_agent_corrupt := $(UNIT_LIBS_test_agent)
$(BUILD)/tests/test_open_files: | $(BUILD)/dlrover-supervisor
$(addprefix $(BUILD)/tests/,test_agent test_agent_orders test_agent_ranks test_agent_welcome test_agent_claims test_agent_share test_agent_corrupt): | $(BUILD)/dlrover-agent

# Tests that kill the code at every step of it: that code calls out at each of its basic blocks
# (tests/faults/kill_points.h), in objects of its own.
$(BUILD)/steps/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(if $(Q),@echo "  STEPS $<")
	$(Q)$(CC) $(DLR_CFLAGS) $(CFLAGS) $(CPPFLAGS) $(XCFLAGS) -fsanitize-coverage=trace-pc -MMD -MP -MT $@ -c -o $@ $<
steps = $(patsubst %.c,$(BUILD)/steps/%.o,$(1))
# What only computes is not stepped: a death in it is one before or after it.
KILL_PURE := ckpt/client/fork.c ckpt/client/save_cost.c ckpt/commit/cadence.c ckpt/client/conf.c ckpt/layout/box.c ckpt/layout/regions.c ckpt/layout/strides.c ckpt/restore/reshape.c ckpt/layout/unmatched.c ckpt/client/audit.c
KILL_CLIENT := $(filter-out $(KILL_PURE),$(CKPT_LIB)) $(SLOT) common/base/file.c common/local/message.c
$(BUILD)/tests/test_kill_client: $(call obj,tests/faults/test_kill_client.c tests/faults/kill_points.c tests/support/played_agent.c $(KILL_PURE) \
  $(filter-out $(KILL_CLIENT),$(COMMON))) $(call steps,$(KILL_CLIENT))
	$(call link,-lisal -lxxhash -ldl -lcmocka)
# The data process with these of its sources stepped.
KILL_DATA := $(filter-out ckpt/stream/main.c ckpt/transport/mac.c ckpt/transport/nic.c $(TLS),$(DATA)) $(SLOT)
KILL_SUM := ckpt/stream/recv.c ckpt/stream/parity_sum.c ckpt/stream/held_slots.c ckpt/redundancy/parity.c ckpt/slot/write.c
KILL_SAVE := ckpt/stream/save.c ckpt/stream/files.c $(SAVED) common/base/file.c
stepped_data = $(call obj,$(filter-out $(1),$(DATA) $(SLOT) $(COMMON)) $(MSG) tests/faults/kill_points.c) $(call steps,$(1))
$(BUILD)/tests/stepped-data: $(call stepped_data,$(KILL_DATA))
$(BUILD)/tests/stepped-sum: $(call stepped_data,$(KILL_SUM))
$(BUILD)/tests/stepped-save: $(call stepped_data,$(KILL_SAVE))
$(addprefix $(BUILD)/tests/stepped-,data sum save):
	$(call link,$(DATA_LIBS) -ljansson -lisal -lxxhash)
UNIT_OBJS_test_kill_data := tests/faults/kill_points.c tests/faults/kill_data.c $(UNIT_OBJS_test_data_bring)
UNIT_OBJS_test_kill_sum := ckpt/redundancy/parity.c $(UNIT_OBJS_test_kill_data)
UNIT_OBJS_test_kill_save := $(UNIT_OBJS_test_kill_data)
UNIT_LIBS_test_kill_data := -lisal -lxxhash
UNIT_LIBS_test_kill_sum := -lisal -lxxhash
UNIT_LIBS_test_kill_save := -lisal -lxxhash
$(BUILD)/tests/test_kill_data: | $(BUILD)/dlrover-data $(BUILD)/tests/stepped-data
$(BUILD)/tests/test_kill_sum: | $(BUILD)/dlrover-data $(BUILD)/tests/stepped-sum
$(BUILD)/tests/test_kill_save: | $(BUILD)/dlrover-data $(BUILD)/tests/stepped-save
UNIT_OBJS_test_kill_random := tests/faults/random_node.c tests/support/data_rig.c $(CKPT_LIB) $(SLOT)
UNIT_LIBS_test_kill_random := -lisal -lxxhash -ldl
$(BUILD)/tests/test_kill_random: | $(BUILD)/dlrover-data
KILL_AGENT := mpi_launcher/agent/snapshots/save.c mpi_launcher/agent/snapshots/ranks.c mpi_launcher/agent/data/data_process.c $(SLOT)
$(BUILD)/tests/stepped-agent: $(call obj,$(filter-out $(KILL_AGENT),$(AGENT) $(CTL) $(TOPO) $(COMMON) $(MSG)) tests/faults/kill_points.c) $(call steps,$(KILL_AGENT))
	$(call link,-lczmq -lzmq -lmunge -ljansson -lhwloc -lisal -lxxhash)
UNIT_OBJS_test_kill_agent := tests/faults/kill_points.c $(UNIT_OBJS_test_agent_ranks)
UNIT_LIBS_test_kill_agent := $(UNIT_LIBS_test_agent)
$(BUILD)/tests/test_kill_agent: | $(BUILD)/tests/stepped-agent

.SECONDEXPANSION:
$(BUILD)/tests/test_%: $$(call obj,$$(filter %/test_$$*.c,$$(UNIT_SOURCES))) $$(call obj,$$(COMMON) $$(UNIT_OBJS_test_$$*))
	$(call link,$(UNIT_LIBS_$(@F)) -lcmocka)
.SECONDARY:

$(BUILD)/tests/test_gpu: | $(BUILD)/gpu
ifneq ($(CUDA_HEADER),)
$(patsubst %,$(BUILD)/obj/tests/gpu/%.o,gpu gpu_rig gpu_check gpu_fence gpu_bench): XCFLAGS = -DDLR_HAVE_CUDA -isystem $(dir $(CUDA_HEADER))
endif
check-gpu: $(BUILD)/gpu ## device memory on a real GPU, docs/gpu.md; says when there is none
	@$(BUILD)/gpu check
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
	@[ $$(id -u) -ne 0 ] || scripts/check --cluster-only --profile plain
	@[ $$(id -u) -ne 0 ] || DLROVER_NIGHTLY=1 DLROVER_PROFILE=production bats -f 'batch host died' tests/cluster/production.bats
.PHONY: nightly
check: ## everything: gates, unit tests, virtual clusters (root)
	@scripts/check
bench: $(BUILD)/scale_agents ## benchmarks, to build/bench.json (root; 95 minutes; BENCH="start resume" are some of them)
	@BUILD=$(BUILD) bench/run $(BENCH)
.PHONY: unit unit-campaigns unit-device check bench
