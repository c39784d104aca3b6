// Closes an open menu on Escape and when somebody clicks or moves elsewhere. Without this script,
// its own button closes it.
(function () {
    "use strict";

    const MENUS = "details[data-menu][open]";

    function closeOthers(target) {
        for (const menu of document.querySelectorAll(MENUS)) {
            if (!menu.contains(target)) {
                menu.open = false;
            }
        }
    }

    document.addEventListener("click", (event) => closeOthers(event.target));
    document.addEventListener("focusin", (event) => closeOthers(event.target));
    document.addEventListener("keydown", (event) => {
        const menu = event.key === "Escape" && document.querySelector(MENUS);
        if (menu) {
            menu.open = false;
            menu.querySelector("summary").focus();
            // Only this menu: the drawer around it stays open.
            event.preventDefault();
        }
    });
})();
