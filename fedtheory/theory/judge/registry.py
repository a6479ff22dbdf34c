"""The papers that are known, and the statements they bring.

A paper comes from the package, from another package by the entry point group ``fedtheory.papers``,
or from a file that a user names. Nothing here knows any of them by name.
"""

from __future__ import annotations

import hashlib
import importlib.util
import pkgutil
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from fedtheory.errors import DataFileError, FedTheoryError, InvalidInput, MissingCapability, suggest
from fedtheory.inputs import require
from fedtheory.parallel import interrupted
from fedtheory.theory.judge.proof import Proof
from fedtheory.theory.judge.request import Tuned
from fedtheory.theory.judge.setting import About, Setting
from fedtheory.theory.judge.statement import Statement

__all__ = [
    "ENTRY_POINTS", "RegisteredPaper", "about_of", "all_statements", "by_paper", "content_of",
    "get", "is_ours", "load_file", "missing_import", "paper", "paper_of", "papers", "read_file",
    "register", "rule_words", "setting_of",
]  # fmt: skip

ENTRY_POINTS = "fedtheory.papers"
MORE = (
    "about", "printed", "rules", "aliases", "figures", "witnesses", "rule_order", "rule_words",
    "rule_short", "tuned", "computed", "step_sizes",
)  # fmt: skip


class RegisteredPaper:
    """A paper as the registry knows it; `fedtheory.theory.Paper` is the one that authors write.

    Attributes
    ----------
    id : the first part of its statements' ids
    title : of headings
    source : as in a list of references
    about : one line on the paper
    statements : in the order of the paper
    setting : judges them
    proofs : chains of steps by which its theorems are proved
    file : the file that it was read from by `load_file`, '' for a paper of an installed package
    printed : on what, or with what, "as printed" is judged
    rules : the rules of its forms in words; '' where there is one only
    aliases : dict other id -> id
    figures : the module, or the package, with what `shown` gives; '' for none. A name, so that
        nothing is loaded before it is drawn.
    witnesses : the package whose folder ``witnesses`` holds the files that come with it, or ''
    rule_order : under which rule a form is shown where one row stands for it: the first of these
    rule_words : dict rule -> how a sentence says it, where that is not '... rule'
    rule_short : dict rule -> how a narrow column says it, where the rule itself is too long
    tuned : callable(method, request, rounds, batch_size) -> `Tuned`
        A method with the hyperparameters that a theorem gives it, for a user who runs it; None
        where no theorem gives any. Rounds and batch size are as he asked for them, None where he
        did not.
    computed : dict method -> {option: what it is taken from}, of the methods that it makes
    step_sizes : callable(algorithm, problem, participation, rounds) -> the schedule of local steps
        That a theorem gives a run of the method; it raises `InvalidInput` where there are none.
    """

    file = figures = witnesses = rules = ""
    statements: tuple[Statement, ...]
    setting: Setting
    about: str
    printed: str = "as the file says it"
    aliases: Mapping[str, str] = MappingProxyType({})
    rule_order: tuple[str, ...] = ()
    rule_words: Mapping[str, str] = MappingProxyType({})
    rule_short: Mapping[str, str] = MappingProxyType({})
    tuned: Callable[..., Tuned | None] | None = None
    computed: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    step_sizes: Callable[..., Any] | None = None

    def __init__(self, id: str, title: str = "", source: str = "", **more: Any) -> None:
        self.id, self.title, self.source = id, title or id, source
        self.about = ". ".join(v for v in (title, source) if v) or id
        for name, value in more.items():
            if name not in MORE:
                raise suggest(name, MORE, "keyword of Paper")
            setattr(self, name, value)
        self.proofs: list[Proof] = []
        self.declared: list[Any] = []  # its statements, as they were written
        self._setting: Setting | None = None

    def shown(self, what: str) -> tuple[Any, ...]:
        """Give what the module `figures` shows of the paper; () where it has nothing of that name.

        Where it is a package, that stands in its file ``what``.

        Parameters
        ----------
        what : the name of a tuple, in small letters
            'figures' and 'on_request', of `fedtheory.plotting.figure.Figure`: a campaign draws the
            former only, and each `fedtheory.plotting.experiment.Experiment` of the latter is one of
            `fedtheory experiment`; 'headline', the finding in one sentence, of
            `fedtheory.theory.judge.reviews.Clause`; 'reviews', the questions of reviewers, of
            `fedtheory.theory.judge.reviews.Point`.
        """
        if not self.figures:
            return ()
        module = importlib.import_module(self.figures)
        files = pkgutil.iter_modules(getattr(module, "__path__", ()))
        if what in (file.name for file in files):
            module = importlib.import_module(f"{self.figures}.{what}")
        return tuple(getattr(module, what.upper(), ()))

    def only(self, *statements: Statement) -> Self:
        """Give the paper with these statements only, judged as before."""
        fewer = copy(self)
        fewer._setting, fewer.declared = self.setting, list(statements)
        return fewer


