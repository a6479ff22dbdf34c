"""The ports of public reports: each fails the audit by its reported mistake, and passes with that line put right."""

import numpy as np
import pytest

pytest.importorskip("torch")  # four of the mistakes are about autograd

from examples.ports import repaired, scaffold, with_lines
from examples.ports.reports import FALSE_ALARMS, READ, REPORTS
from fedtheory.testing import audit_algorithm
from validation.audits import ports

ALL = (*REPORTS, *READ)
NAMES = [report.port.__name__ for report in ALL]
BLIND = {  # what converges, and where it should: no rate test can see the mistake
    "fedlab_305", "pytorch_27", "fedlab_280", "fl_bench_165", "flower_1654", "openfl_823", "flower_2210", "plato_386", "fl4health_64",
    "niid_bench_8", "niid_bench_12", "flower_893", "fedmllm_4",
}  # fmt: skip


@pytest.mark.parametrize("report", ALL, ids=NAMES)
def test_a_reported_mistake_is_found_and_named(report):
    found = ports.audited(report.port, report.method)
    assert not found.passed
    assert set(report.mistakes) in [{m.name for m in e} for e in found.explanations]
    assert len(found.explanations[0]) == len(report.mistakes)
    assert report.url in report.port.__doc__


@pytest.mark.parametrize("report", ALL, ids=NAMES)
def test_with_the_line_put_right_it_passes(report):
    found = audit_algorithm(repaired(report.port), report.method, skip=("convergence",))
    assert found.passed, str(found)


@pytest.mark.parametrize("report", FALSE_ALARMS, ids=[r.port.__name__ for r in FALSE_ALARMS])
def test_what_looks_wrong_and_is_right_passes(report):
    found = ports.audited(report.port, report.method)
    assert found.passed, str(found)
    with pytest.raises(ValueError, match="has no line"):
        repaired(report.port)


def test_a_port_replaces_lines_that_its_method_has_once():
    def port() -> None:
        """Nothing is wrong in it."""

    for line in ("moves = []", "y = x.copy()\ny = x.copy()"):
        with pytest.raises(ValueError, match="does not have the line"):
            with_lines(scaffold.scaffold, {line: "pass"})(port)


def test_what_a_rate_test_cannot_see():
    assert {r.port.__name__ for r in REPORTS if ports.rate_test(r.port, r.method) == "passes"} == BLIND
    right = {report.method: report for report in REPORTS if "torch" not in report.port.__module__}
    for report in right.values():
        assert audit_algorithm(repaired(report.port), report.method).passed
        assert ports.rate_test(repaired(report.port), report.method) == "passes", report.port.__name__


def test_the_penalties_that_are_written_do_nothing():
    """Four reasons, one result: the models are those of FedAvg to the last bits."""
    from examples.ports import fedavg, in_torch
    from fedtheory.testing.audit.battery import clients_of, start_of

    clients, state = clients_of("squared", 0), {"x": start_of(0)}
    plain = repaired(fedavg.fedlab_305)(state, clients, [1, 3], learning_rate=0.1, local_steps=4)["x"]
    for name in ("fedlab_280", "fl_bench_165", "flower_1654", "openfl_823"):
        port = getattr(in_torch, name)
        for mu in (0.5, 5.0):
            settings = {"learning_rate": 0.1, "local_steps": 4, "mu": mu}
            assert np.abs(port(state, clients, [1, 3], **settings)["x"] - plain).max() < 1e-14
            assert np.abs(repaired(port)(state, clients, [1, 3], **settings)["x"] - plain).max() > 1e-2


def test_the_page_says_what_is_found():
    text = ports.PAGE.read_text()
    assert ports.page_with(text, ports.sections()) == text, "run `python -m validation.audits.ports write`"
    assert ports.page_with(text, {"ports": "| other |"}) != text


def test_a_page_without_the_parts_is_refused():
    with pytest.raises(Exception, match="must have one part 'ports', it has 0"):
        ports.page_with("# Audit\n", {"ports": ""})
