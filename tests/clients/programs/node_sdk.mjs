// Makes the calls on standard input, a JSON object a line, with an unmodified SDK for Node.js.
//
// Arguments: segment, legacy (Segment's older one) or rudder, the service's address, the ingestion key, and how many seconds to
// pause after each call. Exit status 1 if the SDK gave up a message.

import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import RudderAnalytics from '@rudderstack/rudder-sdk-node'
import { Analytics } from '@segment/analytics-node'
import LegacyAnalytics from 'analytics-node'

const [sdk, address, key, pause] = process.argv.slice(2)
const errors = []

function segment() {
  const client = new Analytics({
    writeKey: key,
    host: address,
    path: '/segment/v1/batch',
    flushInterval: 200,
  })
  client.on('error', (error) => errors.push(error))
  return {
    make: ({ type, ...call }) => client[type](call),
    end: () => client.closeAndFlush({ timeout: 120_000 }),
  }
}

function legacy() {
  const client = new LegacyAnalytics(key, {
    host: address,
    path: '/segment/v1/batch',
    flushInterval: 200,
    errorHandler: (error) => errors.push(error),
  })
  return {
    make: ({ type, ...call }) => client[type](call),
    end: () => client.flush(),
  }
}

function rudder() {
  const client = new RudderAnalytics(key, {
    dataPlaneUrl: `${address}/segment`,
    flushInterval: 200,
    retryCount: 10,
    errorHandler: (error) => errors.push(error),
  })
  const settled = []
  return {
    make: ({ type, ...call }) =>
      settled.push(new Promise((resolve) => client[type](call, resolve))),
    end: () => Promise.all(settled),
  }
}

const client = { segment, legacy, rudder }[sdk]()
for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line)
  if (call.type === 'track') call.properties = { planted: 'planted' }
  if (call.type === 'page') call.category = 'Docs'
  if (call.timestamp) call.timestamp = new Date(call.timestamp)
  client.make(call)
  await sleep(pause * 1000)
}
await client.end()
for (const error of errors) console.error(error)
process.exit(errors.length ? 1 : 0)
