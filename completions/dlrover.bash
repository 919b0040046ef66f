# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2207 # words are split on purpose: none holds a blank
# Completion of dlrover(1) for bash. Options are those that "dlrover help COMMAND" prints.

# The state directory that the words so far name, else the default.
_dlrover_state_dir() {
    local i

    for ((i = 2; i < ${#COMP_WORDS[@]}; i++)); do
        case ${COMP_WORDS[i]} in
            --state-dir) # bash splits words at '='
                [[ ${COMP_WORDS[i + 1]-} == = ]] && ((i++))
                printf '%s\n' "${COMP_WORDS[i + 1]/#\~/$HOME}"
                return
                ;;
            --state-dir=*)
                printf '%s\n' "${COMP_WORDS[i]#*=}"
                return
                ;;
        esac
    done
    printf '%s\n' "${DLROVER_STATE_DIR:-$HOME/.dlrover}"
}

# What may follow an option that takes a value.
_dlrover_value() { # OPTION CURRENT
    local dir

    case $1 in
        --state-dir) COMPREPLY=($(compgen -d -- "$2")) ;;
        --run)
            dir=$(_dlrover_state_dir)
            COMPREPLY=($(compgen -W "$(cd "$dir" 2>/dev/null &&
                printf '%s\n' job-*/*/events.jsonl | sed -n 's|^job-[^*/]*/\([^*]*\)/.*|\1|p')" -- "$2"))
            ;;
        --event)
            COMPREPLY=($(compgen -W "start node_up node_dead term warned auth_failures name_taken no_memory lease_expired unprotected protected suspended resumed still stacks moves rendezvous rendezvous_failed
                check inject links plan copy_failed prepared launch ranks ranks_missing renamed running restored restore_failed resized gone_back marked_bad torn copy_bad copy_remade no_vetted_slot save_failed
                first_step saving cadence overdue every_step network progress warm worker_exit round_end explained cleared persist persisted requeue
                requeued requeue_failed takeover deposed agent_back adopted controller_away controller_back topology end" -- "$2"))
            ;;
        --format) COMPREPLY=($(compgen -W "perfetto json" -- "$2")) ;;
        --to) COMPREPLY=($(compgen -W "safetensors dcp" -- "$2")) ;;
        --output) COMPREPLY=($(compgen -d -- "$2")) ;;
        --bench | --sacct | --node-events | --html | --file | --out | --tar | --rules) COMPREPLY=($(compgen -f -- "$2")) ;;
        --redundancy) COMPREPLY=($(compgen -W "none partner partner:2 xor:8 rs:8+2" -- "$2")) ;;
        --checks)
            COMPREPLY=($(compgen -W "all $([[ ${COMP_WORDS[1]} == doctor ]] || echo quick none)
                $(dlrover "${COMP_WORDS[1]}" --list 2>/dev/null |
                    sed -n 's/^ \{0,2\}\([a-z-]\{1,\}\) .*/\1/p')" -- "$2"))
            ;;
        *) COMPREPLY=() ;;
    esac
}

_dlrover() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} options

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "status events report trace evidence metrics ckpt topo stacks check doctor simulate classify chunk version help --help --version" -- "$cur"))
        return
    fi
    if [[ ${COMP_WORDS[1]} == help ]]; then
        ((COMP_CWORD == 2)) && COMPREPLY=($(compgen -W "status events report trace evidence metrics ckpt topo stacks check doctor simulate classify chunk version settings" -- "$cur"))
        return
    fi
    [[ $cur == = ]] && cur=''
    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}
    [[ ${COMP_WORDS[COMP_CWORD]} == = ]] && prev=${COMP_WORDS[COMP_CWORD - 1]}
    options=$(dlrover help "${COMP_WORDS[1]}" 2>/dev/null |
        sed -nE 's/^ +(--[a-z-]+=?).*/\1/p')
    if [[ $prev == --* ]] && grep -qx -e "$prev=" <<<"$options"; then
        _dlrover_value "$prev" "$cur"
    elif [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
        [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    elif [[ ${COMP_WORDS[1]} == ckpt ]] && ((COMP_CWORD == 2)); then
        COMPREPLY=($(compgen -W "ls verify export rm" -- "$cur"))
    elif [[ ${COMP_WORDS[1]} == chunk ]]; then
        COMPREPLY=($(compgen -W "plan" -- "$cur"))
    elif [[ ${COMP_WORDS[1]} == ckpt || ${COMP_WORDS[1]} == status || ${COMP_WORDS[1]} == events || ${COMP_WORDS[1]} == report || ${COMP_WORDS[1]} == metrics || ${COMP_WORDS[1]} == trace || ${COMP_WORDS[1]} == evidence || ${COMP_WORDS[1]} == topo || ${COMP_WORDS[1]} == stacks ]]; then
        options=$(cd "$(_dlrover_state_dir)" 2>/dev/null && printf '%s\n' job-* |
            sed -n 's/^job-\([^*]*\)$/\1/p')
        COMPREPLY=($(compgen -W "$options" -- "$cur"))
    fi
    return 0
}

complete -F _dlrover dlrover
