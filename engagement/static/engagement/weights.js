// Without this file the page works the same, by its buttons: this shows the effect of what is filled
// in while one writes, and gives an event a weight without loading the page anew.
(function () {
    "use strict";

    const PAUSE = 800;
    const section = document.querySelector(".eds-effect");
    if (!section) {
        return;
    }
    const form = section.closest("form");
    const shown = section.querySelector(".eds-shown");
    let waiting = null;
    let isAsking = false;
    let isOutdated = false;

    // One question at a time: each costs the service some work.
    async function ask() {
        isOutdated = true;
        if (isAsking) {
            return;
        }
        isAsking = true;
        shown.setAttribute("aria-busy", "true");
        while (isOutdated) {
            isOutdated = false;
            try {
                const answer = await fetch(section.dataset.effectUrl, {
                    method: "POST", body: new FormData(form), redirect: "error",
                });
                if (answer.ok && !isOutdated) {
                    shown.innerHTML = await answer.text();
                }
            } catch (error) {
                // The service is away for a moment; the next change asks again.
            }
        }
        shown.removeAttribute("aria-busy");
        isAsking = false;
    }

    function soon() {
        clearTimeout(waiting);
        waiting = setTimeout(ask, PAUSE);
    }

    function emptyRow() {
        const rows = [...form.querySelectorAll("tr[id^='weights-']:not(.empty-form)")];
        return rows.find((row) => row.querySelector("[name$='-event']")?.value === "");
    }

    function weigh(button) {
        if (!emptyRow()) {
            form.querySelector(".eds-weights .add-row a").click();
        }
        const row = emptyRow();
        const weight = row.querySelector("[name$='-weight']");
        row.querySelector("[name$='-event']").value = button.value;
        weight.value = Math.max(1, Number(form.elements.default_weight.value) || 1);
        button.hidden = true;
        weight.select();
        soon();
    }

    // A change of a text was an input before; of a choice some browsers tell the change alone.
    form.addEventListener("input", (event) => {
        if (event.target.name !== "name") {
            soon();
        }
    });
    form.addEventListener("change", (event) => {
        if (event.target.matches("select, [type='checkbox']")) {
            soon();
        }
    });
    document.addEventListener("formset:removed", soon);
    form.querySelectorAll("[name='_weigh']").forEach((button) => {
        button.addEventListener("click", (event) => {
            event.preventDefault();
            weigh(button);
        });
    });
    section.querySelector("[name='_effect']").addEventListener("click", (event) => {
        event.preventDefault();
        clearTimeout(waiting);
        ask();
    });
})();
