// The page of an application that uses Segment's SDK for browsers, unmodified.

import { AnalyticsBrowser } from '@segment/analytics-next'
import { instructions, makeCalls } from './browser_calls.mjs'

const { host, key, settings } = instructions
const analytics = AnalyticsBrowser.load(
  { writeKey: key, cdnURL: `http://${host}/segment` },
  { integrations: { 'Segment.io': settings } },
)
await makeCalls(analytics)
