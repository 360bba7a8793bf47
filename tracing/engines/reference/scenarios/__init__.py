"""The user reports that Turnlens began with, as scenarios that anyone can run: ``run_scenario("retention")``.

Each runs in virtual time and is deterministic by its seed. What the reports do not say stands in one table a scenario, with a
reason, and is the same for every row.
"""

from turnlens.tracing.engines.reference.scenarios import agent, authors, messages, paired_soak, retention
from turnlens.tracing.engines.reference.scenarios.base import Arm, OpenRecorder, Parameter, Result, Scenario, unrecorded

__all__ = ["SCENARIOS", "Arm", "OpenRecorder", "Parameter", "Result", "Scenario", "run_scenario"]

SCENARIOS: dict[str, Scenario] = {
    module.SCENARIO.name: module.SCENARIO for module in (retention, authors, agent, messages, paired_soak)
}


def run_scenario(name: str, *, seed: int = 7, open_recorder: OpenRecorder | None = None) -> Result:
    """Run a scenario. ``open_recorder`` (see :mod:`base`) opens the recorder of each row; without one nothing is recorded.

    Raises KeyError where there is no scenario of that name."""
    return SCENARIOS[name].run(seed, open_recorder or unrecorded())
