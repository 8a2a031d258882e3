#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# test-run.sh AGENTBOX FAKE_BROKER
#
# The client from end to end: on a private bus, against a broker that only plays one (fake-broker.c). Prints TAP.

# Functions are called by check(), and scripts for inside stand in single quotes.
# shellcheck disable=SC2317,SC2016,SC2094

# shellcheck source-path=SCRIPTDIR source=test-client.sh
source "$(dirname "$0")/test-client.sh"
start_broker

# field NAME VALUE: of the record that --result wrote.
field() { grep -qE "\"$1\":$2[,}]" "$WORK/result"; }

check "status 0" status 0 run -- true
check "nothing on stderr" silent
check "status of the command" status 42 run -- sh -c 'exit 42'
check "killed by a signal" status 137 run -- sh -c 'kill -9 $$'
check "options end at the command" status 3 run sh -c 'exit 3'
check "refused" status 125 run -p refuse --result "$WORK/result" -- true
check "the broker's words" says '^agentbox: policy refuse is not open to you$'
check "a refusal has a record" field reason '"refused"'
check "unverified" status 125 run -p unverified -- true
check "a broker that is about to leave is asked again" status 5 run -p leaving -- sh -c 'exit 5'
check "oom is 137" status 137 run -p oom --result "$WORK/result" -- true
check "oom says so" says '^agentbox: run fake[0-9]+ killed: memory limit 256M reached \(peak 256M\)$'
check "oom record" field reason '"oom"'
check "denied egress changes no status" status 3 run -p denied --result "$WORK/result" -- sh -c 'echo out; exit 3'
check "denied egress is said" says '^agentbox: run fake[0-9]+: egress denied: 12 attempts \(evil\\x1b\.example:443, 169\.254\.169\.254:80\); see: agentbox why fake[0-9]+$'
check "denied egress is one line" eval '[[ $(wc -l <"$WORK/err") == 1 ]]'
check "denied egress record" field egress_denied_to '\["evil\\u001[bB]\.example:443","169\.254\.169\.254:80"\]'
check "figures not known are null" field cpu_usec null
check "verified is a list" field verified '\["uid","network"\]'
check "time limit is 124" status 124 run -p timeout -- true
check "--force without --out" status 125 run --force -- true
check "--force says what it is for" says '--force: is for --out'
check "--out of a detached run" status 125 run --detach --out x -- true
check "-t without a terminal" status 125 run -t -- true
check "-t says what to do" says 'terminal'
check "unknown option" status 125 run --frobnicate -- true
check "unknown option is named" says '--frobnicate'
check "no command" status 125 run
check "result that cannot be written" status 125 run --result /nonexistent/x -- true

stdin_binary() {
        head -c 3000000 /dev/urandom >"$WORK/in"
        box run -- cat <"$WORK/in" >"$WORK/out" && cmp -s "$WORK/in" "$WORK/out"
}
check "bytes are unaltered, files on both sides" stdin_binary
through_pipes() { box run -- cat <"$WORK/in" | cat | cmp -s - "$WORK/in"; }
check "bytes are unaltered, pipes" through_pipes
streams_apart() {
        [[ $("$AGENTBOX" run -- sh -c 'echo out; echo err >&2' 2>"$WORK/err2" </dev/null) == out && $(<"$WORK/err2") == err ]]
}
check "stdout and stderr stay apart" streams_apart
directory_in() { box run -- cat <"$WORK" >"$WORK/out"; [[ $? == 125 ]] && says 'is a directory'; }
check "stdin is a directory" directory_in
closed_streams() { (box run -- sh -c 'cat; exit 6' <&- >&-); [[ $? == 6 ]]; }
check "closed streams" closed_streams
unread_stdin() { head -c 5000000 /dev/zero | box run -- sh -c 'exit 4'; [[ ${PIPESTATUS[1]} == 4 ]]; }
check "stdin that is not read" unread_stdin
reader_leaves() {
        box run -- sh -c 'trap "" PIPE; while echo y; do :; done 2>/dev/null; exit 9' </dev/null | head -c 2 >/dev/null
        [[ ${PIPESTATUS[0]} == 9 ]]
}
check "a reader that leaves is seen inside" reader_leaves
full_disk() { box run -- echo x </dev/null >/dev/full; [[ $? == 125 ]] && says 'No space left'; }
check "output that cannot be written is no success" full_disk
capped() {
        box run -p cap --result "$WORK/result" -- sh -c 'yes | head -c 100000; sleep 60' </dev/null >"$WORK/out"
        [[ $? == 137 && $(wc -c <"$WORK/out") == 1000 ]] && field reason '"output-limit"'
}
check "output is cut exactly at the limit" capped
exactly_the_cap() { box run -p cap -- head -c 1000 /dev/zero </dev/null >"$WORK/out" && [[ $(wc -c <"$WORK/out") == 1000 ]]; }
check "output of exactly the limit is fine" exactly_the_cap
closes_stdout() { box run -- sh -c 'exec >&- 2>&-; sleep 0.2; exit 7' </dev/null >"$WORK/out"; [[ $? == 7 ]]; }
check "a program that closes its stdout" closes_stdout

