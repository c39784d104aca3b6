// The page of an application that uses RudderStack's SDK for browsers, unmodified.

import { RudderAnalytics } from '@rudderstack/analytics-js/bundled'
import { instructions, makeCalls } from './browser_calls.mjs'

const { host, key, settings } = instructions
const analytics = new RudderAnalytics()
analytics.load(key, `http://${host}/segment`, {
  configUrl: `http://${host}/segment`,
  ...settings,
})
await new Promise((resolve) => analytics.ready(resolve))
await makeCalls(analytics)
