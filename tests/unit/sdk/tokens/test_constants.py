from __future__ import annotations

from laps_sdk.tokens import constants


def test_claims_that_we_check_are_not_named_as_unchecked() -> None:
    checked = {
        value
        for name, value in vars(constants).items()
        if name.startswith("CLAIM_") and isinstance(value, int)
    }
    assert len(checked) == 10
    assert not checked & set(constants.CLAIM_NAMES)


def test_the_numbers_of_the_registries() -> None:
    # RFC 9053 for algorithms, RFC 8392 and RFC 9052 for tags.
    assert constants.ALGORITHMS == {"HS256": 5, "ES256": -7, "EdDSA": -8}
    assert (constants.TAG_CWT, constants.TAG_MAC0, constants.TAG_SIGN1) == (61, 17, 18)
    assert constants.TOKEN_TYPE_CAT == 1
    assert (constants.CLAIM_MOQT, constants.CLAIM_MOQT_REVAL) == (327, 328)