export FROM_CALLER='a b' SECRET=x
environment() { [[ $(box run -e FROM_CALLER -e 'B=1=2' -- sh -c 'echo "$FROM_CALLER|$B"' </dev/null) == 'a b|1=2' ]]; }
check "-e" environment
check "-e of a variable that is not there" status 125 run -e NOT_THERE_AT_ALL -- true
check "-e without a name" status 125 run -e =x -- true

# signalled SIGNAL WANT SCRIPT: the client gets SIGNAL when the script has said "ready".
signalled() {
        local status
        coproc CLIENT { exec "$AGENTBOX" run -- sh -c "$3" 2>"$WORK/err" </dev/null; }
        local pid=$! fd
        exec {fd}<&"${CLIENT[0]}"
        read -r -u "$fd" _
        kill -"$1" "$pid"
        wait "$pid"
        status=$?
        exec {fd}<&-
        [[ $status == "$2" ]] || { echo "# status $status"; return 1; }
}
for s in INT TERM HUP QUIT USR1 USR2; do
        check "SIG$s is passed on" signalled "$s" 33 "trap 'exit 33' $s; echo ready; while :; do sleep 0.02; done"
done
insist() {
        local script="trap '' TERM; echo ready; while :; do sleep 0.02; done"
        coproc CLIENT { exec "$AGENTBOX" run -- sh -c "$script" 2>"$WORK/err" </dev/null; }
        local pid=$!
        read -r -u "${CLIENT[0]}" _
        kill -TERM "$pid"
        sleep 0.3
        kill -0 "$pid" || return 1
        kill -TERM "$pid"
        wait "$pid"
        [[ $? == 137 ]]
}
check "who insists ends the run" insist

# on_terminal SCRIPT: what the script prints on a terminal made for it.
on_terminal() { script -qec "$1" /dev/null </dev/null 2>&1; }
terminal_of_its_own() {
        export AGENTBOX
        on_terminal 'stty rows 41 cols 97; "$AGENTBOX" run -t -- sh -c "test -t 0 && test -t 2 && tty; stty size; exit 3"; echo "status $?"; tty' >"$WORK/out"
        # The size arrives, and the terminal inside is another one than the caller's.
        grep -q '41 97' "$WORK/out" && grep -q 'status 3' "$WORK/out" && [[ $(grep -c /dev/pts/ "$WORK/out") == 2 ]] &&
                [[ $(grep /dev/pts/ "$WORK/out" | sort -u | wc -l) == 2 ]]
}
modes_restored() {
        local end
        for end in true 'kill -9 $$' 'stty -echo raw; exit 1'; do
                on_terminal "stty -a >$WORK/before; '$AGENTBOX' run -t -- sh -c '$end'; stty -a >$WORK/after" >/dev/null
                cmp -s "$WORK/before" "$WORK/after" || return 1
        done
}
if command -v script >/dev/null; then
        check "-t gives a terminal" terminal_of_its_own
        check "-t restores the modes" modes_restored