_PAPERS: dict[str, RegisteredPaper] = {}
_STATEMENTS: dict[str, Statement] = {}
_ALIASES: dict[str, str] = {}
_OURS: set[str] = set()  # ids of the papers of this package
_LOADED: list[bool] = []


def register(paper: RegisteredPaper) -> RegisteredPaper:
    """Add a paper and its statements.

    The same paper twice is added once. A file that is read again replaces what it had.

    Raises `FedTheoryError` for what is no `Paper`, for another paper of that id, and for a
    statement of another id than the paper's, one that stands in it twice, or one without forms; and
    what the statements themselves raise, with file and line.
    """
    remedy = "use fedtheory.theory.Paper(id, title, source)"
    require(isinstance(paper, RegisteredPaper), "paper", paper, remedy)
    known = _PAPERS.get(paper.id)
    if known is paper:
        return paper
    if known is not None and not (paper.file and known.file == paper.file):
        raise FedTheoryError(
            f"two papers are called {paper.id!r}: {known.title} and {paper.title}; "
            "give one of them another id"
        )
    statements = paper.statements
    paper.setting  # noqa: B018 - made now, so that what its worlds lack is told here
    ids = [s.id for s in statements]
    for s in statements:
        if s.paper != paper.id:
            own = s.id.rpartition("/")[2]
            told = f"statement {s.id} is not of paper {paper.id!r}"
            raise FedTheoryError(f"{told}: call it {paper.id}/{own}")
        if ids.count(s.id) > 1:
            raise FedTheoryError(f"statement {s.id} is registered twice")
        if not s.forms:
            raise FedTheoryError(f"statement {s.id} has no form: there is nothing to judge")
    if known is not None:
        _forget(known)
    _PAPERS[paper.id] = paper
    _STATEMENTS.update({s.id: s for s in statements})
    _ALIASES.update(paper.aliases)
    return paper


def _forget(paper: RegisteredPaper) -> None:
    for s in paper.statements:
        _STATEMENTS.pop(s.id, None)
    for alias in paper.aliases:
        _ALIASES.pop(alias, None)
    del _PAPERS[paper.id]


def _load() -> None:
    """Register what installed packages bring, once.

    This package's papers come first, then the others by the entry points' names. One that cannot
    be loaded is told, and the others are used.
    """
    if _LOADED:
        return
    _LOADED.append(True)  # before, as a paper may look up a statement while it is loaded
    points = entry_points(group=ENTRY_POINTS)
    for point in sorted(points, key=lambda p: (p.name != "fedtheory", p.name, p.value)):
        try:
            brought = [register(each).id for each in _brought(point.load())]
            _OURS.update(brought if point.name == "fedtheory" else ())
        except Exception as error:  # another package's code
            if interrupted(error):
                raise KeyboardInterrupt from error
            told = f"{type(error).__name__}: {error}"
            what = f"the papers of {point.name} ({point.value})"
            warnings.warn(f"{what} are left out: {told}", stacklevel=2)


def _brought(found: Any) -> list[RegisteredPaper]:
    """List the papers that an entry point gives, or raise `InvalidInput` for anything else."""
    one = isinstance(found, RegisteredPaper | str) or not hasattr(found, "__iter__")
    several = [found] if one else list(found)
    for each in several:
        told = f"it gives {each!r:.80} ({type(each).__name__})"
        if not isinstance(each, RegisteredPaper):
            must = "must give a fedtheory.theory.Paper, or a list of papers"
            raise InvalidInput(f"{told}, and {must}")
    return several


