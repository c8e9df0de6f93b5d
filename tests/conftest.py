"""Settings of the whole suite.

Property tests draw the same examples in every run, so that a red suite is red again when it is repeated. To look for new ones:
``HYPOTHESIS_PROFILE=explore`` (fresh examples, five times as many where a test does not set its own number).
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", max_examples=500, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
