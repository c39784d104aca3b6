"use strict";

const container = document.getElementById("docs");
const dark = matchMedia("(prefers-color-scheme: dark)");

const applyScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", applyScheme);
applyScheme();

SwaggerUIBundle({
  url: container.dataset.description,
  domNode: container,
  deepLinking: true,
  // Forget keys and tokens when the page closes.
  persistAuthorization: false,
  // No badge from an online validator.
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
