"""A headless Chromium that clicks through the admin."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 20
WIDE, NARROW = 1280, 390
# In JavaScript: whether the page scrolls sideways.
IS_TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
# A phone, a tablet both ways, and two desks.
WIDTHS = (NARROW, 768, 1024, WIDE, 1680)
# Chromium resolves no names and contacts only the service under test.
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",
)


class Browser:
    """``with Browser(chromium, chromedriver, address) as browser``."""

    def __init__(self, chromium: str, chromedriver: str, address: str) -> None:
        self.address = address
        # How many links and buttons were clicked.
        self.clicks = 0
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for argument in ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(
            options=options, service=webdriver.ChromeService(executable_path=chromedriver)
        )

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.driver.quit()

    # --- Going somewhere ----------------------------------------------------------------------

    def open(self, path: str) -> None:
        self.driver.get(self.address + path)

    def log_in(self, name: str, password: str) -> None:
        self.open("/admin/")
        self.fill("id_username", name)
        self.fill("id_password", password)
        self.press("input[type=submit]")

    def follow(self, text: str) -> None:
        """Click the link with this text."""
        self.click(self.driver.find_element(By.LINK_TEXT, text))

    def press(self, selector: str) -> None:
        self.click(self.find(selector))

    def press_labelled(self, label: str) -> None:
        """Click the button with this text."""
        self.click(self.driver.find_element(By.XPATH, f'//button[normalize-space()="{label}"]'))

    def click(self, element: WebElement) -> None:
        """Click, and wait for the next page if the click leads to one."""
        self.clicks += 1
        page = self.find("html") if self._leads_elsewhere(element) else None
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        if page is not None:
            WebDriverWait(self.driver, PATIENCE).until(lambda _: is_gone(page))
            WebDriverWait(self.driver, PATIENCE).until(lambda _: self._is_loaded())

    def _leads_elsewhere(self, element: WebElement) -> bool:
        return bool(
            self.driver.execute_script(
                "const one = arguments[0];"
                "return one.tagName === 'A' ? !one.getAttribute('href').startsWith('#')"
                " : one.type === 'submit' && one.form !== null;",
                element,
            )
        )

    def _is_loaded(self) -> bool:
        return bool(self.driver.execute_script("return document.readyState === 'complete'"))

    def fill(self, element_id: str, text: str) -> None:
        field = self.driver.find_element(By.ID, element_id)
        field.clear()
        field.send_keys(text)

    def forget(self) -> None:
        """Leave the page, and forget logins, what pages stored, and the preferred colors."""
        self.driver.get("about:blank")
        self._devtools("Network.clearBrowserCookies", {})
        storage = {"origin": self.address, "storageTypes": "all"}
        self._devtools("Storage.clearDataForOrigin", storage)
        self._devtools("Emulation.setEmulatedMedia", {"features": []})
        self.complaints()

    # --- How it looks -------------------------------------------------------------------------

    def resize(self, width: int) -> None:
        self._devtools(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width == NARROW},
        )

    def prefer(self, scheme: str) -> None:
        """Prefer "light" or "dark" pages."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._devtools("Emulation.setEmulatedMedia", {"features": [feature]})

    def style(self, selector: str, name: str) -> str:
        """The computed style of the first such element."""
        script = "return getComputedStyle(arguments[0]).getPropertyValue(arguments[1])"
        return str(self.driver.execute_script(script, self.find(selector), name))

    def is_too_wide(self) -> bool:
        """Whether the page scrolls horizontally."""
        return bool(self.driver.execute_script(f"return {IS_TOO_WIDE}"))

    # --- What is there ------------------------------------------------------------------------

    @property
    def path(self) -> str:
        return self.driver.current_url.removeprefix(self.address)

    @property
    def text(self) -> str:
        return self.find("body").text

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> Sequence[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def labels(self) -> list[str]:
        """The texts of buttons and of links that look like buttons."""
        return [element.text for element in self.all("button, .object-tools a, .eds-row-action")]

    def wait_for(self, selector: str) -> WebElement:
        elements = WebDriverWait(self.driver, PATIENCE).until(lambda _: self.all(selector))
        return elements[0]

    def wait_for_text(self, text: str) -> None:
        self.wait_until(lambda: text in self.text)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition. Elements that vanish meanwhile are looked up again."""
        waiting = WebDriverWait(
            self.driver, PATIENCE, ignored_exceptions=[StaleElementReferenceException]
        )
        waiting.until(lambda _: condition())

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.all(selector)]

    def run(self, script: str) -> Any:
        """Run an asynchronous script. Return "done" or its error."""
        return self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            f"(async () => {{ {script} }})()"
            ".then(() => done('done'), error => done(String(error)));"
        )

    def complaints(self) -> list[str]:
        """The errors in the browser's console since the last call."""
        logged = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in logged if entry["level"] == "SEVERE"]

    def _devtools(self, command: str, parameters: dict[str, Any]) -> None:
        self.driver.execute_cdp_cmd(command, parameters)


def is_gone(page: WebElement) -> bool:
    """Whether the page has made room for the next one."""
    try:
        page.is_enabled()
    except StaleElementReferenceException:
        return True
    except WebDriverException as error:
        # Between two pages the driver may know the node and miss its document.
        if "does not belong to the document" in str(error):
            return True
        raise
    return False
