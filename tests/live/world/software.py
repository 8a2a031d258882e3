# SPDX-License-Identifier: LGPL-2.1-or-later
"""What real clients talk to: a git server, package indexes, a web server of the distribution's, ssh, redis."""
import base64
import hashlib
import io
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tarfile
import zipfile

import box

from . import servers

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def need(*programs):
    """The paths of programs; the test is skipped where one is missing."""
    found = [shutil.which(p, path=SYSTEM_PATH) for p in programs]
    if not all(found):
        raise box.Skip(f"not installed here: {', '.join(p for p, f in zip(programs, found) if not f)}")
    return found


# --- over HTTP, by a function of the path

def pages(answer):
    """answer(method, path, fields, body) gives (status, content type, bytes) for each request."""
    def speak(connection):
        lines = servers.Lines(connection)
        while True:
            head = lines.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ")
            fields = {n.strip().lower(): v.strip() for n, _, v in (l.partition(":") for l in head[1:])}
            if fields.get("expect") == "100-continue":
                connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            status, kind, body = answer(method, target, fields, b"".join(servers.body_of(lines, fields)))
            connection.send(f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                            + (b"" if method == "HEAD" else body))
    return speak


def git(root):
    """git's own program for smart HTTP, as a web server would run it."""
    def answer(method, target, fields, body):
        path, _, query = target.partition("?")
        env = {"PATH": SYSTEM_PATH, "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "REQUEST_METHOD": method, "PATH_INFO": path,
               "QUERY_STRING": query, "CONTENT_TYPE": fields.get("content-type", ""), "CONTENT_LENGTH": str(len(body)),
               "HTTP_CONTENT_ENCODING": fields.get("content-encoding", ""), "GIT_PROTOCOL": fields.get("git-protocol", ""), "REMOTE_USER": "world",
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=False).stdout
        head, _, content = out.partition(b"\r\n\r\n")
        given = {n.lower(): v.strip() for n, _, v in (l.partition(":") for l in head.decode().split("\r\n"))}
        return given.get("status", "200 OK").split(" ")[0], given.get("content-type", "text/plain"), content
    return pages(answer)


def repository(root):
    """A bare repository with two commits that anybody may push to; its path."""
    work, bare = pathlib.Path(root) / "work", pathlib.Path(root) / "project.git"
    shutil.rmtree(root, ignore_errors=True)
    work.mkdir(parents=True)
    box.sh(f"""set -e; cd {work}; export HOME={root} GIT_CONFIG_NOSYSTEM=1
git init -q -b main .; git config user.name world; git config user.email world@example.org
head -c 300000 /dev/urandom >data; echo one >file; git add .; git commit -q -m one; echo two >file; git commit -q -a -m two
git clone -q --bare . {bare}; git -C {bare} config http.receivepack true""")
    return bare


WHEEL = "agentbox_world-1.0-py3-none-any.whl"


