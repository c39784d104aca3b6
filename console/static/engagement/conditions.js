// Updates the preview while someone types, and adds and removes rows without reloading the page.
// Without this script, the page's buttons do the same.
(function () {
    "use strict";

    const PAUSE = 600;
    const section = document.querySelector(".eds-conditions");
    if (!section) {
        return;
    }
    const form = section.closest("form");
    const rows = section.querySelector(".eds-rows");
    const preview = section.querySelector(".eds-preview");
    let timer = null;

    function count() {
        const options = () => ({ method: "POST", body: new FormData(form) });
        window.edsRegions.fill(preview, section.dataset.previewUrl, options);
    }

    // The values of the chosen trait, below its row.
    async function suggestValues(row) {
        const what = row.querySelector(".eds-what select").value;
        const input = row.querySelector(`[name$="-${what}"]`);
        const place = row.querySelector(".eds-values");
        if (!["trait", "account_trait"].includes(what) || !input.value.trim()) {
            return;
        }
        const query = new URLSearchParams({
            scope: what === "trait" ? section.dataset.scope : "account",
            trait: input.value,
            prefix: input.name.slice(0, -what.length - 1),
        });
        try {
            const response = await fetch(`${section.dataset.valuesUrl}&${query}`, {
                redirect: "error",
            });
            if (response.ok) {
                place.innerHTML = await response.text();
            }
        } catch (error) {
            // Suggestions are a help only.
        }
    }

    function schedule() {
        clearTimeout(timer);
        timer = setTimeout(count, PAUSE);
    }

    function addRow() {
        const total = section.querySelector("[name$='-TOTAL_FORMS']");
        const html = section.querySelector("template").innerHTML;
        rows.insertAdjacentHTML("beforeend", html.replaceAll("__prefix__", total.value));
        total.value = Number(total.value) + 1;
        rows.lastElementChild.querySelector("select").focus();
    }

    // An empty row is not a condition. It stays hidden, so the other rows keep their numbers.
    function removeRow(row) {
        row.querySelector(".eds-what select").value = "";
        row.hidden = true;
        section.querySelector("[name='_add_condition']").focus();
        row.dispatchEvent(new Event("input", {bubbles: true}));
    }

    rows.addEventListener("input", schedule);
    rows.addEventListener("change", (event) => {
        if (/-(what|trait|account_trait)$/.test(event.target.name)) {
            suggestValues(event.target.closest(".eds-condition"));
        }
    });
    rows.addEventListener("click", (event) => {
        const button = event.target.closest("[name='_remove_condition']");
        if (button) {
            event.preventDefault();
            removeRow(button.closest(".eds-condition"));
        }
    });
    section.querySelector(".eds-match").addEventListener("input", schedule);
    section.querySelector("[name='_add_condition']").addEventListener("click", (event) => {
        event.preventDefault();
        addRow();
    });
    section.querySelector(".eds-buttons [name='_preview']").addEventListener("click", (event) => {
        event.preventDefault();
        clearTimeout(timer);
        count();
    });
})();
