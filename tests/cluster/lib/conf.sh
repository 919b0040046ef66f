# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Writes what the virtual hosts read: a private copy of /etc with accounts,
# names, keys and Slurm's configuration. Needs common.sh.

user_names=(alice bob)
user_uid_first=3001

# Ours go first, so that they win over a host's account with the same uid.
put_first() { # FILE LINE
    local rest

    rest=$(grep -v "^${2%%:*}:" "$1" || true)
    printf '%s\n%s\n' "$2" "$rest" >"$1"
}

write_accounts() { # ETC
    local uid=$user_uid_first user

    for user in "${user_names[@]}"; do
        put_first "$1/passwd" "$user:x:$uid:$uid:$user:/home/$user:/bin/bash"
        put_first "$1/group" "$user:x:$uid:"
        put_first "$1/shadow" "$user:!:19000:0:99999:7:::"
        [[ ! -e $1/gshadow ]] || put_first "$1/gshadow" "$user:!::"
        uid=$((uid + 1))
    done
}

write_names() { # ETC NODES
    local host

    {
        echo "127.0.0.1 localhost"
        for host in ctl $(node_names "$2"); do
            echo "$(address_of "$host") $host"
        done
    } >"$1/hosts"
    # No name server exists in there: ask none, rather than wait for one.
    rm -f "$1/resolv.conf"
    : >"$1/resolv.conf"
    printf '%s: files\n' passwd group shadow gshadow hosts networks protocols \
        services ethers rpc >"$1/nsswitch.conf"
}

write_munge_key() { # ETC
    rm -rf "$1/munge"
    install -d -o munge -g munge -m 0700 "$1/munge"
    (umask 077 && head -c 1024 /dev/urandom >"$1/munge/munge.key")
    chown munge: "$1/munge/munge.key"
}

# All hosts share one kernel: shared memory would carry data between "nodes"
# and CMA would fail across their pid namespaces. UCX reads this file in every
# process, whatever environment a job was submitted with. Open MPI needs
# nothing: it finds eth0, and uses shared memory inside a host only.
write_ucx() { # ETC
    mkdir -p "$1/ucx"
    echo "UCX_TLS=tcp,self" >"$1/ucx/ucx.conf"
}

write_topology() { # FILE NODES LEAVES
    local i host

    {
        for ((i = 0; i < $3; i++)); do
            printf 'SwitchName=leaf%d Nodes=' "$i"
            for host in $(node_names "$2"); do
                [[ $(leaf_of "$host" "$2" "$3") != "leaf$i" ]] || echo "$host"
            done | paste -sd,
        done
        echo "SwitchName=spine Switches=leaf[0-$(($3 - 1))]"
    } >"$1"
}

# Quick and open: a dead node is noticed after 10 s instead of 300, a requeued
# job starts after 5 s instead of 120, and nothing confines tasks.
plain_conf() { # NODES
    cat <<END
AuthInfo=socket=/run/munge/munge.socket.2,cred_expire=5
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectTypeParameters=CR_Core
SlurmdTimeout=10
KillWait=5
NodeName=n[1-$1] Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=2048 State=UNKNOWN
END
}

# What sites run: Slurm's own defaults where they keep them (MpiDefault=none,
# the times), confinement where its documentation advises it. A GPU is a device
# file with nothing behind it: Slurm counts it, confines it and tells its number.
production_conf() { # NODES
    cat <<END
AuthInfo=socket=/run/munge/munge.socket.2,cred_expire=120
MpiDefault=none
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
PrologFlags=Contain
JobAcctGatherType=jobacct_gather/linux
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=800
GresTypes=gpu
KillOnBadExit=1
WaitTime=30
TreeWidth=2
SlurmdTimeout=300
KillWait=30
NodeName=n[1-$1] Sockets=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=2048 Gres=gpu:4 State=UNKNOWN
END
}

# Cores are confined where the machine has as many as a node claims.
write_cgroup_conf() { # FILE PROFILE
    # Named, or slurmd 22.05 looks for systemd where cgroup v2 is mounted. The
    # v1 plugin does nothing until a cgroup task or proctrack plugin asks it.
    echo "CgroupPlugin=cgroup/v1" >"$1"
    [[ $2 == production ]] || return 0
    printf '%s\n' CgroupMountpoint=/sys/fs/cgroup ConstrainRAMSpace=yes \
        ConstrainDevices=yes >>"$1"
    [[ $(nproc) -lt 2 ]] || echo ConstrainCores=yes >>"$1"
}

# config_overrides lets a small machine claim two cores per node.
write_slurm_conf() { # FILE CLUSTER NODES PROFILE
    cat >"$1" <<END
ClusterName=$2
SlurmctldHost=ctl
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
TopologyPlugin=topology/tree
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
InactiveLimit=0
MailProg=/bin/true
PlugStackConfig=/etc/slurm/plugstack.conf
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
TmpFS=/tmp
$("$4_conf" "$3")
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
}

write_slurm() { # ETC CLUSTER NODES LEAVES STAGE PLUGIN_ARGS PROFILE
    local plugin=/opt/dlrover/lib/slurm/spank_dlrover.so

    rm -rf "$1/slurm"
    mkdir -p "$1/slurm"
    write_slurm_conf "$1/slurm/slurm.conf" "$2" "$3" "$7"
    write_topology "$1/slurm/topology.conf" "$3" "$4"
    write_cgroup_conf "$1/slurm/cgroup.conf" "$7"
    [[ $7 != production ]] || echo "Name=gpu File=/run/gpus/gpu[0-3]" >"$1/slurm/gres.conf"
    : >"$1/slurm/plugstack.conf"
    if [[ -n $5 && -e $5$plugin ]]; then
        echo "optional $plugin${6:+ $6}" >"$1/slurm/plugstack.conf"
    fi
}

# A login shell (sbatch --export=NONE asks one) finds the cluster's Slurm, too.
write_path() { # ETC
    mkdir -p "$1/profile.d"
    echo "PATH=$PATH:\$PATH" >"$1/profile.d/slurm.sh"
}

# The copy every host starts from. It is in the room's memory: 1500 small files
# per host cost a second on some disks, and shadow files stay off the disk.
write_etc() { # ETC CLUSTER NODES LEAVES STAGE PLUGIN_ARGS PROFILE
    cp -a /etc "$1"
    write_accounts "$1"
    write_names "$1" "$3"
    write_munge_key "$1"
    write_ucx "$1"
    write_path "$1"
    write_slurm "$@"
}

# A host's own /etc, made at its first boot and kept over the next.
host_etc() { # VIEW HOST
    local etc=$1/$2

    [[ ! -d $etc ]] || return 0
    cp -a "$1/base" "$etc.new"
    rm -f "$etc.new/hostname" "$etc.new/machine-id"
    echo "$2" >"$etc.new/hostname"
    tr -d - </proc/sys/kernel/random/uuid >"$etc.new/machine-id"
    mv "$etc.new" "$etc"
}

# A host's directories that outlive its power and are of use outside.
host_disk() { # DISK
    mkdir -p "$1"/{log,spool}
    install -d -m 1777 "$1/tmp"
    install -d -o munge -g munge -m 0700 "$1/munge" "$1/log/munge"
    install -d -o slurm -g slurm "$1/log/slurm" "$1/spool/slurmctld"
    install -d "$1/spool/slurmd"
}

homes() { # DIR
    local uid=$user_uid_first user

    mkdir -p "$1/home"
    for user in "${user_names[@]}"; do
        install -d -o "$uid" -g "$uid" -m 0700 "$1/home/$user"
        uid=$((uid + 1))
    done
}
