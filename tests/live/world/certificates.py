# SPDX-License-Identifier: LGPL-2.1-or-later
"""A certificate authority for the world, made by openssl(1) for this run of the tests."""
import pathlib
import subprocess

NAMES = ("github.com", "example.net", "evil.example", "*.example.org", "*.a.example.org", "*.test", "*.example.net")


def openssl(*args, data=None):
    subprocess.run(["openssl", *args], input=data, check=True, capture_output=True)


def make(directory):
    """ca.pem, leaf.pem and leaf.key in directory, if they are not there yet."""
    d = pathlib.Path(directory)
    if (d / "leaf.pem").exists():
        return d
    d.mkdir(parents=True, exist_ok=True)
    for name in ("ca", "leaf"):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(d / f"{name}.key"))
    openssl("req", "-x509", "-new", "-key", str(d / "ca.key"), "-subj", "/CN=The tests' world", "-days", "3650", "-out", str(d / "ca.pem"),
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    openssl("req", "-new", "-key", str(d / "leaf.key"), "-subj", "/CN=world", "-out", str(d / "leaf.csr"))
    names = ",".join(f"DNS:{n}" for n in NAMES)
    (d / "leaf.ext").write_text(f"basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName={names}\n", encoding="ascii")
    openssl("x509", "-req", "-in", str(d / "leaf.csr"), "-CA", str(d / "ca.pem"), "-CAkey", str(d / "ca.key"), "-CAcreateserial", "-days", "3650",
            "-extfile", str(d / "leaf.ext"), "-out", str(d / "leaf.pem"))
    return d
