"""The settings of Iceberg's S3FileIO. That Java reads them is tested on real Spark."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.spark.s3 import is_of_s3, is_on_s3, s3_properties

KEYS: dict[str, Any] = {"s3_access_key_id": "lake", "s3_secret_access_key": "hidden"}
ROLE = "arn:aws:iam::1:role/lake"


@pytest.mark.parametrize(
    ("settings", "properties"),
    [
        ({}, {}),
        ({"s3_region": "eu-west-1"}, {"client.region": "eu-west-1"}),
        (
            {"s3_endpoint": "http://s:1"},
            {"s3.endpoint": "http://s:1", "client.region": "us-east-1", "s3.path-style-access": "true"},
        ),
        (
            {"s3_endpoint": "http://s:1", "s3_region": "lab", "s3_path_style_access": "false"},
            {"s3.endpoint": "http://s:1", "client.region": "lab", "s3.path-style-access": "false"},
        ),
        ({"s3_path_style_access": "true"}, {"s3.path-style-access": "true"}),
        (KEYS, {"s3.access-key-id": "lake", "s3.secret-access-key": "hidden"}),
        (
            {**KEYS, "s3_session_token": "short"},
            {"s3.access-key-id": "lake", "s3.secret-access-key": "hidden", "s3.session-token": "short"},
        ),
        (
            {**KEYS, "s3_anonymous": True},
            {"client.credentials-provider": "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"},
        ),
        (
            {"s3_role_arn": ROLE, "s3_region": "eu-west-1"},
            {
                "client.region": "eu-west-1",
                "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory",
                "client.assume-role.arn": ROLE,
                "client.assume-role.region": "eu-west-1",
                "client.assume-role.session-name": "iceberg-hms",
            },
        ),
    ],
)
def test_each_setting_has_its_property(settings: dict[str, Any], properties: dict[str, str]) -> None:
    assert s3_properties(Settings(**settings)) == properties


@pytest.mark.parametrize("others", [{}, {**KEYS, "s3_region": "lab"}, {"s3_endpoint": "http://s:1"}])
def test_a_role_that_java_cannot_assume_is_refused(others: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"`s3\.role-arn`.*set `s3\.region`") as refused:
        s3_properties(Settings(s3_role_arn=ROLE, **others))
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("location", [None, "", "file:/s3://b", "/wh", "hdfs://s3/wh", "s3x://b"])
def test_what_is_not_in_a_bucket(location: str | None) -> None:
    assert not is_on_s3(location)


@pytest.mark.parametrize(("name", "is_one"), [("s3.region", True), ("s3_region", True), ("clients", False)])
def test_settings_of_s3_are_known_by_their_names(name: str, is_one: bool) -> None:
    assert is_of_s3(name) is is_one
