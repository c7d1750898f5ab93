"""A report is one whole file, shows the study, and runs nothing of its data."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import manykernels as mk
from manykernels.report import write_report


class Reader(HTMLParser):
    """Tags that are open, what was seen, and the text between."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def read(path):
    text = path.read_text(encoding="utf-8")
    return text, Reader(text)


def titles(path):
    return re.findall(r'<h2 id="([a-z]+)-title">', path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    model = mk.MKLClassifier("rbf@0-1; rbf@2-3; linear", random_state=0)
    return model.fit(X[::2], y[::2]), X[1::2], y[1::2]


def test_a_study_has_every_section(strange_report):
    assert titles(strange_report) == [
        "methods",
        "importance",
        "likeness",
        "classes",
        "calibration",
        "missing",
        "places",
        "rows",
        "path",
        "stability",
        "convergence",
        "done",
    ]


def test_tags_are_closed_and_names_are_unique(strange_report):
    _, reader = read(strange_report)
    assert reader.open == []
    names = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(names) == len(set(names))
    links = [attrs["href"] for attrs in reader.all("a")]
    assert links and all(link[0] == "#" and link[1:] in names for link in links)
    for attrs in (attrs for _, attrs in reader.tags):
        for key in ("aria-controls", "aria-labelledby"):
            assert attrs.get(key, names[0]) in names


def test_nothing_comes_from_outside(strange_report):
    text, reader = read(strange_report)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search(r"@import|url\(|\bimport\(|fetch\(|XMLHttp|WebSocket", text)
    for tag in ("link", "img", "iframe", "object", "embed", "base", "form"):
        assert not reader.all(tag)
    assert all("src" not in attrs for attrs in reader.all("script"))


def test_strange_names_are_shown_and_not_obeyed(strange_report):
    text, reader = read(strange_report)
    kinds = [attrs.get("type") for attrs in reader.all("script")]
    assert sorted(map(str, kinds)) == ["None", "application/json"]
    assert not any(name.startswith("on") for _, attrs in reader.tags for name in attrs)
    assert "<script>window" not in text
    assert any("</script><script>window.hacked=1</script>" in w for w in reader.words)


def test_the_policy_allows_this_script_alone(strange_report):
    import base64
    import hashlib

    text, reader = read(strange_report)
    (policy,) = [a["content"] for a in reader.all("meta") if "http-equiv" in a]
    script = text[text.rindex("<script>") + 8 : text.rindex("</script>")]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")


def test_pictures_have_words_and_inputs_have_labels(strange_report):
    text, reader = read(strange_report)
    charts = [a for a in reader.all("svg") if a.get("class") == "chart"]
    assert len(charts) >= 8
    assert all(a["role"] == "img" and a["aria-label"] for a in charts)
    assert len(reader.all("input")) + len(reader.all("select")) == len(
        re.findall(r"<label>(?:(?!</label>).)*<(?:input|select)", text, re.DOTALL)
    )
    assert len(reader.all("h1")) == 1 and reader.all("html")[0]["lang"] == "en"


def test_the_rows_of_the_page_are_those_of_the_study(strange_report, strange_study):
    text, _ = read(strange_report)
    block = re.search(r'id="rows-data">(.*?)</script>', text, re.DOTALL).group(1)
    data = json.loads(block)
    assert data["views"] == list(strange_study.contributions_)
    assert [row["name"] for row in data["rows"]] == strange_study.row_names_
    wrong = {row["at"] for row in data["rows"] if row["wrong"]}
    table = strange_study.predictions_
    off = table["row"][table["true"] != table["predicted"]]
    assert wrong == set(off.tolist())
    assert strange_study.verdict_.replace("'", "&#39;") in text


def test_a_model_on_unseen_rows(iris, tmp_path):
    model, X, y = iris
    model.report(tmp_path / "model.html", X, y, title="Three <b>flowers</b>")
    text, reader = read(tmp_path / "model.html")
    assert f"On 75 unseen rows the accuracy is {model.score(X, y):.1%}" in text
    assert "<title>Three &lt;b&gt;flowers&lt;/b&gt;</title>" in text
    found = mk.kernel_importance(model, X, y, by="view")
    best = int(found.share.argmax())
    assert f"{found.names[best]} matters most, with {found.share[best]:.0%}" in text
    shown = titles(tmp_path / "model.html")
    assert "methods" not in shown and {"places", "rows", "classes"} <= set(shown)


def test_a_model_alone_says_what_is_missing(iris, tmp_path):
    write_report(iris[0], tmp_path / "model.html")
    text, _ = read(tmp_path / "model.html")
    assert "of which none were passed" in text and "Weights are no importance" in text
    assert titles(tmp_path / "model.html") == ["importance", "convergence", "done"]


def test_names_of_any_letters_and_the_same_file_every_time(tmp_path, iris):
    _, X, y = iris
    names = ["$x_1$ \x1b", "基因 & <b>"]
    views = {name: X[:, 2 * k : 2 * k + 2] for k, name in enumerate(names)}
    model = mk.MKLClassifier("rbf", random_state=0).fit(views, y)
    pages = []
    for name in ("first.html", "second.html"):
        model.report(tmp_path / name, views, y, title="Any letters")
        pages.append(read(tmp_path / name))
    assert pages[0][0] == pages[1][0]
    charts = [attrs["aria-label"] for attrs in pages[0][1].all("svg")]
    assert any("基因 & <b>" in label for label in charts)
    assert any(word.startswith("rbf@$x_1$") for word in pages[0][1].words)


def test_searches_show_their_path(tmp_path):
    X, y = load_iris(return_X_y=True)
    search = mk.MKLClassifierCV("rbf@0-1; rbf@2-3", ps=[1.1, 2.0], Cs=[1, 10], cv=2)
    search.fit(X, y).report(tmp_path / "cv.html")
    assert "path" in titles(tmp_path / "cv.html")


def test_numbers(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    model = mk.MKLRegressor("rbf@0-4; linear@5-9").fit(X[::2], y[::2])
    model.report(tmp_path / "values.html", X[1::2], y[1::2])
    text, reader = read(tmp_path / "values.html")
    assert f"the R² is {model.score(X[1::2], y[1::2]):.3f}" in text
    assert "values" in titles(tmp_path / "values.html") and reader.open == []


def test_times(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = np.exp(X[:, 0]), rng.uniform(size=80) < 0.7
    model = mk.MKLSurvival("rbf@0-1; rbf@2-3", random_state=0).fit(X, y)
    model.report(tmp_path / "times.html", X, y)
    text, _ = read(tmp_path / "times.html")
    assert "unseen rows the concordance is" in text
    assert re.search(r'"true":"[^"]+\+"', text)  # not over yet


def test_kernel_matrices(tmp_path, iris):
    _, X, y = iris
    stack = np.stack([X[:, :2] @ X[:, :2].T, X[:, 2:] @ X[:, 2:].T], axis=-1)
    model = mk.MKLClassifier("precomputed", random_state=0).fit(stack, y)
    model.report(tmp_path / "given.html", stack[:30], y[:30])  # no square: no picture
    assert "places" not in titles(tmp_path / "given.html")
    model.report(tmp_path / "given.html", stack, y)
    assert "places" in titles(tmp_path / "given.html")


def test_two_hundred_kernels_and_many_classes(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 50)), np.arange(300) % 30
    X[:, 0] += y
    kernels = [f"rbf@{j}" for j in range(50)]
    model = mk.MKLClassifier(kernels, p=1.5, random_state=0).fit(X[:150], y[:150])
    model.report(tmp_path / "many.html", X[150:], y[150:])
    text, reader = read(tmp_path / "many.html")
    assert reader.open == [] and "The 40 heaviest of 50 kernels" in text
    assert "other classes" in text and len(text) < 1_000_000


def test_bad_calls(iris, strange_study, tmp_path):
    model, X, y = iris
    with pytest.raises(TypeError, match="unseen rows X and their y, got one"):
        model.report(tmp_path / "x.html", X)
    with pytest.raises(TypeError, match="a study has its rows already"):
        write_report(strange_study, tmp_path / "x.html", X, y)
    with pytest.raises(ValueError, match="y must hold labels that the model was"):
        model.report(tmp_path / "x.html", X, y + 1)
    with pytest.raises(OSError, match="choose another folder"):
        model.report(tmp_path / "none" / "x.html", X, y)
    with pytest.raises(Exception, match="not fitted"):
        mk.MKLClassifier().report(tmp_path / "x.html", X, y)
    with pytest.raises(Exception, match="call fit first"):
        mk.Study().report(tmp_path / "x.html")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_study_says_so(strange_study, tmp_path):
    from copy import copy

    part = copy(strange_study)
    part.n_finished_ = 2
    for name in ("model_", "path_", "stability_", "overview_", "weights_"):
        delattr(part, name)
    part.report(tmp_path / "part.html")
    assert "2 of 3 splits were finished" in read(tmp_path / "part.html")[0]
    assert "convergence" not in titles(tmp_path / "part.html")