def load_file(path: Path | str) -> list[RegisteredPaper]:
    """Register the papers that a Python file makes, and give them.

    A file that is read again replaces what it brought. Of a file from which an installed package
    has brought its papers, they are given as they are registered.

    Raises what `read_file` and `register` raise, and `InvalidInput` for a paper without statements.
    """
    _load()
    where = Path(path).resolve()
    if where.is_file() and (installed := _installed_from(where)):
        return installed
    with read_file(path) as found:
        if empty := [each.id for each in found if not each.statements]:
            told = f"the paper {empty[0]!r} has no statements"
            raise InvalidInput(f"{path}: {told}: there is nothing to judge")
        return [register(each) for each in found]


@contextmanager
def read_file(path: Path | str) -> Iterator[list[RegisteredPaper]]:
    """Import a Python file anew, for a body of ``with`` that is given its papers.

    The module is kept in ``sys.modules`` under a name made from its path, so that what it defines
    can be pickled. Another process reads the file before it unpickles
    (`fedtheory.theory.judge.campaign.Task`). Where the body fails, the module is forgotten, and
    the error says where in the file it happened.

    Raises `DataFileError` where there is no such file, and `InvalidInput`, with the line, where it
    cannot be imported, has no paper, or the body fails in it.
    """
    where = Path(path).resolve()
    if not where.is_file():
        raise DataFileError(
            f"{path}: no such file; give a Python file that makes a fedtheory paper"
        )
    digest = hashlib.sha256(str(where).encode()).hexdigest()[:8]
    name = f"fedtheory_file_{where.stem}_{digest}"
    loader = importlib.machinery.SourceFileLoader(name, str(where))
    spec = importlib.util.spec_from_loader(name, loader, origin=str(where))
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    module.__file__, before = str(where), sys.modules.get(name)
    lead, rest = "it cannot be imported, ", f"; it must run by itself, as `python {path}` shows"
    sys.modules[name] = module
    sys.path.insert(0, str(where.parent))  # as Python does with a file that it runs
    try:  # always the text as it is now, never a cached one
        exec(compile(where.read_bytes(), str(where), "exec"), module.__dict__)
        found: dict[str, RegisteredPaper] = {}
        for v in vars(module).values():
            if isinstance(v, RegisteredPaper) and _PAPERS.get(v.id) is not v:
                found.setdefault(v.id, v)
        if not found:
            remedy = "write paper = Paper('my-paper', title=...) at its top level"
            raise InvalidInput(f"{path}: no paper in it: {remedy}")
        for each in found.values():
            each.file = str(where)
        lead, rest = "", ", where a statement is tried on a small instance"
        yield list(found.values())
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        sys.modules.update({} if before is None else {name: before})
        if interrupted(error):
            raise KeyboardInterrupt from error
        line = _line_of(error, str(where))
        if isinstance(error, FedTheoryError):
            text = str(error)
            if text.startswith(f"{where.name}, line "):  # it says itself where
                text = f"{path}{text.removeprefix(where.name)}"
            whole = text if text.startswith(str(path)) else f"{path}{line}: {text}"
            raise InvalidInput(whole) from error
        if told := missing_import(error):
            raise InvalidInput(f"{path}{line}: {told}") from error
        raise InvalidInput(f"{path}{line}: {lead}{type(error).__name__}: {error}{rest}") from error
    finally:
        sys.path.remove(str(where.parent))


def missing_import(error: BaseException) -> str:
    """Say which import a file lacks, where it uses a name of `fedtheory.theory`; else ''."""
    name = error.name if isinstance(error, NameError) else None
    known = name in importlib.import_module("fedtheory.theory").__all__
    return f"{error}: write `from fedtheory.theory import {name}`" if known else ""


def _installed_from(where: Path) -> list[RegisteredPaper]:
    """The registered papers of installed packages that are names of a module from this file."""
    files = [(m, str(getattr(m, "__file__", ""))) for m in list(sys.modules.values())]
    named = [(m, file) for m, file in files if file.endswith(where.name)]
    values = {id(v) for m, f in named if Path(f).resolve() == where for v in vars(m).values()}
    return [p for p in _PAPERS.values() if not p.file and id(p) in values]


