# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash

_agentbox_runs() {
        agentbox ps 2>/dev/null | sed 1d | while read -r id _; do printf '%s\n' "$id"; done
}

_agentbox_policies() {
        local dir file
        for dir in /etc/agentbox/policy.d /run/agentbox/policy.d /usr/lib/agentbox/policy.d; do
                for file in "$dir"/*.policy; do
                        [[ -f $file ]] && basename "$file" .policy
                done
        done
}

# The index of the first word after "run" that is neither an option nor an option's value; 0 while there is none.
_agentbox_command_at() {
        local i=2
        while ((i < COMP_CWORD)); do
                case ${COMP_WORDS[i]} in
                        --) echo $((i + 1)); return ;;
                        -p | --policy | --set | --in | --view | --out | -e | --env | -C | --directory | --timeout | --name | --result | --unit)
                                i=$((i + 2)) ;;
                        -*) i=$((i + 1)) ;;
                        =) i=$((i + 2)) ;;
                        *) echo "$i"; return ;;
                esac
        done
        echo 0
}

_agentbox_run() {
        local cur=$1 prev=$2 at
        at=$(_agentbox_command_at)
        if ((at > 0)); then
                if ((at == COMP_CWORD)); then
                        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
                else
                        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
                fi
                return
        fi
        case $prev in
                -p | --policy) mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_policies)" -- "$cur") ;;
                --unit) mapfile -t COMPREPLY < <(compgen -W "service scope" -- "$cur") ;;
                -e | --env) mapfile -t COMPREPLY < <(compgen -e -- "$cur") ;;
                --result | --in) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
                --view) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
                --set | --timeout | --name | -C | --directory | --out) ;;
                *)
                        if [[ $cur == -* ]]; then
                                mapfile -t COMPREPLY < <(compgen -W "-p --policy --set --in --view --out --force --out-deny-exec
                                        --out-summary -e --env -C --directory -t --tty -T --no-tty --timeout --detach --name
                                        --result --unit --help --" -- "$cur")
                        else
                                mapfile -t COMPREPLY < <(compgen -c -- "$cur")
                        fi
                        ;;
        esac
}

_agentbox_policy() {
        local cur=$1
        if ((COMP_CWORD == 2)); then
                mapfile -t COMPREPLY < <(compgen -W "list show check explain diff indexes learn" -- "$cur")
                return
        fi
        case ${COMP_WORDS[2]} in
                show | explain | diff) mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_policies) --json --help" -- "$cur") ;;
                check) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
                learn) mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_runs) --drop-in --help" -- "$cur") ;;
        esac
}

_agentbox() {
        local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
        COMPREPLY=()
        if ((COMP_CWORD == 1)); then
                mapfile -t COMPREPLY < <(compgen -W "run ps show wait attach kill thaw log why policy doctor --help --version" -- "$cur")
                return
        fi
        case ${COMP_WORDS[1]} in
                run) _agentbox_run "$cur" "$prev" ;;
                policy) _agentbox_policy "$cur" ;;
                ps | doctor) mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$cur") ;;
                show) mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_runs) --json --help" -- "$cur") ;;
                wait | why) mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_runs) --help" -- "$cur") ;;
                attach) mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_runs) -n --new --help" -- "$cur") ;;
                kill)
                        if [[ $prev == -s || $prev == --signal ]]; then
                                mapfile -t COMPREPLY < <(compgen -A signal -- "$cur")
                        else
                                mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_runs) --all -s --signal --help" -- "$cur")
                        fi
                        ;;
                log)
                        if [[ $prev == --since ]]; then
                                mapfile -t COMPREPLY < <(compgen -W "today yesterday 1h 15min" -- "$cur")
                        else
                                mapfile -t COMPREPLY < <(compgen -W "$(_agentbox_runs) -f --follow --denied --output --since --json --help" -- "$cur")
                        fi
                        ;;
        esac
}
complete -o filenames -F _agentbox agentbox
