#!/usr/bin/env python3
"""Writes a container image that `docker load`, `podman load` and `skopeo` read: an OCI layout with Docker's manifest.

    container.py STAGED WORK MACHINE EPOCH VERSION IMAGE

The root file system has the binary and Debian's C library, and neither a shell nor a package manager. The same binary
and the same version of Debian's package `libc6` give the same bytes.
"""

import gzip
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile

# Of `libc6`: the loader, the libraries that the binary names, and those of host names.
LIBRARIES = ["ld-linux-*", "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libresolv.so.2", "libnss_*.so.2"]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def libc(work, architecture):
    """Unpacks Debian's libc6; returns its root and version."""
    folder = work / "libc6"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.deb"):
        old.unlink()
    name = f"libc6:{architecture}"
    subprocess.run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", name], cwd=folder, check=True)
    [package] = folder.glob("*.deb")
    root = folder / "root"
    subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    version = subprocess.run(["dpkg-deb", "-f", package, "Version"], check=True, text=True, capture_output=True)
    return root, version.stdout.strip()


def files(staged, root):
    """Files of the image: path in the image, file on this machine. Links keep their names."""
    found = {"usr/bin/iodyno": staged / "usr/bin/iodyno"}
    doc = staged / "usr/share/doc/iodyno"
    for path in doc.iterdir():
        if path.name.startswith(("LICENSE", "THIRD-PARTY")):
            found[f"usr/share/doc/iodyno/{path.name}"] = path
    found["usr/share/doc/libc6/copyright"] = root / "usr/share/doc/libc6/copyright"
    for pattern in LIBRARIES:
        matches = [path for path in root.rglob(pattern) if "audit" not in path.parts]
        found.update({str(path.relative_to(root)): path for path in matches})
    return found


def layer(found, epoch):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:

        def add(name, kind, mode, data=b"", link=""):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.mtime, entry.size, entry.linkname = kind, mode, epoch, len(data), link
            tar.addfile(entry, io.BytesIO(data))

        folders = {str(parent) for name in found for parent in pathlib.PurePath(name).parents} - {"."}
        for name in sorted(folders | {"data", "etc"}):
            add(name, tarfile.DIRTYPE, 0o755)
        add("tmp", tarfile.DIRTYPE, 0o1777)
        add("etc/passwd", tarfile.REGTYPE, 0o644, b"root:x:0:0:root:/data:/nonexistent\n")
        for name, path in sorted(found.items()):
            if path.is_symlink():
                add(name, tarfile.SYMTYPE, 0o777, link=str(path.readlink()))
            else:
                add(name, tarfile.REGTYPE, 0o755 if path.stat().st_mode & 0o111 else 0o644, path.read_bytes())
    return out.getvalue()


def main():
    staged, work, machine, epoch, version, image = sys.argv[1:]
    architecture, epoch = ARCHITECTURES[machine], int(epoch)
    root, libc_version = libc(pathlib.Path(work), architecture)
    blobs = {}

    def blob(data, media):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    plain = layer(files(pathlib.Path(staged), root), epoch)
    packed = blob(gzip.compress(plain, 9, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/iodyno"],
            "WorkingDir": "/data",
            "Env": ["HOME=/data", "PATH=/usr/bin"],
            "Labels": {
                "org.opencontainers.image.title": "iodyno",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                "org.debian.libc6.version": libc_version,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]},
        "history": [{"created_by": "iodyno's packaging/container.py"}],
    }
    encoded = lambda value: json.dumps(value, sort_keys=True).encode()
    config = blob(encoded(config), "application/vnd.oci.image.config.v1+json")
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [packed]}
    manifest = blob(encoded(manifest), manifest["mediaType"])
    name = f"iodyno:{version}"
    manifest["annotations"] = {"org.opencontainers.image.ref.name": version, "io.containerd.image.name": name}
    path = lambda of: f"blobs/sha256/{of['digest'].removeprefix('sha256:')}"
    docker = [{"Config": path(config), "RepoTags": [name], "Layers": [path(packed)]}]
    contents = {f"blobs/sha256/{digest}": data for digest, data in blobs.items()} | {
        "index.json": encoded({"schemaVersion": 2, "manifests": [manifest]}),
        "manifest.json": encoded(docker),
        "oci-layout": encoded({"imageLayoutVersion": "1.0.0"}),
    }
    with tarfile.open(image, "w", format=tarfile.GNU_FORMAT) as tar:
        for path, data in sorted(contents.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(data), epoch, 0o644
            tar.addfile(entry, io.BytesIO(data))


if __name__ == "__main__":
    main()
