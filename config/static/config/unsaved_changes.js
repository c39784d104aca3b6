// Has the browser ask before somebody leaves a form with unsaved changes. It covers each form of a
// page that has a row of buttons to save.
(function () {
    "use strict";

    const FORMS = "body:not(.login) #content-main form[method=post]:has(.submit-row)";
    const changed = new Set();
    let isSaving = false;

    function values(form) {
        return new URLSearchParams(new FormData(form)).toString();
    }

    for (const form of document.querySelectorAll(FORMS)) {
        const stored = values(form);
        // A form that came back with an error is not saved.
        if (form.querySelector(".errornote:not([hidden])")) {
            changed.add(form);
        }
        for (const name of ["input", "change"]) {
            form.addEventListener(name, () => {
                const isStored = values(form) === stored && !form.querySelector(".errornote:not([hidden])");
                changed[isStored ? "delete" : "add"](form);
            });
        }
        form.addEventListener("submit", () => { isSaving = true; });
    }
    window.addEventListener("pageshow", () => { isSaving = false; });
    window.addEventListener("beforeunload", (event) => {
        if (changed.size && !isSaving) {
            event.preventDefault();
        }
    });
})();
