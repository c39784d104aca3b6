// Updates the progress of a computation. Reloading the page shows the same.
(function () {
    "use strict";

    const SECONDS = 2;

    async function poll(element) {
        try {
            const response = await fetch(element.dataset.progressUrl, { redirect: "error" });
            if (!response.ok) {
                return;
            }
            const progress = await response.json();
            element.textContent = progress.text;
            if (progress.is_over) {
                return;
            }
        } catch (error) {
            // The service is not reachable. The next poll tries again.
        }
        setTimeout(poll, SECONDS * 1000, element);
    }

    document.querySelectorAll("[data-progress-url]").forEach((element) => {
        setTimeout(poll, SECONDS * 1000, element);
    });
})();
