// Follows how far scores are while they are computed. Loading the page anew shows the same.
(function () {
    "use strict";

    const SECONDS = 2;

    async function look(shown) {
        try {
            const answer = await fetch(shown.dataset.progressUrl, { redirect: "error" });
            if (!answer.ok) {
                return;
            }
            const progress = await answer.json();
            shown.textContent = progress.text;
            if (progress.is_over) {
                return;
            }
        } catch (error) {
            // The service is away for a moment; the next look finds it.
        }
        setTimeout(look, SECONDS * 1000, shown);
    }

    document.querySelectorAll("[data-progress-url]").forEach((shown) => {
        setTimeout(look, SECONDS * 1000, shown);
    });
})();
