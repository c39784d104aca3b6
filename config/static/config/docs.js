"use strict";

const container = document.getElementById("docs");
const dark = matchMedia("(prefers-color-scheme: dark)");

const applyScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", applyScheme);
applyScheme();

// An operation is a button, so its path inside is text and no link: URLs of operations still work.
const pathAsText = ({ React }) => ({
  components: { DeepLink: ({ text }) => React.createElement("span", null, text) },
});

const nameParts = () => {
  document.getElementById("servers")?.setAttribute("aria-label", "Server");
  for (const [selector, label] of [[".information-container", "About"], [".scheme-container", "Access"]]) {
    const part = container.querySelector(selector);
    part?.setAttribute("role", "region");
    part?.setAttribute("aria-label", label);
  }
  for (const heading of container.querySelectorAll("h3.opblock-tag, section.models h4")) {
    heading.setAttribute("aria-level", "2");
  }
};

SwaggerUIBundle({
  url: container.dataset.description,
  domNode: container,
  deepLinking: true,
  plugins: [pathAsText],
  onComplete: nameParts,
  // Forget keys and tokens when the page closes.
  persistAuthorization: false,
  // No badge from an online validator.
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
