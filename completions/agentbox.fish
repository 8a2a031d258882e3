# SPDX-License-Identifier: LGPL-2.1-or-later

function __agentbox_runs
    agentbox ps 2>/dev/null | tail -n +2 | string replace -r '\s.*' ''
end

function __agentbox_policies
    for file in /etc/agentbox/policy.d/*.policy /run/agentbox/policy.d/*.policy /usr/lib/agentbox/policy.d/*.policy
        string replace -r '.*/(.*)\.policy$' '$1' $file
    end
end

set -l verbs run ps show wait attach kill thaw log why policy doctor

complete -c agentbox -f
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a run -d 'Run a command in a sandbox'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a ps -d 'List the runs'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a show -d 'Show one run'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a wait -d 'Wait for the end of a run'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a attach -d 'Show what a detached run prints'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a kill -d 'End a run, or send it a signal'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a thaw -d 'Let a frozen run go on'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a log -d 'Show the audit records'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a why -d 'Say what ended a run and what would allow more'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a policy -d 'List, show, check, explain, compare and learn policies'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -a doctor -d 'Check what this host can enforce'
complete -c agentbox -n "not __fish_seen_subcommand_from $verbs" -l version -d 'Show the version'
complete -c agentbox -l help -d 'Show help'

complete -c agentbox -n '__fish_seen_subcommand_from run' -s p -l policy -x -a '(__agentbox_policies)' -d 'Policy'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l set -x -d 'Change a key'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l in -r -d 'Copy in'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l view -x -a '(__fish_complete_directories)' -d 'Show a directory, copy-on-write'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l out -x -d 'Copy out'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l force -d 'Copy out: replace what is there'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l out-deny-exec -d 'Copy out: leave out what will execute later'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l out-summary -d 'Copy out: what was added, changed, deleted'
complete -c agentbox -n '__fish_seen_subcommand_from run' -s e -l env -x -a '(set -nx)' -d 'Set a variable'
complete -c agentbox -n '__fish_seen_subcommand_from run' -s C -l directory -x -d 'Start in'
complete -c agentbox -n '__fish_seen_subcommand_from run' -s t -l tty -d 'A terminal of its own'
complete -c agentbox -n '__fish_seen_subcommand_from run' -s T -l no-tty -d 'Pipes'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l timeout -x -a '30s 5min 1h' -d 'End the run after'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l detach -d 'Leave it running'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l name -x -d 'Name of the run'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l result -r -F -d 'Result record'
complete -c agentbox -n '__fish_seen_subcommand_from run' -l unit -x -a 'service scope' -d 'Kind of unit'
complete -c agentbox -n '__fish_seen_subcommand_from run' -a '(__fish_complete_command)'

complete -c agentbox -n '__fish_seen_subcommand_from ps show log doctor' -l json -d JSON
complete -c agentbox -n '__fish_seen_subcommand_from show wait attach kill thaw log why' -a '(__agentbox_runs)'
complete -c agentbox -n '__fish_seen_subcommand_from kill' -l all -d 'Every run'
complete -c agentbox -n '__fish_seen_subcommand_from kill' -s s -l signal -x -a 'TERM INT HUP QUIT USR1 USR2 KILL' -d Signal
complete -c agentbox -n '__fish_seen_subcommand_from log' -s f -l follow -d 'Go on with new records'
complete -c agentbox -n '__fish_seen_subcommand_from log' -l denied -d 'Only what was denied'
complete -c agentbox -n '__fish_seen_subcommand_from log' -l output -d 'What a detached run printed'
complete -c agentbox -n '__fish_seen_subcommand_from attach' -s n -l new -d 'Only what comes now'
complete -c agentbox -n '__fish_seen_subcommand_from log' -l since -x -a 'today yesterday 1h 15min' -d 'From then on'
complete -c agentbox -n '__fish_seen_subcommand_from policy' -a 'list show check explain diff indexes learn'
complete -c agentbox -n '__fish_seen_subcommand_from policy; and __fish_seen_subcommand_from show explain diff' -a '(__agentbox_policies)'
complete -c agentbox -n '__fish_seen_subcommand_from policy; and __fish_seen_subcommand_from check' -F
complete -c agentbox -n '__fish_seen_subcommand_from policy; and __fish_seen_subcommand_from learn' -a '(__agentbox_runs)'
complete -c agentbox -n '__fish_seen_subcommand_from policy; and __fish_seen_subcommand_from learn' -l drop-in -d 'As a file for a policy'
