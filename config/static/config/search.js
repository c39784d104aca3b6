// Shows the matches of the search box while somebody types. Without this script, Enter shows them.
(function () {
    "use strict";

    const PAUSE = 120;
    const form = document.querySelector(".eds-find");
    if (!form) {
        return;
    }
    const input = form.querySelector("input[type=search]");
    const hits = form.querySelector(".eds-find-hits");
    let timer = 0;

    function close() {
        hits.hidden = true;
    }

    function open() {
        hits.hidden = !form.contains(document.activeElement) || !input.value.trim();
    }

    function show() {
        if (!input.value.trim()) {
            close();
            return;
        }
        const query = new URLSearchParams(new FormData(form));
        query.set("suggestions", "");
        window.edsRegions.fill(hits, `${form.action}?${query}`, () => ({}), open);
    }

    function move(event) {
        const links = [input, ...hits.querySelectorAll("a")];
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const next = links[links.indexOf(document.activeElement) + step];
        if (step && next && !hits.hidden) {
            event.preventDefault();
            next.focus();
        }
    }

    input.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(show, PAUSE);
    });
    form.addEventListener("keydown", (event) => {
        if (event.key === "Escape") {
            close();
            input.focus();
        } else {
            move(event);
        }
    });
    document.addEventListener("keydown", (event) => {
        const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
        if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
            event.preventDefault();
            input.select();
        }
    });
    for (const name of ["click", "focusin"]) {
        document.addEventListener(name, (event) => {
            if (!form.contains(event.target)) {
                close();
            }
        });
    }
})();
