// Prints Segment's snippet, as its own package renders it. Arguments: the ingestion key, and the host
// and the path of analytics.js, which the page serves itself.

const snippet = require('@segment/snippet')

const [apiKey, host, ajsPath] = process.argv.slice(2)
process.stdout.write(snippet.max({ apiKey, host, ajsPath, useHostForBundles: true, page: false }))
