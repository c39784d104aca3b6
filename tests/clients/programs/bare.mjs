// The page of an application without an SDK, which sends one message in its own way. After the #
// in the address bar: {"host", "key", "way", "event", "userId"}.

const { host, key, way, event, userId } = JSON.parse(decodeURIComponent(location.hash.slice(1)))
const message = { event, userId, messageId: crypto.randomUUID() }
const url = `http://${host}`

const ways = {
  preflight: () =>
    fetch(`${url}/v2/track`, {
      method: 'POST',
      headers: {
        Authorization: `Basic ${key}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': message.messageId,
      },
      body: JSON.stringify(message),
    }),
  keepalive: () =>
    fetch(`${url}/segment/v1/t`, {
      method: 'POST',
      keepalive: true,
      headers: { Authorization: `Basic ${btoa(`${key}:`)}` },
      body: JSON.stringify(message),
    }),
  beacon: () =>
    navigator.sendBeacon(`${url}/segment/v1/t`, JSON.stringify({ ...message, writeKey: key })),
}

if (way === 'preflight') {
  const answer = await ways.preflight()
  document.title = `answered ${answer.status}`
} else {
  addEventListener('pagehide', ways[way])
  location.href = '/left.html'
}
