# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs that people run: each works with what its policy names, and says something of use about what it does not."""
import json
import pathlib
import socket
import threading

import box
import world
from box import at_end, expect, heavy, run, run_sh, sh, within, write_file
from world import CA, DIRECTORY, ORG, SPARE, denied, policy, software
from world.software import need

JIT = "[Limits]\nMemory=2G\nTasks=256\nOpenFiles=4096\nRuntime=2min\nCPUQuota=200%\n[Syscalls]\nProfile=jit\n"
EVIL = "https://evil.example/"


def run_client(script, flows, asked, **kw):
    """A shell script under the policy; what left was for these alone."""
    w = world.up() if "w" not in kw else kw.pop("w")
    with w.watch() as seen:
        done = run_sh(script, policy=kw.pop("policy", "egress"), **kw)
    assert seen.flows() == {world.DNS, *flows}, (seen.flows(), done)
    assert w.dns.names() == sorted(asked), (w.dns.names(), done)
    return done


HTTPS = [f"tcp {ORG} 443"]


def test_curl():
    need("curl")
    policy()
    done = run_client("""set -e
curl -sS https://www.example.org/a; curl -sS --http1.1 -T /etc/passwd https://www.example.org/put; curl -sS http://example.net/b
curl -sS https://www.example.org/bytes/20000000 | sha256sum
""", HTTPS + [f"tcp {world.NET} 80"], ["example.net", "www.example.org"])
    lines = expect(done).out.splitlines()
    assert [json.loads(l)["target"] for l in lines[:3]] == ["/a", "/put", "/b"], done
    assert lines[3].split()[0] == world.pattern.pattern_digest(20000000), done
    assert sum(world.allowed(done.run).values()) == 4 and denied(done.run) == {}, world.egress(done.run)


@heavy
def test_curl_over_http2():
    need("curl")
    policy()
    w = world.up()
    software.nginx(world, w, SPARE)
    w.names(h2__example__org=[SPARE])
    done = run_client("curl -sS --http2 -o /dev/null -w '%{http_version} %{size_download} %{http_code}\\n' https://h2.example.org/big https://h2.example.org/",
                      [f"tcp {SPARE} 443"], ["h2.example.org"], w=w)
    assert expect(done).out.splitlines()[0] == "2 20971520 200", done


def test_what_curl_says_when_it_is_denied():
    need("curl")
    policy()
    world.up()
    for command, status, words in (
            (f"curl -sS {EVIL}", (6,), "Could not resolve host: evil.example"),
            ("curl -sS --connect-to evil.example:443:www.example.org:443 " + EVIL, (35,), "alert access denied|access_denied|tlsv1 alert"),
            ("curl -sS https://1.2.3.4/", (7, 35), "reset|refused|connect to server|alert access denied|SSL_ERROR_SYSCALL"),
            ("curl -sS http://1.2.3.4/", (7, 55, 56), "reset|refused|connect to server"),
            ("curl -sS http://169.254.169.254/latest/meta-data/", (7, 55, 56), "reset|refused|connect to server"),
            ("curl -sS --http3-only https://www.example.org/ 2>/dev/null || curl -sS --noproxy '*' " + EVIL, (6,), "Could not resolve")):
        done = run_sh(command, policy="egress")
        assert done.status in status, (command, done)  # a reset is seen while it connects, sends or reads
        expect(done, done.status, err=words)
    done = expect(run_sh("curl -sS -i -H 'Host: evil.example' http://example.net/", policy="egress"))
    assert done.out.startswith("HTTP/1.1 400 ") and "agentbox" in done.out, done


@heavy
def test_wget():
    need("wget")
    policy()
    done = run_client(f"wget -q --ca-certificate={CA} -O - https://www.example.org/w; wget -q -O - http://example.net/w", HTTPS + [f"tcp {world.NET} 80"],
                      ["example.net", "www.example.org"])
    assert [json.loads(l)["target"] for l in expect(done).out.splitlines()] == ["/w", "/w"], done
    expect(run_sh(f"wget -O - {EVIL}", policy="egress"), 4, err="unable to resolve host address")


