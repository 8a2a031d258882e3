# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
#
# test-client.sh: for tests of the client from end to end, on a private bus, against a broker that only plays one
# (fake-broker.c). To be sourced, with the arguments AGENTBOX FAKE_BROKER; prints TAP.

# Functions are called by check(), and scripts for inside stand in single quotes.
# shellcheck disable=SC2317,SC2016

set -u
AGENTBOX=$(realpath "$1") FAKE=$(realpath "$2")
WORK=$(mktemp -d)
BROKER=
BUS=
N=0
FAILED=0

cleanup() {
        [[ -z $BROKER ]] || kill "$BROKER" 2>/dev/null
        [[ -z $BUS ]] || kill "$BUS" 2>/dev/null
        chmod -R u+rwx "$WORK" 2>/dev/null
        rm -rf "$WORK"
}
trap cleanup EXIT

if [[ ! -x $AGENTBOX || ! -x $FAKE ]]; then
        echo "Bail out! not a program: $AGENTBOX or $FAKE"
        exit 1
fi
if ! command -v dbus-daemon >/dev/null; then
        echo "1..0 # SKIP no dbus-daemon"
        exit 0
fi

cat >"$WORK/bus.conf" <<EOF
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <listen>unix:path=$WORK/bus</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_destination="*" eavesdrop="true"/><allow receive_sender="*" eavesdrop="true"/>
  </policy>
</busconfig>
EOF
export DBUS_SYSTEM_BUS_ADDRESS=unix:path=$WORK/bus
start_bus() {
        rm -f "$WORK/bus"
        dbus-daemon --config-file="$WORK/bus.conf" --nofork --nopidfile --nosyslog 2>"$WORK/bus.log" &
        BUS=$!
        while [[ ! -S $WORK/bus ]]; do
                kill -0 "$BUS" 2>/dev/null || { cat "$WORK/bus.log" >&2; exit 1; }
                sleep 0.02
        done
}
start_bus

start_broker() {
        : >"$WORK/ready"
        env "$@" "$FAKE" >"$WORK/ready" &
        BROKER=$!
        until [[ -s $WORK/ready ]]; do
                kill -0 "$BROKER" 2>/dev/null || exit 1
                sleep 0.02
        done
}

box() { "$AGENTBOX" "$@" 2>"$WORK/err"; }
# Before each check; a test that needs something there says what.
prepare() { :; }
# check NAME COMMAND...: one line of TAP.
check() {
        local name=$1
        shift
        N=$((N + 1))
        prepare
        if "$@"; then
                echo "ok $N - $name"
        else
                FAILED=$((FAILED + 1))
                echo "not ok $N - $name"
                sed 's/^/# /' "$WORK/err"
        fi
}
# status WANT ARGS...: agentbox exits so.
status() {
        local want=$1 got=0
        shift
        box "$@" </dev/null >"$WORK/out" || got=$?
        [[ $got == "$want" ]] || { echo "# status $got, wanted $want: $*"; return 1; }
}
says() { grep -qE -- "$1" "$WORK/err" || { echo "# it does not say: $1"; return 1; }; }
silent() { [[ ! -s $WORK/err ]]; }

# The last thing of a test.
plan() {
        echo "1..$N"
        exit $((FAILED > 0))
}
