"""Tests that any protocol or estimator joins by one line.

A protocol keeps the rules of its role if every check of :func:`conformance` passes. Estimators go
through scikit-learn's own checks; ``EXPECTED_FAILURES`` lists the only ones that may fail, and why.
"""

from collections.abc import Mapping

from unpooled import catalog
from unpooled.testing.conformance import Check, conformance

EXPECTED_FAILURES: Mapping[str, Mapping[str, str]] = {
    method.class_name: method.expected_failures
    for method in catalog.METHODS
    if method.expected_failures
}
"""Of scikit-learn's checks: which may fail, by estimator, and why."""

__all__ = ["EXPECTED_FAILURES", "Check", "conformance"]
