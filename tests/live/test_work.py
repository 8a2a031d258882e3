# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real work inside: what the filter and the walls must not break."""
import shutil

from box import Skip, expect, run_python, run_sh, within


def need(*programs):
    for p in programs:
        if not shutil.which(p, path="/usr/bin:/bin"):
            raise Skip(f"{p} is not installed")


@within(120)
def test_python_multiprocessing():
    for method in ("fork", "spawn", "forkserver"):
        program = f"""
import multiprocessing as mp
from multiprocessing import shared_memory
def square(x): return x * x
def child(q, s, v, name):
    m = shared_memory.SharedMemory(name=name); m.buf[0] = 7; m.close()
    with s: v.value += 1
    q.put('from child')
if __name__ == '__main__':
    mp.set_start_method('{method}')
    with mp.Pool(2) as pool: print(sum(pool.map(square, range(100))))
    m = shared_memory.SharedMemory(create=True, size=4096)
    q, s, v = mp.Queue(), mp.Semaphore(1), mp.Value('i', 0)
    p = mp.Process(target=child, args=(q, s, v, m.name)); p.start(); print(q.get()); p.join(); print(v.value, m.buf[0])
    m.close(); m.unlink()
"""
        done = expect(run_sh("cat >/workspace/mp.py && exec python3 /workspace/mp.py", stdin=program.encode()))
        assert done.out == "328350\nfrom child\n1 7\n", (method, done)


def test_python_asyncio_and_threads():
    done = expect(run_python("""
import asyncio, threading, subprocess, tempfile, ssl, sqlite3, hashlib
async def main():
    p = await asyncio.create_subprocess_exec('/bin/echo', 'sub', stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0].decode().strip())
    server = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname()); await r.read()
    print('net')
asyncio.run(main())
t = threading.Thread(target=lambda: print('thread')); t.start(); t.join()
print(subprocess.run(['sh', '-c', 'echo shell'], capture_output=True, text=True).stdout.strip())
with tempfile.TemporaryDirectory() as d: print(d.startswith('/tmp/'))
"""))
    assert done.out.split() == ["sub", "net", "thread", "shell", "True"], done


@within(120)
def test_node():
    need("node")
    program = """
const os = require('os'), { Worker, isMainThread } = require('worker_threads');
console.log(os.userInfo().username, os.userInfo().homedir);
let f = 0; for (let i = 0; i < 3e7; i++) f = (f + i) | 0;   // hot enough to be compiled
console.log(typeof f, os.cpus().length >= 0);
const w = new Worker("const {parentPort}=require('worker_threads');parentPort.postMessage(6*7)", {eval: true});
w.on('message', m => { console.log('worker', m);
  const s = require('net').createServer(c => c.end('hi')).listen(0, '127.0.0.1', () => {
    require('net').connect(s.address().port, '127.0.0.1').on('data', d => console.log('' + d)).on('end', () => s.close()); });
  console.log(require('child_process').execSync('echo child').toString().trim());
  require('fs').promises.writeFile('/workspace/x', 'y').then(() => console.log('written')); });
"""
    for name in (None, "node"):
        options = ["--set", "Network.Allow="] if name else []
        done = run_sh("cat >/workspace/a.js && exec node /workspace/a.js", stdin=program.encode(), policy=name,
                      options=options + (["--set", "Limits.Memory=512M"] if not name else []))
        if name and done.status == 125 and "package-index" in done.err:
            continue  # this machine names no package index: the message says so, as it must
        expect(done)
        assert done.out.splitlines()[0] == "agent /workspace" and {"worker", "42"} <= set(done.out.split()), done
        assert {"child", "written", "hi"} <= set(done.out.split()), done


@within(120)
def test_gcc():
    need("gcc")
    for name in (None, "build"):
        done = expect(run_sh("""set -e; cd /workspace
cat >a.c <<E
#include <stdio.h>
#include <pthread.h>
static void *f(void *p) { return p; }
int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts("compiled"); return 0; }
E
gcc -O2 -pthread -o a a.c && ./a""", policy=name))
        assert done.out == "compiled\n", (name, done)


def test_git():
    need("git")
    done = expect(run_sh("""set -e; cd /workspace; git init -q r; cd r; git config user.email a@b; git config user.name n
echo x >f; git add f; git commit -qm first; git log --oneline | wc -l; git status --short | wc -l; git clone -q . ../s; cat ../s/f"""))
    assert done.out.split() == ["1", "0", "x"], done


def test_sqlite():
    need("sqlite3")
    done = expect(run_sh("cd /workspace; sqlite3 d 'pragma journal_mode=wal; create table t(x); insert into t values(42); select x from t;'"))
    assert done.out.split()[-1] == "42", done


@within(120)
def test_make():
    need("make", "gcc")
    done = expect(run_sh("""set -e; cd /workspace
for i in 1 2 3 4 5 6 7 8; do echo "int f$i(void){return $i;}" >f$i.c; done
printf 'all: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tar rcs lib.a $^ && echo built\\n' >Makefile
make -s -j4""", policy="build"))
    assert done.out == "built\n", done


def test_shell_tools():
    done = expect(run_sh("""set -e; cd /tmp; seq 1000 | sort -R | sort -n | tail -1; tar cf - /etc/passwd 2>/dev/null | wc -c | awk '{print ($1 > 0)}'
mkdir -p a/b; ln -s b a/c; cp -a a d; find d | wc -l; date +%Y | wc -c; echo x | tee y; df /workspace | tail -1 | awk '{print $NF}'; mktemp | cut -c1-5"""))
    assert done.out.split() == ["1000", "1", "3", "5", "x", "/workspace", "/tmp/"], done


def test_ids_that_are_set_already():
    """make and posix_spawn() set them; tools that keep owners carry on without, even where a refusal kills."""
    program = """
import os, shutil
uid = os.getuid()
os.setuid(uid); os.seteuid(uid); os.setreuid(-1, uid); os.setresuid(uid, -1, uid); os.setresgid(-1, os.getgid(), -1)
os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ, resetids=True), 0)
for name, call in (('setuid', lambda: os.setuid(0)), ('setresuid', lambda: os.setresuid(-1, 0, -1)),
                   ('chown', lambda: os.chown('/workspace', 0, 0)), ('priority', lambda: os.setpriority(0, 0, 5))):
    try: call()
    except PermissionError: print(name)
"""
    assert expect(run_python(program)).out.split() == ["setuid", "setresuid", "chown", "priority"]
    for kill in ("errno", "kill"):
        done = expect(run_sh("""set -e; cd /workspace; mkdir d; echo a >d/f; cp -a d e; sed -i s/a/b/ e/f; cp -p /usr/bin/true t
gzip -k e/f; mv e/f /tmp/f; mv /tmp/f .; tar cf d.tar d; tar xf d.tar -C e; install -m 755 t u; nice true; cat f""",
                             options=["--set", f"Syscalls.OnDenied={kill}"]))
        assert done.out == "b\n", (kill, done)


def test_perl_and_locale():
    need("perl")
    done = expect(run_sh("perl -e 'print \"ok\\n\"'; printf 'ü' | wc -m"))
    assert done.out.split() == ["ok", "1"], done
