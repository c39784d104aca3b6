// Prints Segment's snippet, as its own package renders it. Arguments: the ingestion key, and the host
// that serves the SDK.

const snippet = require('@segment/snippet')

const [apiKey, host] = process.argv.slice(2)
process.stdout.write(snippet.max({ apiKey, host, page: false }))
