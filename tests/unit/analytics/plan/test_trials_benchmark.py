from __future__ import annotations

import pytest
from analytics.trials import rounds


@pytest.mark.untraced  # what it runs, the tests around it run with less
def test_the_plan_after_a_trial_is_another_one_and_better_whoever_lies() -> None:
    """In a synthetic world whose links are measured wrongly, by the network as it is."""

    def taught(lie_ms: float) -> tuple[float, int]:
        values, changed = rounds(2, edges=40, vias=10, tracks=20, count=1, share=0.2, lie_ms=lie_ms)
        assert values[0] == 1.0
        return values[1], changed

    better, changed = taught(0.0)
    assert better < 0.999
    assert changed > 0
    # A relay that exaggerates adds nothing; one that contradicts can only stop it.
    assert taught(-2000.0) == (better, changed)
    assert taught(2000.0)[0] <= 1.0
