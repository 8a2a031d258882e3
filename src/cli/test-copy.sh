#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# test-copy.sh AGENTBOX FAKE_BROKER
#
# --in and --out from end to end: on a private bus, against a broker that only plays one. Prints TAP.

# Functions are called by check(), and scripts for inside stand in single quotes.
# shellcheck disable=SC2317,SC2016,SC2119

# shellcheck source-path=SCRIPTDIR source=test-client.sh
source "$(dirname "$0")/test-client.sh"
export FAKE_WORKSPACE=$WORK/ws
mkdir "$WORK/ws" "$WORK/here"
start_broker
cd "$WORK/here" || exit 1

# Nothing in the workspace, nothing here.
fresh() {
        chmod -R u+rwx "$WORK/ws" "$WORK/here"
        find "$WORK/ws" "$WORK/here" -mindepth 1 -delete
}
prepare() {
        fresh
        : >"$WORK/err"
}
# run WANT ARGS...: "agentbox run" exits so.
run() {
        local want=$1
        shift
        status "$want" run "$@"
}
is() { [[ $(<"$1") == "$2" ]] || { echo "# $1 is not $2"; return 1; }; }
# What the client told the broker last.
reported() { tail -n 1 "$WORK/ready" | grep -qE -- "^ReportCopy fake[0-9]+ $1" || { echo "# it was not reported: $1"; return 1; }; }
unreported() { ! tail -n 1 "$WORK/ready" | grep -q ReportCopy || { echo "# reported: $(tail -n 1 "$WORK/ready")"; return 1; }; }
no_temporary() { [[ -z $(find "$WORK/here" -name '.agentbox-*') ]]; }

# ---- in

in_file() { echo hi >f; run 0 --in f -- cat f && is "$WORK/out" hi && silent; }
in_elsewhere() { echo hi >f; run 0 --in f:a/b/g -- cat a/b/g && is "$WORK/out" hi; }
in_tree() {
        mkdir -p src/d && echo 1 >src/d/f && echo 2 >src/g && ln -s d/f src/l && chmod 750 src/g && touch -d 2001-01-01 src/g
        run 0 --in src -- sh -c 'cat src/l src/g; stat -c "%a %y" src/g | cut -c1-14' && is "$WORK/out" $'1\n2\n750 2001-01-01'
}
in_here() { echo hi >f; run 0 --in . -- cat f && is "$WORK/out" hi; }
in_twice() { mkdir a b; echo 1 >a/x; echo 2 >b/y; run 0 --in a:. --in b:. -- cat x y && is "$WORK/out" $'1\n2'; }
in_same_file() { echo 1 >f; run 125 --in f --in f -- true && says 'cannot copy in'; }
in_stdin() { echo hi | box run --in -:f -- sh -c 'cat f; cat' >"$WORK/out" && is "$WORK/out" hi; }
in_stdin_refused() {
        # Somebody is typing, and nobody wants it.
        local fd status
        mkfifo typing
        exec {fd}<>typing
        timeout 10 "$AGENTBOX" run -p refuse --in - -- true 2>"$WORK/err" <&"$fd"
        status=$?
        exec {fd}<&-
        [[ $status == 125 ]] && says 'not open to you'
}
in_stdin_twice() { run 125 --in - --in -:b -- true && says 'only once'; }
in_large() {
        head -c 30000000 /dev/urandom >f
        run 0 --in f -- sh -c 'cmp f "$0"' "$WORK/here/f"
}
in_missing() { run 125 --in gone -- true && says '^agentbox: --in gone: No such file'; }
in_device() { run 125 --in /dev/zero:z -- true && says '^agentbox: --in /dev/zero: not a file or directory'; }
in_fifo() { mkfifo p; run 125 --in p -- true && says '^agentbox: --in p: not a file or directory'; }
in_outside() { echo 1 >f; run 125 --in f:../x -- true && says '\.\.' && run 125 --in f:/etc/x -- true && says 'not beneath the workspace'; }
in_left_out() {
        mkdir src; mkfifo src/p; ln -s /etc/passwd src/l; ln -s ../.. src/up; echo 1 >src/f
        run 0 --in src -- ls src && is "$WORK/out" f && says '^agentbox: not copied in: src/p: a fifo$' &&
                says '^agentbox: not copied in: src/l: a symbolic link' && says 'src/up'
}
in_many_left_out() {
        mkdir src; for i in {1..30}; do mkfifo "src/p$i"; done
        run 0 --in src -- true && [[ $(grep -c 'a fifo' "$WORK/err") == 20 ]] && says '… and 10 more'
}
in_unreadable() {
        [[ $EUID != 0 ]] || return 0
        echo 1 >f; chmod 0 f; run 125 --in f -- true && says 'Permission denied'
}
in_escapes() { mkdir src; mkfifo $'src/\033]0;x\007'; run 0 --in src -- true && says 'x1b' && ! grep -q $'\033' "$WORK/err"; }
in_too_deep() {
        local d=src; for _ in {1..130}; do d+=/d; done
        mkdir -p "$d"; run 125 --in src -- true && says 'too deep'
}
in_link_followed() { mkdir real; echo 1 >real/f; ln -s real link; run 0 --in link -- cat link/f && is "$WORK/out" 1; }
check "a file" in_file
check "a file, elsewhere" in_elsewhere
check "a tree, with modes, times and links" in_tree
check "all that is here" in_here
check "two into one" in_twice
check "the same place twice" in_same_file
check "standard input" in_stdin
check "standard input, refused" in_stdin_refused
check "standard input twice" in_stdin_twice
check "a large file" in_large
check "what is not there" in_missing
check "a device" in_device
check "a fifo" in_fifo
check "a place outside" in_outside
check "what is left out is named" in_left_out
check "not all of many" in_many_left_out
check "what may not be read" in_unreadable
check "no byte of a name reaches the terminal" in_escapes
check "too deep" in_too_deep
check "the caller's own link is followed" in_link_followed

