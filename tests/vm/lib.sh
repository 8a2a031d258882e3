# shellcheck shell=bash
# SPDX-License-Identifier: LGPL-2.1-or-later
#
# Shared by image, boot and run: sourced, with the program's name as argument.

readonly PROGRAM=$1
readonly VM_RELEASES=(bookworm trixie)

say() {
        printf '%s: %s\n' "$PROGRAM" "$*" >&2
}

# Every failure of the harness itself (as against the command in the guest) ends here.
die() {
        say "$*"
        exit 125
}

known_release() {
        local release

        for release in "${VM_RELEASES[@]}"; do
                [[ $release == "$1" ]] && return 0
        done
        return 1
}

# The package that provides each tool, for a message one can act on.
need() {
        local tool missing=()
        local -A package=(
                [qemu-system-x86_64]=qemu-system-x86 [mmdebstrap]=mmdebstrap [mkfs.ext4]=e2fsprogs
                [flock]=util-linux [setpriv]=util-linux [tar]=tar [apt-get]=apt [meson]=meson [ninja]=ninja-build
        )

        for tool; do
                command -v "$tool" >/dev/null || missing+=("$tool (package ${package[$tool]:-$tool})")
        done
        [[ ${#missing[@]} -eq 0 ]] || die "not installed: ${missing[*]}"
}

cache_dir() {
        printf '%s/vm\n' "${AGENTBOX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/agentbox}"
}
