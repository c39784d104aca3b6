// Fills a region of a page with what the service answers. While that takes long, the region says
// so, and when it fails, too. Both times a button tries again.
(function () {
    "use strict";

    const QUICK = 700, PATIENCE = 5000, LIMIT = 30000;
    const WAITING = "Loading…";
    const SLOW = "This takes longer than usual.";
    const FAILED = "This could not be loaded. Check your connection, and that you are logged in.";
    const requests = new WeakMap();

    function status(region, text, retry) {
        region.querySelector(":scope > .eds-status-line")?.remove();
        const line = document.createElement("p");
        line.className = "eds-status-line";
        line.append(text);
        if (retry) {
            const button = document.createElement("button");
            button.type = "button";
            button.className = "button";
            button.textContent = "Try again";
            button.addEventListener("click", retry);
            line.append(" ", button);
        }
        region.prepend(line);
    }

    // Asks the URL and shows the answer. *options()* is what fetch gets, new for each attempt. A
    // later call for the same region takes the place of an earlier one. *shown* is called whenever
    // the region shows something else. Resolves to whether the answer is there.
    async function fill(region, url, options = () => ({}), shown = () => {}) {
        requests.get(region)?.abort();
        const request = new AbortController();
        requests.set(region, request);
        const again = () => {
            // The button goes, and the keyboard stays here.
            region.tabIndex = -1;
            region.focus();
            fill(region, url, options, shown);
        };
        const say = (text, retry) => { status(region, text, retry); shown(); };
        const timers = [
            setTimeout(say, QUICK, WAITING),
            setTimeout(say, PATIENCE, SLOW, again),
            setTimeout(() => request.abort("late"), LIMIT),
        ];
        region.setAttribute("aria-busy", "true");
        try {
            const response = await fetch(
                url, {...options(), redirect: "error", signal: request.signal},
            );
            if (!response.ok) {
                throw new Error(String(response.status));
            }
            region.innerHTML = await response.text();
            shown();
            return true;
        } catch (error) {
            if (requests.get(region) === request) {
                // What was there before may be of other values.
                region.replaceChildren();
                say(FAILED, again);
            }
            return false;
        } finally {
            timers.forEach(clearTimeout);
            if (requests.get(region) === request) {
                region.removeAttribute("aria-busy");
            }
        }
    }

    window.edsRegions = {fill};
})();
