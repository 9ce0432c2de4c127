"""An audit attacks a release with the same list of sites that the release was made with."""

from __future__ import annotations

import json

from conftest import two_bus_net

AUDIT = ("audit", "tiny.m", "--runs", 2, "--draws", 20000, "--json")


def test_audit_takes_the_declared_sites(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.m").write_text(two_bus_net().text())
    made = cli("release", "tiny.m", "--sites", "all", "--alpha", "0.2MVA", "--budget", 1, "--out", "out", "--quiet")
    assert made.code == 0, made.err
    audited = cli(*AUDIT, "--sites", "all", "--released", "out")
    attacks = json.loads(audited.out)["attacks"]
    assert "reading one release" in {attack["name"] for attack in attacks}
    # Without the list the file's own sites count, and those of the release do not fit them.
    other = cli(*AUDIT, "--released", "out")
    assert other.code == 2 and "not in the list of sites" in other.err
