// What the pages do with their SDK. The address bar says it, after the #: {"host", "key",
// "settings", "visitor", "calls", "leave"}.

export const instructions = JSON.parse(decodeURIComponent(location.hash.slice(1)))

// The SDKs have the same calls. RudderStack's return nothing.
export async function makeCalls(analytics) {
  const { visitor, calls, leave } = instructions
  const make = {
    identify: ({ userId, traits }) => analytics.identify(userId, traits),
    group: ({ groupId, traits }) => analytics.group(groupId, traits),
    track: ({ event, context }) => analytics.track(event, { planted: 'planted' }, { context }),
    page: ({ name }) => analytics.page('Docs', name),
  }
  // A user who is identified soon after has done all of it, so a visitor's calls go first.
  for (const call of visitor) await make[call.type](call)
  const results = calls.map((call) => make[call.type](call))
  if (leave) {
    // What was called was handed over, and may not have been sent yet.
    await Promise.race([Promise.all(results), new Promise((resolve) => setTimeout(resolve, 200))])
    location.href = '/left.html'
  }
}
