#!/usr/bin/env python3
"""Writes the SBOM (CycloneDX 1.6, JSON) and the licence texts of all code that is linked into iodyno.

    dependencies.py TARGET EPOCH SBOM LICENCES

TARGET is the Rust target. EPOCH is the time in both files, in seconds since 1970. The same inputs give the same bytes.
"""

import datetime
import json
import pathlib
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Names of files with a licence, a copyright notice or its attribution.
LEGAL = re.compile(r"(licen[cs]e|copying|unlicense|notice|copyright)", re.IGNORECASE)


def cargo(*words):
    command = ["cargo", *words, "--locked", "--offline"]
    return subprocess.run(command, cwd=ROOT, check=True, text=True, capture_output=True).stdout


def linked(target):
    """Names and versions of the packages that are linked: without those of build scripts, macros and tests."""
    edges = "normal,no-proc-macro"
    # The command, and the module of the wheel.
    packages = ["-p", "iodyno", "-p", "iodyno-python"]
    lines = cargo("tree", *packages, "-e", edges, "--target", target, "--prefix", "none", "--format", "{p}")
    return {tuple(line.split()[:2]) for line in lines.splitlines() if line}


def licence(package):
    """SPDX expression of a package. `/` is an old form of OR."""
    return (package["license"] or "NOASSERTION").replace("/", " OR ").replace("  ", " ")


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def sqlite(package):
    """SQLite's source is a part of `libsqlite3-sys`, and no package of its own."""
    header = (pathlib.Path(package["manifest_path"]).parent / "sqlite3" / "sqlite3.h").read_text()
    version = re.search(r'#define SQLITE_VERSION\s+"([0-9.]+)"', header)[1]
    return {
        "type": "library",
        "bom-ref": f"pkg:generic/sqlite@{version}",
        "name": "sqlite",
        "version": version,
        "purl": f"pkg:generic/sqlite@{version}",
        "licenses": [{"license": {"id": "blessing"}}],
    }


def sbom(packages, own, graph, checksums, epoch):
    components, dependencies = [], []
    for package in packages:
        component = {
            "type": "library",
            "bom-ref": purl(package),
            "name": package["name"],
            "version": package["version"],
            "licenses": [{"expression": licence(package)}],
            "purl": purl(package),
        }
        checksum = checksums.get((package["name"], package["version"]))
        if checksum:
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        if package["repository"]:
            component["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
        needs = graph[package["id"]]
        if package is own:
            component["type"] = "application"
            main = component
        else:
            components.append(component)
        if package["name"] == "libsqlite3-sys":
            bundled = sqlite(package)
            components.append(bundled)
            needs = needs + [bundled["purl"]]
        dependencies.append({"ref": purl(package), "dependsOn": sorted(needs)})
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": time, "component": main},
        "components": components,
        "dependencies": dependencies,
    }
    text = json.dumps(document, sort_keys=True)
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}"
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def texts(package):
    """Licence texts of a package, each with the name of its file."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and LEGAL.match(path.name))
    if not files:
        sys.exit(f"{package['name']} {package['version']} has no file with its licence: add its text by hand")
    return [path.read_text(errors="replace").strip() for path in files]


def licences(packages):
    """Lists the packages with their licences, then each text once, with the packages to which it applies."""
    rows, by_text = [], {}
    for package in packages:
        title = f"{package['name']} {package['version']}"
        rows.append(f"{title}: {licence(package)}")
        for text in texts(package):
            by_text.setdefault(text, []).append(title)
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, text=True, capture_output=True).stdout.strip()
    rust = "The Rust standard library: MIT OR Apache-2.0"
    folder = pathlib.Path(sysroot, "share/doc/rust/licenses")
    for name in ["MIT.txt", "Apache-2.0.txt"]:
        if (folder / name).is_file():
            by_text.setdefault((folder / name).read_text().strip(), []).append("the Rust standard library")
    rows += [rust, "SQLite (in libsqlite3-sys): in the public domain"]
    parts = ["Code of others that is linked into iodyno, with its licences.\n", "\n".join(rows)]
    for text, titles in sorted(by_text.items(), key=lambda item: item[1]):
        parts.append(f"{'=' * 78}\n{', '.join(titles)}\n{'=' * 78}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def main():
    target, epoch, sbom_path, licences_path = sys.argv[1:]
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    names = linked(target)
    chosen = [p for p in metadata["packages"] if (p["name"], f"v{p['version']}") in names]
    chosen.sort(key=lambda p: (p["name"], p["version"]))
    assert len(chosen) == len(names), "cargo tree and cargo metadata disagree"
    purls = {p["id"]: purl(p) for p in chosen}
    graph = {}
    for node in metadata["resolve"]["nodes"]:
        if node["id"] in purls:
            graph[node["id"]] = [
                purls[dep["pkg"]]
                for dep in node["deps"]
                if dep["pkg"] in purls and any(kind["kind"] is None for kind in dep["dep_kinds"])
            ]
    own = next(p for p in chosen if p["name"] == "iodyno")
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(p["name"], p["version"]): p.get("checksum") for p in lock["package"]}
    pathlib.Path(sbom_path).write_text(sbom(chosen, own, graph, checksums, int(epoch)))
    foreign = [p for p in chosen if p["source"]]
    pathlib.Path(licences_path).write_text(licences(foreign))


if __name__ == "__main__":
    main()
