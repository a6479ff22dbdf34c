"""Colours that the colour-blind tell apart, sizes of a page, lines of words that fit, and data that come back from JSON."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest

from fedtheory.plotting import style
from fedtheory.plotting.figure import restored
from fedtheory.provenance import to_jsonable
from paper_figures.fedelasticnet.common import RULE_COLOURS

# Machado, Oliveira and Fernandes (2009): what linear RGB becomes without the long and without the middle cones
SEEN = {
    "normal": np.eye(3),
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, how):
    """CIELAB of a colour as it is seen."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    white = np.array([0.95047, 1, 1.08883])
    xyz = XYZ @ np.clip(np.asarray(SEEN[how]) @ linear, 0, 1) / white
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def apart(one, other):
    return min(np.linalg.norm(lab(one, how) - lab(other, how)) for how in SEEN)


def test_methods_have_colours_that_the_colour_blind_tell_apart():
    plain = [m for m in style.METHOD_COLOURS if m not in style.ELASTIC_NETS and not m.startswith("fedelasticnet")]
    near = {(a, b): apart(style.METHOD_COLOURS[a], style.METHOD_COLOURS[b]) for a, b in combinations(plain, 2)}
    assert len(plain) > 10 and min(near.values()) > 12, min(near, key=near.get)
    assert apart("#555555", "#882255") < 3  # the measure does notice a red that is grey without red
    assert len({style.METHOD_MARKERS[m] for m in plain}) == len(plain)
    assert apart(*RULE_COLOURS.values()) > 20


def test_an_elastic_net_is_solid_beside_its_dashed_plain_method():
    for net, plain in style.ELASTIC_NETS.items():
        ours, theirs = style.method_style(net, paired=True), style.method_style(plain, paired=True)
        assert ours["color"] == theirs["color"] and ours["linestyle"] == "-" and theirs["linestyle"] == "--"
        assert style.method_style(plain)["linestyle"] == "-"


def test_a_page_is_as_wide_whatever_stands_on_it_and_words_fit():
    words = "A finding that is much longer than a page is wide, " * 4 + r"with $\lambda_2 / \beta = 27$ at its end"
    with style.house_style():
        one, _ = style.page_figure(1, 1)
        many, axes = style.page_figure(2, 4)
        assert one.get_figwidth() == many.get_figwidth() and axes.shape == (2, 4)
        before = many.get_figheight()
        style.headline(many, words, words)
        many.canvas.draw()
        assert many.get_figheight() > before  # the panels keep their height
        for text in many.texts:
            box = text.get_window_extent()
            assert box.x1 <= many.bbox.width and "\n" in text.get_text() and r"$\lambda_2 / \beta = 27$" in text.get_text()
            assert all(box.y0 > ax.get_window_extent().y1 for ax in axes.ravel())


@pytest.mark.parametrize("dpi", [72, 110, 130, 150, 300])
def test_words_above_a_figure_fit_at_every_resolution(dpi):
    """Letters are fitted to pixels, and are wider at some resolutions than where the lines were broken."""
    words = "Local work a round: 5 gradient steps, step size 0.25. It does not converge in these rounds: "
    words += "F(x) - F* is 0.009157 after round 60, and the least was 0.008606, after round 7"
    with style.house_style():
        figure, _ = style.page_figure(1, 3, ratio=0.8)
        style.headline(figure, words, words)
        figure.set_dpi(dpi)
        figure.canvas.draw()
        assert max(text.get_window_extent().x1 for text in figure.texts) <= 0.995 * figure.bbox.width


def test_sizes_are_those_of_the_venues():
    from tueplots import figsizes

    widths = {name: size[0] for name, size in style.SIZES.items()}
    assert widths == {"page": 6.75, "neurips": 5.5, "icml": 3.25, "ieee": 3.5, "slide": 10.0} and style.SIZES["slide"][1] == 5.6
    assert widths["neurips"] == figsizes.neurips2024()["figure.figsize"][0]
    assert widths["icml"] == figsizes.icml2024_half()["figure.figsize"][0]
    with style.house_style("icml"):
        assert style.new_figure(*style.mpl.rcParams["figure.figsize"])[0].get_figwidth() == 3.25 and style.grows()
    with style.house_style("slide"):
        assert not style.grows()


def test_a_band_holds_the_middle_of_the_seeds():
    values = np.arange(11.0)[None] * np.array([[1.0], [2.0]])
    found = style.middle(values)
    for name, expected in (("low", [1, 2]), ("middle", [5, 10]), ("high", [9, 18])):
        assert found[name] == pytest.approx(expected)
    with style.house_style():
        _, axes = style.page_figure()
        style.band(axes[0, 0], [1, 2], values)
        style.band(axes[0, 0], [1, 2], values[:, :1])  # of one seed there is a line alone
    assert len(axes[0, 0].lines) == 2 and len(axes[0, 0].collections) == 1


FACTORS = [
    (0.0042, "0.0042"), (1.4, "1.4"),
    (1837.0, "1,800"), (5.34e9, "5.3 × 10⁹"), (np.inf, "infinitely many"),
]


@pytest.mark.parametrize(("value", "said"), FACTORS)
def test_factors_in_words(value, said):
    assert style.times(value) == said


def test_data_come_back_from_json():
    data = {"a": np.array([[1.0, np.nan], [np.inf, 2.0]]), 3: {"x": [1, 2]}, "words": ["b", "c"], "rows": [[1.0], [1.0, 2.0]]}
    data["none"] = None
    back = restored(json.loads(json.dumps(to_jsonable(data))))
    np.testing.assert_array_equal(back["a"], data["a"])
    assert back[3]["x"].tolist() == [1, 2] and back["words"] == ["b", "c"] and back["none"] is None
    assert [r.tolist() for r in back["rows"]] == data["rows"]
