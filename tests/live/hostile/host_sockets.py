# SPDX-License-Identifier: LGPL-2.1-or-later
"""Services of the host: their sockets by path and by abstract name, and their ports.

Walls: an empty /run; a network namespace of its own; the warden, which refuses this host
"""
import os
import socket

from attack import holds, stopped

PATHS = ("/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/notify",
         "/run/systemd/journal/socket", "/run/systemd/journal/stdout", "/run/systemd/journal/dev-log", "/dev/log",
         "/run/systemd/userdb/io.systemd.DynamicUser", "/run/systemd/io.system.ManagedOOM", "/run/docker.sock",
         "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock",
         "/run/nscd/socket", "/run/agentbox", "/run/user/0/bus", "/tmp/.X11-unix/X0", "/run/snapd.socket",
         "/run/udev/control", "/run/lvm/lvmpolld.socket", "/run/acpid.socket", "/run/libvirt/libvirt-sock")
ABSTRACT = ("/tmp/.X11-unix/X0", "/org/kernel/linux/storage/multipathd", "ISCSIADM_ABSTRACT_NAMESPACE", "/containerd-shim/x",
            "agentbox-probe")


def unix(address, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as s:
        s.connect(address)


for path in PATHS:
    stopped(f"connecting to {path}", lambda p=path: unix(p))
    stopped(f"a datagram to {path}", lambda p=path: unix(p, socket.SOCK_DGRAM))
for name in ABSTRACT:
    stopped(f"connecting to @{name}", lambda n=name: unix("\0" + n))
holds("/run", not [n for n in os.listdir("/run") if n not in ("credentials", "host", "systemd", "lock", "user")],
      ",".join(os.listdir("/run")))
