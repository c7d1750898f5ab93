"""Commands as processes of their own: pipes, exit codes, no tracebacks."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

CODE = "from manykernels.cli import app; app()"
COMMAND = [sys.executable, "-c", CODE]


def run(*arguments, stdin=None):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, check=False)


def test_fit_and_predict_through_pipes(iris, tmp_path):
    path = tmp_path / "m.mk"
    with open(iris.path("train.csv"), "rb") as rows:
        text = rows.read()
    fitted = run("fit", "-", "-t", "kind", "-m", path, "--json", stdin=text)
    assert fitted.returncode == 0, fitted.stderr
    assert json.loads(fitted.stdout)["rows"] == 90
    assert fitted.stderr == b""
    with open(iris.path("test.csv"), "rb") as rows:
        text = rows.read()
    out = run("predict", path, "-", stdin=text)
    assert out.returncode == 0 and out.stderr == b""
    assert len(out.stdout.splitlines()) == 1 + len(iris.test)


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_a_closed_pipe_is_no_error(model, iris, tmp_path):
    header, *rows = (iris.folder / "test.csv").read_text().splitlines()
    # More than a pipe holds, so that writing must fail once the reader has gone.
    (tmp_path / "many.csv").write_text("\n".join([header, *(rows * 200)]))
    command = [*COMMAND, "predict", model, str(tmp_path / "many.csv"), "--proba"]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    first = writer.stdout.readline()
    writer.stdout.close()
    errors = writer.stderr.read()
    writer.stderr.close()
    assert writer.wait() == 0
    assert first.startswith(b"prediction,probability_setosa")
    assert errors == b""


def test_bad_input_exits_with_2_and_one_sentence(model):
    result = run("predict", model, "no-such-file.csv")
    assert result.returncode == 2 and result.stdout == b""
    message = result.stderr.decode().strip()
    assert message.startswith("Error: ") and len(message.splitlines()) == 1
    assert "Traceback" not in message


def test_unknown_options_exit_with_2():
    result = run("fit", "--nonsense")
    assert result.returncode == 2 and b"Traceback" not in result.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_exits_with_130(tmp_path):
    """While waiting for rows there is nothing to keep."""
    arguments = ["fit", "-", "-t", "y", "-m", str(tmp_path / "m")]
    code = "from manykernels.cli import app; print('ready', flush=True); app()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline() == b"ready\n"
    time.sleep(0.5)  # it now waits for standard input
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in errors