@heavy
def test_openssl():
    need("openssl")
    policy()
    command = f"openssl s_client -brief -verify_return_error -CAfile {CA} -connect www.example.org:443"
    done = run_client(f"(printf 'GET /o HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n'; sleep 1) | "
                      f"{command} -servername www.example.org 2>&1", HTTPS,
                      ["www.example.org"])
    assert "Verification: OK" in done.out and '"/o"' in done.out, done
    for option in ("-servername evil.example", "-noservername"):
        done = run_sh(f"{command} {option} </dev/null 2>&1", policy="egress")
        assert done.status != 0 and "access denied" in done.out, done


def git_policy(*rules):
    return policy("egress", "tls git.example.org", *rules, more="[Environment]\nSet=GIT_CONFIG_NOSYSTEM=1\n[Limits]\nMemory=512M\nTasks=128\nCPUQuota=200%\n")


GIT_WORK = """set -e; cd /workspace; git config --global user.name x; git config --global user.email x@example.org
git clone -q {url} p; cd p; git log --oneline | wc -l
echo three >>file; git commit -q -a -m three; git push -q origin HEAD:main; git fetch -q; git rev-parse HEAD
"""


def test_git_over_https():
    need("git")
    git_policy()
    w = world.up()
    bare = software.repository(software.directory("git"))
    w.serve(SPARE, 443, software.git(bare.parent), w.tls())
    w.names(git__example__org=[SPARE])
    done = run_client(GIT_WORK.format(url="https://git.example.org/project.git"), [f"tcp {SPARE} 443"], ["git.example.org"], w=w)
    count, head = expect(done).out.split()
    assert count == "2" and sh(["git", "-C", str(bare), "-c", "safe.directory=*", "rev-parse", "main"]).strip() == head, done
    expect(run_sh("git clone https://evil.example/x 2>&1", policy="egress"), 128, out="Could not resolve host: evil.example")


@within(90)
@heavy
def test_git_over_ssh():
    need("git", "ssh", "sshd")
    w = world.up()
    bare = software.repository(software.directory("git"))
    software.sshd(world, w, SPARE)
    git_policy("tcp git.example.org:22")
    w.names(git__example__org=[SPARE])
    ssh = f"export GIT_SSH_COMMAND='ssh -F none -i {DIRECTORY}/ssh-key -o IdentitiesOnly=yes " \
          f"-o UserKnownHostsFile={DIRECTORY}/known-hosts -o StrictHostKeyChecking=yes'\n"
    done = run_client(ssh + GIT_WORK.format(url=f"root@git.example.org:{bare}"), [f"tcp {SPARE} 22"], ["git.example.org"], w=w)
    count, head = expect(done).out.split()
    assert count == "2" and sh(["git", "-C", str(bare), "-c", "safe.directory=*", "rev-parse", "main"]).strip() == head, done
    assert set(world.allowed(done.run)) == {("tcp", "git.example.org:22", "tcp git.example.org:22")}, world.allowed(done.run)
    done = run_sh(ssh + "git clone root@www.example.org:x 2>&1", policy="egress")
    assert done.status == 128 and "Could not resolve hostname" in done.out, done


def index_list(*rules):
    """@package-index of the shipped policies, as an administrator sets it up; and the world's authority for them."""
    write_file("/etc/agentbox/allow.d/package-index.list", "".join(f"{r}\n" for r in rules))
    for name in ("python", "node"):
        d = box.POLICY_DIR / f"{name}.policy.d"
        if not d.exists():
            d.mkdir(parents=True)
            at_end(d.rmdir)
        write_file(d / "world.conf", f"[Files]\nExpose={DIRECTORY}\n[Environment]\nSet=PIP_CERT={CA}\nSet=NODE_EXTRA_CA_CERTS={CA}\n")


