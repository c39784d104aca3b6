// Updates the effect while someone types, and adds event weights without reloading the page. Without
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
        result.setAttribute("aria-busy", "true");
        while (isOutdated) {
            isOutdated = false;
            try {
                const response = await fetch(section.dataset.effectUrl, {
                    method: "POST", body: new FormData(form), redirect: "error",
                });
                if (response.ok && !isOutdated) {
                    result.innerHTML = await response.text();
                }
            } catch (error) {
                // The service is not reachable. The next change tries again.
            }
        }
        result.removeAttribute("aria-busy");
        isLoading = false;
    }

    function schedule() {
        clearTimeout(timer);
        timer = setTimeout(load, PAUSE);
    }

    function emptyRow() {
        const rows = [...form.querySelectorAll("tr[id^='weights-']:not(.empty-form)")];
        return rows.find((row) => row.querySelector("[name$='-event']")?.value === "");
    }

    function addWeight(button) {
        if (!emptyRow()) {
            form.querySelector(".eds-weights .add-row a").click();
        }
        const row = emptyRow();
        const weight = row.querySelector("[name$='-weight']");
        row.querySelector("[name$='-event']").value = button.value;
        weight.value = Math.max(1, Number(form.elements.default_weight.value) || 1);
        button.hidden = true;
        weight.select();
        schedule();
    }

    // Text inputs fire "input". For selects and checkboxes, some browsers fire "change" only.
    form.addEventListener("input", (event) => {
        if (event.target.name !== "name") {
            schedule();
        }
    });
    form.addEventListener("change", (event) => {
        if (event.target.matches("select, [type='checkbox']")) {
            schedule();
        }
    });
    document.addEventListener("formset:removed", schedule);
    form.querySelectorAll("[name='_weigh']").forEach((button) => {
        button.addEventListener("click", (event) => {
            event.preventDefault();
            addWeight(button);
        });
    });
    section.querySelector("[name='_effect']").addEventListener("click", (event) => {
        event.preventDefault();
        clearTimeout(timer);
        load();
    });
})();
