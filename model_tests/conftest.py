"""Hypothesis for all tests: a busy machine is no failure, and continuous integration draws the same each time.

Since these cases are not new ones, it draws half as many as are drawn elsewhere. `make deep` draws many, and others
each time.

An interrupt ends the tests and their processes wherever they are started.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from model_tests.budget import Budget
from model_tests.seeded import DEEP, DEEPER

EXAMPLES = 50
BUSY = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile("here", deadline=None, suppress_health_check=BUSY)
settings.register_profile(
    "ci", deadline=None, suppress_health_check=BUSY, derandomize=True, max_examples=EXAMPLES
)
settings.register_profile("deep", deadline=None, suppress_health_check=BUSY, max_examples=EXAMPLES * DEEPER)
settings.load_profile("deep" if DEEP else "ci" if os.environ.get("CI") else "here")

# A shell lets what it starts in the background ignore interrupts, and so do all processes that this one starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Tell at the end of each run what took longest; of a run of all tests, which folders are beyond their budget."""
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not DEEP
    config.pluginmanager.register(Budget(judges=whole and "not spark" in str(config.option.markexpr)))


def pytest_collection_finish() -> None:
    """Collect garbage less often. No collection looks at the modules and tests that are loaded by now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
