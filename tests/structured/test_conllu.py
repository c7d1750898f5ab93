"""CoNLL-U: words in, words out, and clear words about bad lines."""

import gzip

import pytest

from manykernels.structured import (
    Sentence,
    format_conllu,
    parse_conllu,
    read_conllu,
    write_conllu,
)

TEXT = """\
# sent_id = 1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No
3.1\tthere\tthere\tADV\tRB\t_\t_\t_\t3:advmod\t_
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

1\tHi\thi\tINTJ\tUH\t_\t0\troot\t_\t_
"""
WORD = "1\tHi\thi\tINTJ\tUH\t_\t0\troot\t_\t_\n"


def test_ranges_and_empty_nodes_are_no_words():
    first, second = parse_conllu(TEXT)
    assert first.forms == ("Do", "n't", "go", ".")
    assert first.lemmas == ("do", "not", "go", ".")
    assert first.upos == ("AUX", "PART", "VERB", "PUNCT")
    assert first.xpos == ("VB", "RB", "VB", ".")
    assert first.heads == (3, 3, 0, 3)
    assert first.deprels[0] == "aux" and first.misc[2] == "SpaceAfter=No"
    assert first.comments[0] == "# sent_id = 1"
    assert first.deps == ("3:aux", "_", "_", "_") and second.deps == ()
    assert [place for place, _ in first.empty_nodes] == [3]
    assert len(second) == 1


def test_text_survives_a_round_trip(tmp_path):
    sentences = list(parse_conllu(TEXT))
    assert list(parse_conllu(format_conllu(sentences))) == sentences
    assert "1-2\tDon't" in format_conllu(sentences)
    assert format_conllu(sentences).rstrip("\n") == TEXT.rstrip("\n")
    for name in ("a.conllu", "a.conllu.gz"):
        write_conllu(tmp_path / name, sentences)
        assert read_conllu(tmp_path / name) == sentences
    assert gzip.decompress((tmp_path / "a.conllu.gz").read_bytes())


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_and_byte_order_mark(ending):
    content = b"\xef\xbb\xbf" + TEXT.replace("\n", ending).encode()
    assert list(parse_conllu(content)) == list(parse_conllu(TEXT))


def test_sentences_without_heads():
    line = WORD.replace("\t0\troot", "\t_\t_")
    (sentence,) = parse_conllu(line)
    assert sentence.heads is None
    assert format_conllu([sentence]) == line + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WORD + "2\tthere\n", r"10 columns .* in line 2 of bad, got 2 in"),
        (WORD + WORD, r"position 2 in the first column in line 2 of bad, got '1'"),
        ("x" + WORD, "position 1 in the first column in line 1 of bad, got 'x1'"),
        (WORD.replace("\t0\t", "\t7\t"), "head of word 1, .* line 1 of bad, got '7'"),
        (WORD.replace("\t0\t", "\t1\t"), "another position from 0 to 1 .* got '1'"),
        (WORD.replace("\t0\t", "\t-1\t"), "head of word 1, .* got '-1'"),
        (WORD.replace("\t0\t", "\t²\t"), "head of word 1, .* got '²'"),
        ("# only a comment\n\n" + WORD, "words after the comments in line 1"),
        ("2-1" + WORD[1:], "a range of positions after 0 in line 1 of bad"),
        (
            WORD
            + "\n"
            + WORD
            + WORD.replace("1\t", "2\t", 1).replace("\t0\t", "\t_\t"),
            "head of word 2, .* line 4 of bad, got '_'",
        ),
        (b"1\t\xff\n", "UTF-8 in bad, got the byte 0xff in line 1"),
    ],
)
def test_bad_lines_are_named(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        list(parse_conllu(text, "bad"))
    assert str(caught.value).startswith("expected ")
    assert "\n" not in str(caught.value)


def test_damaged_archive_is_named(tmp_path):
    path = tmp_path / "x.conllu.gz"
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(ValueError, match=r"x\.conllu\.gz is damaged"):
        read_conllu(path)


def test_sentences_from_words():
    sentence = Sentence.of(["a", "b"], upos=["X", "Y"], heads=[2, 0])
    assert sentence.lemmas == ("_", "_") and len(sentence) == 2
    with pytest.raises(ValueError, match="expected 2 entries, .* got 1"):
        Sentence.of(["a", "b"], heads=[0])