# ---- out

out_file() { run 0 --out f -- sh -c 'echo hi >f' && is f hi && silent && no_temporary && unreported; }
out_elsewhere() { mkdir d; run 0 --out a/b:d/c -- sh -c 'mkdir a; echo hi >a/b' && is d/c hi && no_temporary; }
out_into() { mkdir d; run 0 --out f:d/ -- sh -c 'echo hi >f' && is d/f hi; }
out_tree() { run 0 --out t -- sh -c 'mkdir -p t/d; echo 1 >t/d/f; ln -s d/f t/l' && is t/l 1 && [[ -L t/l ]]; }
out_all() { run 0 --out .:all -- sh -c 'echo 1 >f; mkdir d; echo 2 >d/g' && is all/f 1 && is all/d/g 2; }
out_status() { run 3 --out f -- sh -c 'echo hi >f; exit 3' && is f hi; }
out_killed() { run 137 --out f -- sh -c 'echo hi >f; kill -9 $$' && is f hi; }
out_missing() { run 125 --out f -- true && says '^agentbox: not copied out: f: not there$' && no_temporary && [[ ! -e f ]]; }
out_missing_one() { run 125 --out f --out g -- sh -c 'echo 1 >g' && is g 1; }
out_missing_status() { run 4 --out f -- sh -c 'exit 4' && says 'not there'; }
out_exists() {
        echo old >f; run 125 --out f -- sh -c 'echo ran >/dev/stderr; echo new >f' && is f old && says 'is there already' &&
                ! grep -q ran "$WORK/err"
}
out_appears() {
        run 125 --out f -- sh -c 'echo new >f; echo old >"$0"' "$WORK/here/f" && is f old && says 'came to be while' && no_temporary && reported '1 4 .*came to be'
}
out_no_parent() { run 125 --out f:gone/f -- true && says 'is not there'; }
out_twice() { run 125 --out f --out g:f -- true && says 'two --out'; }
out_outside() { run 125 --out ../x:y -- true && run 125 --out /etc/passwd:y -- true && says 'not beneath the workspace'; }
out_link() { run 125 --out l -- sh -c 'ln -s /etc/passwd l' && says 'l: a symbolic link' && [[ ! -e l && ! -L l ]]; }
out_fifo() { run 125 --out p -- mkfifo p && says 'p: a fifo' && [[ ! -e p ]]; }
out_special_inside() {
        run 0 --out t -- sh -c 'mkdir t; mkfifo t/p; ln -s /etc/passwd t/l; ln -s ../../x t/m; ln -s /proc/self/root t/r; echo 1 >t/f' &&
                [[ $(ls t) == f ]] && says 't/p: a fifo' && says 't/l: a symbolic link' && says 't/r: '
}
out_control_names() {
        run 0 --out t -- sh -c 'mkdir t; echo 1 >"t/$(printf "a\nb")"; mkdir "t/$(printf "x\033y")"; echo 1 >"t/$(printf "x\033y")/z"; echo 2 >t/ok' &&
                [[ $(ls t) == ok ]] && says 'control byte' && says 'a\\x0ab' && ! grep -q $'\033' "$WORK/err"
}
out_modes() {
        run 0 --out t -- sh -c 'mkdir t; echo 1 >t/s; chmod 6777 t/s; echo 1 >t/n; chmod 0400 t/n; mkdir t/d; chmod 1777 t/d; touch -d 3001-01-01 t/n' &&
                [[ $(stat -c %a t/s t/n t/d | xargs) == "755 400 755" ]] && [[ $(stat -c %Y t/n) -le $(date +%s) ]]
}
check "a result" out_file
check "a result, elsewhere" out_elsewhere
check "a result, into a directory" out_into
check "a tree" out_tree
check "the whole workspace" out_all
check "the command's status stays" out_status
check "after a signal, too" out_killed
check "a result that is not there" out_missing
check "one of two that is not there" out_missing_one
check "a failure of the command comes first" out_missing_status
check "what is there is said before anything runs" out_exists
check "what comes to be meanwhile stays" out_appears
check "a place that is not there" out_no_parent
check "two for one place" out_twice
check "a source outside" out_outside
check "a link" out_link
check "a fifo" out_fifo
check "links out and special files inside" out_special_inside
check "names with control bytes" out_control_names
check "modes and times" out_modes

