// Puts a button to copy it beside each secret and each piece of code to paste.
"use strict";
{
    const copy = async (source, button) => {
        const text = source.textContent.trim();
        try {
            await navigator.clipboard.writeText(text);
            button.textContent = "Copied";
        } catch {
            // Without HTTPS browsers refuse; what is selected can still be copied by hand.
            window.getSelection().selectAllChildren(source);
            button.textContent = "Selected";
        }
        window.setTimeout(() => { button.textContent = "Copy"; }, 2000);
    };

    document.addEventListener("DOMContentLoaded", () => {
        for (const source of document.querySelectorAll("[data-copy]")) {
            const button = document.createElement("button");
            button.type = "button";
            button.className = "eds-copy";
            button.textContent = "Copy";
            button.addEventListener("click", () => copy(source, button));
            source.after(button);
        }
    });
}
