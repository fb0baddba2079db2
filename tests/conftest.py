"""Settings shared by all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Runs share two cores with other work: a slow example is no failure.
settings.register_profile("default", deadline=None, max_examples=100)
settings.register_profile("fuzz", deadline=None, max_examples=3_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
