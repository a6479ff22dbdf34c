"""Witnesses in the folder beside a paper's file."""

import json
from pathlib import Path

from command_line import call
from repository import ROOT

from fedtheory.theory.judge import registry
from fedtheory.theory.judge.replay import builtin_witnesses


def test_they_come_with_the_paper(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text((ROOT / "examples" / "wrong_constant.py").read_text())
    out = ("--workers", 1, "--budget", 40, "--quick", "--out", tmp_path / "out", "--json")
    made = json.loads(call("verify", file, *out).stdout)["files"]
    [found] = [name for name in made if "witnesses" in name]
    [paper] = registry.load_file(file)
    assert builtin_witnesses(paper.id) == []
    (tmp_path / "witnesses").mkdir()
    kept = json.loads(Path(found).read_text())
    (tmp_path / "witnesses" / "kept.json").write_text(json.dumps(kept))
    (tmp_path / "witnesses" / "other.json").write_text(json.dumps({**kept, "statement": "efl/theorem-1"}))
    [one] = builtin_witnesses(paper.id)
    assert one.statement == kept["statement"]
    assert f"Witness: fedtheory replay {one.name}" in call("explain", file).stdout
    call("replay", one.name, "--paper", file)