# ---- what a broker, or somebody in its place, might send

hostile() { run 125 -p "$1" --out f -- sh -c 'head -c 2000 /dev/zero >f; echo 1 >other' && says "$2" && [[ ! -e f && ! -e other ]] && no_temporary && reported "[0-9]+ [0-9]+ .*$2"; }
check "a stream that is cut" hostile copy-cut 'no whole result'
check "no stream" hostile copy-garbage 'no whole result'
check "something else" hostile copy-other 'no whole result'
check "more than the policy allows" hostile copy-large 'CopyOutSize=1000'

# ---- --force

force_file() { echo old >f; run 0 --force --out f -- sh -c 'echo new >f' && is f new && [[ $(ls) == f ]]; }
force_link() { echo old >target; ln -s target f; run 0 --force --out f -- sh -c 'echo new >f' && is f new && is target old && [[ ! -L f ]]; }
force_tree() {
        mkdir t; echo old >t/f; echo mine >t/keep
        run 0 --force --out t -- sh -c 'mkdir t; echo new >t/f' && is t/f new && [[ ! -e t/keep ]] &&
                is t.before-fake*/keep mine && says 'is kept as t\.before-fake'
}
force_here() { run 125 --force --out "t:$WORK/here" -- true && says 'is where you are'; }
force_nothing() { echo old >f; run 125 --force --out f -- true && is f old; }
check "--force, a file" force_file
check "--force, a link" force_link
check "--force keeps a directory" force_tree
check "--force, where we are" force_here
check "--force, and no result" force_nothing

# ---- the gate

