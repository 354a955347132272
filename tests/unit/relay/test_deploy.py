"""What lies in deploy/ speaks of metrics, keys and commands that exist."""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # no stubs in the test group

from laps_relay.config import load
from laps_relay.telemetry.metrics import Metrics

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


def metric_names() -> set[str]:
    names: set[str] = set()
    for family in Metrics().registry.collect():
        names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return names


def spoken_of(text: str) -> set[str]:
    return set(re.findall(r"\blaps_[a-z0-9_]+", text))


def test_dashboard_and_alerts_use_metrics_that_exist() -> None:
    dashboard = (DEPLOY / "grafana" / "laps-relay.json").read_text(encoding="utf-8")
    alerts = (DEPLOY / "prometheus" / "laps-alerts.yml").read_text(encoding="utf-8")
    assert len(json.loads(dashboard)["panels"]) >= 10
    assert len(yaml.safe_load(alerts)["groups"][0]["rules"]) >= 5
    assert spoken_of(dashboard) | spoken_of(alerts) <= metric_names()


def test_the_scrape_goes_to_the_default_port() -> None:
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(text)["scrape_configs"]
    assert job["static_configs"][0]["targets"] == ["127.0.0.1:33480"]


def test_the_example_sets_keys_that_exist() -> None:
    path = DEPLOY / "relay.example.toml"
    assert load(path).config.auth.keys
    assert "limits" in tomllib.loads(path.read_text(encoding="utf-8"))


def test_the_unit_runs_commands_that_exist() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    unit.read(DEPLOY / "systemd" / "laps-relay.service", encoding="utf-8")
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["ExecStart"].split()[1] == "serve"
    assert service["ExecStartPre"].split()[1:3] == ["config", "check"]
    sockets = configparser.ConfigParser()
    sockets.read(DEPLOY / "systemd" / "laps-relay.socket", encoding="utf-8")
    assert sockets["Socket"]["ListenDatagram"] == "33435"


def test_the_image_sets_keys_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    variables = dict(re.findall(r"(LAPS_[A-Z_]+)=(\S+)", text))
    assert len(variables) >= 3
    assert load(None, variables).config.listen.host == "::"
    assert "USER laps" in text
