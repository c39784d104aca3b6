// Adds a copy button to each secret and code example, and copies ids.
"use strict";
{
    const copy = async (source, button) => {
        const text = source.textContent.trim();
        try {
            await navigator.clipboard.writeText(text);
            button.textContent = "Copied";
        } catch {
            // Browsers allow copying over HTTPS only. Select the text to be copied by hand.
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
            // In a guide, the source is the text of a block.
            (source.closest("pre") || source).after(button);
        }
    });

    // A button with the text itself, such as the id of a row.
    document.addEventListener("click", async (event) => {
        const button = event.target.closest("[data-copy-text]");
        if (!button) {
            return;
        }
        try {
            await navigator.clipboard.writeText(button.dataset.copyText);
            button.classList.add("is-copied");
            window.setTimeout(() => button.classList.remove("is-copied"), 2000);
        } catch {
            window.prompt("Copy the id:", button.dataset.copyText);
        }
    });
}