def _line_of(error: BaseException, file: str) -> str:
    """', line 7': where in the file it happened; '' where that is not known."""
    wrong = isinstance(error, SyntaxError) and error.filename == file and error.lineno
    line = wrong or last_line(error, file)
    return f", line {line}" if line else ""


def last_line(error: BaseException, file: str) -> int | None:
    """The last line of a file that an error came through, or None."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno for f in reversed(frames) if f.filename == file), None)


def papers() -> list[RegisteredPaper]:
    """All papers, in the order in which they were registered.

    Raises `MissingCapability` where no installed package brings one, not even this one.
    """
    _load()
    if not _PAPERS:
        raise MissingCapability(
            f"no installed package brings a paper (entry points {ENTRY_POINTS!r}): fedtheory runs "
            "from a folder that is not installed, or that was installed before it had papers; run "
            "`pip install -e .` in it"
        )
    return list(_PAPERS.values())


def paper(id: str) -> RegisteredPaper:
    """The paper of that id. Raises `UnknownName` with those that are known."""
    _load()
    if id not in _PAPERS:
        raise suggest(id, list(_PAPERS), "paper")
    return _PAPERS[id]


def paper_of(statement: str | Statement) -> RegisteredPaper:
    """The paper that a statement was declared in, or that is registered for a statement's id.
    Raises `UnknownName`."""
    if isinstance(statement, Statement):
        home: RegisteredPaper = statement.home or paper(statement.paper)
        return home
    return paper(statement.partition("/")[0])


def setting_of(statement: str | Statement) -> Setting:
    """The setting that judges a statement."""
    return paper_of(statement).setting


def about_of(statement: Statement) -> About:
    """A statement in words, as its setting says it."""
    return setting_of(statement).about(statement)


def rule_words(rule: str, statement: str) -> str:
    """A rule as a sentence says it: 'sign rule', or what the statement's paper says."""
    return paper_of(statement).rule_words.get(rule, f"{rule} rule")


def by_paper(
    items: Sequence[Any], statement: Callable[[Any], str]
) -> list[tuple[RegisteredPaper, list[Any]]]:
    """Items grouped by the paper of their statement, in order."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(statement(item).partition("/")[0], []).append(item)
    return [(paper(id), group) for id, group in groups.items()]


def get(name: Any) -> Statement:
    """The statement of that id, for example 'my-paper/theorem-3.1', or of that name in a file:
    'my_paper.py::theorem-3.1'.

    A `Statement`, or an `AuthoredStatement` of a paper, is that statement.

    Raises `UnknownName` with the nearest ids, and of a file what `load_file` raises.
    """
    given = getattr(name, "statement", name)
    if isinstance(given, Statement):
        return given
    _load()
    file, inside, own = str(name).partition("::")
    if inside and file.endswith(".py"):
        found = {s.id.partition("/")[2]: s for p in load_file(file) for s in p.statements}
        if own not in found:
            raise suggest(own, found, f"statement of {file}")
        return found[own]
    name = _ALIASES.get(name, name)
    if name not in _STATEMENTS:
        full = [known for known in _STATEMENTS if known.partition("/")[2] == str(name)]
        raise suggest(
            name, full or [*_STATEMENTS, *_ALIASES], "statement", "`fedtheory list` has all"
        )
    return _STATEMENTS[name]


def content_of(chosen: RegisteredPaper) -> str | None:
    """Give the key of a paper's code in kept results: '' for this package's papers, which come with
    its own code; for a file a hash of it and of the Python files beside it; None for another
    package's, whose code may change unseen."""
    if not chosen.file:
        return "" if is_ours(chosen) else None
    files = (Path(chosen.file), *sorted(Path(chosen.file).parent.glob("*.py")))
    digests = b"".join(hashlib.sha256(f.read_bytes()).digest() for f in files)
    return hashlib.sha256(digests).hexdigest()


def is_ours(paper: RegisteredPaper) -> bool:
    """True if this package brings the paper."""
    return paper.id in _OURS


def all_statements(prefix: str = "") -> Sequence[Statement]:
    """All statements in the order of their papers, or those whose id starts with the prefix; errors
    as of `papers`."""
    papers()
    return [s for s in _STATEMENTS.values() if s.id.startswith(prefix)]
