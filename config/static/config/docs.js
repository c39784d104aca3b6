"use strict";

const place = document.getElementById("docs");

SwaggerUIBundle({
  url: place.dataset.description,
  domNode: place,
  deepLinking: true,
  // Keys and tokens live as long as the page.
  persistAuthorization: false,
  // The badge of a validator on the internet.
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
});