gate() {
        run 0 --out t -- sh -c 'mkdir -p t/.git/hooks t/.github/workflows; echo x >t/.git/hooks/pre-commit; echo x >t/.github/workflows/ci.yml
                echo x >t/.bashrc; echo x >t/package.json; echo x >t/run; chmod +x t/run; echo x >t/plain; ln -s x t/.vscode' &&
                says 'will execute later \(git obeys it\): t/\.git/hooks/pre-commit$' && says 'CI obeys it.*ci\.yml' &&
                says 't/\.bashrc' && says 't/package\.json' && says '\(a program\): t/run$' && says 't/\.vscode' &&
                ! grep -q plain "$WORK/err" && [[ -x t/run && -e t/.git/hooks/pre-commit ]]
}
gate_denies() {
        run 0 --out-deny-exec --out t -- sh -c 'mkdir -p t/.git/hooks; echo x >t/.git/hooks/pre-commit; echo x >t/run; chmod +x t/run; echo x >t/plain
                ln -s x t/.vscode' &&
                says 'left out \(git obeys it\): t/\.git/hooks/pre-commit$' && is t/plain x &&
                [[ ! -e t/run && ! -e t/.git/hooks/pre-commit && ! -L t/.vscode && -d t/.git/hooks ]] && reported '3 4 they would execute'
}
gate_denies_top() { run 0 --out-deny-exec --out run -- sh -c 'echo x >run; chmod +x run' && [[ ! -e run ]] && says 'left out' && no_temporary; }
gate_by_place() { run 0 --out x:.bashrc -- sh -c 'echo x >x' && says 'will execute later .*: \.bashrc$'; }
gate_unchanged() {
        mkdir src; echo 1 >src/Makefile; echo 1 >src/tool; chmod +x src/tool; echo 1 >src/setup.py
        run 0 --in src --out src:new --out-deny-exec -- sh -c 'echo 2 >>src/setup.py' &&
                [[ -x new/tool && -e new/Makefile && ! -e new/setup.py ]] && says 'new/setup\.py' && ! grep -q Makefile "$WORK/err"
}
gate_made_executable() { echo 1 >f; run 0 --in f --out f:g --out-deny-exec -- chmod +x f && [[ ! -e g ]] && says 'a program'; }
gate_many() {
        run 0 --out t -- sh -c 'mkdir t; for i in $(seq 990); do echo x >t/$i; chmod +x t/$i; done; mkdir t/.git; echo x >t/.git/config' &&
                says 'git obeys it.*config' && [[ $(grep -c 'a program' "$WORK/err") == 990 ]]
}
check "what will execute later is named" gate
check "--out-deny-exec leaves it out" gate_denies
check "--out-deny-exec, and nothing is left" gate_denies_top
check "where it goes decides" gate_by_place
check "what went in so is not named" gate_unchanged
check "a mode is a change" gate_made_executable
check "programs do not hide a hook" gate_many

# ---- --out-summary

summary() {
        mkdir -p src/d; echo same >src/same; echo 1 >src/changed; echo 1 >src/gone; echo 1 >src/d/x
        run 0 --in src --out src:new --out-summary -- sh -c 'echo 2 >src/changed; rm -r src/gone src/d; echo 3 >src/new; touch src/same' &&
                says '^agentbox: A src/new$' && says '^agentbox: M src/changed$' && says '^agentbox: D src/gone$' && says '^agentbox: D src/d/x$' &&
                says '1 added, 1 changed, 2 deleted, 1 as they went in' && ! grep -q 'src/same' "$WORK/err"
}
summary_alone() { run 0 --out f --out-summary -- sh -c 'echo 1 >f' && says '^agentbox: A f$' && says '1 files, 2 bytes'; }
summary_elsewhere() {
        mkdir a b; echo 1 >a/x; echo 1 >b/y
        run 0 --in a --in b --out a:c --out-summary -- rm -r a/x b/y && says 'D a/x' && ! grep -q 'b/y' "$WORK/err"
}
check "--out-summary" summary
check "--out-summary of what did not go in" summary_alone
check "--out-summary is of what comes out" summary_elsewhere

# ---- both, and interruptions

both() {
        mkdir src; for i in {1..300}; do echo "$i" >"src/$i"; done
        run 0 --in src --out src:copy --out-summary -- true && diff -r src copy && says '300 as they went in'
}
interrupted() {
        local status
        "$AGENTBOX" run --out f -- sh -c 'trap "exit 33" TERM; echo hi >f; echo ready >&2; while :; do sleep 0.02; done' </dev/null 2>"$WORK/err" &
        local pid=$!
        until grep -q ready "$WORK/err"; do sleep 0.02; done
        kill -TERM "$pid"
        wait "$pid"
        status=$?
        [[ $status == 33 ]] && is f hi
}
detached_in() {
        local id
        echo hi >f
        id=$(box run --detach --in f -- sh -c '[ "$(cat f)" = hi ] && exit 9' </dev/null) || return 1
        box wait "$id"
        [[ $? == 9 ]]
}
progress() {
        export AGENTBOX
        script -qec '(echo a; sleep 1.6; echo b) | "$AGENTBOX" run --in -:f -- cat f; "$AGENTBOX" run --in . -- true' /dev/null </dev/null >"$WORK/out" 2>&1
        # Shown for the one that takes its time, taken away again, and not shown for the other.
        grep -q 'copying in: 1 files, 0.0 MB' "$WORK/out" && tr -d '\r' <"$WORK/out" | grep -q $'\033\[Ka$' &&
                [[ $(grep -o 'copying in' "$WORK/out" | wc -l) -lt 6 ]]
}
if command -v script >/dev/null; then
        check "progress on a terminal" progress
fi
check "in and out again is the same" both
check "an interrupted run has results, too" interrupted
check "--in of a detached run" detached_in

plan
