"""A witness's figure goes over the wire whole, and what is no time is nothing."""

from __future__ import annotations

import math

import pytest

from hotkernel_contract import protocol


def test_a_claim_arrives_as_it_was_said():
    frame = protocol.unpack(protocol.pack_witness(36.125, 7))

    assert (frame.kind, frame.nonce, protocol.witnessed_us(frame)) == (protocol.WITNESSED, 7, 36.125)


@pytest.mark.parametrize("us", [0.0, -1.0, math.nan, math.inf, 1e13])
def test_a_claim_that_is_no_time_is_nothing(us):
    assert protocol.witnessed_us(protocol.unpack(protocol.pack_witness(us, 7))) is None
