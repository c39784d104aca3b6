// Updates the effect while someone types, and adds rows without reloading the page. Without
// this script, the page's buttons do the same.
(function () {
    "use strict";

    const PAUSE = 800;
    const section = document.querySelector(".eds-effect");
    if (!section) {
        return;
    }
    const form = section.closest("form");
    const result = section.querySelector(".eds-result");
    let timer = null;
    let isLoading = false;
    let isOutdated = false;

    // One request at a time: each costs the service some work.
    async function load() {
        isOutdated = true;
        if (isLoading) {
            return;
        }
        isLoading = true;
        while (isOutdated) {
            isOutdated = false;
            const options = () => ({ method: "POST", body: new FormData(form) });
            await window.edsRegions.fill(result, section.dataset.effectUrl, options);
        }
        isLoading = false;
    }

    function schedule() {
        clearTimeout(timer);
        timer = setTimeout(load, PAUSE);
    }

    function addRow() {
        const total = form.querySelector("[name='weights-TOTAL_FORMS']");
        const html = form.querySelector(".eds-events template").innerHTML;
        const rows = form.querySelector(".eds-events tbody");
        rows.insertAdjacentHTML("beforeend", html.replaceAll("__prefix__", total.value));
        total.value = Number(total.value) + 1;
        rows.lastElementChild.querySelector("[name$='-event']").focus();
    }

    // Text inputs fire "input". For selects and checkboxes, some browsers fire "change" only.
    form.addEventListener("input", (event) => {
        if (event.target.name !== "name" && event.target.form === form) {
            schedule();
        }
    });
    form.addEventListener("change", (event) => {
        if (event.target.matches("select, [type='checkbox']")) {
            schedule();
        }
    });
    form.querySelector("[name='_weigh']")?.addEventListener("click", (event) => {
        event.preventDefault();
        addRow();
    });
    // Without this script, the button beside it loads the page with the rows that match.
    const search = document.getElementById("event-term");
    search?.form.addEventListener("submit", (event) => event.preventDefault());
    search?.addEventListener("input", () => {
        for (const row of form.querySelectorAll(".eds-events tbody tr")) {
            const name = row.querySelector("[name$='-event']")?.value ?? "";
            row.hidden = name !== "" && !name.toLowerCase().includes(search.value.toLowerCase());
        }
    });
    section.querySelector("[name='_effect']").addEventListener("click", (event) => {
        event.preventDefault();
        clearTimeout(timer);
        load();
    });
})();
