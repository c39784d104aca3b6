// Refreshes the newest messages while "Live" is on and the page is visible. Without JavaScript, the
// link "Refresh" shows the same.
(function () {
    "use strict";

    const SECONDS = 2;
    const STORED = "eds-live";

    const button = document.querySelector("[data-live]");
    if (!button) {
        return;
    }
    const target = document.getElementById(button.dataset.target);
    const state = document.querySelector("[data-live-state]");
    let timer = null;
    let shown = "";

    function isOn() {
        return button.getAttribute("aria-pressed") === "true";
    }

    async function refresh() {
        let text = "";
        try {
            const response = await fetch(button.dataset.live, { redirect: "error" });
            if (response.ok) {
                const html = await response.text();
                // Each response has another token in its forms.
                const content = html.replace(/value="\w{64}"/g, "");
                // A change under somebody's focus would take it away.
                if (isOn() && content !== shown && !target.contains(document.activeElement)) {
                    shown = content;
                    target.innerHTML = html;
                }
            } else {
                text = "The service is busy. Trying again.";
            }
        } catch (error) {
            text = "The service cannot be reached. Trying again.";
        }
        if (state.textContent !== text) {
            state.textContent = text;
        }
        schedule(SECONDS * 1000);
    }

    function schedule(delay) {
        clearTimeout(timer);
        timer = null;
        if (isOn() && !document.hidden) {
            timer = setTimeout(refresh, delay);
        }
    }

    function turn(on) {
        button.setAttribute("aria-pressed", String(on));
        sessionStorage.setItem(STORED, on ? "1" : "");
        schedule(0);
    }

    button.hidden = false;
    button.addEventListener("click", () => turn(!isOn()));
    document.addEventListener("visibilitychange", () => schedule(0));
    if (sessionStorage.getItem(STORED)) {
        turn(true);
    }
})();