@within(120)
@heavy
def test_pip():
    need("pip3")
    index_list("tls index.example.org")
    w = world.up()
    w.serve(SPARE, 443, software.python_index(), w.tls())
    w.names(index__example__org=[SPARE])
    done = run_client("""cd /workspace
/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --target lib --index-url https://index.example.org/simple agentbox-world &&
PYTHONPATH=lib /usr/bin/python3 -c 'import agentbox_world; print(agentbox_world.WORD)'""", [f"tcp {SPARE} 443"], ["index.example.org"], policy="python", w=w)
    expect(done, out="from the index")
    done = run_sh("/usr/bin/python3 -m pip download --disable-pip-version-check --retries 1 "
                  "--index-url https://evil.example/simple agentbox-world 2>&1", policy="python")
    assert done.status != 0 and "Name or service not known" in done.out, done
    assert {n for _, n, _ in denied(done.run)} == {"evil.example:53"}, denied(done.run)


@within(120)
@heavy
def test_npm():
    need("npm", "node")
    index_list("tls packages.example.org")
    w = world.up()
    w.serve(SPARE, 443, software.node_index("packages.example.org"), w.tls())
    w.names(packages__example__org=[SPARE])
    done = run_client(f"""cd /workspace; echo '{{}}' >package.json
npm install --no-audit --no-fund --no-update-notifier --loglevel=error --cafile={CA} --registry=https://packages.example.org/ agentbox-world 2>&1 &&
node -e 'console.log(require("agentbox-world"))'""", [f"tcp {SPARE} 443"], ["packages.example.org"], policy="node", w=w)
    expect(done, out="from the index")
    done = run_sh("npm view --no-update-notifier --fetch-retries=0 --registry=https://evil.example/ agentbox-world 2>&1", policy="node")
    assert done.status != 0 and "ENOTFOUND" in done.out, done


@heavy
def test_node_fetch():
    need("node")
    policy(more=JIT)
    done = run_client("""node -e '
(async () => {
  console.log((await (await fetch("https://www.example.org/n")).json()).target);
  console.log((await (await fetch("https://www.example.org/p", {method: "POST", body: "x".repeat(1000000)})).json()).length);
  for (const url of ["https://evil.example/", "http://1.2.3.4/"])
    try { await fetch(url); console.log("FETCHED") } catch (e) { console.log(e.cause.code) }
})()'""", HTTPS, ["www.example.org"])
    assert expect(done).out.split() == ["/n", "1000000", "ENOTFOUND", "ECONNRESET"], done


PYTHON = """
import asyncio, http.client, json, ssl, sys, urllib.error, urllib.request
print(json.load(urllib.request.urlopen("https://www.example.org/u"))["target"])
print(json.load(urllib.request.urlopen("http://example.net/u"))["target"])
for url in ("https://evil.example/", "http://1.2.3.4/"):
    try:
        urllib.request.urlopen(url); print("OPENED")
    except (urllib.error.URLError, OSError) as e:
        print(type(getattr(e, "reason", e)).__name__)
async def one(i):
    r, w = await asyncio.open_connection("www.example.org", 443, ssl=ssl.create_default_context())
    w.write(b"GET /a%d HTTP/1.1\\r\\nHost: www.example.org\\r\\nConnection: close\\r\\n\\r\\n" % i)
    return (await r.read()).count(b"200 OK")
async def main():
    print(sum(await asyncio.gather(*(one(i) for i in range(40)))))
asyncio.run(main())
try:
    import requests
except ImportError:
    print("/r")
else:
    print(requests.get("https://www.example.org/r").json()["target"])
"""


@heavy
def test_python():
    policy(more=JIT)
    w = world.up()
    with w.watch() as seen:
        done = expect(box.run_python(PYTHON, policy="egress"))
    assert done.out.split() == ["/u", "/u", "gaierror", "ConnectionResetError", "40", "/r"], done
    assert seen.flows() == {world.DNS, *HTTPS, f"tcp {world.NET} 80"}, seen.flows()


