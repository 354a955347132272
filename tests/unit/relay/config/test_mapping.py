from __future__ import annotations

import pytest

from laps_relay.config import mapping
from laps_relay.config.model import RelayConfig
from laps_sdk.edge.reports import ReportLimits
from laps_sdk.edge.settings import EdgeSettings
from laps_sdk.forwarding.interfaces import CacheLimits, PlaneLimits
from laps_sdk.quic.admission import AdmissionLimits
from laps_sdk.quic.base import ConnectionLimits, EgressLimits
from laps_wire.peering.laps2 import RelayType


def test_defaults_are_those_of_the_code() -> None:
    # Also fails if a field of the code has no key here, or a key no field.
    config = RelayConfig()
    assert mapping.edge_settings(config) == EdgeSettings()
    assert mapping.plane_limits(config) == PlaneLimits()
    assert mapping.cache_limits(config) == CacheLimits()
    assert mapping.connection_limits(config) == ConnectionLimits()
    assert mapping.egress_limits(config) == EgressLimits()
    assert mapping.admission_limits(config) == AdmissionLimits()
    assert mapping.report_limits(config) == ReportLimits()


def test_every_field_of_the_code_can_be_set() -> None:
    config = RelayConfig()
    for kind, section in (
        (EdgeSettings, config.limits),
        (PlaneLimits, config.limits.plane),
        (CacheLimits, config.cache),
        (ConnectionLimits, config.limits.connection),
        (EgressLimits, config.limits.egress),
        (AdmissionLimits, config.limits.admission),
        (ReportLimits, config.observe.reports),
    ):
        assert set(kind.__dataclass_fields__) <= set(type(section).model_fields)


def test_a_value_arrives() -> None:
    config = RelayConfig.model_validate({"cache": {"max_age": "5s"}})
    assert mapping.cache_limits(config).max_age == 5.0


@pytest.mark.parametrize(
    ("network", "signed"),
    [
        ({}, False),
        ({"auth": "certificate", "ca": "/ca.pem"}, True),
        ({"auth": "certificate", "ca": "/ca.pem", "signed_nodes": False}, False),
        ({"signed_nodes": True}, True),
    ],
)
def test_words_are_signed_where_certificates_are_or_where_it_is_said(
    network: dict[str, object], signed: bool
) -> None:
    config = RelayConfig.model_validate({"network": network})
    assert mapping.network_settings(config, RelayType.EDGE).signed_nodes is signed
