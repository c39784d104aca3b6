// Has the browser ask before somebody leaves a form with unsaved changes, and begins a new row in
// its first field. It covers each form of a page that has a bar to save.
(function () {
    "use strict";

    const FORMS = "body:not(.login) #content-main form[method=post]:has(.submit-row)";
    const ERRORS = ".errornote:not([hidden])";
    const changed = new Set();
    let isSaving = false;

    function values(form) {
        return new URLSearchParams(new FormData(form)).toString();
    }

    for (const form of document.querySelectorAll(FORMS)) {
        const stored = values(form);
        // A form that came back with an error is not saved.
        if (form.querySelector(ERRORS) || "changed" in form.dataset) {
            changed.add(form);
        }
        for (const name of ["input", "change"]) {
            form.addEventListener(name, () => {
                const isStored = values(form) === stored && !form.querySelector(ERRORS)
                    && !("changed" in form.dataset);
                changed[isStored ? "delete" : "add"](form);
            });
        }
        form.addEventListener("submit", () => { isSaving = true; });
        // Other choices follow from some. Without this script, a button shows them.
        const button = form.querySelector("[name=_reload]");
        for (const field of form.querySelectorAll("[data-reload]")) {
            button.hidden = true;
            field.addEventListener("change", () => form.requestSubmit(button));
        }
    }
    document.querySelector("form[data-begin] .form-row:not(.hidden) > :is(input, textarea)")?.focus();
    // Says which part of the page its tabs show.
    function markTab() {
        for (const link of document.querySelectorAll(".eds-panel-links a")) {
            const isShown = document.querySelector(link.hash).checkVisibility();
            link[isShown ? "setAttribute" : "removeAttribute"]("aria-current", "true");
        }
    }
    window.addEventListener("pageshow", markTab);
    window.addEventListener("hashchange", markTab);
    window.addEventListener("pageshow", () => { isSaving = false; });
    window.addEventListener("beforeunload", (event) => {
        if (changed.size && !isSaving) {
            event.preventDefault();
        }
    });
})();
