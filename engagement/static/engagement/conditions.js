// Without this file the page works the same, by its buttons: this counts while one writes, and adds
// or removes a row without loading the page anew.
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
    let waiting = null;
    let asked = 0;

    async function count() {
        const number = ++asked;
        preview.setAttribute("aria-busy", "true");
        try {
            const answer = await fetch(section.dataset.previewUrl, {
                method: "POST", body: new FormData(form), redirect: "error",
            });
            if (answer.ok && number === asked) {
                preview.innerHTML = await answer.text();
            }
        } catch (error) {
            // The service is away for a moment; the next change asks again.
        }
        if (number === asked) {
            preview.removeAttribute("aria-busy");
        }
    }

    function soon() {
        clearTimeout(waiting);
        waiting = setTimeout(count, PAUSE);
    }

    function addRow() {
        const total = section.querySelector("[name$='-TOTAL_FORMS']");
        const html = section.querySelector("template").innerHTML;
        rows.insertAdjacentHTML("beforeend", html.replaceAll("__prefix__", total.value));
        total.value = Number(total.value) + 1;
        rows.lastElementChild.querySelector("select").focus();
    }

    // A row about nothing is no condition, and the others keep their numbers.
    function removeRow(row) {
        row.querySelector(".eds-what select").value = "";
        row.hidden = true;
        section.querySelector("[name='_add_condition']").focus();
        row.dispatchEvent(new Event("input", {bubbles: true}));
    }

    rows.addEventListener("input", soon);
    rows.addEventListener("click", (event) => {
        const button = event.target.closest("[name='_remove_condition']");
        if (button) {
            event.preventDefault();
            removeRow(button.closest(".eds-condition"));
        }
    });
    section.querySelector(".eds-match").addEventListener("input", soon);
    section.querySelector("[name='_add_condition']").addEventListener("click", (event) => {
        event.preventDefault();
        addRow();
    });
    section.querySelector(".eds-buttons [name='_preview']").addEventListener("click", (event) => {
        event.preventDefault();
        clearTimeout(waiting);
        count();
    });
})();
