"""Treebanks: downloaded, checked, read."""

from dataclasses import replace

import pytest

from manykernels.datasets import load_ud_english_ewt
from manykernels.datasets import treebanks as module
from manykernels.structured import format_conllu, parse_conllu
from tests.structured.test_conllu import TEXT


def test_download_is_checked(tmp_path, serve, monkeypatch):
    urls = serve(TEXT.encode(), b"something else")
    files = {
        part: replace(file, urls=(urls[0],), sha256=None)
        for part, file in module.UD_ENGLISH_EWT.items()
    }
    monkeypatch.setattr(module, "UD_ENGLISH_EWT", files)
    assert len(load_ud_english_ewt(tmp_path / "a").train) == 2
    changed = {
        part: replace(file, urls=(urls[1],), sha256="0" * 64)
        for part, file in files.items()
    }
    monkeypatch.setattr(module, "UD_ENGLISH_EWT", changed)
    with pytest.raises(ValueError, match="sha256"):
        load_ud_english_ewt(tmp_path / "b")


@pytest.mark.data
def test_the_treebank_itself(data_dir):
    if not (data_dir / "ud_english_ewt").is_dir():
        pytest.skip(f"no folder ud_english_ewt in {data_dir}")
    treebank = load_ud_english_ewt()
    counts = [len(treebank[part]) for part in ("train", "dev", "test")]
    words = [sum(map(len, treebank[part])) for part in ("train", "dev", "test")]
    assert counts == [12_544, 2_001, 2_077]
    assert words == [204_577, 25_147, 25_094]
    assert list(parse_conllu(format_conllu(treebank.dev))) == treebank.dev
