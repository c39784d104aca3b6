// Runs lines that an app pastes, with Segment's SDK and a site that tells its Cloud ID.
//
// Arguments: the service's address, the ingestion key, and the Cloud ID. Standard input has the lines.

import { text } from 'node:stream/consumers'
import { Analytics } from '@segment/analytics-node'

const [host, writeKey, cloudId] = process.argv.slice(2)
const analytics = new Analytics({ writeKey, host, path: '/segment/v1/batch' })
const fetchFrom = async (url) => {
  if (String(url) !== 'https://acme.atlassian.net/_edge/tenant_info') throw new Error(`Who is ${url}?`)
  return new Response(JSON.stringify({ cloudId }))
}
const known = {
  analytics,
  fetch: fetchFrom,
  baseUrl: 'https://acme.atlassian.net/wiki',
  jwt: { sub: 'ada' },
  userId: 'ada',
  sentId: `ari:cloud:jira::site/${cloudId.toUpperCase()}`,
}
const lines = await text(process.stdin)
// Lines that do not find it themselves have it.
if (!/const .*cloudId/.test(lines)) known.cloudId = cloudId
const AsyncFunction = (async () => {}).constructor
await new AsyncFunction(...Object.keys(known), lines)(...Object.values(known))
await analytics.closeAndFlush({ timeout: 60_000 })
