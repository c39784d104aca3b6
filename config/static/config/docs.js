"use strict";

const place = document.getElementById("docs");
const dark = matchMedia("(prefers-color-scheme: dark)");

const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", follow);
follow();

SwaggerUIBundle({
  url: place.dataset.description,
  domNode: place,
  deepLinking: true,
  // Keys and tokens live as long as the page.
  persistAuthorization: false,
  // The badge of a validator on the internet.
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
