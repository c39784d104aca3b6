// Loads the parts of a page that take longer. Without a script, a link in their place shows them.
(function () {
    "use strict";

    async function load(element) {
        try {
            const response = await fetch(element.dataset.partUrl, { redirect: "error" });
            if (response.ok) {
                element.innerHTML = await response.text();
                const target = document.getElementById(location.hash.slice(1));
                if (element.contains(target)) {
                    target.scrollIntoView();
                }
            }
        } catch (error) {
            // The link stays.
        }
        // What has come takes the room that it needs.
        element.removeAttribute("data-part-url");
    }

    // One after the other, so that the next page does not wait for all of them.
    (async function () {
        for (const element of document.querySelectorAll("[data-part-url]")) {
            await load(element);
        }
    })();
})();