fi

detached() {
        local id
        id=$(box run --detach --name my-agent -- sh -c 'sleep 2; exit 12' </dev/null) || return 1
        "$AGENTBOX" ps | grep -q my-agent || return 1
        box wait my-agent
        [[ $? == 12 ]] && { box wait "$id"; [[ $? == 12 ]]; }
}
check "--detach, ps, wait" detached
killed() {
        local id
        id=$(box run --detach -- sleep 60 </dev/null) && box kill "$id" || return 1
        box wait "$id"
        [[ $? == 137 ]]
}
check "kill" killed
no_escapes() { box ps >"$WORK/out" && ! grep -q $'\033' "$WORK/out"; box ps --json >"$WORK/out" && ! grep -q $'\033' "$WORK/out"; }
box run --detach -- sleep 1 </dev/null >/dev/null
check "no byte of a command reaches the terminal" no_escapes
check "show" status 0 show fake000000
check "show of no run" status 125 show nobody
check "no run is named" says 'nobody'
check "an ambiguous beginning" status 125 show fake
check "kill of no run" status 125 kill nobody
check "kill with no such signal" status 125 kill fake000000 -s NOPE
check "kill --all" status 0 kill --all
check "doctor tells what is not enforced" status 1 doctor
doctor_lines() {
        box doctor --json >"$WORK/out"
        grep -q '"check":"memory limits","status":"failed"' "$WORK/out" && grep -q '"check":"uid","status":"ok"' "$WORK/out" &&
                grep -q '"check":"offline","status":"ok"' "$WORK/out" && ! grep -q '"check":"wall"' "$WORK/out"
}
check "doctor: a line a check, and a promise that was verified" doctor_lines
check "no such verb" status 125 frobnicate
for v in run ps show wait attach kill log why doctor; do
        check "$v --help" status 0 "$v" --help
done

crash() {
        box run -p crash --result "$WORK/result" -- sleep 1 </dev/null &
        local pid=$!
        wait "$BROKER"
        sleep 0.3
        start_broker FAKE_ADOPTS=1
        wait "$pid"
        [[ $? == 17 ]] && says 'went away' && field exit_code 17
}
check "a broker that crashes is waited for" crash
bus_restarts() {
        rm -f "$WORK/out"
        kill "$BROKER"
        wait "$BROKER"
        start_broker
        "$AGENTBOX" run -- sh -c 'echo ready; exec sleep 30' 2>"$WORK/err" </dev/null >"$WORK/out" &
        local pid=$!
        until [[ -s $WORK/out ]]; do sleep 0.1; done
        local id
        id=$("$AGENTBOX" ps --json | sed -n 's/.*"run": *"\([^"]*\)".*/\1/p' | tail -n 1)
        "$AGENTBOX" wait "$id" 2>/dev/null &
        local waiter=$!
        sleep 0.5
        kill "$BUS" "$BROKER"
        wait "$BUS" "$BROKER"
        sleep 0.5
        start_bus
        start_broker FAKE_ADOPTS=1
        wait "$pid"
        local got=$?
        if [[ $got != 17 ]] || ! says 'system bus went away' || ! grep -q "ClaimRun $id" "$WORK/ready"; then
                echo "# status $got; $id; $(<"$WORK/ready")"
                return 1
        fi
        wait "$waiter"
        [[ $? == 17 ]]
}
check "a bus that is started anew is waited for" bus_restarts
bus_gone() {
        kill "$BROKER"
        wait "$BROKER"
        start_broker
        "$AGENTBOX" run -- sleep 30 2>"$WORK/err" </dev/null &
        local pid=$!
        sleep 0.5
        kill "$BUS"
        wait "$pid"
        [[ $? == 125 ]] && says 'bus'
}
check "the bus goes away" bus_gone
check "no bus at all" status 125 run -- true

plan
