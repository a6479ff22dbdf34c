"""Names, titles and formulas of anyone stand on the page as text: none of them is a part of it."""

from __future__ import annotations

from html.parser import HTMLParser

from command_line import call

from fedtheory.provenance import write_json
from fedtheory.report import html, saved

LIVE = '<script>alert(1)</script><img src=x onerror=alert(2)>"><svg onload=alert(3)><a href=javascript:alert(4)>'
OWN = '''"""A paper whose every word tries to be a part of the page."""
from fractions import Fraction

from fedtheory.algorithms import FedAvg
from fedtheory.theory import GradientSteps, Paper, SmoothConvex, le, printed, repaired

LIVE = {live!r}
paper = Paper({name!r}, title="A title " + LIVE, source="By " + LIVE)


@paper.statement(
    "lemma", about=FedAvg(), local=GradientSteps(1, lr=lambda c: 1 / c.beta), problems=SmoothConvex((1, 2), (1, 2)),
    title="A name " + LIVE, source="From " + LIVE, assumptions=("Assuming " + LIVE,),
)
def lemma(q):
    gain = q.gradient_sq / q.beta
    yield printed(le(q.F_next, q.F, -q.constant("c", 1) * gain), r"F(x) \\\\text{{" + LIVE + "}}", fails=True, note="A note " + LIVE)
    yield repaired(le(q.F_next, q.F, -q.constant("half", Fraction(1, 2)) * gain), "<b onclick=alert(5)>x</b> " + LIVE)
'''


class Tags(HTMLParser):
    """Collects the tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.text.append(data)


def assert_dead(page: str, *where: str) -> None:
    found = Tags(page)
    text = "".join(found.text)
    assert "alert(1)" in text, "the words are not on the page: it shows nothing"
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert not [v for _, v in found.attributes if v.strip().lower().startswith("javascript:")]
    assert "svg" not in found.tags or "onload" not in page.split("<svg", 1)[1][:200]
    scripts = page.lower().count("<script")
    assert scripts == Tags(page).tags.count("script") and "<script>alert" not in page.lower()
    assert not [v for name, v in found.attributes if name == "src" and not v.startswith("data:")]
    for words in where:
        assert words in text


def test_the_words_of_a_paper_of_ones_own_are_text(tmp_path):
    file = tmp_path / "hostile.py"
    file.write_text(OWN.format(live=LIVE, name="hostile"))
    call("verify", file, "--out", tmp_path / "results", "--budget", 5, "--workers", 1)
    assert_dead((tmp_path / "results" / "report.html").read_text(), "A name <script>alert(1)</script>", "A note <script>")


def test_the_words_of_a_campaigns_file_and_of_pictures_are_text(tmp_path):
    file = tmp_path / "hostile.py"
    file.write_text(OWN.format(live=LIVE, name="hostile-again"))
    call("verify", file, "--out", tmp_path, "--budget", 5, "--workers", 1)
    rows, record = saved.read_campaign(tmp_path / "campaign.json")
    picture = tmp_path / "seen.png"
    picture.write_bytes(b"\x89PNG not really")
    write_json(tmp_path / "seen.json", {"title": LIVE, "caption": LIVE})
    record["provenance"] = {**record["provenance"], "platform": LIVE, "python": LIVE, "device": LIVE}
    assert_dead(html.html_report(rows, record, [picture]))
