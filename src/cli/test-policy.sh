#!/bin/sh
# SPDX-License-Identifier: LGPL-2.1-or-later
# agentbox policy ... from the outside: what it prints where, and its exit status. TAP.
# Usage: test-policy.sh AGENTBOX TOP-OF-THE-SOURCE-TREE
agentbox=$1
top=$2
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
n=0

# NAME STATUS COMMAND...: runs it, keeps what it says in $here/out and $here/err.
expect() {
        name=$1 want=$2
        shift 2
        "$@" >"$here/out" 2>"$here/err"
        got=$?
        n=$((n + 1))
        [ $got -eq "$want" ] && ok="ok" || ok="not ok"
        echo "$ok $n - $name"
        [ "$ok" = ok ] || { echo "# status $got, not $want"; sed 's/^/# /' "$here/out" "$here/err"; }
}

# NAME FILE PATTERN
says() {
        n=$((n + 1))
        if grep -q -- "$3" "$here/$2"; then
                echo "ok $n - $1"
        else
                echo "not ok $n - $1"
                sed 's/^/# /' "$here/$2"
        fi
}

expect 'check of a good file' 0 "$agentbox" policy check "$top/policy.d/default.policy"
cp "$here/out" "$here/quiet"
expect 'says nothing' 1 test -s "$here/quiet"

printf '[Limits]\nMemry=1G\nTasks=0\n' >"$here/bad.policy"
printf '[Limits]\nTasks=5\n' >"$here/good.policy"
expect 'check of several files, one bad' 1 "$agentbox" policy check "$here/good.policy" "$here/bad.policy"
says 'the misspelt key' out "^$here/bad.policy:2:1: unknown key Memry= in \[Limits\]; did you mean Memory=?$"
says 'and the value out of range' out "^$here/bad.policy:3:7: Tasks=0 is out of range"
expect 'check of a file that is not there' 1 "$agentbox" policy check "$here/none.policy"
says 'says so' out "none.policy:1:1: cannot be read: No such file"
printf 'tls a.example\nudp b.example:53\n' >"$here/set.list"
expect 'check of a set' 1 "$agentbox" policy check "$here/set.list"
says 'names the line' out "^$here/set.list:2:1: there are no udp rules"
printf '[Policy]\nDescription=\033]0;title\007\n' >"$here/esc.policy"
expect 'check of a file with terminal sequences' 1 "$agentbox" policy check "$here/esc.policy"
says 'shows them as numbers' out 'control character 0x1b'

expect 'show of no policy' 125 "$agentbox" policy show no-such-policy
says 'says so with our name in front' err '^agentbox: there is no policy "no-such-policy"'
expect 'show of a path' 125 "$agentbox" policy show ../../etc/passwd
expect 'no command' 125 "$agentbox" policy
expect 'a misspelt command' 125 "$agentbox" policy sohw
says 'is guessed' err 'did you mean show?'
for verb in list show check explain diff indexes; do
        expect "$verb --help" 0 "$agentbox" policy $verb --help
        says "$verb --help says how" out "^agentbox policy $verb"
done
expect 'policy --help' 0 "$agentbox" policy --help
expect 'list' 0 "$agentbox" policy list
says 'has a heading' out '^POLICY'
expect 'show without an argument' 125 "$agentbox" policy show
# shellcheck disable=SC2016 # the inner shell expands it
expect 'a full stdout is a failure' 125 sh -c '"$0" policy list >/dev/full' "$agentbox"
echo "1..$n"
