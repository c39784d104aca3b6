"""A browser tells its time zone, and the next page shows times in it."""

import pytest

from tests.browser.browsing import Browser

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_login_that_chose_no_zone_sees_the_browsers(as_root: Browser) -> None:
    zone = {"timezoneId": "Asia/Tokyo"}
    as_root.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", zone)
    try:
        as_root.open("/admin/preferences/")
        as_root.open("/admin/preferences/")
        assert "in Asia/Tokyo." in as_root.text
        assert as_root.complaints() == []
    finally:
        as_root.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