def wheel():
    """The bytes of a package for pip."""
    files = {"agentbox_world.py": b"WORD = 'from the index'\n",
             "agentbox_world-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: agentbox-world\nVersion: 1.0\n",
             "agentbox_world-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nGenerator: world\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    lines = [f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(d).digest()).rstrip(b'=').decode()},{len(d)}" for n, d in files.items()]
    files["agentbox_world-1.0.dist-info/RECORD"] = "\n".join(lines + ["agentbox_world-1.0.dist-info/RECORD,,\n"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in files.items():
            z.writestr(name, data)
    return out.getvalue()


def python_index():
    """PEP 503."""
    data = wheel()
    page = f'<!DOCTYPE html><html><body><a href="/files/{WHEEL}#sha256={hashlib.sha256(data).hexdigest()}">{WHEEL}</a></body></html>'.encode()

    def answer(_method, target, _fields, _body):
        if target == "/simple/agentbox-world/":
            return 200, "text/html", page
        if target == f"/files/{WHEEL}":
            return 200, "application/octet-stream", data
        return 404, "text/plain", b"not here\n"
    return pages(answer)


def node_index(host):
    """One package, as npm wants it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, data in {"package/package.json": json.dumps({"name": "agentbox-world", "version": "1.0.0", "main": "index.js"}).encode(),
                           "package/index.js": b"module.exports = 'from the index';\n"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    data = out.getvalue()
    dist = {"tarball": f"https://{host}/agentbox-world-1.0.0.tgz", "shasum": hashlib.sha1(data).hexdigest(),
            "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}
    page = json.dumps({"name": "agentbox-world", "dist-tags": {"latest": "1.0.0"},
                       "versions": {"1.0.0": {"name": "agentbox-world", "version": "1.0.0", "dist": dist}}}).encode()

    def answer(_method, target, _fields, _body):
        if target == "/agentbox-world":
            return 200, "application/json", page
        if target == "/agentbox-world-1.0.0.tgz":
            return 200, "application/octet-stream", data
        return 404, "application/json", b"{}"
    return pages(answer)


# --- programs

def directory(name):
    """For a program's files, gone after the test."""
    path = pathlib.Path("/run/agentbox-world") / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    box.at_end(shutil.rmtree, path, True)
    return path


def wait_open(world, address, port):
    """Until something listens there."""
    def try_it():
        return address in box.sh(["ip", "netns", "exec", world.NAMESPACE, "ss", "-Hltn", f"sport = {port}"], check=False) or None
    box.wait_for(f"a listener at {address}:{port}", try_it, 20)


def nginx(world, w, address):
    """With HTTP/2."""
    program, = need("nginx")
    d = directory("nginx")
    (d / "html").mkdir()
    (d / "html" / "index.html").write_bytes(b"from nginx\n")
    (d / "html" / "big").write_bytes(bytes(20 << 20))
    for path in (d, d / "html"):
        path.chmod(0o755)
    (d / "conf").write_text(f"""daemon off; pid {d}/pid; error_log stderr; worker_processes 1; user root;
events {{ }}
http {{ access_log off; client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
server {{ listen {address}:443 ssl http2; ssl_certificate {w.certificates}/leaf.pem; ssl_certificate_key {w.certificates}/leaf.key; root {d}/html; }} }}
""", encoding="ascii")
    w.spawn([program, "-p", str(d), "-c", str(d / "conf")], stderr=subprocess.DEVNULL)
    wait_open(world, address, 443)


def sshd(world, w, address):
    """Lets a key in as root. The key's and the known hosts' files are where a sandbox can be shown them."""
    program, _ = need("sshd", "ssh")
    d, shown = directory("sshd"), world.DIRECTORY
    for name, path in (("host", d / "host"), ("user", shown / "ssh-key")):
        path.unlink(missing_ok=True)
        box.sh(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)])
    (shown / "ssh-key").chmod(0o644)  # root's, and read by the sandbox's user: ssh objects to its own keys only
    shutil.copy(shown / "ssh-key.pub", d / "authorized")
    kind, key = (d / "host.pub").read_text(encoding="ascii").split()[:2]
    (shown / "known-hosts").write_text(f"git.example.org {kind} {key}\n", encoding="ascii")
    (d / "conf").write_text(f"""ListenAddress {address}:22
HostKey {d}/host
PidFile {d}/pid
AuthorizedKeysFile {d}/authorized
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
""", encoding="ascii")
    os.makedirs("/run/sshd", exist_ok=True)
    try:
        pwd.getpwnam("sshd")
    except KeyError:
        box.user("sshd")
    w.spawn([program, "-D", "-e", "-f", str(d / "conf")], stderr=subprocess.DEVNULL)
    wait_open(world, address, 22)


def redis(world, w, address):
    program, _ = need("redis-server", "redis-cli")
    w.spawn([program, "--bind", address, "--port", "6379", "--protected-mode", "no", "--save", "", "--dir", str(directory("redis"))],
            stdout=subprocess.DEVNULL)
    wait_open(world, address, 6379)
