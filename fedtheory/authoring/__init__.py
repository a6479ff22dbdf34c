"""A theorem of anyone's in one Python file."""

from fedtheory.authoring.claims import form, printed, repaired, wrong
from fedtheory.authoring.declare import GradientSteps, Minimise, among, method, upto
from fedtheory.authoring.paper import AuthoredStatement, Paper, load_file
from fedtheory.authoring.problem_classes import Lipschitz, Quadratics, SmoothConvex, StronglyConvex
from fedtheory.participation.cohorts import Bernoulli, Full, Uniform
from fedtheory.verification.statement import eq, le
