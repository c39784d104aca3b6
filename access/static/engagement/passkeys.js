// Asks the browser to make a passkey or to prove one, and sends its answer with the form.
"use strict";
{
    const decode = (text) => Uint8Array.from(
        atob(text.replaceAll("-", "+").replaceAll("_", "/")), (character) => character.charCodeAt(0),
    );
    const encode = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
        .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    const withIds = (credentials = []) => credentials.map(
        (credential) => ({...credential, id: decode(credential.id)}),
    );

    const create = async (options) => {
        const made = await navigator.credentials.create({publicKey: {
            ...options,
            challenge: decode(options.challenge),
            user: {...options.user, id: decode(options.user.id)},
            excludeCredentials: withIds(options.excludeCredentials),
        }});
        return answer(made, {
            attestationObject: encode(made.response.attestationObject),
        });
    };
    const get = async (options) => {
        const used = await navigator.credentials.get({publicKey: {
            ...options,
            challenge: decode(options.challenge),
            allowCredentials: withIds(options.allowCredentials),
        }});
        return answer(used, {
            authenticatorData: encode(used.response.authenticatorData),
            signature: encode(used.response.signature),
        });
    };
    const answer = (credential, response) => ({
        id: credential.id,
        rawId: encode(credential.rawId),
        type: credential.type,
        response: {...response, clientDataJSON: encode(credential.response.clientDataJSON)},
    });

    for (const form of document.querySelectorAll("form[data-passkey]")) {
        const problem = form.querySelector("[data-passkey-problem]");
        form.addEventListener("submit", async (event) => {
            event.preventDefault();
            problem.hidden = true;
            const {publicKey} = JSON.parse(form.querySelector("#passkey-options").textContent);
            try {
                const ask = form.dataset.passkey === "create" ? create : get;
                form.elements.credential.value = JSON.stringify(await ask(publicKey));
            } catch (error) {
                problem.textContent = error.name === "InvalidStateError"
                    ? "This device already has a passkey of your login."
                    : "The browser did not get a passkey. Try again.";
                problem.hidden = false;
                return;
            }
            HTMLFormElement.prototype.submit.call(form);
        });
    }
}
