// Loads the parts of a page that take longer. Without a script, a link in their place shows them.
(function () {
    "use strict";

    async function load(element) {
        if (await window.edsRegions.fill(element, element.dataset.partUrl)) {
            const target = document.getElementById(location.hash.slice(1));
            if (element.contains(target)) {
                target.scrollIntoView();
            }
        }
        // What has come takes the room that it needs.
        element.removeAttribute("data-part-url");
    }

    // One after the other, so that the next page does not wait for all of them.
    document.addEventListener("DOMContentLoaded", async () => {
        for (const element of document.querySelectorAll("[data-part-url]")) {
            await load(element);
        }
    });
})();
