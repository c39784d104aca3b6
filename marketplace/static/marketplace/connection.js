// Shows a sync's progress while it runs: asks for the page's status again and again, and loads the
// whole page anew once its buttons would be others.
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

    function buttons() {
        const shown = status.querySelector("[data-state]");
        return shown && shown.dataset.state;
    }

    async function refresh() {
        const before = buttons();
        try {
            const answer = await fetch(status.dataset.statusUrl, { redirect: "error" });
            if (!answer.ok) {
                return;
            }
            const open = [...status.querySelectorAll("details")].map((one) => one.open);
            status.innerHTML = await answer.text();
            status.querySelectorAll("details").forEach((one, place) => { one.open = open[place]; });
        } catch (error) {
            // The service is away for a moment; the next look finds it.
        }
        if (buttons() !== before) {
            location.reload();
        } else if (isWorking()) {
            setTimeout(refresh, SECONDS * 1000);
        }
    }

    if (isWorking()) {
        setTimeout(refresh, SECONDS * 1000);
    }
})();
