// A certified OpenID provider on loopback, with its own pages for the login and the consent.
// Arguments: the port, and the redirect URI of the service.
import Provider from "oidc-provider";

const [port, redirectUri] = process.argv.slice(2);
const issuer = `http://localhost:${port}`;
const provider = new Provider(issuer, {
    clients: [{
        client_id: "eds",
        client_secret: "a secret: of the client",
        redirect_uris: [redirectUri],
        grant_types: ["authorization_code"],
        response_types: ["code"],
    }],
    claims: {openid: ["sub", "groups"], email: ["email", "email_verified"], profile: ["name"]},
    findAccount: (context, id) => ({
        accountId: id,
        claims: () => ({
            sub: id,
            email: `${id}@example.com`,
            email_verified: true,
            name: "Ada Lovelace",
            groups: ["growth"],
        }),
    }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
