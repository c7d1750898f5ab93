"""`manykernels bench` hands over to the scripts of a checkout."""

from manykernels.cli import main as command


def test_arguments_and_exit_code_are_passed_on(call, tmp_path, monkeypatch, capfd):
    script = tmp_path / "run.py"
    script.write_text("import sys; print(sys.argv[1:]); sys.exit(len(sys.argv) - 1)")
    monkeypatch.setattr(command, "find_benchmarks", lambda: script)
    call("bench", code=0)
    call("bench", "race", "growth", "--quick", code=3)
    assert "['race', 'growth', '--quick']" in capfd.readouterr().out
    call("bench", "race", "--status", "--stale", "--full", code=4)
    assert "['race', '--full', '--status', '--stale']" in capfd.readouterr().out


def test_unknown_names_are_refused(call, capfd):
    call("bench", "no_such_benchmark", code=2)
    assert "no_such_benchmark; choose" in capfd.readouterr().err


def test_an_installation_without_sources_is_told_so(call, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "__file__", str(tmp_path / "a/b/c/d/bench.py"))
    monkeypatch.chdir(tmp_path)
    result = call("bench", code=2)
    assert "clone the repository" in result.output
