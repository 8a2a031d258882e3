# SPDX-License-Identifier: LGPL-2.1-or-later
"""The short form of soak.py, which has the long one."""
import soak
from box import heavy, within


@heavy
@within(400)
def test_nothing_grows():
    more = soak.soak(200, 40)
    assert not more, more
