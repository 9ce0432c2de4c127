"""Everything that must hold of a release of gridveil itself, in clean environments; ``make release-check`` runs it.

Builds sdist and wheel, looks for data that is not ours inside, installs each into an environment of its own, runs the README
there, checks the licences of all dependencies, asks pip-audit where it can, and prints the table of environments.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import environments
from environments import ROOT, build, first_release, install, new_environment, run

OUR_NETWORKS = {"veil2.m", "veil9.m"}
NETWORK_FILE = re.compile(r"\.(m|raw|aux|epc|net|xiidm|uct|nc|h5|mat|zip)$", re.IGNORECASE)
BENCHMARK = re.compile(r"pglib|nesta|gaslib|rts[-_]gmlc|matpower|simbench", re.IGNORECASE)
OUR_WORDS = re.compile(r"\.(py|md|toml|csv|json|svg|html)$")  # that speak of benchmarks, or hold results on them
LARGEST_FILE = 2_000_000
FREE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python|MPL|Mozilla|LGPL|Lesser|Unlicense|Public Domain|CC0|HPND|Zlib|0BSD|EPL|CC-BY)\b|CC BY",
    re.I,
)
LICENCES = """
import importlib.metadata as m, json
def stated(d):
    classifiers = [c.split("::")[-1] for c in d.get_all("Classifier") or [] if c.startswith("License")]
    return d["License-Expression"] or " ".join([*classifiers, (d["License"] or "")[:200]])
print(json.dumps({d.metadata["Name"]: stated(d.metadata) for d in m.distributions()}))
"""
README = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from docs_blocks import run_page
run_page(Path({page!r}), Path({folder!r}))
"""


def foreign_data(distribution: Path) -> list[str]:
    """Members of an sdist or wheel that are networks of others, or too large to have been looked at."""
    if distribution.suffix == ".whl":
        with zipfile.ZipFile(distribution) as archive:
            members = {one.filename: one.file_size for one in archive.infolist()}
    else:
        with tarfile.open(distribution) as archive:
            members = {one.name: one.size for one in archive.getmembers() if one.isfile()}
    return [
        name
        for name, size in members.items()
        if (NETWORK_FILE.search(name) and Path(name).name not in OUR_NETWORKS)
        or (BENCHMARK.search(Path(name).name) and not OUR_WORDS.search(name))
        or size > LARGEST_FILE
    ]


def unfree(python: Path) -> list[str]:
    """Packages of an environment whose licence is none of those that anybody may use beside Apache-2.0."""
    found: dict[str, str] = json.loads(run([python, "-c", LICENCES]))
    return sorted(
        f"{name}: {licence or 'no licence stated'}" for name, licence in found.items() if not FREE.search(licence)
    )


def audit(python: Path) -> str:
    """What pip-audit says of an environment, or why it was not asked."""
    if importlib.util.find_spec("pip_audit") is None:
        return "pip-audit is not installed; not asked"
    freeze = run([python, "-m", "pip", "freeze", "--exclude", "gridveil", "--disable-pip-version-check"])
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(freeze)
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", file.name, "--timeout", "15"]
        done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        return f"pip-audit: could not be asked ({(done.stderr.strip().splitlines() or ['no answer'])[-1][:120]})"
    return audit_verdict(json.loads(done.stdout)["dependencies"])


def audit_verdict(dependencies: list[dict[str, object]]) -> str:
    """What the answers amount to; a package that its database does not know was not audited, however clean the rest is."""
    bad = [str(one["name"]) for one in dependencies if one.get("vulns")]
    if bad:
        sys.exit(f"pip-audit: known vulnerabilities in {', '.join(bad)}")
    skipped = [one for one in dependencies if "skip_reason" in one]
    if skipped:
        return f"pip-audit: NOT audited, its database is out of reach or lacks {len(skipped)} of {len(dependencies)} packages"
    return f"pip-audit: no known vulnerabilities in {len(dependencies)} packages"


def main() -> None:
    """Run all checks, and stop at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="also measure the table of environments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gridveil-release-check-") as name:
        folder = Path(name)
        built = {path.suffix: path for path in build(folder, "sdist", "wheel")}
        wheel, sdist = built[".whl"], built[".gz"]
        for distribution in (sdist, wheel):
            found = foreign_data(distribution)
            if found:
                sys.exit(f"{distribution.name} holds what is not ours, or is too large: {', '.join(found)}")
            print(f"{distribution.name}: {distribution.stat().st_size / 1e6:.2f} MB, no data of others inside")

        python = new_environment(folder / "from-sdist")
        install(python, str(sdist))
        seconds, _ = first_release(python, folder / "sdist-release")
        print(f"sdist, core alone: installed, first release in {seconds:.1f} s")

        python = new_environment(folder / "from-wheel")
        install(python, f"{wheel}[study]")
        work = folder / "readme"
        work.mkdir()
        code = README.format(tests=str(ROOT / "tests"), page=str(ROOT / "README.md"), folder=str(work))
        run(
            [python, "-c", code],
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "GRIDVEIL_HOME": str(folder / "home")},
        )
        print("wheel with the extra study: installed, and the README runs from top to bottom")

        bad = unfree(python)
        if bad:
            sys.exit(f"licences to look at: {'; '.join(bad)}")
        print("licences: all free")
        print(audit(python))
    if options.table:
        machine, rows = environments.measure(["core", "all", "container"])
        print(f"{environments.table(rows)}\n{machine}")


if __name__ == "__main__":
    main()
