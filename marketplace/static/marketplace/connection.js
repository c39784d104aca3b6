// Polls the status of a running sync, and reloads the page when its buttons change.
(function () {
    "use strict";

    const SECONDS = 2;
    const status = document.querySelector("[data-status-url]");
    if (!status) {
        return;
    }

    function isWorking() {
        return status.querySelector("[data-working]") !== null;
    }

    function state() {
        const element = status.querySelector("[data-state]");
        return element && element.dataset.state;
    }

    async function refresh() {
        const before = state();
        try {
            const response = await fetch(status.dataset.statusUrl, { redirect: "error" });
            if (!response.ok) {
                return;
            }
            const open = [...status.querySelectorAll("details")].map((details) => details.open);
            status.innerHTML = await response.text();
            status.querySelectorAll("details").forEach((details, index) => { details.open = open[index]; });
        } catch (error) {
            // The service is not reachable. The next poll tries again.
        }
        if (state() !== before) {
            location.reload();
        } else if (isWorking()) {
            setTimeout(refresh, SECONDS * 1000);
        }
    }

    if (isWorking()) {
        setTimeout(refresh, SECONDS * 1000);
    }
})();
