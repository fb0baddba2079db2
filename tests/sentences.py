"""What every refusal looks like."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unpooled.errors import InputError


def refuses(call: Callable[[], object], words: str, error: type[Exception] = InputError) -> None:
    """The call is refused in one clear sentence that has these words in it."""
    with pytest.raises(error, match=words) as caught:
        call()
    message = str(caught.value)
    assert message.endswith(".")
    assert ". " not in message
    assert "\n" not in message
