// Tells the service the browser's time zone, for logins that chose none.
(function () {
    "use strict";

    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone && !document.cookie.split("; ").includes(`eds-zone=${zone}`)) {
        const secure = location.protocol === "https:" ? "; Secure" : "";
        document.cookie = `eds-zone=${zone}; Path=/admin; Max-Age=31536000; SameSite=Lax${secure}`;
    }
})();