@heavy
def test_redis():
    need("redis-server", "redis-cli")
    w = world.up()
    software.redis(world, w, SPARE)
    w.names(db__example__org=[SPARE])
    policy("egress", "tcp db.example.org:6379")
    done = run_client("redis-cli -h db.example.org SET k v; redis-cli -h db.example.org GET k; "
                      "head -c 3000000 /dev/zero | redis-cli -h db.example.org -x SET big; "
                      "redis-cli -h db.example.org STRLEN big", [f"tcp {SPARE} 6379"], ["db.example.org"], w=w)
    assert expect(done).out.split() == ["OK", "v", "OK", "3000000"], done
    done = run_sh("redis-cli -h db.example.org -p 6380 PING 2>&1", policy="egress")
    assert done.status != 0 and "PONG" not in done.out, done


def test_program_with_its_own_resolver():
    """As Go's do: reads resolv.conf, asks over UDP and TCP by itself, is linked statically."""
    need("gcc")
    policy()
    w = world.up()
    source, binary = pathlib.Path(__file__).parent / "world" / "own-resolver.c", DIRECTORY / "own-resolver"
    sh(["gcc", "-O1", "-static", "-o", str(binary), str(source)])
    at_end(binary.unlink)
    for way in ("udp", "tcp"):
        with w.watch() as seen:
            done = run(str(binary), way, "example.net", "80", policy="egress")
        assert expect(done).out.startswith("HTTP/1.1 200 ") and seen.flows() == {world.DNS, f"tcp {world.NET} 80"}, (done, seen.flows())
        done = run(str(binary), way, "evil.example", "80", policy="egress")
        expect(done, 3, out="rcode 3")


def proxied(line):
    write_file("/etc/agentbox/agentbox.conf", line)
    at_end(sh, ["systemctl", "restart", box.BROKER_UNIT])
    sh(["systemctl", "restart", box.BROKER_UNIT])


def upstream_proxy(answers):
    """A parent proxy that answers CONNECT for these names by connecting them to the world's own servers; what it was asked."""
    asked = []

    def speak(connection):
        lines = world.servers.Lines(connection)
        head = lines.until(b"\r\n\r\n").decode("latin-1")
        asked.append(head.split("\r\n")[0])
        target = head.split(" ")[1]
        answer = answers.get(target, b"HTTP/1.1 403 Forbidden\r\n\r\n")
        if isinstance(answer, bytes):
            connection.send(answer)
            return
        there = world.in_namespace(lambda: socket.create_connection(answer))
        connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        connection.socket.settimeout(None)
        pump = threading.Thread(target=copy, args=(there, connection.socket), daemon=True)
        pump.start()
        copy(connection.socket, there, lines.rest)
        pump.join()
    return speak, asked


def copy(source, sink, first=b""):
    try:
        data = first or source.recv(65536)
        while data:
            sink.sendall(data)
            data = source.recv(65536)
        sink.shutdown(1)
    except OSError:
        pass


@within(90)
@heavy
def test_upstream_proxy():
    """https_proxy= of this host: names go to it as names, and nobody here resolves them."""
    need("curl")
    policy()
    w = world.up()
    speak, asked = upstream_proxy({"www.example.org:443": (ORG, 443), "garbage.example.org:443": b"hello\r\n\r\n",
                                   "big.example.org:443": b"HTTP/1.1 200 " + b"a" * 20000,
                                   "cut.example.org:443": b"HTTP/1.1 2", "192.0.2.77:5432": (world.RULE4, 5432)})
    w.serve(SPARE, 3128, speak)
    proxied(f"https_proxy=http://{SPARE}:3128\n")
    with w.watch() as seen:
        done = run_sh("curl -sS https://www.example.org/through; curl -sS https://github.com/; "
                      "for n in garbage big cut; do curl -sS https://$n.example.org/; done; "
                      "curl -sS https://evil.example/", policy="egress")
    assert json.loads(done.out)["target"] == "/through", done
    assert seen.flows() == {f"tcp {SPARE} 3128"} and w.dns.log == [], (seen.flows(), w.dns.log)
    names = [f"{n}.example.org" for n in ("garbage", "big", "cut")]
    assert asked == [f"CONNECT {n}:443 HTTP/1.1" for n in ["www.example.org", "github.com"] + names], asked
    reasons = denied(done.run)
    assert {n: r for _, n, r in reasons if n != "evil.example:53"} == {f"{n}:443": "proxy-failed" for n in ["github.com"] + names}, reasons
