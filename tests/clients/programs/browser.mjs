// The page of an application that uses Segment's SDK for browsers, unmodified. The address bar says
// what it does, after the #: {"host", "key", "settings", "calls", "leave"}.

import { AnalyticsBrowser } from '@segment/analytics-next'

const { host, key, settings, visitor, calls, leave } = JSON.parse(
  decodeURIComponent(location.hash.slice(1)),
)

const analytics = AnalyticsBrowser.load({
  writeKey: key,
  cdnSettings: {
    integrations: {
      'Segment.io': { apiKey: key, apiHost: `${host}/segment/v1`, protocol: 'http', ...settings },
    },
  },
})

const make = {
  identify: ({ userId, traits }) => analytics.identify(userId, traits),
  group: ({ groupId, traits }) => analytics.group(groupId, traits),
  track: ({ event, context }) => analytics.track(event, { planted: 'planted' }, { context }),
  page: ({ name }) => analytics.page('Docs', name),
}
// Whoever is identified soon after has done all of it, so a visitor's calls go first.
for (const call of visitor) await make[call.type](call)
const made = calls.map((call) => make[call.type](call))
if (leave) {
  // What was called was handed over, and may not have been sent yet.
  await Promise.race([Promise.all(made), new Promise((resolve) => setTimeout(resolve, 200))])
  location.href = '/left.html'
}
