"""When pages show their first content, in a headless Chromium on this machine."""

import shutil
import time
from collections.abc import Mapping
from statistics import median

from selenium import webdriver

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
# What a page loads after its first paint is not the next page's work.
REST = 0.5
_PAINTED = """
    const done = arguments[0];
    new PerformanceObserver((list) => {
        const [paint] = list.getEntriesByName("first-contentful-paint");
        if (paint) done(paint.startTime);
    }).observe({ type: "paint", buffered: true });
"""


def first_paints(
    address: str, cookies: Mapping[str, str], paths: Mapping[str, str], rounds: int = 5
) -> dict[str, float]:
    """The median milliseconds until the first content, by name. Empty without Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        return {}
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ARGUMENTS:
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    try:
        driver.get(f"{address}/admin/login/")
        for name, value in cookies.items():
            driver.add_cookie({"name": name, "value": value})
        painted: dict[str, list[float]] = {name: [] for name in paths}
        # The first round fills the browser's cache of static files.
        for number in range(rounds + 1):
            for name, path in paths.items():
                driver.get(address + path)
                if number:
                    painted[name].append(float(driver.execute_async_script(_PAINTED)))
                time.sleep(REST)
    finally:
        driver.quit()
    return {name: median(times) for name, times in painted.items()}
