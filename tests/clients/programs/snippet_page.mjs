// The rest of a page that begins with Segment's snippet. The snippet has made the global analytics.

import { makeCalls } from './browser_calls.mjs'

await makeCalls(window.analytics)
