// Tells the service the browser's time zone, for logins that chose none.
(function () {
    "use strict";

    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const isSecure = location.protocol === "https:";
    // Browsers accept this name only from this host, and only over HTTPS.
    const cookie = `${isSecure ? "__Host-" : ""}eds-zone=${zone}`;
    if (zone && !document.cookie.split("; ").includes(cookie)) {
        const secure = isSecure ? "; Secure" : "";
        document.cookie = `${cookie}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
    }
})();
